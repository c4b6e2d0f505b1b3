//! Head's streams beside base's for the same requests: tokens that come much faster in answers that end no sooner.
//!
//! Main function: [`held_back`].

use super::super::request::{e2e_ms, ms_between};
use crate::metrics::requests::Requests;
use crate::record::Sample;
use crate::stats;

/// Fewer requests have no middle.
const LEAST: usize = 3;

/// Share of base's time from the first to the last token below which head's is looked at. An engine that generates
/// twice as fast ends its answers sooner, unless its first tokens are later by all the time that it saves.
const HALF: f64 = 0.5;

/// Share of base's whole answer that the time saved must be.
const REAL: f64 = 0.05;

/// Share by which answers may differ in their number of tokens and still be the same work.
pub const TOKENS_APART: f64 = 0.02;

/// Head's time over base's for the same request, in the middle of all requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldBack {
    /// From the first event to the last.
    pub sending: f64,
    /// From the request to the last event.
    pub whole: f64,
}

/// Ratios of a launch of head in which tokens came in less than half of base's time and whole answers in no less than
/// base's time. `None` elsewhere, and where fewer than half of the requests, or
/// fewer than three, were answered by both arms in streams of one length and with a real saving.
pub fn held_back(requests: &Requests<'_>) -> Option<HeldBack> {
    let pairs = requests
        .beside_base(&requests.measured)
        .into_iter()
        .filter_map(|(head, base)| {
            let (head_ms, base_ms) = (sending_ms(head)?, sending_ms(base)?);
            let (head_whole, base_whole) = (e2e_ms(head).ok()?, e2e_ms(base).ok()?);
            // Other answers take other times, and a small part of a long answer drowns in its noise.
            let is_alike = are_as_long(head, base) && base_ms - head_ms >= REAL * base_whole;
            let ratios = (ratio(head_ms, base_ms)?, ratio(head_whole, base_whole)?);
            is_alike.then_some(ratios)
        });
    let (sending, whole): (Vec<f64>, Vec<f64>) = pairs.unzip();
    if sending.len() < LEAST || 2 * sending.len() <= requests.measured.len() {
        return None;
    }
    let found = HeldBack {
        sending: stats::median(&sending)?,
        whole: stats::median(&whole)?,
    };
    (found.sending < HALF && found.whole >= 1.0).then_some(found)
}

/// Time from the first event of a stream to the last.
fn sending_ms(sample: &Sample) -> Option<f64> {
    let events = &sample.stamps.events_ns;
    let (first, last) = events.first().zip(events.last())?;
    sample.streamed.then(|| ms_between(*first, *last))
}

fn are_as_long(head: &Sample, base: &Sample) -> bool {
    let Some((head, base)) = head.tokens.completion.zip(base.tokens.completion) else {
        return false;
    };
    f64::from(head.abs_diff(base)) <= TOKENS_APART * f64::from(head.max(base))
}

fn ratio(head: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| head / base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{check as tpot_check, launch, steady, streamed};
    use crate::record::{Metric, Statistic};

    /// TTFT and TPOT of base and of head, for answers of 64 tokens.
    fn found(base: (f64, f64), head: (f64, f64), requests: u32) -> Option<HeldBack> {
        let (check, workload) = (tpot_check(Metric::Tpot, Statistic::Median), steady("w"));
        let of = |(ttft, tpot): (f64, f64)| {
            let samples = (0..requests).map(|i| streamed("w", i, ttft, tpot, 64));
            launch(0, samples.collect())
        };
        let (base, head) = (of(base), of(head));
        held_back(&Requests::of(&check, &workload, &head).beside(&check, Some(&base)))
    }

    #[test]
    fn output_that_is_held_back_for_less_than_250_ms_is_seen_beside_base() {
        let found = found((20.0, 3.0), (210.0, 0.1), 30).unwrap();
        assert!(found.sending < 0.04 && found.whole > 1.0, "{found:?}");
    }

    #[test]
    fn faster_engines_and_slower_ones_are_not_blamed() {
        // Drafts that cost some TTFT, a quicker decoding, no change, a slower prefill, a slower engine.
        for head in [
            (60.0, 4.0),
            (20.0, 4.0),
            (20.0, 10.0),
            (500.0, 10.0),
            (40.0, 20.0),
        ] {
            assert_eq!(found((20.0, 10.0), head, 30), None, "{head:?}");
        }
        // Some of the decoding before the first event.
        assert_eq!(found((20.0, 10.0), (400.0, 6.0), 30), None);
        // A quicker decoding after a prefill that takes nearly all of the time, and varies by more.
        assert_eq!(found((10_000.0, 2.0), (10_080.0, 0.9), 30), None);
    }

    /// They did other work: `token-parity` says so.
    #[test]
    fn answers_of_other_lengths_are_not_compared() {
        let (check, workload) = (tpot_check(Metric::Tpot, Statistic::Median), steady("w"));
        let of = |ttft: f64, tokens: u32| {
            let samples = (0..9).map(|i| streamed("w", i, ttft, 10.0, tokens));
            launch(0, samples.collect())
        };
        let (base, head) = (of(20.0, 100), of(700.0, 40));
        let requests = Requests::of(&check, &workload, &head).beside(&check, Some(&base));
        assert_eq!(held_back(&requests), None);
    }

    #[test]
    fn few_requests_and_an_arm_alone_say_nothing() {
        assert_eq!(found((20.0, 3.0), (210.0, 0.1), 2), None);
        assert!(found((20.0, 3.0), (210.0, 0.1), 3).is_some());
        let (check, workload) = (tpot_check(Metric::Tpot, Statistic::Median), steady("w"));
        let head = launch(0, vec![streamed("w", 0, 210.0, 0.1, 64); 3]);
        assert_eq!(held_back(&Requests::of(&check, &workload, &head)), None);
    }

    /// One event with nearly all tokens, then a few at base's pace.
    #[test]
    fn a_first_event_with_most_tokens_is_seen_beside_base() {
        let (check, workload) = (tpot_check(Metric::Tpot, Statistic::Median), steady("w"));
        let base: Vec<Sample> = (0..3).map(|i| streamed("w", i, 20.0, 10.0, 64)).collect();
        let mut head = base.clone();
        for sample in &mut head {
            sample.stamps.events_ns.drain(..60);
            sample.tokens.at_first_event = Some(61);
        }
        let (base, head) = (launch(0, base), launch(1, head));
        let requests = Requests::of(&check, &workload, &head).beside(&check, Some(&base));
        let found = held_back(&requests).unwrap();
        assert!(found.sending < 0.05 && found.whole >= 1.0, "{found:?}");
    }
}
