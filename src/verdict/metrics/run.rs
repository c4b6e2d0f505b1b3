//! The numbers of one run by itself, as `gate load` shows them: every request's values side by side, and
//! what the server did per second. Each is the metric of the same name in `docs/metrics.md`.
//!
//! Main type: [`RunNumbers`]. Only samples of [`Phase::Measured`] enter, and only sound ones but for
//! goodput. Refuses to know: how the values are summarised.

use super::timing::phases::{Speed, generation_speed, prefill_speed};
use super::timing::request::{
    self, came_at_once, e2e_ms, icl_ms, itl_ms, positive_tpot_ms, ttft_ms,
};
use super::timing::throughput;
use super::{Why, ambiguous, first_shared};
use crate::plan::Slo;
use crate::record::{Phase, Sample};

/// Values in milliseconds, one a request, gap or token; a request that lacks a value gives none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunNumbers {
    /// Without those of [`Self::first_shared`].
    pub ttft_ms: Vec<f64>,
    /// Requests whose first event arrived with the second: of its moment only an upper bound is known, and so nothing
    /// exact of TTFT and TPOT.
    pub first_shared: usize,
    /// Without those of [`Self::first_shared`] and [`Self::at_once`].
    pub tpot_ms: Vec<f64>,
    /// Requests of several tokens whose output arrived at one moment, so that their TPOT is not known.
    pub at_once: usize,
    /// Of requests whose stream tells the tokens of each event.
    pub itl_ms: Vec<f64>,
    pub icl_ms: Vec<f64>,
    pub e2e_ms: Vec<f64>,
    /// Prompt tokens computed per second, and output tokens per second of one stream.
    pub prefill: Speed,
    pub generation: Speed,
    /// Share of output events whose time is an upper bound only, as [`ambiguous()`] counts them.
    pub ambiguous_share: f64,
    /// Output tokens per second from the first send to the last output.
    pub throughput: Option<f64>,
    /// The same while as many streams as asked for were in flight.
    pub throughput_full: Option<f64>,
    /// Output tokens per output event, of all requests together.
    pub burst_factor: Option<f64>,
    pub goodput: Option<Goodput>,
}

impl RunNumbers {
    /// Streams of several events, with a TTFT or without.
    pub fn streams(&self) -> usize {
        self.ttft_ms.len() + self.first_shared
    }
}

/// Requests within every bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Of all measured requests; void ones are not within the bounds.
    pub share: f64,
    pub requests_per_s: f64,
}

/// The numbers of these samples. `streams`: how many a closed loop kept in flight.
pub fn run_numbers(samples: &[Sample], streams: Option<u32>, slo: &Slo) -> RunNumbers {
    let measured = || samples.iter().filter(|s| s.phase == Phase::Measured);
    let sound: Vec<&Sample> = samples.iter().filter(|s| s.may_enter()).collect();
    let is_alone = |sample: &&&Sample| !first_shared(sample);
    let first_alone: Vec<&Sample> = sound.iter().filter(is_alone).copied().collect();
    let asked = *slo != Slo::default();
    let (shared, events) = ambiguous(&sound);
    RunNumbers {
        ttft_ms: values(&first_alone, ttft_ms),
        first_shared: sound.len() - first_alone.len(),
        tpot_ms: values(&first_alone, positive_tpot_ms),
        at_once: sound.iter().filter(|s| came_at_once(s)).count(),
        itl_ms: gaps(&sound, itl_ms),
        icl_ms: gaps(&sound, icl_ms),
        e2e_ms: values(&sound, e2e_ms),
        prefill: prefill_speed(&first_alone),
        generation: generation_speed(&first_alone),
        ambiguous_share: shared as f64 / events.max(1) as f64,
        throughput: throughput::of_runs(&sound).ok(),
        throughput_full: streams.and_then(|streams| at_full_occupancy(&sound, streams)),
        burst_factor: burst_factor(&sound),
        goodput: seconds(&sound)
            .filter(|_| asked)
            .and_then(|seconds| goodput(measured(), slo, seconds)),
    }
}

fn values(samples: &[&Sample], value: fn(&Sample) -> Result<f64, Why>) -> Vec<f64> {
    samples.iter().filter_map(|s| value(s).ok()).collect()
}

fn gaps(samples: &[&Sample], gaps: fn(&Sample) -> Result<Vec<f64>, Why>) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|s| gaps(s).ok())
        .flatten()
        .collect()
}

fn at_full_occupancy(samples: &[&Sample], streams: u32) -> Option<f64> {
    let (tokens, ns) = throughput::while_full(samples, streams).ok()?;
    (ns > 0).then(|| tokens / (ns as f64 / 1e9))
}

fn burst_factor(samples: &[&Sample]) -> Option<f64> {
    let tokens: u64 = samples
        .iter()
        .filter_map(|s| s.tokens.completion)
        .map(u64::from)
        .sum();
    let events: u64 = samples.iter().map(|s| u64::from(s.tokens.events)).sum();
    (events > 0).then(|| tokens as f64 / events as f64)
}

fn goodput<'a>(
    samples: impl Iterator<Item = &'a Sample>,
    slo: &Slo,
    seconds: f64,
) -> Option<Goodput> {
    // A request that lacks what a bound is about is not known to keep it; a TTFT that is an upper bound keeps it if it
    // is not above.
    let unknown = |s: &Sample| slo.tpot_ms.is_some() && came_at_once(s);
    let judged = |s| {
        let kept = throughput::is_good(s, *slo).unwrap_or(false);
        kept && !unknown(s)
    };
    let judged: Vec<bool> = samples.map(judged).collect();
    let good = judged.iter().filter(|good| **good).count() as f64;
    Some(Goodput {
        share: good / judged.len() as f64,
        requests_per_s: good / seconds,
    })
}

/// First send to last output; `None` for nothing and for no time.
fn seconds(samples: &[&Sample]) -> Option<f64> {
    let first = samples.iter().map(|s| s.stamps.send_ns).min()?;
    let last = samples.iter().filter_map(|s| request::last_ns(s).ok());
    let ns = last.max()?.checked_sub(first).filter(|ns| *ns > 0)?;
    Some(ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::testing::streamed;
    use super::*;
    use crate::record::{Void, VoidRule};

    const MS: u64 = 1_000_000;

    /// Sent at `send` ms; 5 tokens, the first after 50 ms, then every 10 ms.
    fn request(index: u32, send: u64) -> Sample {
        let mut sample = streamed("w", index, 50.0, 10.0, 5);
        sample.stamps.send_ns = send * MS;
        sample.stamps.intended_ns = send * MS;
        let moments = (0..5).map(|i| (send + 50 + 10 * i) * MS);
        sample.stamps.events_ns = moments.collect();
        sample.tokens.completion = Some(5);
        sample.tokens.events = 5;
        sample
    }

    fn close(got: Option<f64>, expect: f64) {
        let got = got.unwrap();
        assert!((got - expect).abs() < 1e-9 * expect.abs(), "{got} {expect}");
    }

    #[test]
    fn nothing_gives_nothing() {
        let none = run_numbers(&[], Some(1), &Slo::default());
        assert_eq!(none, RunNumbers::default());
    }

    #[test]
    fn two_overlapping_requests() {
        let samples = [request(0, 0), request(1, 30)];
        let numbers = run_numbers(&samples, Some(2), &Slo::default());
        assert_eq!(numbers.ttft_ms, [50.0, 50.0]);
        assert_eq!(numbers.tpot_ms, [10.0, 10.0]);
        assert_eq!(numbers.icl_ms, [10.0; 8]);
        // As many events as tokens: each is one.
        assert_eq!(numbers.itl_ms, numbers.icl_ms);
        // 10 tokens between 0 and 120 ms; both in flight from 30 to 90 ms, where 5 + 2 tokens came.
        close(numbers.throughput, 10.0 / 0.12);
        close(numbers.throughput_full, 7.0 / 0.06);
        close(numbers.burst_factor, 1.0);
        assert_eq!(numbers.goodput, None);
        let never = run_numbers(&samples, Some(3), &Slo::default());
        assert_eq!(never.throughput_full, None);
    }

    #[test]
    fn full_occupancy_leaves_out_what_lies_between() {
        let samples = [0, 30, 500, 530].map(|send| request(send, u64::from(send)));
        let numbers = run_numbers(&samples, Some(2), &Slo::default());
        close(numbers.throughput_full, 14.0 / 0.12);
        close(numbers.throughput, 20.0 / 0.62);
    }

    #[test]
    fn itl_shares_a_gap_over_the_later_events_tokens() {
        let mut sample = request(0, 0);
        sample.tokens.per_event = vec![1, 2, 1, 1, 4];
        sample.tokens.completion = Some(9);
        let numbers = run_numbers(&[sample], None, &Slo::default());
        assert_eq!(numbers.itl_ms, [5.0, 5.0, 10.0, 10.0, 2.5, 2.5, 2.5, 2.5]);
        close(numbers.burst_factor, 9.0 / 5.0);
    }

    #[test]
    fn a_tpot_of_no_time_is_none_and_keeps_no_bound() {
        let mut held_back = request(1, 100);
        held_back.stamps.events_ns = vec![190 * MS; 5];
        held_back.stamps.ambiguous_events = 5;
        let slo = Slo {
            tpot_ms: Some(20.0),
            ..Slo::default()
        };
        let numbers = run_numbers(&[request(0, 0), held_back], None, &slo);
        assert_eq!((numbers.tpot_ms, numbers.at_once), (vec![10.0], 1));
        assert_eq!((numbers.ttft_ms, numbers.first_shared), (vec![50.0], 1));
        close(Some(numbers.ambiguous_share), 0.4);
        close(numbers.goodput.map(|good| good.share), 0.5);
    }

    #[test]
    fn void_requests_are_outside_the_goodput() {
        let mut samples: Vec<Sample> = (0..5).map(|i| request(i, 100 * u64::from(i))).collect();
        let void = |rule| {
            Some(Void {
                rule,
                detail: String::new(),
            })
        };
        samples[0].phase = Phase::Warmup;
        samples[1].void = void(VoidRule::Status);
        samples[2].stamps.intended_ns -= 20 * MS;
        samples[4].void = void(VoidRule::NegativePhase);
        let slo = Slo {
            ttft_ms: Some(60.0),
            ..Slo::default()
        };
        let goodput = run_numbers(&samples, None, &slo).goodput.unwrap();
        // Of four, one was refused, one came late after its intended moment, and one is no measurement.
        close(Some(goodput.share), 1.0 / 4.0);
        close(Some(goodput.requests_per_s), 1.0 / 0.19);
    }
}
