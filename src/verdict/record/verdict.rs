//! The judge's verdict: data only, formatted in `report/`.

use super::{CacheState, Direction, Metric, Reason, Remark, RuleId, Statistic, Verdict};

/// Limits are in the metric's unit; margins are fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Head against base: fails when worse by more than `margin`, passes when shown to be worse by
    /// less than `ceiling`.
    Regression { margin: f64, ceiling: f64 },
    /// Head's value must not exceed `limit`.
    Ceiling { limit: f64 },
    /// Head's value must reach `limit`.
    Floor { limit: f64 },
}

/// One rule of a gate on one metric, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckVerdict {
    /// `gate/check`, for example `tpot/regression`.
    pub id: String,
    pub metric: Metric,
    pub statistic: Statistic,
    pub rule: Rule,
    /// The engine's series that is read, as PromQL selects it, and the one that it is divided by.
    pub series: Option<String>,
    pub over: Option<String>,
    pub verdict: Verdict,
    pub reason: Reason,
    /// Base's and head's value in the metric's unit (geometric mean of launch values for a latency).
    pub base: Option<f64>,
    pub head: Option<f64>,
    /// Relative change (0.03 is +3 %) and its repeated confidence interval, for a regression check;
    /// for an absolute rule `change` is `None` and the interval is of `head`, in the metric's unit.
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    /// p-value of the decisive test: after Bonferroni over looks, before Holm over checks.
    pub p_fail: Option<f64>,
    pub p_pass: Option<f64>,
    /// Launches of base and head that entered.
    pub launches: (u32, u32),
    /// The smallest relative effect that this session could have found at 95 % power.
    pub smallest_effect: Option<f64>,
    pub remarks: Vec<Remark>,
    /// Of a check that judges a matrix cell by cell: every cell of head's worst launch; else empty.
    pub cells: Vec<CellVerdict>,
    pub waiver: Option<Waiver>,
}

impl CheckVerdict {
    /// Distance of the interval's better end from the margin or the limit, as a share; sorts failed checks. Infinite for a limit
    /// of zero and for an engine that died.
    pub fn excess(&self) -> f64 {
        let excess = match (self.rule, self.interval) {
            _ if self.reason.rule == RuleId::Reliability => f64::INFINITY,
            (Rule::Regression { margin, .. }, Some((low, high))) => {
                let better = match self.metric.direction() {
                    Direction::LowerIsBetter => low,
                    Direction::HigherIsBetter => -high,
                };
                better - margin
            }
            (Rule::Ceiling { limit }, Some((low, _))) if limit > 0.0 => low / limit - 1.0,
            (Rule::Floor { limit }, Some((_, high))) if limit > 0.0 => 1.0 - high / limit,
            _ => f64::INFINITY,
        };
        match excess.is_nan() {
            true => f64::INFINITY,
            false => excess,
        }
    }
}

/// One cell of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellVerdict {
    pub batch: u32,
    pub cache: CacheState,
    /// Prompt tokens.
    pub context: u32,
    pub streamed: bool,
    pub outcome: CellOutcome,
    /// Median time of its sound answers, send to last token; `None` where there is none.
    pub e2e_ms: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellOutcome {
    Ok,
    /// Void by a rule that does not blame the engine, or an answer that differs and is not shown to be wrong.
    Warn,
    Fail,
}

impl CellOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// A check may be red until a day; after it, it fails whatever it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    pub reason: String,
    pub owner: String,
    pub issue: String,
    /// The last day on which it holds: `2027-01-15`.
    pub expires: String,
    /// It was over when the session began.
    pub is_expired: bool,
}

impl CheckVerdict {
    /// Red by its own rule, and not counted. No waiver covers an engine that fails to answer, nor a check that was not measured.
    pub fn is_waived(&self) -> bool {
        let is_own = match self.verdict {
            Verdict::Fail => self.reason.rule != RuleId::Reliability,
            Verdict::Inconclusive => true,
            Verdict::Pass | Verdict::Invalid => false,
        };
        is_own && self.waiver.as_ref().is_some_and(|w| !w.is_expired)
    }

    /// What stands in a table: its verdict, or that it is waived.
    pub fn word(&self) -> &'static str {
        if self.is_waived() {
            "waived"
        } else {
            self.verdict.name()
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct GateVerdict {
    pub gate: String,
    pub title: String,
    pub verdict: Verdict,
    pub checks: Vec<CheckVerdict>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunVerdict {
    pub verdict: Verdict,
    pub gates: Vec<GateVerdict>,
    /// Blocks looked at, and whether more would be asked for.
    pub blocks: u32,
    /// Launches up to the block that decided, those of dropped blocks among them.
    pub launches: u32,
    /// Seconds of measuring that stopping early spared, against all that could tell anything within the budget.
    pub saved_s: f64,
    pub decision: Decision,
    /// Of a pass: gates of the project's profiles that did not run, by profile.
    pub not_run: Vec<(String, Vec<String>)>,
}

/// What the sequential procedure wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Every check has its verdict, or nothing more can be had.
    Stop,
    /// Launch until this many sound blocks are there, then look again.
    ContinueTo { blocks: u32 },
}
