//! Checks: a rule on one metric of one workload.

use crate::record::{CacheState, Metric, Rule, Statistic};
use std::fmt;

/// One rule of a gate on one metric of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// `gate/check`.
    pub id: String,
    /// The [`Workload::id`](super::Workload::id) whose samples it reads.
    pub workload: String,
    /// Which of them.
    pub part: Part,
    pub metric: Metric,
    pub statistic: Statistic,
    pub rule: Rule,
    /// Samples that a launch must have, warm-up left out; fewer make the check invalid.
    pub min_samples: u32,
    /// Line of the rule in the gate's file, for annotations.
    pub line: u32,
}

/// A part of a workload's samples; `None` in all: the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub batch: Option<u32>,
    pub context: Option<u32>,
    pub cache: Option<CacheState>,
    pub streamed: Option<bool>,
    /// Of [`Metric::Stage`]: the stage's name.
    pub stage: Option<String>,
    /// Of [`Metric::Goodput`]: bounds in milliseconds that a good request keeps, at least one.
    pub slo: Option<RequestBounds>,
    /// Of counters and [`Metric::Gauge`]: what is read of the engine's `/metrics`.
    pub named: Option<Named>,
}

/// What a check reads of the engine's `/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub series: EngineSeries,
    /// Of [`Metric::CounterRatio`]: the counter that the first is divided by.
    pub over: Option<EngineSeries>,
    /// 0 throughout is a sound value, and not a counter or gauge that is dead.
    pub allow_zero: bool,
}

/// A metric of the engine's Prometheus exposition, with labels that its samples must have. Several such samples
/// are summed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineSeries {
    pub name: String,
    pub labels: Vec<(String, String)>,
}

/// As PromQL writes it, which is the name in records and reports: `name{label="value"}`.
impl fmt::Display for EngineSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let labels = self.labels.iter();
        let labels: Vec<String> = labels.map(|(k, v)| format!("{k}=\"{v}\"")).collect();
        write!(f, "{{{}}}", labels.join(","))
    }
}

impl Part {
    /// Whether the metric, on this part, is made of single requests' TPOT.
    pub fn reads_tpot(&self, metric: Metric) -> bool {
        let is_made_of_it = matches!(
            metric,
            Metric::Tpot
                | Metric::TpotBase
                | Metric::TpotSlope
                | Metric::DecodeRate
                | Metric::Contention
        );
        is_made_of_it || self.slo.is_some_and(|slo| slo.tpot.is_some())
    }
}

/// A bound on a time of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    Ms(f64),
    /// Times the median of the launch's own requests.
    Medians(f64),
}

/// Bounds that a request must keep, as a gate names them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestBounds {
    pub ttft: Option<Bound>,
    pub tpot: Option<Bound>,
    pub e2e: Option<Bound>,
}

impl From<Slo> for RequestBounds {
    fn from(slo: Slo) -> Self {
        Self {
            ttft: slo.ttft_ms.map(Bound::Ms),
            tpot: slo.tpot_ms.map(Bound::Ms),
            e2e: slo.e2e_ms.map(Bound::Ms),
        }
    }
}

/// Bounds that a request must keep, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
}
