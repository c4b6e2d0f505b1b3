//! Choice of the next commit and the final conclusion. Pure: no clock, no git.
//!
//! Main type: [`Search`]. Commit 0 is GOOD and the last one BAD, whose loss against GOOD was measured to be
//! d. Every commit's loss is tested against d/2 on both sides, whatever the gate's margin is: a commit that has
//! the regression and one that has it not are then equally far from the threshold, and each step ends with one of
//! the two. With several regressions between GOOD and BAD the threshold is crossed somewhere all the same, and
//! that place is found. A commit that is shown to lie near d/2 itself (between d/4 and 3d/4) has a part of the
//! change: the search goes on towards the larger part, with a threshold halfway to it.
//!
//! The gate's errors are spent as they are needed: a step gets what is left, divided by the steps that can still
//! come and one (the last one's, that the commit be compared with its parent). The sum never exceeds the whole,
//! also where commits that do not build make more steps. docs/decisions/0021 has the reasons and a simulation.

use std::collections::BTreeMap;
use verdict::record::{Conclusion, Finding};
use verdict::stats::{Estimate, Halfway, Tail};

/// How often the search may turn towards a part of the change.
const MOST_TURNS: u32 = 2;
/// The farthest that a skip leads from the middle, as a power of two.
const FARTHEST: u32 = 16;

/// Error budgets of all steps together, and the looks of each.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    /// A good commit called bad.
    pub alpha: f64,
    /// A bad one called good.
    pub beta: f64,
    pub looks: u32,
}

pub struct Search {
    errors: Errors,
    /// BAD.
    last: usize,
    /// The last that is good, and the first that is bad.
    low: usize,
    high: usize,
    threshold: f64,
    /// Half the distance from the threshold to either side's level.
    gap: f64,
    turns: u32,
    /// Share of the budgets that is left.
    left: f64,
    /// Commits that showed a side, with the test that did.
    shown: BTreeMap<usize, (Halfway, Estimate)>,
    /// Those that are not tried again.
    closed: BTreeMap<usize, Finding>,
    /// Skips since the range last moved.
    skips: u32,
}

impl Search {
    /// Among commits 1 to `last`; `loss` of the last against commit 0, 0 where values decide exactly.
    pub fn new(last: usize, loss: f64, errors: Errors) -> Self {
        Self {
            errors,
            last,
            low: 0,
            high: last,
            threshold: loss / 2.0,
            gap: loss / 4.0,
            turns: 0,
            left: 1.0,
            shown: BTreeMap::new(),
            closed: BTreeMap::new(),
            skips: 0,
        }
    }

    /// The commit to try: the middle one, and after skips one beside it, farther away with each. `None`: nothing is
    /// left to try.
    pub fn next(&self) -> Option<usize> {
        let middle = self.low + (self.high - self.low) / 2;
        let away = match self.skips {
            0 => 0,
            n => 1_usize << (n - 1).min(FARTHEST),
        };
        let aim = if self.skips % 2 == 1 {
            middle + away
        } else {
            middle.saturating_sub(away)
        };
        let open = (self.low + 1..self.high).filter(|commit| !self.closed.contains_key(commit));
        open.min_by_key(|commit| commit.abs_diff(aim))
    }

    /// Steps that can still come if each halves what is left.
    pub fn steps_left(&self) -> u32 {
        (self.high - self.low).next_power_of_two().ilog2()
    }

    /// The next step's test, by its share of the errors.
    pub fn test(&self) -> Halfway {
        let share = self.share();
        Halfway {
            threshold: self.threshold,
            looks: self.errors.looks,
            above_error: self.errors.alpha * share,
            below_error: self.errors.beta * share,
        }
    }

    fn share(&self) -> f64 {
        self.left / f64::from(self.steps_left() + 1)
    }

    /// What the next step's numbers show at a look.
    pub fn finding(&self, loss: &Estimate, is_last_look: bool) -> Option<Finding> {
        let test = self.test();
        match test.side(loss) {
            Some(Tail::Above) => return Some(Finding::Bad),
            Some(Tail::Below) => return Some(Finding::Good),
            None => {}
        }
        let beyond = test.at(self.threshold - self.gap).side(loss) == Some(Tail::Above);
        let within = test.at(self.threshold + self.gap).side(loss) == Some(Tail::Below);
        if beyond && within && self.turns < MOST_TURNS {
            return Some(Finding::Partly);
        }
        is_last_look.then_some(Finding::Undecided)
    }

    /// Takes in what a step found of a commit; its loss, where the step measured one by a clock.
    pub fn take(&mut self, commit: usize, finding: Finding, loss: Option<Estimate>) {
        let test = self.test();
        if let Some(loss) = loss {
            self.left -= self.share();
            self.shown.insert(commit, (test, loss));
        }
        match finding {
            Finding::Good => self.low = commit,
            Finding::Bad => self.high = commit,
            Finding::Partly => self.turn(commit, loss),
            Finding::Undecided | Finding::Skipped => {
                self.closed.insert(commit, finding);
                self.skips += 1;
                return;
            }
            // The measurement was broken and says nothing: the commit is tried again.
            Finding::Invalid => return,
        }
        self.skips = 0;
    }

    /// Towards the larger part of the change. What was shown against the old threshold counts where it shows the
    /// same against the new one.
    fn turn(&mut self, commit: usize, loss: Option<Estimate>) {
        self.turns += 1;
        self.closed.retain(|_, why| *why == Finding::Skipped);
        let is_before = loss.is_some_and(|loss| loss.est >= self.threshold);
        if is_before {
            self.threshold -= self.gap;
            self.high = commit;
            self.low = self.nearest(0..commit, Tail::Below).max().unwrap_or(0);
        } else {
            self.threshold += self.gap;
            self.low = commit;
            let above = self.nearest(commit + 1..self.last, Tail::Above).min();
            self.high = above.unwrap_or(self.last);
        }
        self.gap /= 2.0;
    }

    /// Commits of a range that are shown to lie on a side of the threshold.
    fn nearest(
        &self,
        range: std::ops::Range<usize>,
        side: Tail,
    ) -> impl Iterator<Item = usize> + '_ {
        self.shown
            .range(range)
            .filter_map(move |(commit, (test, loss))| {
                (test.at(self.threshold).side(loss) == Some(side)).then_some(*commit)
            })
    }

    /// The commits among which the first bad one is, the greatest range first to last.
    pub fn candidates(&self) -> (u32, u32) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        (number(self.low + 1), number(self.high))
    }

    /// What can be said once nothing is left to try.
    pub fn conclusion(&self) -> Conclusion {
        match self.candidates() {
            (first, last) if first == last => Conclusion::Culprit { commit: last },
            (first, last) => Conclusion::Among { first, last },
        }
    }
}

#[cfg(test)]
mod tests;
