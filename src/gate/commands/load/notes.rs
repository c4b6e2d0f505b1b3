//! Notes on what a run could not measure although its requests are sound.
//!
//! Main function: [`notes`]. Refuses to know: how the numbers are made, exit codes.

use crate::figures::Distribution;
use crate::report::{self, SEND_AT_ONCE};
use verdict::judge::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL, first_event_estimate};
use verdict::metrics::{RunNumbers, first_shared};
use verdict::record::Sample;

/// In one sentence each. `sound`: the samples that the numbers are of.
pub fn notes<'a>(
    numbers: &RunNumbers,
    sound: impl Iterator<Item = &'a Sample> + Clone,
) -> Vec<String> {
    [
        at_once(numbers),
        first_token(numbers, sound.clone()),
        first_event(numbers, sound),
        gaps(numbers),
    ]
    .into_iter()
    .flatten()
    .collect()
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

/// The bounds are the judge's (`ambiguous-events`): a tail bears less than a middle.
fn first_token<'a>(
    numbers: &RunNumbers,
    sound: impl Iterator<Item = &'a Sample> + Clone,
) -> Option<String> {
    let all = sound.clone().count();
    let shared = sound.filter(|sample| first_shared(sample)).count();
    (shared as f64 > bearable(&[&numbers.ttft_ms]) * all as f64).then(|| {
        format!(
            "{shared} of {all} first events arrived together with the second one: their TTFT is an upper bound. \
             {SEND_AT_ONCE}"
        )
    })
}

/// Share of ambiguous events that such values bear.
fn bearable(values: &[&[f64]]) -> f64 {
    let has_tail = |values: &&[f64]| Distribution::of(values).p99.is_some();
    match values.iter().any(has_tail) {
        true => AMBIGUOUS_TAIL,
        false => AMBIGUOUS_MIDDLE,
    }
}

/// The rule is the judge's. Where no TPOT is known, nothing was estimated.
fn first_event<'a>(
    numbers: &RunNumbers,
    sound: impl Iterator<Item = &'a Sample>,
) -> Option<String> {
    if numbers.tpot_ms.is_empty() {
        return None;
    }
    let taken = report::first_events("answers", first_event_estimate(sound)?);
    Some(format!("{taken} (--return-token-ids, if the server can)"))
}

/// The bounds are the judge's (`ambiguous-events`): a tail bears less than a middle.
fn gaps(numbers: &RunNumbers) -> Option<String> {
    let bearable = bearable(&[&numbers.icl_ms, &numbers.itl_ms]);
    (numbers.ambiguous_share > bearable).then(|| {
        format!(
            "many events arrived together with a later one, so the ITL and ICL of single tokens are not known: a gap \
             is too long and the next too short by as much. {SEND_AT_ONCE}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::RunRecord;

    #[test]
    fn a_tail_bears_fewer_ambiguous_events_than_a_middle() {
        let check = |gaps: usize, ambiguous_share, expect| {
            let numbers = RunNumbers {
                icl_ms: vec![1.0; gaps],
                ambiguous_share,
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, std::iter::empty());
            assert_eq!(notes.len(), expect, "{gaps} {ambiguous_share}");
        };
        check(100, 0.01, 0);
        check(100, 0.02, 1);
        check(99, 0.02, 0);
        check(99, 0.11, 1);
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
    fn a_first_event_that_came_with_the_second_blurs_ttft() {
        let check = |shared: usize, ttfts: usize, expect: Option<&str>| {
            let mut samples = streams(|_| {});
            assert_eq!(samples.len(), 10);
            for stamps in samples.iter_mut().take(shared).map(|s| &mut s.stamps) {
                stamps.events_ns[0] = stamps.events_ns[1];
            }
            let numbers = RunNumbers {
                ttft_ms: vec![1.0; ttfts],
                ..RunNumbers::default()
            };
            let notes = notes(&numbers, samples.iter());
            assert_eq!(
                notes.first().map(String::as_str),
                expect,
                "{shared} {ttfts}"
            );
        };
        check(0, 10, None);
        check(1, 10, None);
        let note = |n| {
            format!(
                "{n} of 10 first events arrived together with the second one: their TTFT is an upper bound. Let the \
                 server send each event as soon as it is made (TCP_NODELAY, a flush after each event), and no proxy \
                 hold events back"
            )
        };
        check(2, 10, Some(&note(2)));
        // Where there is a p99.
        check(1, 100, Some(&note(1)));
    }

    #[test]
    fn an_estimate_of_the_first_event_is_reported() {
        let check = |tpot_ms: &[f64], samples: &[Sample], expect: &[&str]| {
            let numbers = RunNumbers {
                tpot_ms: tpot_ms.to_vec(),
                ..RunNumbers::default()
            };
            assert_eq!(notes(&numbers, samples.iter()), expect);
        };
        let burst = |sample: &mut Sample| sample.tokens.completion = Some(192);
        let told = |sample: &mut Sample| {
            burst(sample);
            sample.tokens.at_first_event = Some(4);
        };
        let note = "answers have 4 tokens an event, and nothing tells how many the first one had: TPOT takes 4 \
                    for it, an estimate (--return-token-ids, if the server can)";
        check(&[2.0], &streams(|_| {}), &[]);
        check(&[2.0], &streams(burst), &[note]);
        check(&[2.0], &streams(told), &[]);
        check(&[], &streams(burst), &[]);
    }
}
