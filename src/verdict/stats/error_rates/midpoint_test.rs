//! On which side of a threshold a difference lies: the test of one step of a search by halves.
//!
//! Main type: [`Halfway`]. With a threshold halfway between "no change" and "all of it" both sides are equally
//! far away, so that a step ends with one of them however small the change is against anybody's margin.

use crate::stats::Estimate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    Below,
    Above,
}

/// One step's test, at several looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Halfway {
    /// In the estimate's unit.
    pub threshold: f64,
    /// Looks that share the errors (Bonferroni); at least one.
    pub looks: u32,
    /// Chance, over all looks together, of `Above` where the truth is not above; in (0, 1/2).
    pub above_error: f64,
    /// The same of `Below`.
    pub below_error: f64,
}

impl Halfway {
    /// The side that this look shows, if it shows one: p × looks within the error of that side. `None` for a
    /// threshold that is NaN.
    pub fn side(&self, e: &Estimate) -> Option<Tail> {
        let looks = f64::from(self.looks.max(1));
        if e.p_greater(self.threshold) * looks <= self.above_error {
            return Some(Tail::Above);
        }
        (e.p_less(self.threshold) * looks <= self.below_error).then_some(Tail::Below)
    }

    /// The same test against another threshold. Where the hypotheses are nested (a difference above the higher
    /// threshold is above the lower one too), both may be asked of one estimate at the price of one.
    #[must_use]
    pub fn at(self, threshold: f64) -> Self {
        Self { threshold, ..self }
    }

    /// The interval that holds at all looks together, at the mean of the two errors.
    pub fn interval(&self, e: &Estimate) -> (f64, f64) {
        let looks = f64::from(self.looks.max(1));
        e.interval(1.0 - (self.above_error + self.below_error) / looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(est: f64, looks: u32, expect: Option<Tail>) {
        let e = Estimate {
            est,
            se: 1.0,
            df: 1e6,
        };
        let halfway = Halfway {
            threshold: 5.0,
            looks,
            above_error: 0.02,
            below_error: 0.05,
        };
        assert_eq!(halfway.side(&e), expect, "{est} at {looks} looks");
    }

    #[test]
    fn a_side_is_shown_beyond_its_quantile_alone() {
        // Normal quantiles: z(.98) = 2.0537, z(.95) = 1.6449; with five looks z(.996) = 2.6521, z(.99) = 2.3263.
        check(5.0, 1, None);
        check(5.0 + 2.053, 1, None);
        check(5.0 + 2.054, 1, Some(Tail::Above));
        check(5.0 - 1.644, 1, None);
        check(5.0 - 1.646, 1, Some(Tail::Below));
        check(5.0 + 2.651, 5, None);
        check(5.0 + 2.653, 5, Some(Tail::Above));
        check(5.0 - 2.326, 5, None);
        check(5.0 - 2.327, 5, Some(Tail::Below));
        check(f64::NAN, 1, None);
    }

    #[test]
    fn no_looks_count_as_one_and_a_nan_threshold_shows_nothing() {
        check(5.0 + 2.054, 0, Some(Tail::Above));
        let e = Estimate {
            est: 9.0,
            se: 1.0,
            df: 9.0,
        };
        let halfway = Halfway {
            threshold: f64::NAN,
            looks: 1,
            above_error: 0.4,
            below_error: 0.4,
        };
        assert_eq!(halfway.side(&e), None);
        assert_eq!(halfway.at(1.0).side(&e), Some(Tail::Above));
    }

    #[test]
    fn the_interval_excludes_what_both_tests_exclude() {
        let halfway = Halfway {
            threshold: 1.0,
            looks: 4,
            above_error: 0.02,
            below_error: 0.02,
        };
        let e = Estimate {
            est: 3.0,
            se: 0.5,
            df: 12.0,
        };
        let (low, high) = halfway.interval(&e);
        assert_eq!(halfway.at(low - 1e-9).side(&e), Some(Tail::Above));
        assert_eq!(halfway.at(low + 1e-9).side(&e), None);
        assert_eq!(halfway.at(high + 1e-9).side(&e), Some(Tail::Below));
    }
}
