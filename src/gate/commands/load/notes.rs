//! Notes on what a run could not measure although its requests are sound.
//!
//! Main function: [`notes`]. Refuses to know: how the numbers are made, exit codes.

use crate::figures::{CLOSE, Distribution};
use crate::report::numbers::number;
use crate::report::{self, SEND_AT_ONCE};
use std::time::Duration;
use verdict::judge::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL, middle_of_untold, untold_first};
use verdict::metrics::{Gaps, RunNumbers, tpot_bounds_ms};
use verdict::record::{ClientHealth, Sample};
use verdict::stats::median;

/// Share of a run's duration within which its last request is sent, if it has enough of them.
const LEAST_OF_DURATION: f64 = 0.9;

/// Share of prompt tokens that a cache may give without a word: what begins every text.
const CACHED: f64 = 0.05;

/// What notes need of the samples that the numbers are of; they need not be kept.
#[derive(Clone, Debug, Default)]
pub struct NoteTally {
    all: usize,
    silent: usize,
    /// Where both are known.
    prompt_tokens: u64,
    cached_tokens: u64,
    /// Bounds of TPOT, and tokens an event with those of the first, of streams that do not tell the first event's.
    least_ms: Vec<f64>,
    greatest_ms: Vec<f64>,
    untold: Vec<(f64, f64)>,
}

impl NoteTally {
    /// Adds a sound sample.
    pub fn add(&mut self, sample: &Sample) {
        let tokens = &sample.tokens;
        self.all += 1;
        self.silent += usize::from(tokens.silent_first > 0);
        if let Some((prompt, cached)) = tokens.prompt.zip(tokens.cached) {
            self.prompt_tokens += u64::from(prompt);
            self.cached_tokens += u64::from(cached);
        }
        if let Some((least, greatest)) = tpot_bounds_ms(sample) {
            self.least_ms.push(least);
            self.greatest_ms.push(greatest);
        }
        self.untold.extend(untold_first(sample));
    }
}

/// In one sentence each. `sound`: of the samples that the numbers are of; `client`: who took them.
pub fn notes(
    numbers: &RunNumbers,
    sound: &NoteTally,
    client: Option<&ClientHealth>,
) -> Vec<String> {
    [
        at_once(numbers),
        first_token(numbers),
        first_event(numbers, sound),
        silent_first(sound),
        cached(sound),
        gaps(numbers),
        resent(client),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A run of set duration that ended before it, since it had no requests left. `planned`: how many it had. `sent`: how
/// many were sent, the first and the last at these moments.
pub fn ran_out(
    duration: Option<Duration>,
    planned: u64,
    sent: u64,
    (first_ns, last_ns): (u64, u64),
) -> Option<String> {
    let asked_s = duration?.as_secs_f64();
    let took_s = last_ns.saturating_sub(first_ns) as f64 / 1e9;
    (sent == planned && took_s < LEAST_OF_DURATION * asked_s).then(|| {
        format!(
            "all {planned} requests, warm-up included, were sent within {} s, before --duration {} had passed: for a \
             longer run raise --requests, or name a longer file",
            number(took_s),
            number(asked_s)
        )
    })
}

/// Tokens of a cache are not computed: a TTFT over them is no prefill.
fn cached(sound: &NoteTally) -> Option<String> {
    let share = sound.cached_tokens as f64 / sound.prompt_tokens as f64;
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
    let all = numbers.tpot_ms.len() + numbers.tpot_at_most_ms.len();
    (at_once > 0).then(|| {
        format!(
            "{at_once} of {all} answers of several tokens arrived at one moment, held back by the server or a proxy \
             or read by a starved client: their TPOT is not known and left out; numbers that these \
             can move by 1 % are not shown"
        )
    })
}

/// Fewer than this share of requests move no number that is shown.
const FEW: f64 = 0.01;

/// Beyond [`AMBIGUOUS_MIDDLE`] the run is invalid (`limits`).
fn first_token(numbers: &RunNumbers) -> Option<String> {
    let (shared, all) = (numbers.first_shared, numbers.streams());
    (shared > 0).then(|| {
        format!(
            "{shared} of {all} first events arrived together with the second one: their TTFT and TPOT are not known \
             and left out; numbers that these can move by 1 % are not shown. {SEND_AT_ONCE}"
        )
    })
}

/// Where no TPOT is known, nothing was estimated.
fn first_event(numbers: &RunNumbers, sound: &NoteTally) -> Option<String> {
    let (least, greatest) = median(&sound.least_ms).zip(median(&sound.greatest_ms))?;
    if numbers.tpot_ms.is_empty() || greatest <= least * (1.0 + CLOSE) {
        return None;
    }
    let what = match middle_of_untold(&sound.untold) {
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
fn silent_first(sound: &NoteTally) -> Option<String> {
    let (silent, all) = (sound.silent, sound.all);
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
pub fn gaps_known(values: &Gaps, ambiguous_share: f64) -> Distribution {
    let quantile = |p| values.quantile(p);
    let mut gaps = Distribution::with(values.len(), values.mean(), quantile);
    if ambiguous_share > AMBIGUOUS_TAIL {
        (gaps.p99, gaps.p999, gaps.min, gaps.max) = (None, None, None, None);
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
        let values: Gaps = (0..100).map(f64::from).collect();
        let check = |share: f64, [mean, p50, p99]: [bool; 3]| {
            let gaps = gaps_known(&values, share);
            let known = [gaps.mean, gaps.p50, gaps.p99].map(|value| value.is_some());
            assert_eq!(known, [mean, p50, p99], "{share}");
            let numbers = RunNumbers {
                icl_ms: values.clone(),
                ambiguous_share: share,
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, &NoteTally::default(), None);
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
    fn requests_without_ttft_are_told() {
        let check = |shared: usize, known: usize, is_told: bool| {
            let numbers = RunNumbers {
                ttft_ms: vec![1.0; known],
                first_shared: shared,
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, &NoteTally::default(), None);
            let begin = format!("{shared} of {} first events", shared + known);
            let is_found = matches!(&*notes, [note] if note.starts_with(&begin));
            assert_eq!(is_found, is_told, "{notes:?}");
        };
        check(0, 10, false);
        check(1, 99, true);
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
            let mut sound = NoteTally::default();
            samples.iter().for_each(|sample| sound.add(sample));
            assert_eq!(notes(&numbers, &sound, None), expect);
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
