//! The numbers of one run by itself, as `gate load` shows them: every request's values side by side, and
//! what the server did per second. Each is the metric of the same name in `docs/metrics.md`.
//!
//! Main types: [`RunNumbers`]; [`RunTally`], which makes them. Only samples of [`Phase::Measured`] enter, and only sound ones but for
//! goodput. Refuses to know: how the values are summarised.

use super::gaps::Gaps;
use super::timing::occupancy::Timeline;
use super::timing::phases::{Clock, Speed, server_rate, stream_rate};
use super::timing::request::{
    came_at_once, e2e_ms, icl_ms, itl_ms, last_ns, positive_tpot_ms, ttft_ms,
};
use super::timing::throughput::{self, RunSpans};
use super::{ambiguous, first_shared};
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
    /// Greatest TTFT that each of these can have.
    pub ttft_at_most_ms: Vec<f64>,
    /// Without those of [`Self::first_shared`] and [`Self::at_once`].
    pub tpot_ms: Vec<f64>,
    /// Greatest TPOT that each streamed answer of several tokens without one can have: as if all but its first token had
    /// taken the whole of its time.
    pub tpot_at_most_ms: Vec<f64>,
    /// Requests of several tokens whose output arrived at one moment, so that their TPOT is not known.
    pub at_once: usize,
    /// Of requests whose stream tells the tokens of each event.
    pub itl_ms: Gaps,
    pub icl_ms: Gaps,
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
    let mut run = RunTally::new(streams, *slo);
    samples.iter().for_each(|sample| run.add(sample));
    run.numbers()
}

/// A run's numbers, sample by sample: a sample that was added need not be kept.
#[derive(Clone, Debug)]
pub struct RunTally {
    slo: Slo,
    /// How many a closed loop keeps in flight, and when.
    streams: Option<(u32, Timeline)>,
    spans: RunSpans,
    /// A sample has no end or no count, so that there is no throughput.
    is_uncounted: bool,
    first_send_ns: u64,
    last_output_ns: u64,
    /// Those that arrived with a later one, and all.
    shared_events: usize,
    all_events: usize,
    tokens: u64,
    token_events: u64,
    server_rates: Vec<f64>,
    stream_rates: Vec<f64>,
    /// Samples whose first event did not arrive with the second.
    alone: usize,
    good: usize,
    measured: usize,
    numbers: RunNumbers,
}
impl RunTally {
    pub fn new(streams: Option<u32>, slo: Slo) -> Self {
        Self {
            slo,
            streams: streams.map(|streams| (streams, Timeline::default())),
            spans: RunSpans::default(),
            is_uncounted: false,
            first_send_ns: u64::MAX,
            last_output_ns: 0,
            shared_events: 0,
            all_events: 0,
            tokens: 0,
            token_events: 0,
            server_rates: Vec::new(),
            stream_rates: Vec::new(),
            alone: 0,
            good: 0,
            measured: 0,
            numbers: RunNumbers::default(),
        }
    }

    pub fn add(&mut self, sample: &Sample) {
        if sample.phase != Phase::Measured {
            return;
        }
        self.measured += 1;
        self.good += usize::from(is_good(sample, self.slo));
        if sample.void.is_none() {
            self.add_sound(sample);
        }
    }

    fn add_sound(&mut self, sample: &Sample) {
        let of_timeline = self.streams.as_mut().map(|(_, of)| of.add(sample));
        self.is_uncounted |=
            self.spans.add(sample).is_err() || of_timeline.is_some_and(|of| of.is_err());
        self.first_send_ns = self.first_send_ns.min(sample.stamps.send_ns);
        self.last_output_ns = self.last_output_ns.max(last_ns(sample).unwrap_or(0));
        let (shared, all) = ambiguous(&[sample]);
        self.shared_events += shared;
        self.all_events += all;
        self.tokens += u64::from(sample.tokens.completion.unwrap_or(0));
        self.token_events += u64::from(sample.tokens.events);
        let numbers = &mut self.numbers;
        numbers.at_once += usize::from(came_at_once(sample));
        let tpot_ms = positive_tpot_ms(sample)
            .ok()
            .filter(|_| !first_shared(sample));
        if tpot_ms.is_none() {
            numbers.tpot_at_most_ms.extend(tpot_at_most_ms(sample));
        }
        numbers.itl_ms.extend(itl_ms(sample).into_iter().flatten());
        numbers.icl_ms.extend(icl_ms(sample).into_iter().flatten());
        numbers.e2e_ms.extend(e2e_ms(sample));
        if first_shared(sample) {
            numbers.first_shared += 1;
            numbers.ttft_at_most_ms.extend(ttft_ms(sample));
            return;
        }
        numbers.ttft_ms.extend(ttft_ms(sample));
        numbers.tpot_ms.extend(tpot_ms);
        self.alone += 1;
        self.server_rates.extend(server_rate(sample));
        self.stream_rates.extend(stream_rate(sample));
    }

    /// The numbers of all that was added.
    pub fn numbers(self) -> RunNumbers {
        let seconds = self.last_output_ns.checked_sub(self.first_send_ns);
        let seconds = seconds.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9);
        let seconds = seconds.filter(|_| self.slo != Slo::default());
        let generation = self.numbers.tpot_ms.iter().map(|tpot| 1e3 / tpot);
        let full = self.streams.filter(|_| !self.is_uncounted);
        let full = full.map(|(streams, timeline)| timeline.while_full(streams));
        let is_by_server = self.alone > 0 && self.server_rates.len() == self.alone;
        let (clock, rates) = match is_by_server {
            true => (Clock::Server, self.server_rates),
            false => (Clock::Stream, self.stream_rates),
        };
        RunNumbers {
            generation: Speed {
                clock: Clock::Stream,
                tokens_per_s: generation.collect(),
            },
            prefill: Speed {
                clock,
                tokens_per_s: rates,
            },
            ambiguous_share: self.shared_events as f64 / self.all_events.max(1) as f64,
            throughput: self.spans.rate().ok().filter(|_| !self.is_uncounted),
            throughput_full: full
                .filter(|(_, ns)| *ns > 0)
                .map(|(tokens, ns)| tokens / (ns as f64 / 1e9)),
            burst_factor: (self.token_events > 0)
                .then(|| self.tokens as f64 / self.token_events as f64),
            goodput: seconds.map(|seconds| Goodput {
                share: self.good as f64 / self.measured as f64,
                requests_per_s: self.good as f64 / seconds,
            }),
            ..self.numbers
        }
    }
}

/// `None`: the answer has no TPOT by its nature.
fn tpot_at_most_ms(sample: &Sample) -> Option<f64> {
    let others = sample.tokens.completion?.checked_sub(1)?;
    let has_tpot = sample.streamed && others > 0;
    Some(e2e_ms(sample).ok().filter(|_| has_tpot)? / f64::from(others))
}

/// A request that lacks what a bound is about is not known to keep it; a TTFT that is an upper bound keeps it if it is
/// not above.
fn is_good(sample: &Sample, slo: Slo) -> bool {
    let is_unknown = slo.tpot_ms.is_some() && came_at_once(sample);
    throughput::is_good(sample, slo).unwrap_or(false) && !is_unknown
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
        assert_eq!(numbers.icl_ms.kept(), [10.0; 8]);
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
        let expect = [5.0, 5.0, 10.0, 10.0, 2.5, 2.5, 2.5, 2.5];
        assert_eq!(numbers.itl_ms.kept(), expect);
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
