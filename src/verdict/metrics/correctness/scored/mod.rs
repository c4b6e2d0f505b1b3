//! Numbers of texts whose tokens the engine scored: perplexity, divergence from a reference's distributions or from
//! base's, agreement with a reference's choices.
//!
//! The texts are those of a workload `texts`, or the reference's tokens of `goldens`, after their prompts.

use super::golden;
use super::golden_text::Vocabulary;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::{GoldenCase, Goldens, TextCase, TextPrompt, WorkloadKind};
use crate::record::{Sample, TokenLogprob};
use crate::stats;
use std::collections::BTreeMap;

/// Stands in a token's text for bytes that are no character: several tokens may have it, and none is told by it.
const NO_CHARACTER: char = '\u{fffd}';

/// Nats above 0 that a log-probability may be by rounding, and the share by which probabilities may exceed 1 together:
/// half precision has 11 bits.
const ABOVE_ZERO: f64 = 0.02;

/// exp of the mean negative log-probability of all scored tokens together.
pub fn perplexity(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let mut nats = Vec::new();
    let (cases, bases) = (cases(at)?, golden::base_by_case(at));
    for case in &cases {
        let own = case.sample.logprobs.len();
        let of_base = bases.get(case.name()).map(|base| base.logprobs.len());
        if let Some(of_base) = of_base.filter(|n| *n != own) {
            let place = own.min(of_base);
            return Err(at.undefined(Why::OtherTokens { place }, Some(case.sample)));
        }
        for (place, entry) in case.entries() {
            let logprob = entry.logprob;
            nats.push(-logprob.ok_or_else(|| case.lacks(at, place))?);
        }
    }
    let mean = stats::mean(&nats).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
    let mut measure = LaunchMeasure::single(mean.exp(), cases.len());
    let (tokens, texts) = (nats.len(), cases.len());
    measure.remarks.push(format!(
        "{mean:.5} nats per token; tokens {tokens}, texts {texts}"
    ));
    Ok(measure)
}

/// Share of the reference's tokens that are the engine's likeliest too. Where the reference was undecided, each of its
/// near-ties counts.
pub fn greedy_agreement(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let vocabulary = Vocabulary::of(goldens);
    let (mut n, mut agreed, mut first) = (0_usize, 0_usize, None);
    let cases = cases(at)?;
    for case in &cases {
        let ScoreOrigin::Golden(golden) = case.origin else {
            continue;
        };
        for ((place, entry), token) in case.entries().zip(&golden.tokens) {
            let (choice, _) = entry.top.first().ok_or_else(|| case.lacks(at, place))?;
            let agrees = *choice == token.text
                || vocabulary.is_near_tie(token, choice, goldens.near_tie_nats);
            n += 1;
            agreed += usize::from(agrees);
            if !agrees {
                let place = place - case.skip;
                let text = || {
                    format!(
                        "case {}, token {place}: {choice:?} instead of {:?}",
                        case.id, token.text
                    )
                };
                first.get_or_insert_with(text);
            }
        }
    }
    if n == 0 {
        return Err(at.undefined(Why::NoSamples, None));
    }
    let mut measure = LaunchMeasure::single(agreed as f64 / n as f64, cases.len());
    measure.remarks.push(format!("{agreed} of {n} tokens"));
    measure.remarks.extend(first);
    Ok(measure)
}

/// Mean over tokens of the least KL(reference ‖ engine) that both lists of likeliest tokens leave possible.
pub fn kl_divergence(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let vocabulary = match &at.workload.kind {
        WorkloadKind::Goldens(goldens) => Some(Vocabulary::of(goldens)),
        _ => None,
    };
    mean_divergence(at, |case| match case.origin {
        ScoreOrigin::Golden(golden) => Ok(of_golden(golden, vocabulary.as_ref())),
        ScoreOrigin::Text(text) => same_tokens(at, case, text.reference.get(case.skip..)),
    })
}

/// The same with base's answer to the same request in the reference's place.
pub fn kl_from_base(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let base = golden::base_by_case(at);
    if base.is_empty() {
        return Err(at.undefined(Why::NothingCompared, None));
    }
    mean_divergence(at, |case| {
        let sample = base.get(case.name());
        let entries = sample.and_then(|sample| sample.logprobs.get(case.skip..));
        same_tokens(at, case, entries)
    })
}

/// What a reference knows of one place: tokens by text with their log-probabilities.
type Listed<'a> = Vec<(&'a str, f64)>;

fn mean_divergence<'a>(
    at: &Place<'a>,
    reference: impl Fn(&Case<'a>) -> Result<Vec<Listed<'a>>, Undefined>,
) -> Result<LaunchMeasure, Undefined> {
    let (mut all, mut worst) = (Vec::new(), (0.0, String::new()));
    let cases = cases(at)?;
    for case in &cases {
        for ((place, entry), listed) in case.entries().zip(reference(case)?) {
            if entry.top.is_empty() || listed.is_empty() {
                return Err(case.lacks(at, place));
            }
            let nats = divergence(&listed, entry);
            if nats > worst.0 {
                let text = format!("most in {}, token {place} ({:?})", case.id, entry.token);
                worst = (nats, text);
            }
            all.push(nats);
        }
    }
    let mean = stats::mean(&all).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
    let mut measure = LaunchMeasure::single(mean, cases.len());
    let (most, place) = worst;
    measure.remarks.push(match place.is_empty() {
        true => format!("tokens {}, all alike", all.len()),
        false => format!("tokens {}; {place}: {most:.4} nats", all.len()),
    });
    Ok(measure)
}

/// The least divergence at one place.
fn divergence(reference: &[(&str, f64)], entry: &TokenLogprob) -> f64 {
    let known = known(entry);
    let (mut both, mut alone) = (Vec::new(), Vec::new());
    for (text, logprob) in told_apart(reference.iter().copied()) {
        match known.get(text) {
            Some(q) => both.push((logprob.exp(), q.exp())),
            None => alone.push(logprob.exp()),
        }
    }
    stats::kl_at_least(&both, &alone, most_of_unlisted(entry))
}

/// What the engine says of single tokens: its list, and the text's own token.
fn known(entry: &TokenLogprob) -> BTreeMap<&str, f64> {
    let own = entry.logprob.map(|logprob| (entry.token.as_str(), logprob));
    let listed = entry
        .top
        .iter()
        .map(|(text, logprob)| (text.as_str(), *logprob));
    let is_listed = entry.top.iter().any(|(text, _)| *text == entry.token);
    told_apart(listed.chain(own.filter(|_| !is_listed)))
}

/// Without tokens that others may share their text with.
fn told_apart<'a>(list: impl Iterator<Item = (&'a str, f64)>) -> BTreeMap<&'a str, f64> {
    let (mut found, mut twice) = (BTreeMap::new(), Vec::new());
    for (text, logprob) in list {
        if text.contains(NO_CHARACTER) || found.insert(text, logprob).is_some() {
            twice.push(text);
        }
    }
    twice.iter().for_each(|text| _ = found.remove(text));
    found
}

/// The most that a token outside the engine's list can have: what the list's last has. The text's own token may stand
/// in the list though it is none of the likeliest.
fn most_of_unlisted(entry: &TokenLogprob) -> f64 {
    let listed = entry.top.iter().filter(|(text, _)| *text != entry.token);
    let least = listed.map(|(_, logprob)| *logprob).reduce(f64::min);
    least.map_or(1.0, f64::exp)
}

/// A golden's list holds ids; one without a text is left to the rest.
fn of_golden<'a>(case: &'a GoldenCase, vocabulary: Option<&Vocabulary<'a>>) -> Vec<Listed<'a>> {
    let text = |id: u32| vocabulary.and_then(|vocabulary| vocabulary.text(id));
    let tokens = case.tokens.iter();
    let listed = tokens.map(|token| {
        let mut list: Listed<'a> = token
            .top
            .iter()
            .filter_map(|&(id, logprob)| Some((text(id)?, logprob)))
            .collect();
        if list.iter().all(|(text, _)| *text != token.text) {
            list.push((&token.text, token.logprob));
        }
        list
    });
    listed.collect()
}

/// Another answer's lists, where it scored the same tokens.
fn same_tokens<'a>(
    at: &Place<'_>,
    case: &Case<'a>,
    entries: Option<&'a [TokenLogprob]>,
) -> Result<Vec<Listed<'a>>, Undefined> {
    let entries = entries.unwrap_or_default();
    let need = case.sample.logprobs.len() - case.skip;
    if entries.len() != need {
        let why = Why::OtherTokens {
            place: case.skip + need.min(entries.len()),
        };
        return Err(at.undefined(why, Some(case.sample)));
    }
    if let Some(((place, _), _)) = case
        .entries()
        .zip(entries)
        .find(|((_, entry), other)| entry.token != other.token)
    {
        return Err(at.undefined(Why::OtherTokens { place }, Some(case.sample)));
    }
    let list = |entry: &'a TokenLogprob| known(entry).into_iter().collect();
    Ok(entries.iter().map(list).collect())
}

/// A text with the engine's answer.
struct Case<'a> {
    id: &'a str,
    origin: ScoreOrigin<'a>,
    sample: &'a Sample,
    /// First entries that are not scored: the prompt of goldens, the first token of a text.
    skip: usize,
}

#[derive(Clone, Copy)]
enum ScoreOrigin<'a> {
    Golden(&'a GoldenCase),
    Text(&'a TextCase),
}

impl<'a> Case<'a> {
    /// The name of its sample.
    fn name(&self) -> &'a str {
        self.sample.case.as_deref().unwrap_or_default()
    }

    /// Scored entries with their place among all.
    fn entries(&self) -> impl Iterator<Item = (usize, &'a TokenLogprob)> + use<'a> {
        self.sample.logprobs.iter().enumerate().skip(self.skip)
    }

    fn lacks(&self, at: &Place<'_>, place: usize) -> Undefined {
        at.undefined(Why::NoLogprob { place }, Some(self.sample))
    }
}

/// Every text with a sound and whole answer, whose scores can be log-probabilities.
fn cases<'a>(at: &Place<'a>) -> Result<Vec<Case<'a>>, Undefined> {
    let cases = whole(at)?;
    for case in &cases {
        for (place, entry) in case.entries() {
            if let Some(why) = no_logprobs(place, entry) {
                return Err(at.undefined(why, Some(case.sample)));
            }
        }
    }
    Ok(cases)
}

/// Why the scores at a place are none: logits that were never normalised, or a sign turned round, would make a wrong
/// engine look sure of each token.
fn no_logprobs(place: usize, entry: &TokenLogprob) -> Option<Why> {
    let known = known(entry);
    let own = entry.logprob.into_iter();
    let mut all = own.chain(known.values().copied());
    if let Some(logprob) = all.find(|logprob| *logprob > ABOVE_ZERO) {
        let logprob = format!("{logprob:.4}");
        return Some(Why::AboveZero { place, logprob });
    }
    let sum: f64 = known.values().map(|logprob| logprob.exp()).sum();
    let sum = (sum > 1.0 + ABOVE_ZERO).then(|| format!("{sum:.2}"))?;
    Some(Why::MoreThanCertain { place, sum })
}

/// Every text with a sound and whole answer.
fn whole<'a>(at: &Place<'a>) -> Result<Vec<Case<'a>>, Undefined> {
    let samples = at.by_case()?;
    match &at.workload.kind {
        WorkloadKind::Goldens(goldens) => goldens
            .cases
            .iter()
            .map(|case| {
                Ok(Case {
                    id: &case.id,
                    origin: ScoreOrigin::Golden(case),
                    sample: golden::forced(at, &samples, case)?,
                    skip: case.prompt_ids.len(),
                })
            })
            .collect(),
        WorkloadKind::Texts(texts) => texts
            .cases
            .iter()
            .map(|case| {
                let sample = golden::find(at, &samples, &case.id)?;
                match &case.prompt {
                    TextPrompt::Ids(ids) => golden::has_entries(at, sample, ids.len())?,
                    TextPrompt::Text(text) => has_text(at, sample, text)?,
                }
                Ok(Case {
                    id: &case.id,
                    origin: ScoreOrigin::Text(case),
                    sample,
                    skip: 1,
                })
            })
            .collect(),
        _ => Err(at.undefined(Why::NoSamples, None)),
    }
}

/// The engine echoes the whole text, of which it scored two tokens or more; its tokenizer may change white space.
fn has_text(at: &Place<'_>, sample: &Sample, text: &str) -> Result<(), Undefined> {
    let letters = |text: &str| {
        text.chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    let echoed = sample.text.as_deref().unwrap_or_default();
    if letters(echoed) != letters(text) {
        return Err(at.undefined(Why::NotEchoed, Some(sample)));
    }
    match sample.logprobs.len() {
        got @ (0 | 1) => Err(at.undefined(Why::Logprobs { got, need: 2 }, Some(sample))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
