//! Texts that end an answer, found while it grows.
//!
//! Main type: [`StopText`]. A stop text may begin in one token and end in another, so the text is searched
//! and not the ids. Refuses to know: what is shown of the text, and what is done with an answer that has
//! ended.

use super::tokenizer::{TextStream, Tokenizer};

/// Watches one answer for the request's stop texts.
pub struct StopText {
    stops: Vec<String>,
    text: TextStream,
    /// The end of the text: what a stop text may have begun in, less than the longest of them.
    tail: String,
}

impl StopText {
    /// None of `stops` may be empty.
    pub fn new(tokenizer: &Tokenizer, stops: Vec<String>) -> Self {
        Self {
            stops,
            text: tokenizer.stream(),
            tail: String::new(),
        }
    }

    /// Takes the answer's next token and says which stop text it completed. Of several it is the one that
    /// begins earliest in the text; of those that begin together the shortest, which was complete first.
    /// A special token has no text.
    pub fn push(&mut self, id: u32) -> Option<usize> {
        let piece = self.text.push(id)?;
        let before = self.tail.len();
        self.tail.push_str(&piece);
        let found = self.found(before);
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let kept = self.tail.len().saturating_sub(longest.saturating_sub(1));
        self.tail.drain(..self.tail.ceil_char_boundary(kept));
        found
    }

    /// The first stop text that ends behind the first `before` bytes of the tail.
    fn found(&self, before: usize) -> Option<usize> {
        let stops = self.stops.iter().enumerate();
        stops
            .filter_map(|(index, stop)| {
                Some((find_stop(&self.tail, before, stop)?, stop.len(), index))
            })
            .min()
            .map(|(_, _, index)| index)
    }
}

/// The first place of `stop` in `text` with its end beyond `old`: one that ends up to there was no news.
/// Places are in bytes.
pub fn find_stop(text: &str, old: usize, stop: &str) -> Option<usize> {
    let from = text.ceil_char_boundary((old + 1).saturating_sub(stop.len()));
    text[from..].find(stop).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::files::{Files, ModelSource};
    use crate::text::tokenizer::tests::bytes_tokenizer;

    fn strings(stops: &[&str]) -> Vec<String> {
        stops.iter().map(|stop| (*stop).to_owned()).collect()
    }

    /// Which token of the text completes which stop text first.
    fn check(text: &str, stops: &[&str], want: Option<(usize, usize)>) {
        let mut stop = StopText::new(&bytes_tokenizer(), strings(stops));
        let ids = bytes_tokenizer().encode(text, false).unwrap();
        let mut ids = ids.into_iter().enumerate();
        let got = ids.find_map(|(at, id)| Some((at, stop.push(id)?)));
        assert_eq!(got, want, "{text:?} {stops:?}");
    }

    #[test]
    fn a_stop_text_is_found_where_it_ends() {
        check("abc", &["bc"], Some((2, 0)));
        check("abc", &["x", "c", "bc"], Some((2, 2)));
        check("aab", &["ab"], Some((2, 0)));
        check("abab", &["abb"], None);
        check("one\n\ntwo", &["\n\n"], Some((4, 0)));
        check("héé", &["éé"], Some((4, 0)));
        check("h你好", &["好", "你好"], Some((6, 1)));
        check("abc", &[], None);
        // A half of a character is no text yet.
        check("é", &["\u{fffd}"], None);
    }

    #[test]
    fn what_was_found_is_not_found_again_and_the_tail_is_bounded() {
        let mut stop = StopText::new(&bytes_tokenizer(), strings(&["ab", "abcdefgh"]));
        let mut push = |text: &str| -> Vec<Option<usize>> {
            let ids = bytes_tokenizer().encode(text, false).unwrap();
            let found = ids.into_iter().map(|id| stop.push(id)).collect();
            assert!(stop.tail.len() < "abcdefgh".len());
            found
        };
        assert_eq!(push("ab"), [None, Some(0)]);
        assert_eq!(push("cd"), [None, None]);
        assert_eq!(push("efgh").last(), Some(&Some(1)));
        assert!(push(&"é".repeat(5000)).iter().all(Option::is_none));
        assert_eq!(push("a"), [None]);
        assert_eq!(push("<|end|>b"), [None, Some(0)]);
    }

    /// What `push` should say, from the whole text: `before` bytes of it were there.
    fn naive(text: &str, before: usize, stops: &[String]) -> Option<usize> {
        let matches = stops.iter().enumerate().flat_map(|(index, stop)| {
            let starts =
                (0..text.len()).filter(|at| text.as_bytes()[*at..].starts_with(stop.as_bytes()));
            starts.map(move |start| (start, stop.len(), index))
        });
        let new = matches.filter(|(start, length, _)| start + length > before);
        new.min().map(|(_, _, index)| index)
    }

    fn compare(tokenizer: &Tokenizer, ids: &[u32], stops: &[String]) {
        let (mut stop, mut stream) = (StopText::new(tokenizer, stops.to_vec()), tokenizer.stream());
        let mut text = String::new();
        for id in ids {
            let before = text.len();
            text.push_str(&stream.push(*id).unwrap_or_default());
            let want = naive(&text, before, stops).filter(|_| text.len() > before);
            assert_eq!(stop.push(*id), want, "{text:?} {stops:?}");
        }
    }

    fn embedded_tokenizer() -> &'static Tokenizer {
        static LOADED: LazyLock<Tokenizer> = LazyLock::new(|| {
            let files = Files::open(&ModelSource::Embedded).unwrap();
            Tokenizer::load(&files, 1 << 20).unwrap()
        });
        &LOADED
    }

    proptest! {
        /// Characters of several tokens.
        #[test]
        fn equals_a_search_of_the_whole_text(
            text in "[abé🙂]{0,40}",
            stops in prop::collection::vec("[abé🙂]{1,5}", 0..4),
        ) {
            let tokenizer = bytes_tokenizer();
            let ids = tokenizer.encode(&text, false).unwrap();
            compare(&tokenizer, &ids, &stops);
        }

        /// Tokens of several characters; the stop texts are pieces of the answer.
        #[test]
        fn tokens_may_hold_more_than_a_stop_text(
            ids in prop::collection::vec(0u32..400, 1..30),
            cuts in prop::collection::vec((0usize..100, 1usize..9), 0..4),
        ) {
            let tokenizer = embedded_tokenizer();
            let characters: Vec<char> = tokenizer.decode(&ids).chars().collect();
            let stops = cuts.into_iter().map(|(from, count)| {
                characters.iter().skip(from % characters.len().max(1)).take(count).collect()
            });
            let stops: Vec<String> = stops.filter(|stop: &String| !stop.is_empty()).collect();
            compare(tokenizer, &ids, &stops);
        }
    }
}
