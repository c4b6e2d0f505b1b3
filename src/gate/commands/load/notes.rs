//! Notes on what a run could not measure although its requests are sound.
//!
//! Main function: [`notes`]. Refuses to know: how the numbers are made, exit codes.

use crate::figures::Distribution;
use crate::report::numbers::number;
use crate::report::{self, SEND_AT_ONCE};
use std::time::Duration;
use verdict::judge::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL, first_event_estimate};
use verdict::metrics::{RunNumbers, tpot_bounds_ms};
use verdict::record::{ClientHealth, Sample};
use verdict::stats::median;

/// Share of a run's duration within which its last request is sent, if it has enough of them.
const LEAST_OF_DURATION: f64 = 0.9;

/// Share of prompt tokens that a cache may give without a word: what begins every text.
const CACHED: f64 = 0.05;

/// In one sentence each. `sound`: the samples that the numbers are of; `client`: who took them.
pub fn notes<'a>(
    numbers: &RunNumbers,
    sound: impl Iterator<Item = &'a Sample> + Clone,
    client: Option<&ClientHealth>,
) -> Vec<String> {
    [
        at_once(numbers),
        first_token(numbers),
        first_event(numbers, sound.clone()),
        silent_first(sound.clone()),
        cached(sound),
        gaps(numbers),
        resent(client),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A run of set duration that ended before it, since it had no requests left. `planned`: how many it had.
pub fn ran_out(duration: Option<Duration>, planned: u64, samples: &[Sample]) -> Option<String> {
    let asked_s = duration?.as_secs_f64();
    let moments = || samples.iter().map(|sample| sample.stamps.intended_ns);
    let took_s = (moments().max()? - moments().min()?) as f64 / 1e9;
    (samples.len() as u64 == planned && took_s < LEAST_OF_DURATION * asked_s).then(|| {
        format!(
            "all {planned} requests, warm-up included, were sent within {} s, before --duration {} had passed: for a \
             longer run raise --requests, or name a longer file",
            number(took_s),
            number(asked_s)
        )
    })
}

/// Tokens of a cache are not computed: a TTFT over them is no prefill.
fn cached<'a>(sound: impl Iterator<Item = &'a Sample>) -> Option<String> {
    let counts = sound.filter_map(|sample| sample.tokens.prompt.zip(sample.tokens.cached));
    let (prompt, cached) = counts.fold((0_u64, 0_u64), |sum, (prompt, cached)| {
        (sum.0 + u64::from(prompt), sum.1 + u64::from(cached))
    });
    let share = cached as f64 / prompt as f64;
    (share > CACHED).then(|| {
        format!(
            "{} % of the prompt tokens came from the server's cache; TTFT holds only the rest",
            number(share * 100.0)
        )
    })
}

/// A span of 0 is no time that tokens took.
fn at_once(numbers: &RunNumbers) -> Option<String> {
    let at_once = numbers.at_once;
    let all = numbers.tpot_ms.len() + at_once;
    (at_once > 0).then(|| {
        format!(
            "{at_once} of {all} answers of several tokens arrived at one moment, held back by the server or a proxy \
             or read by a starved client: their TPOT is not known, and left out"
        )
    })
}

/// Fewer than this share of requests move no number that is shown.
const FEW: f64 = 0.01;

/// Beyond [`AMBIGUOUS_MIDDLE`] the run is invalid (`limits`).
fn first_token(numbers: &RunNumbers) -> Option<String> {
    let (shared, all) = (numbers.first_shared, numbers.streams());
    (shared as f64 > FEW * all as f64).then(|| {
        format!(
            "{shared} of {all} first events arrived together with the second one: their TTFT and TPOT are not known, \
             and left out. {SEND_AT_ONCE}"
        )
    })
}

/// Bounds of TPOT that differ by less than this share say nothing that its digits do not.
const CLOSE: f64 = 0.01;

/// Where no TPOT is known, nothing was estimated.
fn first_event<'a>(
    numbers: &RunNumbers,
    sound: impl Iterator<Item = &'a Sample> + Clone,
) -> Option<String> {
    let (least, greatest): (Vec<f64>, Vec<f64>) = sound.clone().filter_map(tpot_bounds_ms).unzip();
    let (least, greatest) = median(&least).zip(median(&greatest))?;
    if numbers.tpot_ms.is_empty() || greatest <= least * (1.0 + CLOSE) {
        return None;
    }
    let what = match first_event_estimate(sound) {
        Some(events) => report::first_events("answers", events),
        None => "usage counts more tokens than there are events, and nothing tells which event has several, or \
                 whether usage is right: TPOT takes one for the first"
            .to_owned(),
    };
    let (least, greatest) = (number(least), number(greatest));
    Some(format!(
        "{what}; it lies between {least} and {greatest} ms (--return-token-ids, if the server can)"
    ))
}

/// A token without text of its own is no output where nothing shows that it is one: an engine would look faster by empty
/// events.
fn silent_first<'a>(sound: impl Iterator<Item = &'a Sample>) -> Option<String> {
    let (mut silent, mut all) = (0_usize, 0_usize);
    for sample in sound {
        all += 1;
        silent += usize::from(sample.tokens.silent_first > 0);
    }
    (silent as f64 > FEW * all as f64).then(|| {
        format!(
            "{silent} of {all} answers begin with events without text, and usage counts exactly as many tokens more \
             than there are events with text: if those were tokens, TTFT is too high by their time and TPOT too low \
             (--return-token-ids tells, if the server can)"
        )
    })
}

/// A kept connection that closes costs the request that finds it closed.
fn resent(client: Option<&ClientHealth>) -> Option<String> {
    let resent = client.map(|health| health.resent).filter(|n| *n > 0)?;
    Some(format!(
        "{resent} requests were sent again, because the server had closed a kept connection \
         (--no-keep-alive opens one for each request)"
    ))
}

/// The distribution of gaps, without what such a share of ambiguous events makes unknown. Their mean is what it was.
pub fn gaps_known(values: &[f64], ambiguous_share: f64) -> Distribution {
    let mut gaps = Distribution::of(values);
    if ambiguous_share > AMBIGUOUS_TAIL {
        (gaps.p99, gaps.min, gaps.max) = (None, None, None);
    }
    if ambiguous_share > AMBIGUOUS_MIDDLE {
        (gaps.p50, gaps.p90) = (None, None);
    }
    gaps
}

/// The bounds are the judge's (`ambiguous-events`): a tail bears less than a middle.
fn gaps(numbers: &RunNumbers) -> Option<String> {
    (numbers.ambiguous_share > AMBIGUOUS_TAIL && !numbers.icl_ms.is_empty()).then(|| {
        format!(
            "many events arrived together with a later one: a gap is too long and the next too short by as much, so \
             ITL and ICL are shown as far as that moves them little. {SEND_AT_ONCE}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::RunRecord;

    #[test]
    fn a_tail_bears_fewer_ambiguous_events_than_a_middle() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let check = |share: f64, [mean, p50, p99]: [bool; 3]| {
            let gaps = gaps_known(&values, share);
            let known = [gaps.mean, gaps.p50, gaps.p99].map(|value| value.is_some());
            assert_eq!(known, [mean, p50, p99], "{share}");
            let numbers = RunNumbers {
                icl_ms: values.clone(),
                ambiguous_share: share,
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, std::iter::empty(), None);
            assert_eq!(notes.is_empty(), p99, "{share}");
        };
        check(0.01, [true, true, true]);
        check(0.02, [true, true, false]);
        check(0.11, [true, false, false]);
    }

    /// Streams of 48 tokens, as the recorded session has them.
    fn streams(spoil: impl Fn(&mut Sample)) -> Vec<Sample> {
        let text = include_str!("../../../../tests/data/run-v1.json");
        let record: RunRecord = serde_json::from_str(text).unwrap();
        let mut samples = record.launches[0].samples.clone();
        samples.iter_mut().for_each(spoil);
        samples
    }

    #[test]
    fn more_than_a_few_requests_without_ttft_are_told() {
        let check = |shared: usize, known: usize, is_told: bool| {
            let numbers = RunNumbers {
                ttft_ms: vec![1.0; known],
                first_shared: shared,
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, std::iter::empty(), None);
            let begin = format!("{shared} of {} first events", shared + known);
            let is_found = matches!(&*notes, [note] if note.starts_with(&begin));
            assert_eq!(is_found, is_told, "{notes:?}");
        };
        check(0, 10, false);
        check(1, 99, false);
        check(1, 98, true);
        check(2, 8, true);
    }

    #[test]
    fn an_estimate_of_the_first_event_is_reported() {
        let check = |tpot_ms: &[f64], samples: &[Sample], expect: &[&str]| {
            let numbers = RunNumbers {
                tpot_ms: tpot_ms.to_vec(),
                ..RunNumbers::default()
            };
            assert_eq!(notes(&numbers, samples.iter(), None), expect);
        };
        let burst = |sample: &mut Sample| sample.tokens.completion = Some(192);
        let told = |sample: &mut Sample| {
            burst(sample);
            sample.tokens.at_first_event = Some(4);
        };
        let note = "answers have 4 tokens an event, and nothing tells how many the first one had: TPOT takes 4 \
                    for it, an estimate; it lies between 0.02082 and 0.08459 ms (--return-token-ids, if the server can)";
        check(&[2.0], &streams(|_| {}), &[]);
        check(&[2.0], &streams(burst), &[note]);
        check(&[2.0], &streams(told), &[]);
        check(&[], &streams(burst), &[]);
    }
}
