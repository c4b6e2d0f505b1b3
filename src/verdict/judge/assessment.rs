//! What is known of one check at one look, before it is weighed against the others.

use super::view::View;
use crate::plural::count;
use crate::record::{Arm, CellVerdict, Reason, Verdict};

/// Numbers and finding of one check.
pub struct Assessment {
    pub figures: Figures,
    pub finding: Finding,
}

/// The numbers of a [`CheckVerdict`](crate::record::CheckVerdict), in its units.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub base: Option<f64>,
    pub head: Option<f64>,
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub p_fail: Option<f64>,
    pub p_pass: Option<f64>,
    pub launches: (u32, u32),
    pub smallest_effect: Option<f64>,
    pub notes: Vec<String>,
    pub cells: Vec<CellVerdict>,
}

pub enum Finding {
    /// Decided without a test: invalid, reliability, exact comparisons.
    Settled { verdict: Verdict, reason: Reason },
    /// p-values decide, once they are corrected for the other checks.
    Tested(Tested),
    /// Inconclusive so far; after `wants` sound blocks there is more to see.
    Waiting { reason: Reason, wants: u32 },
    /// Inconclusive, and more launches of this session would not help.
    Never { reason: Reason },
}

/// A test's outcome in words; the p-values stand in the figures.
pub struct Tested {
    /// Name of the rule that fails.
    pub rule: &'static str,
    /// `TPOT 20.64 → 21.9 ms: +6.1 % [+4.8, +7.4]`.
    pub subject: String,
    /// `beyond the margin of 1 %`.
    pub beyond: String,
    /// `below the ceiling of 3 %`.
    pub within: String,
    /// `8 + 8 launches`.
    pub behind: String,
    /// Added to the reason where it stays inconclusive.
    pub advice: Option<String>,
    /// Blocks after which it is tested again; `None`: never.
    pub wants: Option<u32>,
}

impl Assessment {
    pub fn settled(figures: Figures, verdict: Verdict, rule: &'static str, text: String) -> Self {
        let reason = Reason { rule, text };
        Self {
            figures,
            finding: Finding::Settled { verdict, reason },
        }
    }

    pub fn never(figures: Figures, rule: &'static str, text: String) -> Self {
        let reason = Reason { rule, text };
        Self {
            figures,
            finding: Finding::Never { reason },
        }
    }

    pub fn waiting(figures: Figures, text: String, wants: u32) -> Self {
        let reason = Reason {
            rule: "too-few-launches",
            text,
        };
        Self {
            figures,
            finding: Finding::Waiting { reason, wants },
        }
    }
}

impl Figures {
    /// Figures that hold the number of launches that count, and nothing else yet.
    pub fn of(view: &View<'_, '_>) -> Self {
        let n = |arm| u32::try_from(view.of(arm).kept.len()).unwrap_or(u32::MAX);
        Self {
            launches: (n(Arm::Base), n(Arm::Head)),
            ..Self::default()
        }
    }

    pub fn with_launches(mut self, base: usize, head: usize) -> Self {
        let n = |n| u32::try_from(n).unwrap_or(u32::MAX);
        self.launches = (n(base), n(head));
        self
    }

    /// `8 + 8 launches`, base first; `8 launches` where there is no base.
    pub fn behind(&self) -> String {
        match self.launches {
            (0, head) => count(head, "launch"),
            (base, head) => format!("{base} + {head} launches"),
        }
    }
}
