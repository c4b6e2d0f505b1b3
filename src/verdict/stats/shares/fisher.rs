//! Two shares of few: Fisher's exact test.

use statrs::distribution::{Discrete, Hypergeometric};

/// Tables as likely as the one seen, but for rounding, count as no likelier.
const ROUNDING: f64 = 1.0 + 1e-7;

/// Two-sided exact p (Fisher 1935) that two shares are one, from successes and trials of each: the chance of all tables
/// with the same sums that are no likelier than this one. 1 without trials.
pub fn fisher_p(a: (u64, u64), b: (u64, u64)) -> f64 {
    let (trials, successes) = (a.1 + b.1, a.0 + b.0);
    let Ok(chance) = Hypergeometric::new(trials, successes.min(trials), a.1) else {
        return 1.0;
    };
    let seen = chance.pmf(a.0) * ROUNDING;
    let tables = (0..=a.1.min(successes)).map(|of_a| chance.pmf(of_a));
    tables.filter(|p| *p <= seen).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By scipy.stats.fisher_exact.
    #[test]
    fn against_known_tables() {
        let table = [
            ((0, 4), (4, 4), 2.0 / 70.0),
            ((2, 4), (3, 4), 1.0),
            ((1, 9), (11, 15), 0.009_422_5),
            ((8, 10), (1, 6), 0.034_965),
            ((0, 5), (0, 5), 1.0),
            ((5, 5), (5, 5), 1.0),
            ((0, 0), (0, 0), 1.0),
        ];
        for (a, b, expect) in table {
            let p = fisher_p(a, b);
            assert!((p - expect).abs() < 1e-6, "{a:?} {b:?}: {p}");
        }
    }
}
