//! Exact binomial tests: of a share, and McNemar's of paired successes.

use statrs::distribution::{Binomial, DiscreteCDF};

/// One-sided exact p (McNemar 1947) that the second of two paired series is the worse one, from the
/// number of pairs that it lost (right, then wrong) and gained (wrong, then right): P(X ≥ lost) for X
/// binomial with lost + gained trials of one half. Pairs that agree carry nothing.
///
/// 1 where nothing was lost.
pub fn mcnemar_p_worse(lost: u64, gained: u64) -> f64 {
    binomial_p_more(lost, lost + gained, 0.5)
}

/// One-sided exact p that successes have a greater `share` than this: P(X ≥ `successes`) for X binomial with `trials`. 1 where
/// there are none, and where `share` is no probability.
pub fn binomial_p_more(successes: u64, trials: u64, share: f64) -> f64 {
    let Some(fewer) = successes.checked_sub(1) else {
        return 1.0;
    };
    Binomial::new(share, trials).map_or(1.0, |b| b.sf(fewer))
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
    fn a_share_against_hand_counts() {
        // 3 of 3 at 1/10: 1/1000; 2 of 2 or more of 3 at 1/4: 3·(1/16)·(3/4) + 1/64.
        for (successes, trials, share, expect) in [
            (3, 3, 0.1, 0.001),
            (2, 3, 0.25, 10.0 / 64.0),
            (0, 3, 0.1, 1.0),
        ] {
            let p = binomial_p_more(successes, trials, share);
            assert!((p - expect).abs() < 1e-12, "{successes} {trials}: {p}");
        }
    }

    #[test]
    fn many_pairs_keep_their_digits() {
        let p = mcnemar_p_worse(60, 0);
        assert!((p / 0.5_f64.powi(60) - 1.0).abs() < 1e-9, "{p}");
    }
}
