//! A request's prompt before it stands in JSON: token ids, or text of a known length.
//!
//! Main type: [`SentPrompt`].

use crate::tokenizer::Fitted;
use crate::{Endpoint, PromptSeed};
use verdict::plan::PromptBlocks;

/// Tokens of a page of most prefix caches, or a divisor of them.
const PAGE: u32 = 16;
const FIRST_PAGES: u32 = 4;
/// Tokens or words in which two prompts differ at their ends: few, so that they seldom fill a page.
const LAST: u32 = 2;

/// A prompt before it stands in a request.
#[derive(Clone, Debug)]
pub enum SentPrompt {
    Ids(Vec<u32>),
    /// Of exactly known length where the endpoint has a tokenizer; otherwise about one token a word, and
    /// usage says how many they were.
    Text {
        text: String,
        unfit: Option<(u32, u32)>,
    },
}

impl SentPrompt {
    /// The prompt number `index` of a workload.
    pub fn new(endpoint: &Endpoint, id: &str, seed: PromptSeed, index: u32, tokens: u32) -> Self {
        match endpoint.prompt_ids {
            Some(range) => Self::Ids(seed.ids(id, index, tokens, range)),
            None => Self::text(endpoint, |words| seed.words(id, index, words), tokens),
        }
    }

    /// The prompt number `index`, made of the first pages of prompt number `begin` and the rest of `end`. One of the two is its
    /// own number: what a prefix cache knows of the other it must not take for this one. The beginning is half of the prompt,
    /// in whole pages of 16 and up to four of them; a shorter prompt is all its own.
    pub fn joined(
        endpoint: &Endpoint,
        id: &str,
        seed: PromptSeed,
        index: u32,
        pair: (u32, u32),
        tokens: u32,
    ) -> Self {
        match (tokens / 2 / PAGE).min(FIRST_PAGES) {
            0 => Self::new(endpoint, id, seed, index, tokens),
            pages => Self::spliced(endpoint, id, seed, pair, |_| pages * PAGE, tokens),
        }
    }

    /// The prompt number `index`: prompt number `like` with two other tokens or words at its end. Mostly both have the same full
    /// pages.
    pub fn ending(
        endpoint: &Endpoint,
        id: &str,
        seed: PromptSeed,
        index: u32,
        like: u32,
        tokens: u32,
    ) -> Self {
        let first = |all: u32| all.saturating_sub(LAST);
        Self::spliced(endpoint, id, seed, (like, index), first, tokens)
    }

    /// Takes the beginning from prompt number `begin` and the rest from number `end`. `first` gives the beginning's length for the
    /// whole length, in tokens or words.
    fn spliced(
        endpoint: &Endpoint,
        id: &str,
        seed: PromptSeed,
        (begin, end): (u32, u32),
        first: impl Fn(u32) -> u32,
        tokens: u32,
    ) -> Self {
        if let Some(range) = endpoint.prompt_ids {
            let [mut ids, rest] = [begin, end].map(|n| seed.ids(id, n, tokens, range));
            ids.truncate(first(tokens) as usize);
            ids.extend(rest.into_iter().skip(ids.len()));
            return Self::Ids(ids);
        }
        let draw = |words: u32| {
            let first = first(words) as usize;
            let [begin, end] = [begin, end].map(|n| seed.words(id, n, words));
            let begin = begin.split(' ').take(first);
            begin
                .chain(end.split(' ').skip(first))
                .collect::<Vec<_>>()
                .join(" ")
        };
        Self::text(endpoint, draw, tokens)
    }

    /// Blocks of a workload that other requests begin with too. Without a tokenizer a word counts as a token.
    pub fn of_blocks(
        endpoint: &Endpoint,
        id: &str,
        seed: PromptSeed,
        blocks: &PromptBlocks,
        tokens: u32,
    ) -> Self {
        match endpoint.prompt_ids {
            Some(range) => Self::Ids(seed.block_ids(id, blocks, tokens, range)),
            None => Self::text(
                endpoint,
                |words| seed.block_words(id, blocks, words),
                tokens,
            ),
        }
    }

    fn text(endpoint: &Endpoint, draw: impl Fn(u32) -> String, tokens: u32) -> Self {
        let Some(tokenizer) = &endpoint.tokenizer else {
            return Self::Text {
                text: draw(tokens),
                unfit: None,
            };
        };
        let Fitted { text, tokens: has } = tokenizer.fit(draw, tokens);
        let unfit = (has != tokens).then_some((tokens, has));
        Self::Text { text, unfit }
    }

    /// Its first half, rounded down but never empty.
    pub fn half(&self) -> Self {
        match self {
            Self::Ids(ids) => Self::Ids(ids[..ids.len().div_ceil(2)].to_vec()),
            Self::Text { text, .. } => {
                let words: Vec<&str> = text.split(' ').collect();
                Self::Text {
                    text: words[..words.len().div_ceil(2)].join(" "),
                    unfit: None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_ends_as_another_behind_pages_of_its_own() {
        let seed = PromptSeed {
            session: 7,
            block: 0,
        };
        let address = "127.0.0.1:1".parse().unwrap();
        let words = Endpoint::usual(address, "m");
        let ids = Endpoint {
            prompt_ids: Some((100, 30_000)),
            ..words.clone()
        };
        for (endpoint, (tokens, own)) in [&words, &ids]
            .into_iter()
            .flat_map(|of| [(163, 64), (100, 48), (32, 16), (31, 31)].map(|case| (of, case)))
        {
            let parts = |prompt| match prompt {
                SentPrompt::Ids(ids) => ids.iter().map(u32::to_string).collect::<Vec<_>>(),
                SentPrompt::Text { text, .. } => text.split(' ').map(str::to_owned).collect(),
            };
            let of =
                |index, pair| parts(SentPrompt::joined(endpoint, "w", seed, index, pair, tokens));
            let first = parts(SentPrompt::new(endpoint, "w", seed, 2, tokens));
            assert_eq!(of(2, (2, 2)), first);
            let second = of(3, (3, 2));
            assert_eq!(second.len(), tokens as usize);
            assert_eq!(second[own..], first[own..], "{tokens}");
            assert_ne!(second[..own], first[..own], "{tokens}");
            let begins = of(4, (2, 4));
            assert_eq!(begins.len(), tokens as usize);
            assert_eq!(
                begins[..own] == first[..own],
                own < tokens as usize,
                "{tokens}"
            );
            assert_ne!(begins[own.min(30)..], first[own.min(30)..], "{tokens}");
            let ends = parts(SentPrompt::ending(endpoint, "w", seed, 6, 2, tokens));
            let last = tokens as usize - 2;
            assert_eq!(ends[..last], first[..last], "{tokens}");
            assert_ne!(ends[last..], first[last..], "{tokens}");
        }
    }
}
