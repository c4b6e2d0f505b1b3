//! How many launches an effect needs: the test's level, its distance, and the answer in words that a table
//! can hold.

use crate::judge::on_test_scale;
use crate::plan::{Check, Design, Rule};
use crate::stats;

/// The most blocks that a profile may name.
const MOST_BLOCKS: u32 = 1000;
/// Launches an arm below which the judge makes no test.
const LEAST_BLOCKS: u32 = 4;

/// A comparison by t as the judge makes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// Fractions.
    pub margin: f64,
    pub ceiling: f64,
    /// Of one look: the run's budget over looks and checks, as Holm's first step has it.
    pub fail_level: f64,
    pub pass_level: f64,
}

/// How a check is tested beside others, `checks` in all; `None` for one that is not compared by t.
pub fn test_of(check: &Check, design: &Design, checks: u32) -> Option<Test> {
    let Rule::Regression { margin, ceiling } = check.rule else {
        return None;
    };
    // What has no scale is compared exactly, or by counts.
    on_test_scale(check.metric, 1.0)?;
    let looks = design.looks.len().max(1) as f64;
    Some(Test {
        margin,
        ceiling,
        fail_level: design.alpha / looks / f64::from(checks.max(1)),
        pass_level: design.beta / looks,
    })
}

impl Test {
    /// The smallest change for the worse that a look after `blocks` finds with chance `power`, where launches
    /// vary by `sd` (of logarithms). A fraction; `None` without variance.
    pub fn smallest_effect(&self, sd: f64, blocks: u32, power: f64) -> Option<f64> {
        let beyond = stats::detectable(sd, blocks, self.fail_level, power)?;
        let effect = (self.margin.ln_1p() + beyond).exp_m1();
        effect.is_finite().then_some(effect)
    }

    /// Blocks after which an unchanged head is shown to be below the ceiling with chance `power`.
    pub fn blocks_to_pass(&self, sd: f64, power: f64) -> Option<u32> {
        let distance = self.ceiling.ln_1p();
        let blocks = stats::values_needed(distance, sd, self.pass_level, power, MOST_BLOCKS)?;
        Some(blocks.max(LEAST_BLOCKS))
    }

    /// Blocks after which a look finds a change of `effect` with chance `power`.
    pub fn blocks_to_find(&self, sd: f64, effect: f64, power: f64) -> Wanted {
        if effect <= self.margin {
            return Wanted::WithinMargin;
        }
        let distance = effect.ln_1p() - self.margin.ln_1p();
        match stats::values_needed(distance, sd, self.fail_level, power, MOST_BLOCKS) {
            Some(blocks) => Wanted::Blocks(blocks.max(LEAST_BLOCKS)),
            None => Wanted::TooMany,
        }
    }
}

/// How many blocks an effect needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Blocks(u32),
    /// No number of launches: up to the margin a change is no regression.
    WithinMargin,
    /// More than a session may have.
    TooMany,
}

impl Wanted {
    pub fn blocks(self) -> Option<u32> {
        match self {
            Self::Blocks(blocks) => Some(blocks),
            Self::WithinMargin | Self::TooMany => None,
        }
    }
}
