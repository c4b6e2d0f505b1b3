//! Paired successes: McNemar's exact test.

use statrs::distribution::{Binomial, DiscreteCDF};

/// One-sided exact p (McNemar 1947) that the second of two paired series is the worse one, from the
/// number of pairs that it lost (right, then wrong) and gained (wrong, then right): P(X ≥ lost) for X
/// binomial with lost + gained trials of one half. Pairs that agree carry nothing.
///
/// 1 where nothing was lost.
pub fn mcnemar_p_worse(lost: u64, gained: u64) -> f64 {
    if lost == 0 {
        return 1.0;
    }
    Binomial::new(0.5, lost + gained).map_or(1.0, |b| b.sf(lost - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn against_hand_counts() {
        let table = [
            (0, 0, 1.0),
            (0, 5, 1.0),
            (1, 0, 0.5),
            (2, 0, 0.25),
            (6, 0, 1.0 / 64.0),
            (3, 1, 5.0 / 16.0),
            (1, 1, 0.75),
            (1, 3, 15.0 / 16.0),
        ];
        for (lost, gained, expect) in table {
            let p = mcnemar_p_worse(lost, gained);
            assert!((p - expect).abs() < 1e-12, "{lost} {gained}: {p}");
        }
    }

    #[test]
    fn many_pairs_keep_their_digits() {
        let p = mcnemar_p_worse(60, 0);
        assert!((p / 0.5_f64.powi(60) - 1.0).abs() < 1e-9, "{p}");
    }
}
