//! Text to token ids and back, by the model's own `tokenizer.json`.
//!
//! Main types: [`Tokenizer`], and [`TextStream`] which turns ids into text one at a time and never splits
//! a UTF-8 character. Refuses to know: the network, chat roles.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;

use crate::files::{FileError, Files};

const FILE: &str = "tokenizer.json";

/// The tokenizer could not be read, or could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not a tokenizer that can be read: {cause}")]
    Format { path: String, cause: String },
    #[error("{path} knows token {id}, but the model's vocabulary ends at {vocab}")]
    TooWide { path: String, id: u32, vocab: usize },
    #[error("text cannot be encoded: {0}")]
    Encode(String),
}

/// Parts of the file that may nest. The vocabulary is skipped.
#[derive(serde::Deserialize)]
struct Nested {
    normalizer: Option<Value>,
    #[serde(rename = "pre_tokenizer")]
    _pre_tokenizer: Option<Value>,
    decoder: Option<Value>,
    post_processor: Option<Value>,
}

/// Refuses what `tokenizers` 0.23 panics at: parts that nest deeper than serde_json bears (128), and a template with a token
/// that it does not define.
fn refuse_panics(bytes: &[u8]) -> Result<Nested, String> {
    let nested: Nested = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match nested.post_processor.as_ref().and_then(undefined_token) {
        None => Ok(nested),
        Some(token) => Err(format!(
            "its post_processor puts the token `{token}` around texts and does not define it"
        )),
    }
}

impl Nested {
    /// Each byte of a text is a byte of some token, but for what NFC joins: characters of at most so many bytes to one.
    fn keeps_bytes(&self) -> bool {
        let is =
            |part: &Option<Value>, kind: &str| part.as_ref().is_some_and(|it| it["type"] == kind);
        let is_plain = self.normalizer.is_none() || is(&self.normalizer, "NFC");
        is_plain && is(&self.decoder, "ByteLevel")
    }
}

/// Bytes of text to one of its normal form, at the most (Unicode Standard Annex 15, NFC).
const NFC_BYTES: usize = 3;

/// The first token of a template, here or further down, that is not among its `special_tokens`.
fn undefined_token(value: &Value) -> Option<&str> {
    let further = match value {
        Value::Object(fields) => fields.values().find_map(undefined_token),
        Value::Array(items) => items.iter().find_map(undefined_token),
        _ => None,
    };
    let pieces = ["single", "pair"]
        .into_iter()
        .filter_map(|key| value.get(key)?.as_array());
    let mut named = pieces
        .flatten()
        .filter_map(|piece| piece.get("SpecialToken")?.get("id")?.as_str());
    further.or_else(|| named.find(|token| value["special_tokens"].get(token).is_none()))
}

/// The result of a call into `tokenizers`, which may panic at a file or a text instead of refusing it.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    let caught = catch_unwind(AssertUnwindSafe(call));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("the tokenizers library panicked").into())
    })
}

/// Of a tokenizer whose tokens keep bytes; `None` where a token takes the blanks beside it.
fn longest(inner: &tokenizers::Tokenizer) -> Option<usize> {
    let added = inner.get_added_tokens_decoder();
    if added.values().any(|token| token.lstrip || token.rstrip) {
        return None;
    }
    // A byte is a character of its own in the vocabulary's spelling.
    let vocabulary = inner.get_vocab(false);
    let of_bytes = vocabulary.keys().map(|token| token.chars().count());
    let of_added = added.values().map(|token| token.content.len());
    let longest = of_bytes
        .chain(of_added)
        .max()
        .filter(|longest| *longest > 0)?;
    Some(NFC_BYTES * longest)
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    /// Ids whose text stands for those of ids that the tokenizer does not know; none: they have no text.
    speakers: Arc<[u32]>,
    /// Bytes of text that one token stands for at the most, where that is known.
    longest: Option<usize>,
}

impl Tokenizer {
    pub fn load(files: &Files, vocab: usize) -> Result<Self, TokenizerError> {
        let path = || files.path(FILE).display().to_string();
        let format = |cause: tokenizers::Error| TokenizerError::Format {
            path: path(),
            cause: cause.to_string(),
        };
        let bytes = files.read(FILE)?;
        let bad = |cause: String| TokenizerError::Format {
            path: path(),
            cause,
        };
        let parts = refuse_panics(&bytes).map_err(bad)?;
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(bytes)).map_err(format)?;
        // The file may hold how texts were cut and filled up for training. A prompt is neither, as in transformers and
        // vLLM.
        inner
            .with_padding(None)
            .with_truncation(None)
            .map_err(format)?;
        // A file that cannot encode a letter would have every prompt blamed for it.
        guarded(|| inner.encode_fast("a", true)).map_err(format)?;
        let widest = inner.get_vocab(true).into_values().max();
        if let Some(id) = widest.filter(|id| *id as usize >= vocab) {
            return Err(TokenizerError::TooWide {
                path: path(),
                id,
                vocab,
            });
        }
        Ok(Self {
            longest: parts.keeps_bytes().then(|| longest(&inner)).flatten(),
            inner: Arc::new(inner),
            speakers: Arc::default(),
        })
    }

    /// What a tokenizer.json of it holds.
    pub fn as_json(&self) -> Result<serde_json::Value, TokenizerError> {
        let bad = |cause: String| TokenizerError::Format {
            path: FILE.into(),
            cause,
        };
        let text = self
            .inner
            .to_string(false)
            .map_err(|error| bad(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| bad(error.to_string()))
    }

    /// Gives every id that the tokenizer does not know the text of one that it knows: for a model whose
    /// vocabulary is wider and whose words mean nothing.
    pub fn speaking_for_all(mut self) -> Self {
        let speaks = |id: &u32| {
            let text = self.token_text(*id);
            let is_plain = |c: char| c.is_alphanumeric() || c.is_ascii_punctuation();
            self.has_text(*id) && text.trim().chars().all(is_plain) && !text.trim().is_empty()
        };
        let mut ids: Vec<u32> = self.inner.get_vocab(true).into_values().collect();
        ids.sort_unstable();
        ids.retain(speaks);
        self.speakers = ids.into();
        self
    }

    fn spoken(&self, id: u32) -> u32 {
        let known = || self.inner.id_to_token(id).is_some();
        match self.speakers.len() {
            0 => id,
            _ if known() => id,
            count => self.speakers[id as usize % count],
        }
    }

    /// So many tokens a text of so many bytes is at the least.
    pub fn least_tokens(&self, bytes: usize) -> usize {
        self.longest.map_or(0, |longest| bytes / longest)
    }

    /// `add_special`: put the ids around the text that the tokenizer's post-processor names (none in
    /// Qwen3). Special tokens written out in the text are recognised either way.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        guarded(|| self.inner.encode_fast(text, add_special))
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|cause| TokenizerError::Encode(cause.to_string()))
    }

    /// As [`Self::encode`], and where each id's text begins: in characters of `text`, whatever the normalizer made of
    /// them. The parts of one character begin with it; an id put beside the text stands where the one before it ends.
    pub fn encode_with_offsets(
        &self,
        text: &str,
        add_special: bool,
    ) -> Result<(Vec<u32>, Vec<usize>), TokenizerError> {
        let encoding = guarded(|| self.inner.encode_char_offsets(text, add_special))
            .map_err(|cause| TokenizerError::Encode(cause.to_string()))?;
        let mut end = 0;
        let offsets = encoding.get_offsets().iter().map(|&(from, to)| {
            let begin = if from < to { from } else { end };
            end = end.max(to);
            begin
        });
        let offsets = offsets.collect();
        Ok((encoding.get_ids().to_vec(), offsets))
    }

    /// As [`Self::decode`], and where each id's text begins, in characters. One without text stands where the next begins.
    pub fn decode_with_offsets(&self, ids: &[u32]) -> (String, Vec<usize>) {
        let mut stream = self.stream();
        let mut end = 0;
        let offsets = ids.iter().map(|id| {
            let begin = end;
            end += stream.push(*id).map_or(0, |piece| piece.chars().count());
            begin
        });
        (self.decode(ids), offsets.collect())
    }

    /// The ids' text, special tokens left out. Ids that the tokenizer does not know give nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        if self.speakers.is_empty() {
            return self.decoded(ids, true);
        }
        let spoken: Vec<u32> = ids.iter().map(|id| self.spoken(*id)).collect();
        self.decoded(&spoken, true)
    }

    /// The ids' text, special tokens by name.
    pub fn decode_with_special(&self, ids: &[u32]) -> String {
        let spoken: Vec<u32> = ids.iter().map(|id| self.spoken(*id)).collect();
        self.decoded(&spoken, false)
    }

    /// One token as text of its own, special tokens by name; bytes that are no whole character show as
    /// U+FFFD.
    pub fn token_text(&self, id: u32) -> String {
        let id = self.spoken(id);
        self.decoded(&[id], false)
    }

    /// Ids that the file's decoder cannot turn into text have none.
    fn decoded(&self, ids: &[u32], skip_special: bool) -> String {
        guarded(|| self.inner.decode(ids, skip_special)).unwrap_or_default()
    }

    /// Whether `decode` looks at the id at all.
    pub fn has_text(&self, id: u32) -> bool {
        let special = |token: &str| self.inner.get_added_vocabulary().is_special_token(token);
        self.inner
            .id_to_token(self.spoken(id))
            .is_some_and(|token| !special(&token))
    }

    pub fn stream(&self) -> TextStream {
        TextStream {
            tokenizer: self.clone(),
            ids: Vec::new(),
            given: String::new(),
            read: 0,
        }
    }
}

/// Text of a growing answer. The pieces joined are `decode` of all ids.
///
/// A token's text depends on its neighbours (leading spaces, characters of several bytes), so each piece
/// is what a short window's decoding has beyond the part that was given out. The window is bounded, so
/// that a token costs the same wherever it stands.
pub struct TextStream {
    tokenizer: Tokenizer,
    /// The window: ids with text, from the last piece's on.
    ids: Vec<u32>,
    /// The window's text as far as it was given out.
    given: String,
    /// Ids of the window whose text was given out whole.
    read: usize,
}

/// Most ids in a window, and how many are left when it is cut though its end is unfinished.
const WINDOW: usize = 32;
const LEFT: usize = 8;

/// An unfinished character has at most so many bytes, each of which may show as U+FFFD.
const UNFINISHED: usize = 3;

impl TextStream {
    /// The text that `id` completes; `None` while a character is unfinished or the token has no text.
    pub fn push(&mut self, id: u32) -> Option<String> {
        if !self.tokenizer.has_text(id) {
            return None;
        }
        self.ids.push(id);
        let whole = self.tokenizer.decode(&self.ids);
        let finished = finished(&whole);
        let piece = self.beyond(finished);
        if finished.len() == whole.len() && !piece.is_empty() {
            // The last piece's ids stay: the next one has them for its left neighbours.
            self.slide(self.read);
            self.read = self.ids.len();
        } else if self.ids.len() > WINDOW {
            self.slide(self.ids.len() - LEFT);
            self.read = 0;
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// What is still held back, unfinished characters as U+FFFD.
    pub fn finish(mut self) -> String {
        let whole = self.tokenizer.decode(&self.ids);
        self.beyond(&whole)
    }

    /// What `text` has that was not given out. Some decoders change their mind on what they gave (bytes
    /// that were a character are none, once a broken one follows): then from where the two part.
    fn beyond(&mut self, text: &str) -> String {
        if self.given.starts_with(text) {
            return String::new();
        }
        let shared: usize = self
            .given
            .chars()
            .zip(text.chars())
            .take_while(|(given, now)| given == now)
            .map(|(_, now)| now.len_utf8())
            .sum();
        text.clone_into(&mut self.given);
        text[shared..].to_owned()
    }

    /// Lets the first `count` ids go; what is left has been given out but for an unfinished end.
    fn slide(&mut self, count: usize) {
        self.ids.drain(..count);
        let whole = self.tokenizer.decode(&self.ids);
        finished(&whole).clone_into(&mut self.given);
    }
}

/// The text without an end that more bytes may turn into a character.
fn finished(text: &str) -> &str {
    let mut rest = text;
    for _ in 0..UNFINISHED {
        rest = rest
            .strip_suffix(char::REPLACEMENT_CHARACTER)
            .unwrap_or(rest);
    }
    rest
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A byte-level tokenizer without merges: every byte is a token, so that any character but ASCII is
    /// several.
    pub fn bytes_tokenizer() -> Tokenizer {
        let alphabet: BTreeMap<String, u32> = byte_alphabet().into_iter().zip(0u32..).collect();
        let json = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [{"id": 256, "content": "<|end|>", "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
            "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
            "model": {"type": "BPE", "vocab": alphabet, "merges": []}
        });
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), json.to_string()).unwrap();
        Tokenizer::load(&Files::Directory(directory.path().to_path_buf()), 300).unwrap()
    }

    /// GPT-2's printable stand-ins for the 256 bytes, in byte order.
    fn byte_alphabet() -> Vec<String> {
        let printable = |b: u32| {
            (33..=126).contains(&b) || (161..=172).contains(&b) || (174..=255).contains(&b)
        };
        let mut next = 256;
        (0..256)
            .map(|byte| {
                let code = if printable(byte) {
                    byte
                } else {
                    next += 1;
                    next - 1
                };
                char::from_u32(code).unwrap().to_string()
            })
            .collect()
    }

    /// A model of random weights draws from a vocabulary far wider than the tokenizer's.
    #[test]
    fn where_some_speak_for_all_every_unknown_id_has_text_to_be_seen() {
        let few = bytes_tokenizer();
        assert_eq!(few.decode(&[5000]), "");
        let all = few.clone().speaking_for_all();
        let mut stream = all.stream();
        for id in [257, 300, 5000, 151_935] {
            let text = all.token_text(id);
            assert!(
                !text.trim().is_empty() && !text.contains(char::is_control),
                "{id}: {text:?}"
            );
            assert_eq!(stream.push(id), Some(text));
        }
        // Those that it knows keep their own.
        assert_eq!(all.decode(&[72, 73]), few.decode(&[72, 73]));
    }

    #[test]
    fn stream_gives_the_same_text_as_decode_and_whole_characters() {
        let tokenizer = bytes_tokenizer();
        for text in ["", "plain", "grüße, 你好 🙂🙂!", "ends in half"] {
            let ids = tokenizer.encode(text, false).unwrap();
            let mut stream = tokenizer.stream();
            let pieces: Vec<String> = ids.iter().filter_map(|id| stream.push(*id)).collect();
            assert!(
                pieces.iter().all(|piece| !piece.contains('\u{fffd}')),
                "{pieces:?}"
            );
            assert_eq!(pieces.concat() + &stream.finish(), text);
        }
    }

    #[test]
    fn a_cut_character_comes_out_at_the_end() {
        let tokenizer = bytes_tokenizer();
        let ids = tokenizer.encode("a🙂", false).unwrap();
        let mut stream = tokenizer.stream();
        let pieces: Vec<String> = ids[..3].iter().filter_map(|id| stream.push(*id)).collect();
        assert_eq!(pieces.concat(), "a");
        assert!(stream.finish().contains('\u{fffd}'));
    }

    /// Loads the tokenizer with its JSON changed.
    fn changed(change: impl FnOnce(&mut serde_json::Value)) -> Tokenizer {
        let json = bytes_tokenizer().inner.to_string(false).unwrap();
        let mut json = serde_json::from_str(&json).unwrap();
        change(&mut json);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), json.to_string()).unwrap();
        Tokenizer::load(&Files::Directory(directory.path().to_path_buf()), 300).unwrap()
    }

    /// `e` and a combining accent are one character to the network, two in the text. A token beside the text has no
    /// place of its own, and one in it has.
    #[test]
    fn offsets_are_places_in_the_text_as_it_came() {
        let tokenizer = changed(|json| {
            json["normalizer"] = serde_json::json!({"type": "NFC"});
            json["post_processor"] = serde_json::json!({
                "type": "TemplateProcessing", "pair": [],
                "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
                "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [256], "tokens": ["<|end|>"]}}
            });
        });
        let text = "ae\u{301}b<|end|>🙂c";
        let (ids, offsets) = tokenizer.encode_with_offsets(text, true).unwrap();
        assert_eq!(ids, tokenizer.encode(text, true).unwrap());
        assert_eq!(ids[..4], [256, 97, 0xc3, 0xa9]);
        assert_eq!(offsets, [0, 0, 1, 1, 3, 4, 11, 11, 11, 11, 12, 13]);
        let (text, offsets) = tokenizer.decode_with_offsets(&ids);
        assert_eq!(text, "aéb🙂c");
        assert_eq!(offsets, [0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 4, 5]);
    }

    #[test]
    fn special_tokens_have_a_name_but_no_text() {
        let tokenizer = bytes_tokenizer();
        assert_eq!(tokenizer.encode("a<|end|>", false).unwrap(), [97, 256]);
        assert_eq!(tokenizer.decode(&[97, 256]), "a");
        assert_eq!(tokenizer.token_text(256), "<|end|>");
        let mut stream = tokenizer.stream();
        assert_eq!(stream.push(97).as_deref(), Some("a"));
        assert_eq!(stream.push(256), None);
        assert_eq!(stream.push(98).as_deref(), Some("b"));
    }

    /// Bytes 0x80, which begin no character, special tokens and ids without a name, by the thousand.
    #[test]
    fn the_window_is_bounded_whatever_comes() {
        let tokenizer = bytes_tokenizer();
        let smile = tokenizer.encode("🙂", false).unwrap();
        for (repeated, count) in [
            (0x80, 1000),
            (256, 1000),
            (299, 1000),
            (u32::from(b'a'), 1000),
        ] {
            let mut ids = vec![repeated; count];
            ids.extend(&smile);
            ids.push(repeated);
            let mut stream = tokenizer.stream();
            let mut text = String::new();
            for id in &ids {
                text.push_str(&stream.push(*id).unwrap_or_default());
                assert!(stream.ids.len() <= WINDOW + 1, "{}", stream.ids.len());
            }
            assert_eq!(text + &stream.finish(), tokenizer.decode(&ids));
        }
    }

    /// A decoder of byte tokens that gives a run of them as text or, if one is broken, as none.
    #[test]
    fn a_decoder_that_changes_its_mind_loses_nothing_that_follows() {
        let vocab: BTreeMap<String, u32> = (0..=255u8)
            .map(|byte| (format!("<0x{byte:02X}>"), u32::from(byte)))
            .chain([("x".to_owned(), 256)])
            .collect();
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "decoder": {"type": "ByteFallback"},
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": true}
        });
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), json.to_string()).unwrap();
        let files = Files::Directory(directory.path().to_path_buf());
        let tokenizer = Tokenizer::load(&files, 300).unwrap();
        let mut stream = tokenizer.stream();
        let mut push = |ids: &[u32]| {
            let pieces: Vec<String> = ids.iter().filter_map(|id| stream.push(*id)).collect();
            pieces.concat()
        };
        let character: Vec<u32> = "你".bytes().map(u32::from).collect();
        assert_eq!(push(&character), "你");
        assert!(push(&[0xff, 256]).ends_with("\u{fffd}x"));
        assert_eq!(push(&[256, 256]), "xx");
        assert_eq!(push(&character), "你");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_tokenizer_wider_than_the_model_is_refused() {
        let tokenizer = bytes_tokenizer();
        let json = tokenizer.inner.to_string(false).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), json).unwrap();
        let files = Files::Directory(directory.path().to_path_buf());
        assert!(Tokenizer::load(&files, 257).is_ok());
        let error = Tokenizer::load(&files, 256).err().unwrap();
        assert!(error.to_string().contains("token 256"), "{error}");
    }
}
