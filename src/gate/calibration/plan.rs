//! Launches that an effect needs: the test's level at each look, its distance, and the answer
//! as short text for a table.

use verdict::judge::{Budgets, on_test_scale};
use verdict::plan::{Check, Design, Rule};
use verdict::record::Direction;
use verdict::stats::{self, Spread};

/// The most blocks that a profile may name.
const MOST_BLOCKS: u32 = 1000;

/// A comparison by t as the judge makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Fractions.
    pub margin: f64,
    pub ceiling: f64,
    pub direction: Direction,
    /// Launches an arm below which the judge makes no test.
    least: u32,
    /// Rising.
    pub looks: Vec<LookLevels>,
}

/// What one look may spend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookLevels {
    /// Blocks after which the judge looks.
    pub blocks: u32,
    /// Of the run's budget over looks and checks, as Holm's first step has it; 0 where so few launches cannot fail.
    pub fail: f64,
    pub pass: f64,
}

/// How a check is tested beside others, `checks` in all; `None` for one that is not compared by t. `is_calibrated`: its
/// launches' variance is known from before.
pub fn test_of(check: &Check, design: &Design, checks: u32, is_calibrated: bool) -> Option<Test> {
    let Rule::Regression { margin, ceiling } = check.rule else {
        return None;
    };
    // What has no scale is compared exactly, or by counts.
    on_test_scale(check.metric, 1.0)?;
    let family = checks.max(1);
    let budgets = Budgets::new(design, (family as usize, u32::MAX), true, is_calibrated);
    let fail: Vec<(u32, f64)> = budgets
        .fail
        .looks(budgets.alpha / f64::from(family))
        .collect();
    let level_of = |blocks| {
        fail.iter()
            .find(|look| look.0 == blocks)
            .map_or(0.0, |look| look.1)
    };
    let looks = budgets
        .pass
        .looks(design.beta)
        .map(|(blocks, pass)| LookLevels {
            blocks,
            fail: level_of(blocks),
            pass,
        });
    Some(Test {
        margin,
        ceiling,
        direction: check.metric.direction(),
        least: budgets.least,
        looks: looks.collect(),
    })
}

impl Test {
    /// The smallest change for the worse that this look finds with chance `power`, where launches vary so (on a scale of
    /// logarithms). A fraction; `None` without variance, and where so few launches cannot fail.
    pub fn smallest_effect(&self, spread: Spread, look: &LookLevels, power: f64) -> Option<f64> {
        let beyond = stats::detectable(spread, look.blocks, look.fail, power)?;
        let effect = self
            .direction
            .change(self.direction.loss(self.margin) + beyond);
        effect.is_finite().then_some(effect)
    }

    /// Blocks after which an unchanged head is shown to be below the ceiling with chance `power`.
    pub fn blocks_to_pass(&self, spread: Spread, power: f64) -> Option<u32> {
        self.blocks_at(|look| {
            values_needed(self.direction.loss(self.ceiling), spread, look.pass, power)
        })
    }

    /// Blocks after which a look finds a change of `effect` with chance `power`.
    pub fn blocks_to_find(&self, spread: Spread, effect: f64, power: f64) -> Wanted {
        if effect <= self.margin {
            return Wanted::WithinMargin;
        }
        let distance = self.direction.loss(effect) - self.direction.loss(self.margin);
        match self.blocks_at(|look| values_needed(distance, spread, look.fail, power)) {
            Some(blocks) => Wanted::Blocks(blocks),
            None => Wanted::TooMany,
        }
    }

    /// The blocks that suffice for the first look which has so many; beyond the last look, those that would suffice
    /// for it if it came later.
    fn blocks_at(&self, needed: impl Fn(&LookLevels) -> Option<u32>) -> Option<u32> {
        let mut before = self.least - 1;
        for look in &self.looks {
            // Fewer than the look before had come too late for that one's level.
            let needed = needed(look).map(|blocks| blocks.max(before + 1));
            if needed.is_some_and(|blocks| blocks <= look.blocks) {
                return needed;
            }
            before = look.blocks;
        }
        Some(needed(self.looks.last()?)?.max(before + 1))
    }
}

fn values_needed(distance: f64, spread: Spread, level: f64, power: f64) -> Option<u32> {
    stats::values_needed(distance, spread, level, power, MOST_BLOCKS)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use verdict::plan::{Part, Spending};
    use verdict::record::{Interleave, Metric, Statistic};

    /// The case of docs/calibration.md.
    fn test(spending: Spending) -> Test {
        let design = Design {
            profile: "full".into(),
            gates: Vec::new(),
            looks: vec![4, 6, 8, 12, 16],
            alpha: 0.02,
            beta: 0.05,
            spending,
            budget: Duration::from_secs(60),
            checkpoint_every: Duration::from_secs(60),
            cooldown: None,
            interleave: Interleave::Launches,
        };
        let check = Check {
            id: "g/c".into(),
            workload: "g/w".into(),
            part: Part::default(),
            metric: Metric::Tpot,
            statistic: Statistic::Median,
            rule: Rule::Regression {
                margin: 0.01,
                ceiling: 0.03,
            },
            min_samples: 1,
            line: 1,
        };
        test_of(&check, &design, 2, false).unwrap()
    }

    #[test]
    fn blocks_follow_how_the_budget_is_spent() {
        let [equal, pocock, late] = [
            Spending::Bonferroni,
            Spending::Pocock,
            Spending::ObrienFleming,
        ]
        .map(test);
        let to_pass = |test: &Test| test.blocks_to_pass(Spread::unknown(0.007), 0.95).unwrap();
        assert_eq!((to_pass(&equal), to_pass(&pocock)), (4, 4));
        // Its first look has nearly nothing to spend: four launches pass in one session of eight.
        assert!(
            to_pass(&late) > 4 && to_pass(&late) <= 8,
            "{}",
            to_pass(&late)
        );
        let at_last = |test: &Test| {
            test.smallest_effect(Spread::unknown(0.007), test.looks.last().unwrap(), 0.95)
        };
        assert!(at_last(&late) < at_last(&pocock));
    }

    #[test]
    fn beyond_the_last_look_its_own_level_counts() {
        let test = test(Spending::ObrienFleming);
        let last = *test.looks.last().unwrap();
        let wanted = test
            .blocks_to_find(Spread::unknown(0.02), 0.03, 0.95)
            .blocks()
            .unwrap();
        let distance = 0.03_f64.ln_1p() - 0.01_f64.ln_1p();
        assert_eq!(
            Some(wanted),
            values_needed(distance, Spread::unknown(0.02), last.fail, 0.95)
        );
        assert!(wanted > 16);
    }
}
