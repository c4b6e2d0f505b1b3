//! The end of an answer's text that may still be cut off by a stop text.
//!
//! [`Tail`] takes the text piece by piece and gives out what no stop text can touch any more. Whether a stop
//! text ends the answer is the engine's to say: one that is complete is held until its next word.
//! Refuses to know: tokens, events.

use crate::find_stop;

pub struct Tail {
    stops: Vec<String>,
    /// The stop text is shown; only what stands behind it is cut.
    shown: bool,
    /// Not given out yet.
    held: String,
    /// For each stop text that the last piece completed, where `held` would be cut.
    cuts: Vec<Option<usize>>,
}

impl Tail {
    pub fn new(stops: Vec<String>, shown: bool) -> Self {
        Self {
            cuts: vec![None; stops.len()],
            stops,
            shown,
            held: String::new(),
        }
    }

    /// More text: the answer did not end with what came before. Gives what can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        let old = self.held.len();
        self.held.push_str(piece);
        let held = &self.held;
        let cut = |stop: &String| find_stop(held, old, stop).map(|at| at + self.behind(stop));
        let cuts: Vec<_> = self.stops.iter().map(cut).collect();
        let certain = cuts
            .iter()
            .flatten()
            .copied()
            .fold(self.begun(), usize::min);
        self.cuts = cuts
            .into_iter()
            .map(|cut| cut.map(|at| at - certain))
            .collect();
        self.held.drain(..certain).collect()
    }

    /// The rest where the stop text of this index ended the answer.
    pub fn stopped(mut self, index: usize) -> String {
        if let Some(at) = self.cuts.get(index).copied().flatten() {
            self.held.truncate(at);
        }
        self.held
    }

    /// The rest where something else ended it.
    pub fn rest(self) -> String {
        self.held
    }

    /// How much of a stop text stays.
    fn behind(&self, stop: &str) -> usize {
        match self.shown {
            true => stop.len(),
            false => 0,
        }
    }

    /// Where the longest end of the text stands that a stop text may go on from.
    fn begun(&self) -> usize {
        let length = self.held.len();
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let first = length.saturating_sub(longest.saturating_sub(1));
        let begins = |at: &usize| {
            self.held.is_char_boundary(*at) && {
                let end = &self.held[*at..];
                self.stops
                    .iter()
                    .any(|stop| stop.len() > end.len() && stop.starts_with(end))
            }
        };
        (first..length).find(begins).unwrap_or(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces as given out, the last by the index of the stop text, or by another end.
    fn check(stops: &[&str], shown: bool, pieces: &[&str], stop: Option<usize>, expect: &[&str]) {
        let stops = stops.iter().map(|stop| (*stop).to_owned());
        let mut tail = Tail::new(stops.collect(), shown);
        let mut given: Vec<String> = pieces.iter().map(|piece| tail.push(piece)).collect();
        given.push(match stop {
            Some(index) => tail.stopped(index),
            None => tail.rest(),
        });
        assert_eq!(given, expect, "{pieces:?}");
    }

    #[test]
    fn without_stops_nothing_is_held() {
        check(&[], false, &["a", "", "é"], None, &["a", "", "é", ""]);
    }

    #[test]
    fn a_shown_stop_text_stays_and_what_is_behind_it_goes() {
        let stops = ["END"];
        let pieces = ["aE", "NDbc"];
        check(&stops, true, &pieces, Some(0), &["a", "END", ""]);
        check(&stops, true, &pieces, None, &["a", "END", "bc"]);
        // The first of two that overlap ended nothing.
        let stops = ["ab", "bc"];
        check(&stops, true, &["ab", "cd"], Some(1), &["a", "bc", ""]);
    }

    #[test]
    fn what_only_began_is_given_out_when_it_does_not_go_on() {
        check(&["END"], false, &["EN", "d"], None, &["", "ENd", ""]);
        check(&["END"], false, &["EN"], None, &["", "EN"]);
        check(
            &["aab"],
            false,
            &["aa", "a", "c"],
            None,
            &["", "a", "aac", ""],
        );
    }

    /// Before `min_tokens`: the engine went on after a complete text.
    #[test]
    fn a_complete_text_that_ended_nothing_is_given_out() {
        check(&["b"], false, &["abc", "d"], None, &["a", "bcd", ""]);
        check(&["b"], false, &["ab", "ab"], Some(0), &["a", "ba", ""]);
        check(&["aa"], false, &["aa", "a"], Some(0), &["", "a", ""]);
        check(&["b"], false, &["ab", "", "c"], None, &["a", "b", "c", ""]);
    }

    #[test]
    fn of_several_the_one_that_the_engine_names_counts() {
        let stops = ["bc", "c"];
        check(&stops, false, &["a", "b", "c"], Some(0), &["a", "", "", ""]);
        check(
            &stops,
            false,
            &["a", "b", "c"],
            Some(1),
            &["a", "", "", "b"],
        );
        check(&stops, true, &["abcd"], Some(1), &["abc", ""]);
    }

    /// Whatever the pieces: what was given out and what the end gives are the text up to the stop.
    #[test]
    fn every_split_gives_the_same_text() {
        let text = "aéabab日abaéab";
        for stop in ["ab日", "aba", "éabab日", "b", "abaé", "日"] {
            let at = text.find(stop).unwrap();
            let end = at + stop.len();
            let places: Vec<usize> = text[..end].char_indices().map(|(at, _)| at).collect();
            for first in &places {
                for second in places.iter().filter(|second| *second >= first) {
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    // The piece that completes it must be the last.
                    if find_stop(&text[..*second], 0, stop).is_some() {
                        continue;
                    }
                    for (shown, expect) in [(false, &text[..at]), (true, &text[..end])] {
                        let mut tail = Tail::new(vec![stop.to_owned()], shown);
                        let mut whole: String =
                            pieces.iter().map(|piece| tail.push(piece)).collect();
                        whole.push_str(&tail.stopped(0));
                        assert_eq!(whole, expect, "{stop} in {pieces:?}");
                    }
                }
            }
        }
    }
}
