//! Change of a share whose trials come in clusters: requests of one launch share its luck.
//!
//! The trials are the evidence, and the clusters say how far to trust them: a quasi-binomial score test, whose variance is the
//! binomial one times the dispersion between clusters (Rao and Scott 1992, *A simple method for the analysis of
//! clustered binary data*), never less than the binomial one.

use crate::stats::{Degenerate, Estimate};

/// Successes out of the trials of one cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trials {
    pub successes: f64,
    pub n: f64,
}

/// The trials of an arm's clusters together.
struct Arm {
    n: f64,
    /// With half a success and half a failure more, so that neither share is 0 nor has no logarithm.
    share: f64,
    /// Clusters, less one.
    df: f64,
    /// Σ (observed − expected)² / binomial variance, over clusters.
    dispersion: f64,
}

/// ln(head's share / base's). Each arm has a dispersion of its own, since slow requests of head alone may come in clusters, and
/// the degrees of freedom are Welch's and Satterthwaite's.
///
/// Errors: fewer than two clusters in an arm; a number that is not finite, a cluster without trials, more successes than
/// trials.
pub fn change_of_share(head: &[Trials], base: &[Trials]) -> Result<Estimate, Degenerate> {
    let (head, base) = (Arm::of(head)?, Arm::of(base)?);
    let successes = head.share * (head.n + 1.0) + base.share * (base.n + 1.0);
    let both = successes / (head.n + base.n + 2.0);
    let odds = (1.0 - both) / both;
    let arms = [head.square(odds), base.square(odds)];
    let square: f64 = arms.iter().sum();
    let spread = arms[0].powi(2) / head.df + arms[1].powi(2) / base.df;
    Ok(Estimate {
        est: (head.share / base.share).ln(),
        se: square.sqrt(),
        df: square.powi(2) / spread,
    })
}

impl Arm {
    fn of(clusters: &[Trials]) -> Result<Self, Degenerate> {
        if clusters.len() < 2 {
            return Err(Degenerate::TooFew { n: clusters.len() });
        }
        let is_sound =
            |t: &Trials| t.n.is_finite() && t.n > 0.0 && (0.0..=t.n).contains(&t.successes);
        if !clusters.iter().all(is_sound) {
            return Err(Degenerate::NotFinite);
        }
        let n: f64 = clusters.iter().map(|t| t.n).sum();
        let successes: f64 = clusters.iter().map(|t| t.successes).sum();
        let share = (successes + 0.5) / (n + 1.0);
        let of = |t: &Trials| {
            (t.successes - t.n * successes / n).powi(2) / (t.n * share * (1.0 - share))
        };
        Ok(Self {
            n,
            share,
            df: clusters.len() as f64 - 1.0,
            dispersion: clusters.iter().map(of).sum(),
        })
    }

    /// Squared error of the arm's part, by its own dispersion.
    fn square(&self, odds: f64) -> f64 {
        (self.dispersion / self.df).max(1.0) * odds / self.n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(n: f64, successes: &[f64]) -> Vec<Trials> {
        let of = |&successes: &f64| Trials { successes, n };
        successes.iter().map(of).collect()
    }

    #[track_caller]
    fn check(head: &[f64], base: &[f64], est: f64, se: f64) {
        let got = change_of_share(&trials(100.0, head), &trials(100.0, base)).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-4;
        let df = (head.len() + base.len() - 2) as f64;
        // Both arms vary as trials do.
        let holds = near(got.est, est) && near(got.se, se) && near(got.df, df);
        assert!(holds, "{got:?}, not {est} ± {se} with {df}");
    }

    /// The worked case of docs/verdict.md.
    #[test]
    fn clusters_that_vary_as_trials_do_have_the_binomial_variance() {
        // 379.5 / 401 against 395.5 / 401; both 775 / 802: se² = 27 / 775 × 2 / 400.
        check(
            &[95.0, 93.0, 97.0, 94.0],
            &[99.0, 98.0, 100.0, 98.0],
            -0.04130,
            0.01320,
        );
        check(&[100.0; 4], &[100.0; 4], 0.0, 0.002497);
        check(&[0.0; 4], &[100.0; 4], -6.68586, 0.07071);
    }

    #[test]
    fn clusters_that_vary_more_widen_the_interval() {
        // Σ (± 5)² = 100 over the binomial variance of a launch; the other arm adds nothing.
        let steady = change_of_share(&trials(100.0, &[95.0; 4]), &trials(100.0, &[99.0; 4]));
        let varied = change_of_share(
            &trials(100.0, &[100.0, 90.0, 100.0, 90.0]),
            &trials(100.0, &[99.0; 4]),
        );
        let (steady, varied) = (steady.unwrap(), varied.unwrap());
        let share = 380.5 / 401.0;
        let dispersion: f64 = 100.0 / (100.0 * share * (1.0 - share)) / 3.0;
        assert!((varied.est - steady.est).abs() < 1e-12);
        let wider = ((dispersion + 1.0) / 2.0).sqrt();
        assert!((varied.se / steady.se - wider).abs() < 1e-9, "{varied:?}");
        assert!((3.0..6.0).contains(&varied.df), "{varied:?}");
    }

    #[test]
    fn what_is_no_share_says_so() {
        let sound = trials(10.0, &[9.0, 8.0]);
        let few = |n| Err(Degenerate::TooFew { n });
        let check = |arm: &[Trials], expect| {
            assert_eq!(change_of_share(arm, &sound), expect, "{arm:?}");
            assert_eq!(change_of_share(&sound, arm), expect, "{arm:?}");
        };
        check(&[], few(0));
        check(&sound[..1], few(1));
        for broken in [
            (11.0, 10.0),
            (-1.0, 10.0),
            (0.0, 0.0),
            (f64::NAN, 10.0),
            (1.0, f64::INFINITY),
        ] {
            let (successes, n) = broken;
            check(
                &[sound[0], Trials { successes, n }],
                Err(Degenerate::NotFinite),
            );
        }
    }
}
