//! From raw samples to the numbers that checks read: one value a launch and metric.
//!
//! Main function: [`measure`]. Definitions, units and worked examples stand in `docs/metrics.md`. Only
//! samples of [`Phase::Measured`](crate::record::Phase::Measured) that are not void enter a number; a number
//! that cannot be had is [`Undefined`], with the reason and the sample at fault, and never zero.
//!
//! Refuses to know: what is good or bad, how launches are compared, how anything is shown.

pub mod breakdown;
mod correctness;
mod gaps;
mod matrix;
mod readings;
mod requests;
mod run;
mod series;
mod timing;
mod undefined;
mod value;

pub use breakdown::{Facet, Work, context_line, facets};
pub use correctness::answers::{
    Moved, OtherAnswers, SURE, WrongAnswers, moved, request_name, wrong_answers,
};
pub use correctness::differences::differences;
pub use correctness::golden::Difference;
pub use correctness::suite::fails_in_both;
pub use gaps::Gaps;
pub use matrix::ContextLine;
pub use readings::interference::beside;
pub use requests::{Requests, is_in_part};
pub use run::{Goodput, RunNumbers, RunTally, run_numbers};
pub use series::Series;
pub use timing::ambiguous::{ambiguous, first_shared, with_first};
pub use timing::contradiction::{ServerTimes, contradiction};
pub use timing::phases::{
    Clock, HeldBack, Phases, Speed, TOKENS_APART, held_back, implausible, implausible_for,
};
pub use timing::request::{
    came_at_once, e2e_ms, pause_ms, stream_end_ms, times_ms, tpot_bounds_ms, tpot_ms, ttft_ms,
};
pub use timing::throughput::{is_good, slo};
pub use undefined::{Undefined, Why};
pub use value::LaunchMeasure;

use crate::plan::{Check, Workload, WorkloadKind};
use crate::record::{Launch, Metric};
use value::{Place, per_gap, per_request, per_timed_request, reduce, reduced};

/// The value of `check` in one launch that ran its `workload`.
///
/// # Errors
/// [`Undefined`] where a sample lacks what the definition needs, or none is there.
pub fn measure(
    check: &Check,
    workload: &Workload,
    launch: &Launch,
) -> Result<LaunchMeasure, Undefined> {
    measure_among(&Requests::of(check, workload, launch), check)
}

/// The same, where the launch's requests have been picked out.
///
/// # Errors
/// As [`measure`].
pub fn measure_among(requests: &Requests<'_>, check: &Check) -> Result<LaunchMeasure, Undefined> {
    let workload = requests.workload;
    let at = Place {
        launch: requests.launch,
        workload,
        part: &check.part,
        requests,
    };
    let statistic = check.statistic;
    match (check.metric, &workload.kind) {
        (Metric::Ready, _) => timing::startup::ready(&at),
        (Metric::PortOpen, _) => timing::startup::port_open(&at),
        (Metric::Stage, _) => timing::startup::stage(&at),
        (Metric::FirstToken, _) => timing::startup::first_token(&at),
        (Metric::FirstResponse, _) => timing::startup::first_response(&at),
        (Metric::KvBytes, _) => readings::gauge::kv_bytes(&at, statistic),
        (Metric::KvUsage, _) => readings::gauge::kv_usage(&at, statistic),
        (Metric::KvGrowth, _) => readings::gauge::kv_growth(&at),
        (Metric::RssGrowth, _) => readings::gauge::rss_growth(&at),
        (Metric::Gauge, _) => readings::gauge::named(&at, statistic),
        (Metric::GpuMemory, _) => readings::gauge::gpu_memory(&at, statistic),
        (Metric::EnergyPerToken, _) => readings::counter::energy_per_token(&at),
        (
            Metric::CounterPerToken
            | Metric::CounterPerRequest
            | Metric::CounterRatio
            | Metric::CounterIncrease
            | Metric::CounterTotal,
            _,
        ) => readings::counter::of_counter(&at, check.metric),
        (Metric::PrefillExcess, WorkloadKind::Session(_)) => timing::session::prefill_excess(&at),
        (Metric::PrefillDrift, WorkloadKind::Session(_)) => timing::session::prefill_drift(&at),
        (Metric::GoldenMismatches, WorkloadKind::Goldens(g)) => {
            correctness::golden::mismatches(&at, g)
        }
        (Metric::LogprobError, WorkloadKind::Goldens(g)) => {
            correctness::golden::logprob_error(&at, g)
        }
        (Metric::LogprobRegret, WorkloadKind::Goldens(g)) => {
            correctness::golden::logprob_regret(&at, g)
        }
        (Metric::GreedyAgreement, WorkloadKind::Goldens(g)) => {
            correctness::scored::greedy_agreement(&at, g)
        }
        (Metric::Perplexity, _) => correctness::scored::perplexity(&at),
        (Metric::KlDivergence, _) => correctness::scored::kl_divergence(&at),
        (Metric::KlFromBase, _) => correctness::scored::kl_from_base(&at),
        (Metric::Accuracy, WorkloadKind::Tasks(t)) => correctness::tasks::accuracy(&at, t),
        (Metric::Ttft, _) => per_request(&at, check, timing::request::ttft_ms),
        (Metric::Tpot, _) => per_timed_request(&at, check, timing::request::tpot_ms),
        (Metric::E2e, _) => per_request(&at, check, timing::request::e2e_ms),
        (Metric::BurstFactor, _) => per_request(&at, check, timing::request::burst_factor),
        (Metric::PrefillRate, _) => per_request(&at, check, timing::request::prefill_rate),
        (Metric::DecodeRate, _) => per_timed_request(&at, check, timing::request::decode_rate),
        (Metric::TransportOverhead, _) => {
            per_request(&at, check, timing::request::transport_overhead)
        }
        (Metric::TtftOverhead, _) => per_request(&at, check, timing::request::ttft_overhead),
        (Metric::PrefilledTokens, _) => {
            per_request(&at, check, |s| timing::request::prefilled(s).map(f64::from))
        }
        (Metric::Icl, _) => per_gap(&at, check, timing::request::icl_ms),
        (Metric::Itl, _) => per_gap(&at, check, timing::request::itl_ms),
        (Metric::Throughput, WorkloadKind::Staggered(_)) => timing::staggered::throughput(&at),
        (Metric::Throughput, _) => timing::throughput::whole(&at),
        (Metric::ThroughputFull, _) => timing::throughput::full(&at),
        (Metric::Goodput, _) => timing::throughput::goodput(&at),
        (Metric::FailedRequests, _) => timing::throughput::failed_requests(&at),
        (Metric::ThroughputStep, WorkloadKind::Matrix(m)) => matrix::throughput_step(&at, m),
        (Metric::StreamParity, WorkloadKind::Matrix(_)) => matrix::stream_parity(&at),
        (Metric::StreamMismatches, WorkloadKind::Matrix(_)) => matrix::stream_mismatches(&at),
        (Metric::TpotBase, WorkloadKind::Matrix(_)) => matrix::tpot_base(&at),
        (Metric::TpotSlope, WorkloadKind::Matrix(_)) => matrix::tpot_slope(&at),
        (Metric::FailedCells, WorkloadKind::Matrix(m)) => matrix::failed_cells(&at, m),
        (Metric::Contention, WorkloadKind::Matrix(_)) => matrix::contention(&at),
        (Metric::FailedTests, WorkloadKind::Suite(s)) => correctness::suite::failed_tests(&at, s),
        (Metric::BrokenTests, WorkloadKind::Suite(s)) => correctness::suite::broken_tests(&at, s),
        (Metric::AnswerMismatches, _) => correctness::answers::mismatches(&at),
        (Metric::WallTtft, WorkloadKind::Staggered(_)) => {
            timing::staggered::wall_ttft(&at, statistic)
        }
        (Metric::InterleavingBenefit, WorkloadKind::Staggered(_)) => {
            timing::staggered::benefit(&at)
        }
        (Metric::GenerationStall, WorkloadKind::Staggered(_)) => {
            timing::staggered::stall(&at, statistic)
        }
        (
            Metric::PrefillExcess
            | Metric::PrefillDrift
            | Metric::GoldenMismatches
            | Metric::LogprobError
            | Metric::LogprobRegret
            | Metric::GreedyAgreement
            | Metric::Accuracy
            | Metric::ThroughputStep
            | Metric::StreamParity
            | Metric::StreamMismatches
            | Metric::TpotBase
            | Metric::TpotSlope
            | Metric::FailedCells
            | Metric::Contention
            | Metric::FailedTests
            | Metric::BrokenTests
            | Metric::WallTtft
            | Metric::InterleavingBenefit
            | Metric::GenerationStall,
            _,
        ) => Err(at.undefined(Why::WrongWorkload(check.metric), None)),
    }
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{check, launch, steady, streamed};
    use super::*;
    use crate::record::{Phase, Sample, Statistic, Void, VoidRule};

    fn tpot(statistic: Statistic, samples: Vec<Sample>) -> Result<LaunchMeasure, Undefined> {
        let workload = steady("tpot/decode");
        measure(
            &check(Metric::Tpot, statistic),
            &workload,
            &launch(3, samples),
        )
    }

    #[test]
    fn warm_up_and_void_samples_stay_out() {
        let mut samples: Vec<Sample> = [99.0, 10.0, 12.0, 55.0, 11.0]
            .iter()
            .zip(0..)
            .map(|(&ms, i)| streamed("tpot/decode", i, 50.0, ms, 5))
            .collect();
        samples[0].phase = Phase::Warmup;
        samples[3].void = Some(Void {
            rule: VoidRule::TokenCounts,
            detail: String::new(),
        });
        samples.push(streamed("other/decode", 9, 1.0, 1.0, 5));
        let m = tpot(Statistic::Median, samples).unwrap();
        assert_eq!((m.value, m.samples), (11.0, 3));
        assert_eq!(m.series[..], [10.0, 12.0, 11.0]);
    }

    #[test]
    fn a_sample_without_its_numbers_is_named() {
        let mut samples = vec![
            streamed("tpot/decode", 0, 50.0, 10.0, 5),
            streamed("tpot/decode", 1, 50.0, 10.0, 5),
        ];
        samples[1].tokens.completion = None;
        let undefined = tpot(Statistic::Median, samples).unwrap_err();
        assert_eq!(undefined.why, Why::NoUsage);
        assert_eq!(
            undefined.to_string(),
            "launch 3, request 1 of tpot/decode: the answer has no usage count"
        );
    }

    #[test]
    fn every_statistic_reduces_or_says_why_not() {
        let series: Vec<f64> = (1..=100).map(f64::from).collect();
        let table = [
            (Statistic::Median, Ok(50.5)),
            (Statistic::Mean, Ok(50.5)),
            (Statistic::P95, Ok(95.05)),
            (Statistic::P99, Ok(99.01)),
            (Statistic::Max, Ok(100.0)),
            (Statistic::Single, Err(Why::NotSingle { n: 100 })),
        ];
        for (statistic, expect) in table {
            match (reduce(statistic, &series), expect) {
                (Ok(got), Ok(want)) => assert!((got - want).abs() < 1e-9, "{statistic}: {got}"),
                (got, want) => assert_eq!(got, want, "{statistic}"),
            }
        }
        assert_eq!(
            reduce(Statistic::P99, &series[1..]),
            Err(Why::TooFewForP99 { n: 99 })
        );
        assert_eq!(reduce(Statistic::Median, &[]), Err(Why::NoSamples));
    }

    #[test]
    fn nothing_measured_is_undefined() {
        assert_eq!(
            tpot(Statistic::Median, vec![]).unwrap_err().why,
            Why::NoSamples
        );
        let workload = steady("tpot/decode");
        let drift = measure(
            &check(Metric::PrefillDrift, Statistic::Single),
            &workload,
            &launch(0, vec![]),
        );
        assert_eq!(
            drift.unwrap_err().why,
            Why::WrongWorkload(Metric::PrefillDrift)
        );
    }
}
