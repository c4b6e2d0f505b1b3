//! Agreement with a reference implementation: greedy tokens, and log-probabilities under teacher forcing.
//!
//! Each case was sent twice: greedily as sample case `id`, and as `id#forced` with the reference's own
//! tokens appended to the prompt and echoed. The answer names tokens by text, the reference by id;
//! [`Vocabulary`] joins the two.

use super::answers::SURE;
use super::golden_text::{self, Departure, Vocabulary, quoted};
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::{GoldenCase, GoldenToken, Goldens};
use crate::record::{Sample, TokenLogprob};
use crate::stats;
use std::collections::BTreeMap;

/// Most cases that are quoted.
const QUOTED: usize = 3;

/// Number of cases whose greedy answers leave the reference at a place that is no near-tie. The least value leaves out
/// those of which nothing tells whether they do.
pub fn mismatches(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let compared = Compared::of(&at.by_case()?, goldens, at)?;
    let garbled = garbled(at, goldens, &compared);
    let Doubts { wrong, open, text } = doubts(at, goldens, &compared);
    let n = compared.wrong.len() + garbled.len() + wrong.len();
    let sure = compared.wrong.iter().chain(garbled).chain(wrong);
    let remarks = sure.chain(open.iter().copied()).take(QUOTED);
    Ok(LaunchMeasure {
        at_least: Some(n as f64),
        remarks: remarks.map(|left| left.text.clone()).chain(text).collect(),
        ..LaunchMeasure::single((n + open.len()) as f64, goldens.cases.len())
    })
}

/// Those cases, with what was said.
pub fn differences(at: &Place<'_>, goldens: &Goldens) -> Result<Vec<Difference>, Undefined> {
    let compared = Compared::of(&at.by_case()?, goldens, at)?;
    let garbled = garbled(at, goldens, &compared);
    let left = compared.wrong.iter().chain(garbled).chain(&compared.open);
    Ok(left.map(|left| left.difference.clone()).collect())
}

/// A case whose answer leaves the reference.
struct Left<'a> {
    difference: Difference,
    sample: &'a Sample,
    /// `case add-1, token 3: "a" for "b"`.
    text: String,
}

/// The cases of one launch after comparison.
#[derive(Default)]
struct Compared<'a> {
    /// The reference preferred its own token.
    wrong: Vec<Left<'a>>,
    /// The reference does not tell how likely the answer was.
    open: Vec<Left<'a>>,
    /// The tokens are the reference's, and the text that came with them is not.
    garbled: Vec<Left<'a>>,
}

impl<'a> Compared<'a> {
    fn of(
        samples: &BTreeMap<&str, &'a Sample>,
        goldens: &Goldens,
        at: &Place<'_>,
    ) -> Result<Self, Undefined> {
        let vocabulary = Vocabulary::of(goldens);
        let mut compared = Self::default();
        for case in &goldens.cases {
            let sample = find(at, samples, &case.id)?;
            if sample.logprobs.is_empty() || case.tokens.is_empty() {
                compared.by_text(case, goldens, &vocabulary, sample, at)?;
            } else {
                compared.by_token(case, goldens, &vocabulary, sample);
            }
        }
        Ok(compared)
    }

    fn by_token(
        &mut self,
        case: &GoldenCase,
        goldens: &Goldens,
        vocabulary: &Vocabulary<'_>,
        sample: &'a Sample,
    ) {
        let generated: Vec<&str> = sample.logprobs.iter().map(|e| e.token.as_str()).collect();
        let Some(place) = first_divergence(case, &generated) else {
            self.text_of_tokens(case, goldens, vocabulary, sample);
            return;
        };
        let pair = case.tokens.get(place).zip(generated.get(place).copied());
        if pair.is_some_and(|(t, got)| vocabulary.is_near_tie(t, got, goldens.near_tie_nats)) {
            return;
        }
        let said = generated.get(place).map(|text| (*text).to_owned());
        let expected = case.tokens.get(place).map(|token| token.text.clone());
        let difference = Difference {
            case: case.id.clone(),
            token: Some((place, said, expected)),
            said: generated.concat(),
            expected: case.text.clone(),
        };
        self.wrong.push(Left {
            text: describe(&difference),
            difference,
            sample,
        });
    }

    /// Users read the text, and an engine may list the right tokens beside it.
    fn text_of_tokens(
        &mut self,
        case: &GoldenCase,
        goldens: &Goldens,
        vocabulary: &Vocabulary<'_>,
        sample: &'a Sample,
    ) {
        let text = sample.text.as_deref();
        if let Some((_, left)) = text.and_then(|text| left(case, goldens, vocabulary, sample, text))
        {
            self.garbled.push(left);
        }
    }

    fn by_text(
        &mut self,
        case: &GoldenCase,
        goldens: &Goldens,
        vocabulary: &Vocabulary<'_>,
        sample: &'a Sample,
        at: &Place<'_>,
    ) -> Result<(), Undefined> {
        let text = sample.text.as_deref();
        let text = text.ok_or_else(|| at.undefined(Why::NoText, Some(sample)))?;
        match left(case, goldens, vocabulary, sample, text) {
            None => {}
            Some((Departure::Unknown(_), left)) => self.open.push(left),
            Some((_, left)) => self.wrong.push(left),
        }
        Ok(())
    }
}

/// How the answer's text leaves the reference's; `None` where it does not, or by a near-tie.
fn left<'a>(
    case: &GoldenCase,
    goldens: &Goldens,
    vocabulary: &Vocabulary<'_>,
    sample: &'a Sample,
    text: &str,
) -> Option<(Departure, Left<'a>)> {
    let departure = golden_text::compare(case, goldens, vocabulary, text);
    let (Departure::Wrong(place) | Departure::Unknown(place)) = departure else {
        return None;
    };
    let (said, expected) = (quoted(text, place), quoted(&case.text, place));
    let left = Left {
        difference: Difference {
            case: case.id.clone(),
            token: None,
            said: text.to_owned(),
            expected: case.text.clone(),
        },
        sample,
        text: format!(
            "case {}, from character {place} on {said} instead of {expected}",
            case.id
        ),
    };
    Some((departure, left))
}

/// Base's sound answers by case.
pub fn base_by_case<'a>(at: &Place<'a>) -> BTreeMap<&'a str, &'a Sample> {
    let sound = at.requests.base.iter().filter(|s| s.may_enter());
    sound
        .filter_map(|s| Some((s.case.as_deref()?, *s)))
        .collect()
}

/// Garbled answers of cases to which base gives the reference's text. Where base does not, how the engine writes these
/// tokens is not known: some leave out the first one's space.
fn garbled<'c, 'a>(
    at: &Place<'_>,
    goldens: &Goldens,
    compared: &'c Compared<'a>,
) -> Vec<&'c Left<'a>> {
    if compared.garbled.is_empty() {
        return Vec::new();
    }
    let (base, vocabulary) = (base_by_case(at), Vocabulary::of(goldens));
    let is_right_in_base = |left: &&Left<'_>| {
        let name = left.difference.case.as_str();
        let case = goldens.cases.iter().find(|case| case.id == name);
        let text = base.get(name).and_then(|sample| sample.text.as_deref());
        case.zip(text).is_some_and(|(case, text)| {
            golden_text::compare(case, goldens, &vocabulary, text) == Departure::Same
        })
    };
    compared.garbled.iter().filter(is_right_in_base).collect()
}

/// What becomes of the open cases beside base's answers.
struct Doubts<'c, 'a> {
    wrong: Vec<&'c Left<'a>>,
    open: Vec<&'c Left<'a>>,
    text: Option<String>,
}

/// A reference that tells no log-probabilities cannot tell a near-tie from a wrong token, but base is a second witness:
/// what it answers to the letter is nothing that head changed, as long as it is no more than half of the cases; and so
/// many differences of head's own as chance does not explain are wrong.
fn doubts<'c, 'a>(at: &Place<'_>, goldens: &Goldens, compared: &'c Compared<'a>) -> Doubts<'c, 'a> {
    let open: Vec<&Left<'_>> = compared.open.iter().collect();
    let all = |open| Doubts {
        wrong: Vec::new(),
        open,
        text: None,
    };
    let base = base_by_case(at);
    let in_base = Compared::of(&base, goldens, at);
    let (false, Ok(in_base)) = (base.is_empty(), in_base) else {
        return all(open);
    };
    let is_in = |left: &Left<'_>, others: &[Left<'_>]| {
        let mut others = others.iter();
        others.any(|other| {
            other.sample.case == left.sample.case
                && other.sample.text_sha256 == left.sample.text_sha256
        })
    };
    let own = open.iter().filter(|left| !is_in(left, &in_base.open));
    let own: Vec<&Left<'_>> = own.copied().collect();
    let of_base = in_base.open.iter();
    let of_base = of_base.filter(|left| !is_in(left, &compared.open)).count();
    let shared = open.len() - own.len();
    if 2 * shared > goldens.cases.len() {
        return Doubts {
            text: Some(format!(
                "base answers {shared} of them alike: the goldens are not main's any more"
            )),
            ..all(open)
        };
    }
    if stats::mcnemar_p_worse(own.len() as u64, of_base as u64) <= SURE {
        return Doubts {
            wrong: own,
            ..all(Vec::new())
        };
    }
    all(own)
}

/// First place where the two differ; an answer that ends early or goes on differs at its end.
fn first_divergence(case: &GoldenCase, generated: &[&str]) -> Option<usize> {
    let longest = case.tokens.len().max(generated.len());
    (0..longest).find(|&i| {
        let expected = case.tokens.get(i).map(|t| t.text.as_str());
        expected != generated.get(i).copied()
    })
}

fn describe(difference: &Difference) -> String {
    let word = |text: &Option<String>| {
        text.as_ref()
            .map_or("the end".to_owned(), |t| format!("{t:?}"))
    };
    let Some((place, said, expected)) = &difference.token else {
        return format!("case {}", difference.case);
    };
    format!(
        "case {}, token {place}: {} instead of {}",
        difference.case,
        word(said),
        word(expected)
    )
}

/// Mean over all reference tokens of |engine's − reference's log-probability of that token|.
pub fn logprob_error(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let errors = over_forced_tokens(at, goldens, |token, entry| {
        entry.logprob.map(|engine| (engine - token.logprob).abs())
    })?;
    let mean = stats::mean(&errors).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
    Ok(LaunchMeasure::single(mean, goldens.cases.len()))
}

/// 99th percentile over all reference tokens of the reference's log-probability lost by following the
/// engine's own best token.
pub fn logprob_regret(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let vocabulary = Vocabulary::of(goldens);
    let regrets = over_forced_tokens(at, goldens, |token, entry| {
        let (choice, _) = entry.top.first()?;
        vocabulary.regret(token, choice)
    })?;
    let value = crate::metrics::reduce(crate::record::Statistic::P99, &regrets)
        .map_err(|why| at.undefined(why, None))?;
    Ok(LaunchMeasure::single(value, goldens.cases.len()))
}

/// `value` of each reference token with the engine's entry at its place, over all cases.
fn over_forced_tokens(
    at: &Place<'_>,
    goldens: &Goldens,
    value: impl Fn(&GoldenToken, &TokenLogprob) -> Option<f64>,
) -> Result<Vec<f64>, Undefined> {
    let samples = at.by_case()?;
    let mut values = Vec::new();
    for case in &goldens.cases {
        let sample = forced(at, &samples, case)?;
        let entries = &sample.logprobs[case.prompt_ids.len()..];
        for (place, (token, entry)) in case.tokens.iter().zip(entries).enumerate() {
            let v = value(token, entry);
            values.push(v.ok_or_else(|| at.undefined(Why::NoLogprob { place }, Some(sample)))?);
        }
    }
    Ok(values)
}

/// The answer in which the case's prompt and the reference's tokens were echoed, each with its entry.
pub fn forced<'a>(
    at: &Place<'_>,
    samples: &BTreeMap<&str, &'a Sample>,
    case: &GoldenCase,
) -> Result<&'a Sample, Undefined> {
    let sample = find(at, samples, &format!("{}#forced", case.id))?;
    has_entries(at, sample, case.prompt_ids.len() + case.tokens.len())?;
    Ok(sample)
}

/// Refuses an answer that has not `need` log-probability entries.
pub fn has_entries(at: &Place<'_>, sample: &Sample, need: usize) -> Result<(), Undefined> {
    let got = sample.logprobs.len();
    match got == need {
        true => Ok(()),
        false => Err(at.undefined(Why::Logprobs { got, need }, Some(sample))),
    }
}

/// The sound answer to the case of this name.
pub fn find<'a>(
    at: &Place<'_>,
    samples: &BTreeMap<&str, &'a Sample>,
    case: &str,
) -> Result<&'a Sample, Undefined> {
    let sample = samples.get(case).copied();
    sample.ok_or_else(|| at.undefined(Why::CaseMissing(case.to_owned()), None))
}

/// One case that was answered wrongly. Texts are the engine's own words: escape them before they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub case: String,
    /// Place of the first token that differs, with what was said and what was expected there; `None` is an end.
    /// Not told of a task, whose answer is compared whole.
    pub token: Option<(usize, Option<String>, Option<String>)>,
    pub said: String,
    pub expected: String,
}

#[cfg(test)]
mod tests;
