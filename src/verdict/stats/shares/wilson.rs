//! Shares: Wilson's score interval and the score test that it inverts.

use statrs::distribution::{ContinuousCDF, Normal};

/// Two-sided Wilson score interval (1927) of a share at confidence `conf` in (0, 1).
///
/// `None` for no trials, more successes than trials, or `conf` outside its domain. With no success the
/// lower end is 0, with nothing but successes the upper end is 1.
pub fn wilson(successes: u64, trials: u64, conf: f64) -> Option<(f64, f64)> {
    if trials == 0 || successes > trials || !(conf > 0.0 && conf < 1.0) {
        return None;
    }
    let z = standard_normal()?.inverse_cdf(1.0 - (1.0 - conf) / 2.0);
    let (n, share) = (trials as f64, successes as f64 / trials as f64);
    let scale = 1.0 + z * z / n;
    let centre = (share + z * z / (2.0 * n)) / scale;
    let half = z / scale * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let low = if successes == 0 { 0.0 } else { centre - half };
    let high = if successes == trials {
        1.0
    } else {
        centre + half
    };
    Some((low, high))
}

/// p that the true share is below `limit`: small where it clearly is. The one-sided score test, so that
/// p ≤ a exactly where the upper end of the Wilson interval of confidence 1 − 2a is ≤ `limit`.
///
/// 1 for no trials and for a limit outside (0, 1), where the normal approximation says nothing.
pub fn share_p_below(successes: u64, trials: u64, limit: f64) -> f64 {
    score(successes, trials, limit)
        .and_then(|z| Some(standard_normal()?.cdf(z)))
        .unwrap_or(1.0)
}

/// p that the true share is above `limit`; the mirror of [`share_p_below`].
pub fn share_p_above(successes: u64, trials: u64, limit: f64) -> f64 {
    score(successes, trials, limit)
        .and_then(|z| Some(standard_normal()?.sf(z)))
        .unwrap_or(1.0)
}

fn score(successes: u64, trials: u64, limit: f64) -> Option<f64> {
    if trials == 0 || successes > trials || !(limit > 0.0 && limit < 1.0) {
        return None;
    }
    let (n, share) = (trials as f64, successes as f64 / trials as f64);
    Some((share - limit) / (limit * (1.0 - limit) / n).sqrt())
}

fn standard_normal() -> Option<Normal> {
    Normal::new(0.0, 1.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn climbs_from_nothing() {
        assert_eq!(wilson(0, 0, 0.95), None);
        assert_eq!(wilson(3, 2, 0.95), None);
        assert_eq!(wilson(1, 2, 1.0), None);
        // R: prop.test(x, n, correct = FALSE)$conf.int
        let table = [
            (0, 10, 0.0, 0.277_532_799),
            (10, 10, 0.722_467_201, 1.0),
            (1, 1, 0.206_549_31, 1.0),
            (8, 10, 0.490_162_47, 0.943_317_84),
            (95, 100, 0.888_249_46, 0.978_456_14),
        ];
        for (k, n, low, high) in table {
            let (l, h) = wilson(k, n, 0.95).unwrap();
            assert!(
                (l - low).abs() < 1e-6 && (h - high).abs() < 1e-6,
                "{k}/{n}: {l} {h}"
            );
        }
    }

    #[test]
    fn p_is_one_where_nothing_can_be_said() {
        for (k, n, limit) in [(0, 0, 0.5), (1, 2, 0.0), (1, 2, 1.0), (1, 2, f64::NAN)] {
            assert!((share_p_below(k, n, limit) - 1.0).abs() < 1e-12);
            assert!((share_p_above(k, n, limit) - 1.0).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn the_test_is_the_interval(n in 1..300_u64, share in 0.0..=1.0_f64, limit in 0.01..0.99_f64, alpha in 0.001..0.2_f64) {
            let k = (share * n as f64).floor() as u64;
            let (low, high) = wilson(k, n, 1.0 - 2.0 * alpha).unwrap();
            prop_assume!((high - limit).abs() > 1e-9 && (low - limit).abs() > 1e-9);
            prop_assert_eq!(share_p_below(k, n, limit) <= alpha, high <= limit);
            prop_assert_eq!(share_p_above(k, n, limit) <= alpha, low >= limit);
        }
    }
}
