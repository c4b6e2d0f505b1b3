//! Value of a metric in one launch, and the samples that it is made from.

use super::series::{Read, Series};
use super::timing::request::{came_at_once, has_one_token};
use super::{Requests, Undefined, Why};
use crate::plan::{Check, Part, Workload};
use crate::record::{CellVerdict, Launch, Sample, Statistic};
use crate::stats;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub series: Arc<Series>,
    /// Case id → answered right, for a share.
    pub successes: BTreeMap<String, bool>,
    /// What a reader wants to see beside the value: which case left the reference, and where.
    pub remarks: Vec<String>,
    /// Numbers of the requests whose answers the remarks quote.
    pub quoted: Vec<u32>,
    /// Of a matrix that is judged cell by cell.
    pub cells: Vec<CellVerdict>,
}

impl LaunchMeasure {
    pub fn single(value: f64, samples: usize) -> Self {
        Self {
            value,
            at_least: None,
            samples: count(samples),
            series: Arc::default(),
            successes: BTreeMap::new(),
            remarks: Vec::new(),
            quoted: Vec::new(),
            cells: Vec::new(),
        }
    }
}

/// Where a number is looked for.
pub struct Place<'a> {
    pub launch: &'a Launch,
    pub workload: &'a Workload,
    pub part: &'a Part,
    pub requests: &'a Requests<'a>,
}

impl<'a> Place<'a> {
    /// Every sample of the workload's part, void ones and warm-up included, in order of sending.
    pub fn all(&self) -> Vec<&'a Sample> {
        let mut samples = self.requests.all.clone();
        samples.sort_by_key(|s| s.index);
        samples
    }

    /// The sound ones.
    pub fn sound(&self) -> Vec<&'a Sample> {
        let mut samples = self.all();
        samples.retain(|s| s.void.is_none());
        samples
    }

    /// The sound samples that may enter a number; at least one.
    pub fn measured(&self) -> Result<Vec<&'a Sample>, Undefined> {
        if self.requests.measured.is_empty() {
            return Err(self.undefined(Why::NoSamples, None));
        }
        Ok(self.requests.measured.clone())
    }

    /// The measured sample of every case.
    pub fn by_case(&self) -> Result<BTreeMap<&'a str, &'a Sample>, Undefined> {
        let mut cases = BTreeMap::new();
        for sample in self.measured()? {
            let Some(case) = &sample.case else { continue };
            if cases.insert(case.as_str(), sample).is_some() {
                return Err(self.undefined(Why::CaseTwice(case.clone()), Some(sample)));
            }
        }
        Ok(cases)
    }

    pub fn undefined(&self, why: Why, sample: Option<&Sample>) -> Undefined {
        Undefined {
            why,
            launch: self.launch.position,
            workload: self.workload.id.clone(),
            sample: sample.map(|s| s.index),
        }
    }
}

/// One value a request, reduced by the check's statistic.
pub fn per_request(
    at: &Place<'_>,
    check: &Check,
    value: impl Fn(&Sample) -> Result<f64, Why>,
) -> Result<LaunchMeasure, Undefined> {
    read(at, check, || of_each(at, &at.measured()?, value))
}

/// As [`per_request`], but for answers that arrived at one moment or have one token, which have no time per token; of all
/// answers where that is all of them.
pub fn per_timed_request(
    at: &Place<'_>,
    check: &Check,
    value: impl Fn(&Sample) -> Result<f64, Why>,
) -> Result<LaunchMeasure, Undefined> {
    read(at, check, || {
        let samples = at.measured()?;
        let is_timed = |s: &&Sample| !came_at_once(s) && !has_one_token(s);
        let timed: Vec<&Sample> = samples.iter().copied().filter(is_timed).collect();
        if timed.is_empty() || timed.len() == samples.len() {
            return of_each(at, &samples, value);
        }
        let mut read = of_each(at, &timed, value)?;
        read.remarks.push(format!(
            "{} of {} answers arrived at one moment, or have one token, and so have no time per token",
            samples.len() - timed.len(),
            samples.len()
        ));
        Ok(read)
    })
}

fn of_each(
    at: &Place<'_>,
    samples: &[&Sample],
    value: impl Fn(&Sample) -> Result<f64, Why>,
) -> Result<Read, Undefined> {
    let values = samples
        .iter()
        .map(|s| value(s).map_err(|why| at.undefined(why, Some(s))))
        .collect::<Result<Vec<f64>, Undefined>>()?;
    Ok(Read {
        series: Arc::new(values.into()),
        samples: samples.len(),
        remarks: Vec::new(),
    })
}

/// Every gap of every request.
pub fn per_gap(
    at: &Place<'_>,
    check: &Check,
    gaps: impl Fn(&Sample) -> Result<Vec<f64>, Why>,
) -> Result<LaunchMeasure, Undefined> {
    read(at, check, || {
        let samples = at.measured()?;
        let mut values = Vec::new();
        for sample in &samples {
            let gaps = gaps(sample).map_err(|why| at.undefined(why, Some(sample)))?;
            values.extend(gaps);
        }
        Ok(Read {
            series: Arc::new(values.into()),
            samples: samples.len(),
            remarks: Vec::new(),
        })
    })
}

/// The check's statistic of what its metric reads, which another check may have read before.
fn read(
    at: &Place<'_>,
    check: &Check,
    read: impl FnOnce() -> Result<Read, Undefined>,
) -> Result<LaunchMeasure, Undefined> {
    let read = at.requests.series.get(check.metric, read)?;
    let value = reduce(check.statistic, &read.series).map_err(|why| at.undefined(why, None))?;
    Ok(LaunchMeasure {
        series: read.series,
        remarks: read.remarks,
        ..LaunchMeasure::single(value, read.samples)
    })
}

pub fn reduced(
    at: &Place<'_>,
    statistic: Statistic,
    series: Vec<f64>,
    samples: usize,
) -> Result<LaunchMeasure, Undefined> {
    let value = reduce(statistic, &series).map_err(|why| at.undefined(why, None))?;
    Ok(LaunchMeasure {
        series: Arc::new(series.into()),
        ..LaunchMeasure::single(value, samples)
    })
}

/// Fewest values that a 99th percentile may stand on.
const P99_FLOOR: usize = 100;

pub fn reduce(statistic: Statistic, series: &[f64]) -> Result<f64, Why> {
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
