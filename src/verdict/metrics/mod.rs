//! From raw samples to the numbers that checks read: one value a launch and metric.
//!
//! Main function: [`measure`]. Definitions, units and worked examples stand in `docs/metrics.md`. Only
//! samples of [`Phase::Measured`](crate::record::Phase::Measured) that are not void enter a number; a number
//! that cannot be had is [`Undefined`], with the reason and the sample at fault, and never zero.
//!
//! Refuses to know: what is good or bad, how launches are compared, how anything is shown.

mod ambiguous;
mod answers;
mod beside;
mod contradiction;
mod counter;
mod differences;
mod facets;
mod gauge;
mod golden;
mod golden_text;
mod matrix;
mod near_tie;
mod phases;
mod request;
mod requests;
mod run;
mod scored;
mod session;
mod staggered;
mod startup;
mod suite;
mod tasks;
mod throughput;
mod undefined;

pub use ambiguous::ambiguous;
pub use beside::beside;
pub use contradiction::contradiction;
pub use differences::{Difference, differences};
pub use facets::{Facet, Work, facets};
pub use phases::{Clock, Speed, implausible};
pub use requests::{Requests, is_in_part};
pub use run::{Goodput, RunNumbers, run_numbers};
pub use suite::fails_in_both;
pub use throughput::is_good;
pub use undefined::{Undefined, Why};

use crate::plan::{Check, Part, Workload, WorkloadKind};
use crate::record::{CellVerdict, Launch, Metric, Sample, Statistic};
use crate::stats;
use std::collections::BTreeMap;

/// One metric of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchMeasure {
    /// In the metric's unit.
    pub value: f64,
    /// What the value is at the least, where chance had a part in it and that can be told: a growth over
    /// readings that vary.
    pub at_least: Option<f64>,
    /// Requests that stand behind it (1 for a start-up time).
    pub samples: u32,
    /// The single values behind `value` in order of sending, where it is a statistic of many.
    pub series: Vec<f64>,
    /// Case id → answered right, for a share.
    pub successes: BTreeMap<String, bool>,
    /// What a reader wants to see beside the value: which case left the reference, and where.
    pub remarks: Vec<String>,
    /// Of a matrix that is judged cell by cell.
    pub cells: Vec<CellVerdict>,
}

impl LaunchMeasure {
    fn single(value: f64, samples: usize) -> Self {
        Self {
            value,
            at_least: None,
            samples: count(samples),
            series: Vec::new(),
            successes: BTreeMap::new(),
            remarks: Vec::new(),
            cells: Vec::new(),
        }
    }
}

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
        (Metric::Ready, _) => startup::ready(&at),
        (Metric::PortOpen, _) => startup::port_open(&at),
        (Metric::Stage, _) => startup::stage(&at),
        (Metric::FirstToken, _) => startup::first_token(&at),
        (Metric::FirstResponse, _) => startup::first_response(&at),
        (Metric::KvBytes, _) => gauge::kv_bytes(&at, statistic),
        (Metric::KvUsage, _) => gauge::kv_usage(&at, statistic),
        (Metric::KvGrowth, _) => gauge::kv_growth(&at),
        (Metric::RssGrowth, _) => gauge::rss_growth(&at),
        (Metric::Gauge, _) => gauge::named(&at, statistic),
        (Metric::GpuMemory, _) => gauge::gpu_memory(&at, statistic),
        (Metric::EnergyPerToken, _) => counter::energy_per_token(&at),
        (
            Metric::CounterPerToken
            | Metric::CounterPerRequest
            | Metric::CounterRatio
            | Metric::CounterIncrease
            | Metric::CounterTotal,
            _,
        ) => counter::of_counter(&at, check.metric),
        (Metric::PrefillExcess, WorkloadKind::Session(_)) => session::prefill_excess(&at),
        (Metric::PrefillDrift, WorkloadKind::Session(_)) => session::prefill_drift(&at),
        (Metric::GoldenMismatches, WorkloadKind::Goldens(g)) => golden::mismatches(&at, g),
        (Metric::LogprobError, WorkloadKind::Goldens(g)) => golden::logprob_error(&at, g),
        (Metric::LogprobRegret, WorkloadKind::Goldens(g)) => golden::logprob_regret(&at, g),
        (Metric::GreedyAgreement, WorkloadKind::Goldens(g)) => scored::greedy_agreement(&at, g),
        (Metric::Perplexity, _) => scored::perplexity(&at),
        (Metric::KlDivergence, _) => scored::kl_divergence(&at),
        (Metric::KlFromBase, _) => scored::kl_from_base(&at),
        (Metric::Accuracy, WorkloadKind::Tasks(t)) => tasks::accuracy(&at, t),
        (Metric::Ttft, _) => per_request(&at, statistic, request::ttft_ms),
        (Metric::Tpot, _) => per_request(&at, statistic, request::tpot_ms),
        (Metric::E2e, _) => per_request(&at, statistic, request::e2e_ms),
        (Metric::BurstFactor, _) => per_request(&at, statistic, request::burst_factor),
        (Metric::PrefillRate, _) => per_request(&at, statistic, request::prefill_rate),
        (Metric::DecodeRate, _) => per_request(&at, statistic, request::decode_rate),
        (Metric::TransportOverhead, _) => per_request(&at, statistic, request::transport_overhead),
        (Metric::TtftOverhead, _) => per_request(&at, statistic, request::ttft_overhead),
        (Metric::PrefilledTokens, _) => {
            per_request(&at, statistic, |s| request::prefilled(s).map(f64::from))
        }
        (Metric::Icl, _) => per_gap(&at, statistic, request::icl_ms),
        (Metric::Itl, _) => per_gap(&at, statistic, request::itl_ms),
        (Metric::Throughput, WorkloadKind::Staggered(_)) => staggered::throughput(&at),
        (Metric::Throughput, _) => throughput::whole(&at),
        (Metric::ThroughputFull, _) => throughput::full(&at),
        (Metric::Goodput, _) => throughput::goodput(&at),
        (Metric::FailedRequests, _) => throughput::failed_requests(&at),
        (Metric::ThroughputStep, WorkloadKind::Matrix(m)) => matrix::throughput_step(&at, m),
        (Metric::StreamParity, WorkloadKind::Matrix(_)) => matrix::stream_parity(&at),
        (Metric::StreamMismatches, WorkloadKind::Matrix(_)) => matrix::stream_mismatches(&at),
        (Metric::TpotBase, WorkloadKind::Matrix(_)) => matrix::tpot_base(&at),
        (Metric::TpotSlope, WorkloadKind::Matrix(_)) => matrix::tpot_slope(&at),
        (Metric::FailedCells, WorkloadKind::Matrix(m)) => matrix::failed_cells(&at, m),
        (Metric::Contention, WorkloadKind::Matrix(_)) => matrix::contention(&at),
        (Metric::FailedTests, WorkloadKind::Suite(s)) => suite::failed_tests(&at, s),
        (Metric::BrokenTests, WorkloadKind::Suite(s)) => suite::broken_tests(&at, s),
        (Metric::AnswerMismatches, _) => answers::mismatches(&at),
        (Metric::WallTtft, WorkloadKind::Staggered(_)) => staggered::wall_ttft(&at, statistic),
        (Metric::InterleavingBenefit, WorkloadKind::Staggered(_)) => staggered::benefit(&at),
        (Metric::GenerationStall, WorkloadKind::Staggered(_)) => staggered::stall(&at, statistic),
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

/// Where a number is looked for.
struct Place<'a> {
    launch: &'a Launch,
    workload: &'a Workload,
    part: &'a Part,
    requests: &'a Requests<'a>,
}

impl<'a> Place<'a> {
    /// Every sample of the workload's part, void ones and warm-up included, in order of sending.
    fn all(&self) -> Vec<&'a Sample> {
        let mut samples = self.requests.all.clone();
        samples.sort_by_key(|s| s.index);
        samples
    }

    /// The sound ones.
    fn sound(&self) -> Vec<&'a Sample> {
        let mut samples = self.all();
        samples.retain(|s| s.void.is_none());
        samples
    }

    /// The sound samples that may enter a number; at least one.
    fn measured(&self) -> Result<Vec<&'a Sample>, Undefined> {
        if self.requests.measured.is_empty() {
            return Err(self.undefined(Why::NoSamples, None));
        }
        Ok(self.requests.measured.clone())
    }

    /// The measured sample of every case.
    fn by_case(&self) -> Result<BTreeMap<&'a str, &'a Sample>, Undefined> {
        let mut cases = BTreeMap::new();
        for sample in self.measured()? {
            let Some(case) = &sample.case else { continue };
            if cases.insert(case.as_str(), sample).is_some() {
                return Err(self.undefined(Why::CaseTwice(case.clone()), Some(sample)));
            }
        }
        Ok(cases)
    }

    fn undefined(&self, why: Why, sample: Option<&Sample>) -> Undefined {
        Undefined {
            why,
            launch: self.launch.position,
            workload: self.workload.id.clone(),
            sample: sample.map(|s| s.index),
        }
    }
}

/// One value a request, reduced by the check's statistic.
fn per_request(
    at: &Place<'_>,
    statistic: Statistic,
    value: impl Fn(&Sample) -> Result<f64, Why>,
) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let series = samples
        .iter()
        .map(|s| value(s).map_err(|why| at.undefined(why, Some(s))))
        .collect::<Result<Vec<f64>, Undefined>>()?;
    reduced(at, statistic, series, samples.len())
}

/// Every gap of every request.
fn per_gap(
    at: &Place<'_>,
    statistic: Statistic,
    gaps: impl Fn(&Sample) -> Result<Vec<f64>, Why>,
) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let mut series = Vec::new();
    for sample in &samples {
        let gaps = gaps(sample).map_err(|why| at.undefined(why, Some(sample)))?;
        series.extend(gaps);
    }
    reduced(at, statistic, series, samples.len())
}

fn reduced(
    at: &Place<'_>,
    statistic: Statistic,
    series: Vec<f64>,
    samples: usize,
) -> Result<LaunchMeasure, Undefined> {
    let value = reduce(statistic, &series).map_err(|why| at.undefined(why, None))?;
    Ok(LaunchMeasure {
        series,
        ..LaunchMeasure::single(value, samples)
    })
}

/// Fewest values that a 99th percentile may stand on.
const P99_FLOOR: usize = 100;

fn reduce(statistic: Statistic, series: &[f64]) -> Result<f64, Why> {
    let at = |p: f64| stats::quantile(series, p).map(|q| q.value);
    let value = match statistic {
        Statistic::Median => at(0.5),
        Statistic::Mean => stats::mean(series),
        Statistic::P95 => at(0.95),
        Statistic::P99 if series.len() < P99_FLOOR => {
            return Err(Why::TooFewForP99 { n: series.len() });
        }
        Statistic::P99 => at(0.99),
        Statistic::Max => at(1.0),
        Statistic::Single if series.len() == 1 => at(0.5),
        Statistic::Single => return Err(Why::NotSingle { n: series.len() }),
    };
    value.ok_or(Why::NoSamples)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{check, launch, steady, streamed};
    use super::*;
    use crate::record::{Phase, Void, VoidRule};

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
        assert_eq!(m.series, [10.0, 12.0, 11.0]);
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
