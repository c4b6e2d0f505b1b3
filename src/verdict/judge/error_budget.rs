//! The error budget shared by the looks: the level that each p-value must keep.
//!
//! Main type: [`ErrorBudget`]. Refuses to know: what is tested.

use crate::plan::{Design, Spending};
use crate::stats;

/// The looks of a session, in order.
pub struct ErrorBudget<'a> {
    blocks: &'a [u32],
    spending: Spending,
}

impl<'a> ErrorBudget<'a> {
    /// Those of the session that is designed so.
    pub fn of(design: &'a Design) -> Self {
        Self {
            blocks: &design.looks,
            spending: design.spending,
        }
    }

    /// The p-value of a test at the look of so many blocks, with all looks paid for: it may be held against
    /// the whole budget. Above 1 it says no more than 1.
    pub fn paid(&self, p: f64, blocks: u32) -> f64 {
        match self.spending() {
            None => p * self.count(),
            Some(spending) => spending.repeated_p(p, self.number(blocks), &self.times()),
        }
    }

    /// The level of each look for this budget.
    pub fn levels(&self, budget: f64) -> Vec<f64> {
        let levels = self
            .spending()
            .and_then(|spending| spending.levels(budget, &self.times()));
        levels.unwrap_or_else(|| vec![budget / self.count(); self.blocks.len()])
    }

    /// The level of the look of so many blocks for this budget. Between two looks it is that of the next one; beyond
    /// the last, that of the last.
    pub fn level(&self, budget: f64, blocks: u32) -> f64 {
        let levels = self.levels(budget);
        let last = levels.len().saturating_sub(1);
        let level = levels.get(self.number(blocks).min(last)).copied();
        level.unwrap_or(budget / self.count())
    }

    fn spending(&self) -> Option<stats::Spending> {
        match self.spending {
            Spending::Bonferroni => None,
            Spending::Pocock => Some(stats::Spending::Pocock),
            Spending::ObrienFleming => Some(stats::Spending::ObrienFleming),
        }
    }

    /// L: the number of looks.
    fn count(&self) -> f64 {
        self.blocks.len().max(1) as f64
    }

    fn number(&self, blocks: u32) -> usize {
        self.blocks.iter().filter(|look| **look < blocks).count()
    }

    /// The looks' shares of the information: of the launches at the last one.
    fn times(&self) -> Vec<f64> {
        let last = self.blocks.last().copied().unwrap_or(1);
        let share = |look: &u32| f64::from(*look) / f64::from(last);
        self.blocks.iter().map(share).collect()
    }
}
