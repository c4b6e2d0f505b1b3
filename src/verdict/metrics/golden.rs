//! Agreement with a reference implementation: greedy tokens, and log-probabilities under teacher forcing.
//!
//! Each case was sent twice: greedily as sample case `id`, and as `id#forced` with the reference's own
//! tokens appended to the prompt and echoed. The answer names tokens by text, the reference by id;
//! [`Vocabulary`] joins the two.

use super::answers::SURE;
use super::differences::Difference;
use super::golden_text::{self, Departure, quoted};
use super::{LaunchMeasure, Place, Undefined, Why};
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
    let Doubts { wrong, open, text } = doubts(at, goldens, &compared);
    let n = compared.wrong.len() + wrong.len();
    let sure = compared.wrong.iter().chain(wrong);
    let remarks = sure.chain(open.iter().copied()).take(QUOTED);
    Ok(LaunchMeasure {
        at_least: Some(n as f64),
        remarks: remarks.map(|left| left.text.clone()).chain(text).collect(),
        ..LaunchMeasure::single((n + open.len()) as f64, goldens.cases.len())
    })
}

/// Those cases, with what was said.
pub fn differences(at: &Place<'_>, goldens: &Goldens) -> Result<Vec<Difference>, Undefined> {
    let Compared { wrong, open, .. } = Compared::of(&at.by_case()?, goldens, at)?;
    let left = wrong.into_iter().chain(open);
    Ok(left.map(|left| left.difference).collect())
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
        let departure = golden_text::compare(case, goldens, vocabulary, text);
        let (Departure::Wrong(place) | Departure::Unknown(place)) = departure else {
            return Ok(());
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
                "case {}, from character {place} on {said} for {expected}",
                case.id
            ),
        };
        match departure {
            Departure::Unknown(_) => self.open.push(left),
            _ => self.wrong.push(left),
        }
        Ok(())
    }
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
    let sound = at.requests.base.iter().filter(|s| s.may_enter());
    let base: BTreeMap<&str, &Sample> = sound
        .filter_map(|s| Some((s.case.as_deref()?, *s)))
        .collect();
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
        "case {}, token {place}: {} for {}",
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
    let value = super::reduce(crate::record::Statistic::P99, &regrets)
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
    fn regret(&self, token: &GoldenToken, got: &str) -> Option<f64> {
        let &(_, best) = token.top.first()?;
        let &(_, worst) = token.top.last()?;
        Some(best - self.reference(token, got).unwrap_or(worst))
    }

    /// The reference's log-probability of the token with text `got`, where it lists one. A listed id
    /// whose text nobody told may be any text that belongs to no known id: the best such counts.
    fn reference(&self, token: &GoldenToken, got: &str) -> Option<f64> {
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
mod tests;
