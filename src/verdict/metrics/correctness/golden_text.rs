//! A golden case's answer as text, where tokens are not known of both sides: the first character that differs, and
//! whether the reference was undecided there.
//!
//! Main function: [`compare`].

use crate::plan::{GoldenCase, GoldenToken, Goldens};
use crate::record::is_blank;
use std::collections::BTreeMap;

/// Characters shown before the first difference, and in all.
const BEFORE: usize = 8;
const SHOWN: usize = 40;

/// What the first difference of an answer from the reference's text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// There is none.
    Same,
    /// At this character, and a token that the reference found as likely explains it.
    Tie,
    /// At this character, and the reference preferred its own token.
    Wrong(usize),
    /// At this character, and the reference's log-probabilities there are not known.
    Unknown(usize),
}

/// The characters that engines agree on: what stands for bytes that are no character is written by some and left out
/// by others.
pub fn plain(text: &str) -> Vec<char> {
    let is_kept = |c: &char| *c != char::REPLACEMENT_CHARACTER;
    text.chars().filter(is_kept).collect()
}

/// Compares an answer's text with the reference's.
pub fn compare(
    case: &GoldenCase,
    goldens: &Goldens,
    vocabulary: &Vocabulary<'_>,
    text: &str,
) -> Departure {
    let (want, got) = (plain(&case.text), plain(text));
    let is_blank = |text: &[char]| is_blank(&text.iter().collect::<String>());
    // A reference that was cut says nothing of what follows; how many tokens came is checked by usage.
    let goes_on = case.finish == "length" && !is_blank(&want) && got.starts_with(&want);
    if want == got || goes_on {
        return Departure::Same;
    }
    let place = want.iter().zip(&got).take_while(|(a, b)| a == b).count();
    if is_blank(&got) && !is_blank(&want) {
        return Departure::Wrong(place);
    }
    let Placed { starts, is_whole } = placed(case, &want, place);
    let mut is_open = !is_whole;
    for (start, token) in starts {
        for (id, logprob) in &token.top {
            let best = token.top.first().map_or(0.0, |(_, best)| *best);
            if *id == token.id || best - logprob >= goldens.near_tie_nats {
                continue;
            }
            let ends = goldens.stop_ids.contains(id);
            match vocabulary.text(*id).map(plain).filter(|t| !t.is_empty()) {
                _ if ends => {
                    if start == place && got.len() == place {
                        return Departure::Tie;
                    }
                }
                Some(other) => {
                    if start + other.len() > place && got[start..].starts_with(&other) {
                        return Departure::Tie;
                    }
                }
                // Part of a character, or a text that nobody tells: it may be what the engine chose.
                None => is_open |= start == place,
            }
        }
    }
    match is_open {
        true => Departure::Unknown(place),
        false => Departure::Wrong(place),
    }
}

/// Tokens of the reference with the characters at which they start.
struct Placed<'a> {
    starts: Vec<(usize, &'a GoldenToken)>,
    /// False where the tokens up to a place are not all known.
    is_whole: bool,
}

/// Every token that starts at or before `place`: a longer one may have been chosen instead.
fn placed<'a>(case: &'a GoldenCase, want: &[char], place: usize) -> Placed<'a> {
    let mut starts = Vec::new();
    let mut at = 0;
    for token in &case.tokens {
        if at > place {
            break;
        }
        starts.push((at, token));
        let text = plain(&token.text);
        // Tokens of parts of characters, and special tokens, are not found in the text.
        let is_found = text.len() == token.text.chars().count() && want[at..].starts_with(&text);
        if !is_found {
            // What ends an answer is its last token, and no part of its text.
            let is_whole = at == want.len();
            return Placed { starts, is_whole };
        }
        at += text.len();
    }
    Placed {
        is_whole: !case.tokens.is_empty(),
        starts,
    }
}

/// The text around a character, shortened and quoted: `"…a b…"`.
pub fn quoted(text: &str, place: usize) -> String {
    let text = plain(text);
    let from = place.saturating_sub(BEFORE).min(text.len());
    let to = (from + SHOWN).min(text.len());
    let cut: String = text[from..to].iter().collect();
    let begin = if from > 0 { "…" } else { "" };
    let end = if to < text.len() { "…" } else { "" };
    format!("{:?}", format!("{begin}{cut}{end}"))
}

/// Texts of the token ids that the reference names.
pub struct Vocabulary<'a> {
    texts: BTreeMap<u32, &'a str>,
}

impl<'a> Vocabulary<'a> {
    pub fn of(goldens: &'a Goldens) -> Self {
        let listed = goldens.texts.iter().map(|(&id, text)| (id, text.as_str()));
        let tokens = goldens.cases.iter().flat_map(|c| &c.tokens);
        let own = tokens.map(|t| (t.id, t.text.as_str()));
        Self {
            texts: listed.chain(own).collect(),
        }
    }

    /// Text of a token id, where it is known.
    pub fn text(&self, id: u32) -> Option<&'a str> {
        self.texts.get(&id).copied()
    }

    /// Whether the reference itself was undecided here and `got` is one of the tokens that it was
    /// undecided between.
    pub fn is_near_tie(&self, token: &GoldenToken, got: &str, near_tie_nats: f64) -> bool {
        let Some(&(_, best)) = token.top.first() else {
            return false;
        };
        let near = |lp: f64| best - lp < near_tie_nats;
        let tied = token.top.get(1).is_some_and(|&(_, second)| near(second));
        tied && self.reference(token, got).is_some_and(near)
    }

    /// Reference log-probability lost by choosing `got`; where `got` is not among the reference's best
    /// tokens, the loss of the worst of them, which is a lower bound. `None` without a list.
    pub fn regret(&self, token: &GoldenToken, got: &str) -> Option<f64> {
        let &(_, best) = token.top.first()?;
        let &(_, worst) = token.top.last()?;
        Some(best - self.reference(token, got).unwrap_or(worst))
    }

    /// The reference's log-probability of the token with text `got`, where it lists one. A listed id
    /// whose text nobody told may be any text that belongs to no known id: the best such counts.
    pub fn reference(&self, token: &GoldenToken, got: &str) -> Option<f64> {
        if got == token.text {
            return Some(token.logprob);
        }
        let known = |id: u32| self.text(id);
        let listed = token.top.iter().find(|&&(id, _)| known(id) == Some(got));
        let listed = listed.or_else(|| {
            let stranger = !self.texts.values().any(|&text| text == got);
            token
                .top
                .iter()
                .find(|&&(id, _)| stranger && known(id).is_none())
        });
        listed.map(|&(_, lp)| lp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reference whose tokens have these texts, each with one other that it liked less by so many nats.
    fn goldens(tokens: &[(&str, &str, f64)], text: &str) -> Goldens {
        let mut texts = std::collections::BTreeMap::new();
        let tokens = tokens.iter().zip(0..).map(|((own, other, lead), n)| {
            texts.insert(100 + n, (*other).to_owned());
            GoldenToken {
                id: n,
                text: (*own).to_owned(),
                logprob: -0.5,
                top: vec![(n, -0.5), (100 + n, -0.5 - lead)],
            }
        });
        let case = GoldenCase {
            id: "case".into(),
            prompt_ids: vec![1],
            tokens: tokens.collect(),
            text: text.into(),
            finish: "stop".into(),
            ..GoldenCase::default()
        };
        Goldens {
            cases: vec![case],
            near_tie_nats: 0.1,
            texts,
            ..Goldens::default()
        }
    }

    fn check(goldens: &Goldens, text: &str, expect: Departure) {
        let vocabulary = Vocabulary::of(goldens);
        let got = compare(&goldens.cases[0], goldens, &vocabulary, text);
        assert_eq!(got, expect, "{text:?}");
    }

    #[test]
    fn only_a_near_tie_of_the_reference_explains_a_difference() {
        let firm = goldens(&[("one", "two", 2.0), (" a", " b", 2.0)], "one a");
        check(&firm, "one a", Departure::Same);
        check(&firm, "one b", Departure::Wrong(4));
        check(&firm, "two a", Departure::Wrong(0));
        check(&firm, "one", Departure::Wrong(3));
        check(&firm, "one a more", Departure::Wrong(5));
        check(&firm, " ", Departure::Wrong(0));
        let tied = goldens(&[("one", "two", 0.05), (" a", " b", 0.05)], "one a");
        check(&tied, "one b and more", Departure::Tie);
        check(&tied, "two", Departure::Tie);
        // At a near-tie, but a third token.
        check(&tied, "one c", Departure::Wrong(4));
        check(&tied, "three", Departure::Wrong(0));
    }

    #[test]
    fn a_longer_token_begins_before_the_place_where_texts_part() {
        let tied = goldens(&[("th", "they", 0.05), ("en", "x", 2.0)], "then");
        check(&tied, "they", Departure::Tie);
        check(&tied, "thex", Departure::Wrong(3));
    }

    #[test]
    fn an_end_as_likely_as_going_on_is_a_near_tie() {
        let mut tied = goldens(&[("a", "b", 2.0), (" b", "</s>", 0.05)], "a b");
        check(&tied, "a", Departure::Wrong(1));
        tied.stop_ids.insert(101);
        check(&tied, "a", Departure::Tie);
        check(&tied, "a</s>", Departure::Wrong(1));
        // The reference ended where it might have gone on.
        let mut ends = goldens(&[("a", "b", 2.0), ("</s>", " c", 0.05)], "a");
        ends.stop_ids.insert(1);
        check(&ends, "a c d", Departure::Tie);
        check(&ends, "a d", Departure::Wrong(1));
    }

    #[test]
    fn where_the_reference_does_not_tell_nothing_is_sure() {
        let mut text_only = goldens(&[], "one a");
        text_only.cases[0].max_tokens = 8;
        check(&text_only, "one a", Departure::Same);
        check(&text_only, "one b", Departure::Unknown(4));
        check(&text_only, "\n", Departure::Wrong(0));
        // A character of two tokens: beyond it no place is known.
        let parts = goldens(
            &[("a", "b", 2.0), ("\u{fffd}", "c", 2.0), ("d", "e", 2.0)],
            "aéd",
        );
        check(&parts, "x", Departure::Wrong(0));
        check(&parts, "aée", Departure::Unknown(2));
        // A reference that was cut at its length says nothing of what follows.
        let mut cut = goldens(&[("a", "b", 2.0)], "a");
        cut.cases[0].finish = "length".into();
        check(&cut, "ab", Departure::Same);
        // Bytes that are no character are written in several ways.
        check(&parts, "aé\u{fffd}d", Departure::Same);
    }

    #[test]
    fn what_is_shown_is_the_place() {
        assert_eq!(quoted("0123456789abc", 10), "\"…23456789abc\"");
        assert_eq!(quoted("a", 5), "\"a\"");
    }
}
