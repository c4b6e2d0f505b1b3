//! The served model's tokenizer on the client's side: texts of exactly known length, outputs counted.
//!
//! Special tokens are never added: whether a server puts one before a prompt is its own affair, which
//! usage tells.
//!
//! Main type: [`Tokenizer`]. Refuses to know: requests, our own engine's tokenizer.

use super::workloads::prompt_seed::WORDS;
use std::fmt;
use std::path::{Path, PathBuf};

/// Words of the end of a text that are encoded together with a candidate: further back nothing changes.
const TAIL: usize = 8;

/// Short pieces that most tokenizers give one token, for what the words leave open.
const PIECES: [&str; 12] = [
    " a", " b", " x", " I", " 1", " 7", ".", ",", "!", "?", ":", ";",
];

/// A `tokenizer.json`, read once.
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
}

/// A file that is no tokenizer.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the tokenizer {}: {cause}; name a model's tokenizer.json", path.display())]
pub struct TokenizerError {
    path: PathBuf,
    cause: String,
}

/// A text, and how many tokens it really has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    pub text: String,
    pub tokens: u32,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// The file is missing or is none.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        let failed = |cause: String| TokenizerError {
            path: path.to_owned(),
            cause,
        };
        let mut inner =
            tokenizers::Tokenizer::from_file(path).map_err(|error| failed(error.to_string()))?;
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            inner,
        })
    }

    /// Tokens of `text`; a text that it cannot encode has none.
    pub fn count(&self, text: &str) -> u32 {
        u32::try_from(self.ends(text).len()).unwrap_or(u32::MAX)
    }

    /// A text of `tokens` tokens, made of the words that `draw` gives when asked for so many: cut where the
    /// number is reached, and filled up where that falls within a word. Where no text of that length is
    /// found, the nearest shorter one.
    pub fn fit(&self, draw: impl Fn(u32) -> String, tokens: u32) -> Fitted {
        let wanted = tokens as usize;
        let mut words = tokens.max(1);
        let (drawn, ends) = loop {
            let drawn = draw(words);
            let ends = self.ends(&drawn);
            // A tokenizer with tokens of several words needs more of them; one that gives none never has
            // enough.
            if ends.len() >= wanted || words / 64 >= tokens.max(1) {
                break (drawn, ends);
            }
            words = words.saturating_mul(2);
        };
        let cut = wanted.checked_sub(1).and_then(|last| ends.get(last));
        let mut text = whole_words(&drawn, cut.copied().unwrap_or(0)).to_owned();
        let mut has = self.count(&text);
        while has < tokens {
            let Some(next) = self.extended(&text, tokens - has) else {
                break;
            };
            let with_next = self.count(&next);
            if !(has + 1..=tokens).contains(&with_next) {
                break;
            }
            (text, has) = (next, with_next);
        }
        Fitted { text, tokens: has }
    }

    /// `text` and one piece more, of `room` tokens if there is one, else of fewer.
    fn extended(&self, text: &str, room: u32) -> Option<String> {
        let begin = text.rmatch_indices(' ').nth(TAIL).map_or(0, |(at, _)| at);
        let tail = &text[begin..];
        let before = self.count(tail);
        let spaced = WORDS.iter().map(|word| format!(" {word}"));
        let pieces = spaced.chain(PIECES.map(str::to_owned));
        let adds = |piece: &str| {
            let piece = if text.is_empty() {
                piece.trim_start()
            } else {
                piece
            };
            let with = self.count(&format!("{tail}{piece}"));
            let added = with
                .checked_sub(before)
                .filter(|n| (1..=room).contains(n))?;
            Some((added, format!("{text}{piece}")))
        };
        let best = pieces.filter_map(|piece| adds(&piece));
        best.max_by_key(|(added, _)| *added).map(|(_, text)| text)
    }

    /// Where in the text each of its tokens ends, in bytes.
    fn ends(&self, text: &str) -> Vec<usize> {
        let encoded = self.inner.encode(text, false);
        encoded.map_or(Vec::new(), |encoded| {
            encoded.get_offsets().iter().map(|(_, end)| *end).collect()
        })
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The words of `text` that lie before the byte `end`, none of them cut.
fn whole_words(text: &str, end: usize) -> &str {
    if text[end..].is_empty() || text[end..].starts_with(' ') {
        return &text[..end];
    }
    text[..end].rsplit_once(' ').map_or("", |(words, _)| words)
}

#[cfg(test)]
mod tests {
    use super::{Tokenizer, whole_words};
    use crate::PromptSeed;
    use std::path::Path;

    const SEED: PromptSeed = PromptSeed {
        session: 7,
        block: 0,
    };

    /// The tiny model's own: single bytes and some merges, so that most words are several tokens.
    fn tiny() -> Tokenizer {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../gates/models/tiny-qwen3/tokenizer.json");
        Tokenizer::open(&path).unwrap()
    }

    #[test]
    fn texts_have_exactly_the_tokens_that_were_asked_for() {
        let tokenizer = tiny();
        for tokens in (1..=40).chain([100, 257, 1_000]) {
            for index in 0..5 {
                let fitted = tokenizer.fit(|words| SEED.words("g/w", index, words), tokens);
                assert_eq!(fitted.tokens, tokens, "{fitted:?}");
                assert_eq!(tokenizer.count(&fitted.text), tokens, "{fitted:?}");
            }
        }
        assert_eq!(tokenizer.fit(|_| String::new(), 0).tokens, 0);
    }

    #[test]
    fn a_text_that_cannot_be_made_is_said_to_be_shorter() {
        // Knows a single word, and none of those that texts are made of.
        let json = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel",
            "vocab":{"zebra":0},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Whitespace"}}"#;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, json).unwrap();
        let tokenizer = Tokenizer::open(&path).unwrap();
        let fitted = tokenizer.fit(|_| "apple".to_owned(), 3);
        assert!(fitted.tokens < 3, "{fitted:?}");
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let error = Tokenizer::open(Path::new("no/such.json")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("cannot read the tokenizer no/such.json: "),
            "{text}"
        );
    }

    #[test]
    fn words_are_never_cut() {
        for (end, expect) in [(0, ""), (3, "one"), (5, "one"), (7, "one two"), (4, "one")] {
            assert_eq!(whole_words("one two", end), expect, "{end}");
        }
    }
}
