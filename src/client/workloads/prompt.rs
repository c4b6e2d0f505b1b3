//! A request's prompt before it stands in JSON: token ids, or text of a known length.
//!
//! Main type: [`SentPrompt`].

use crate::tokenizer::Fitted;
use crate::{Endpoint, PromptSeed};
use verdict::plan::PromptBlocks;

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
