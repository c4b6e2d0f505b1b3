//! A difference with its standard error: Welch's, the one-sample and the prediction t.

use crate::stats::distributions::student::{t_quantile, t_sf};
use crate::stats::{mean, variance};
use thiserror::Error;

/// An estimated difference. `(est − true) / se` follows Student's t with `df` degrees of freedom.
/// Always finite with `se` > 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub est: f64,
    pub se: f64,
    pub df: f64,
}

/// Why there is no t.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Degenerate {
    #[error("{n} values where two are needed")]
    TooFew { n: usize },
    #[error("a value is not finite")]
    NotFinite,
    #[error("no variance at all")]
    NoVariance,
}

impl Estimate {
    fn new(est: f64, se: f64, df: f64) -> Result<Self, Degenerate> {
        if !est.is_finite() || !se.is_finite() || df.is_nan() {
            return Err(Degenerate::NotFinite);
        }
        if se <= 0.0 {
            return Err(Degenerate::NoVariance);
        }
        Ok(Self { est, se, df })
    }

    /// t against the hypothesis that the true difference is `shift`.
    pub fn t(&self, shift: f64) -> f64 {
        (self.est - shift) / self.se
    }

    /// p that the true difference is above `shift`: small where it clearly is. 1 for a NaN shift.
    pub fn p_greater(&self, shift: f64) -> f64 {
        t_sf(self.t(shift), self.df).unwrap_or(1.0)
    }

    /// p that the true difference is below `shift`: small where it clearly is. 1 for a NaN shift.
    pub fn p_less(&self, shift: f64) -> f64 {
        t_sf(-self.t(shift), self.df).unwrap_or(1.0)
    }

    /// The same difference of values that follow an AR(1) process of coefficient `rho` in \[0, 1): each counts as
    /// (1 − ρ) / (1 + ρ) of an independent one (Bartlett 1935). At least one degree of freedom.
    #[must_use]
    pub fn dependent(self, rho: f64) -> Self {
        let share = (1.0 - rho) / (1.0 + rho);
        Self {
            est: self.est,
            se: self.se / share.sqrt(),
            df: (self.df * share).max(1.0),
        }
    }

    /// Two-sided interval of confidence `conf` in (0, 1); infinite outside that domain.
    pub fn interval(&self, conf: f64) -> (f64, f64) {
        let half =
            t_quantile(1.0 - (1.0 - conf) / 2.0, self.df).map_or(f64::INFINITY, |q| q * self.se);
        (self.est - half, self.est + half)
    }
}

/// Welch's t (1947) for mean(head) − mean(base) with the Welch–Satterthwaite degrees of freedom.
/// Variances may differ, and one of them may be zero.
///
/// Errors: fewer than two values in an arm, a value that is not finite, both variances zero.
pub fn welch(head: &[f64], base: &[f64]) -> Result<Estimate, Degenerate> {
    let (mean_head, square_head) = mean_and_square_error(head)?;
    let (mean_base, square_base) = mean_and_square_error(base)?;
    let square = square_head + square_base;
    let spread = square_head.powi(2) / (head.len() - 1) as f64
        + square_base.powi(2) / (base.len() - 1) as f64;
    if square <= 0.0 {
        return Err(Degenerate::NoVariance);
    }
    Estimate::new(
        mean_head - mean_base,
        square.sqrt(),
        square.powi(2) / spread,
    )
}

/// One-sample t: the values' mean, to be held against a limit by its shift. df = n − 1.
///
/// Errors: fewer than two values, a value that is not finite, constants.
pub fn one_sample(values: &[f64]) -> Result<Estimate, Degenerate> {
    let (mean, square) = mean_and_square_error(values)?;
    Estimate::new(mean, square.sqrt(), (values.len() - 1) as f64)
}

/// One new session's mean against S stored session means, with the variance between sessions:
/// se² = s² (1 + 1/S), df = S − 1. This is the prediction interval for one further session, so a
/// machine that moves between sessions widens it.
///
/// Errors: fewer than two sessions, a value that is not finite, constant sessions.
pub fn prediction(new_mean: f64, session_means: &[f64]) -> Result<Estimate, Degenerate> {
    let (mean, square) = mean_and_square_error(session_means)?;
    let sessions = session_means.len() as f64;
    // `square` is s²/S, so s² (1 + 1/S) is square × (S + 1).
    Estimate::new(
        new_mean - mean,
        (square * (sessions + 1.0)).sqrt(),
        sessions - 1.0,
    )
}

pub fn all_finite(values: &[f64]) -> Result<(), Degenerate> {
    if values.iter().all(|v| v.is_finite()) {
        Ok(())
    } else {
        Err(Degenerate::NotFinite)
    }
}

/// Mean and squared standard error of the mean.
fn mean_and_square_error(values: &[f64]) -> Result<(f64, f64), Degenerate> {
    all_finite(values)?;
    match (mean(values), variance(values)) {
        (Some(mean), Some(variance)) => Ok((mean, variance / values.len() as f64)),
        _ => Err(Degenerate::TooFew { n: values.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn degenerate_inputs_have_a_name() {
        let table: [(&[f64], &[f64], Degenerate); 6] = [
            (&[], &[1.0, 2.0], Degenerate::TooFew { n: 0 }),
            (&[1.0], &[1.0, 2.0], Degenerate::TooFew { n: 1 }),
            (&[1.0, 2.0], &[3.0], Degenerate::TooFew { n: 1 }),
            (&[1.0, 1.0], &[2.0, 2.0], Degenerate::NoVariance),
            (&[1.0, f64::NAN], &[2.0, 2.5], Degenerate::NotFinite),
            (&[1.0, 1.5], &[2.0, f64::INFINITY], Degenerate::NotFinite),
        ];
        for (head, base, expect) in table {
            assert_eq!(welch(head, base), Err(expect), "{head:?} {base:?}");
        }
        assert_eq!(one_sample(&[3.0]), Err(Degenerate::TooFew { n: 1 }));
        assert_eq!(one_sample(&[0.1, 0.1, 0.1]), Err(Degenerate::NoVariance));
        assert_eq!(
            prediction(f64::NAN, &[1.0, 2.0]),
            Err(Degenerate::NotFinite)
        );
        assert_eq!(prediction(1.0, &[2.0, 2.0]), Err(Degenerate::NoVariance));
    }

    #[test]
    fn reversed_arms_reverse_the_sign() {
        let (a, b) = ([1.0, 2.0, 4.0], [2.5, 3.5, 5.0, 6.0]);
        let (there, back) = (welch(&a, &b).unwrap(), welch(&b, &a).unwrap());
        assert!((there.est + back.est).abs() < 1e-12);
        assert!((there.p_greater(0.0) - back.p_less(0.0)).abs() < 1e-12);
        assert!((there.p_greater(0.3) + there.p_less(0.3) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn prediction_is_wider_than_the_mean() {
        // s = 1 over four sessions: se = √(1 + 1/4).
        let sessions = [9.0, 10.0, 11.0, 10.0];
        let e = prediction(12.0, &sessions).unwrap();
        assert!((e.est - 2.0).abs() < 1e-12);
        assert!((e.se - (2.0_f64 / 3.0 * 1.25).sqrt()).abs() < 1e-12);
        assert!((e.df - 3.0).abs() < 1e-12);
    }

    #[test]
    fn nan_never_makes_p_small() {
        let e = welch(&[1.0, 2.0], &[1.0, 3.0]).unwrap();
        assert!((e.p_greater(f64::NAN) - 1.0).abs() < 1e-12);
        assert!((e.p_less(f64::NAN) - 1.0).abs() < 1e-12);
        assert!(e.interval(1.0).1.is_infinite());
    }

    proptest! {
        #[test]
        fn shift_scale_and_order(a in prop::collection::vec(1.0..2.0_f64, 3..12), b in prop::collection::vec(1.0..2.0_f64, 3..12), shift in -10.0..10.0_f64, scale in 0.5..2.0_f64) {
            prop_assume!(variance(&a).unwrap() > 1e-6 && variance(&b).unwrap() > 1e-6);
            let e = welch(&a, &b).unwrap();
            let go = |v: &[f64]| -> Vec<f64> { v.iter().rev().map(|x| x * scale + shift).collect() };
            let f = welch(&go(&a), &go(&b)).unwrap();
            prop_assert!((f.est - e.est * scale).abs() < 1e-9);
            prop_assert!((f.t(0.0) - e.t(0.0)).abs() < 1e-6 * (1.0 + e.t(0.0).abs()));
            prop_assert!((f.df - e.df).abs() < 1e-6 * e.df);
            let (low, high) = e.interval(0.98);
            prop_assert!(low < e.est && e.est < high);
            // An interval's end is where the one-sided p is half of what is left.
            prop_assert!((e.p_greater(low) - 0.01).abs() < 1e-9);
        }
    }
}
