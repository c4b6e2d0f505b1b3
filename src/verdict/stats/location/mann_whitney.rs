//! Mann and Whitney's U: whether values of one sample tend to be greater than those of another.

use super::estimate::{Degenerate, all_finite};
use statrs::distribution::{ContinuousCDF, Normal};

/// Without ties, up to so many pairs of values, the distribution is exact; beyond it is the normal one.
const EXACT_PAIRS: usize = 400;

/// How often a value of the first sample is above one of the second, and the p-values of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the first sample's value is the greater one, ties counted half.
    pub u: f64,
    /// Small where the first sample's values tend to be greater.
    pub p_greater: f64,
    /// Small where they tend to be less.
    pub p_less: f64,
}

impl MannWhitney {
    /// p that the two differ at all: twice the smaller one-sided p, at most 1.
    pub fn p_two_sided(&self) -> f64 {
        (2.0 * self.p_greater.min(self.p_less)).min(1.0)
    }
}

/// U of `a` against `b` (Mann and Whitney 1947). Without ties and up to 400 pairs p is exact; otherwise normal
/// with the variance corrected for ties and a continuity correction of one half (Lehmann 1975, section 1.4).
/// Values must be independent of one another: those of one launch are not.
///
/// Errors: an empty sample, a value that is not finite. One value each has p no smaller than one half;
/// constants have p = 1.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Result<MannWhitney, Degenerate> {
    if a.is_empty() || b.is_empty() {
        return Err(Degenerate::TooFew { n: 0 });
    }
    all_finite(a)?;
    all_finite(b)?;
    let (u, ties) = rank_sum(a, b);
    let pairs = a.len() * b.len();
    let (p_greater, p_less) = if ties <= 0.0 && pairs <= EXACT_PAIRS {
        let distribution = exact(a.len(), b.len());
        // Without ties U is whole.
        let at = u.round() as usize;
        (
            distribution[at..].iter().sum(),
            distribution[..=at].iter().sum(),
        )
    } else {
        normal(u, (a.len() as f64, b.len() as f64), ties)
    };
    Ok(MannWhitney {
        u,
        p_greater: f64::min(p_greater, 1.0),
        p_less: f64::min(p_less, 1.0),
    })
}

/// U, and Σ(t³ − t) over groups of t tied values.
fn rank_sum(a: &[f64], b: &[f64]) -> (f64, f64) {
    let of = |values: &[f64], is_first| -> Vec<(f64, bool)> {
        values.iter().map(|&v| (v, is_first)).collect()
    };
    let mut all = of(a, true);
    all.extend(of(b, false));
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (mut u, mut ties, mut below) = (0.0, 0.0, 0.0);
    // −0 and 0 are one value; total_cmp puts them side by side.
    for tied in all.chunk_by(|x, y| x.0 >= y.0) {
        let first = tied.iter().filter(|(_, is_first)| *is_first).count() as f64;
        let (n, second) = (tied.len() as f64, tied.len() as f64 - first);
        u += first * (below + second / 2.0);
        below += second;
        ties += n.powi(3) - n;
    }
    (u, ties)
}

/// P(U = u) for u from 0 to n·m, by Mann and Whitney's recurrence on the sample that holds the greatest value.
pub fn exact(n: usize, m: usize) -> Vec<f64> {
    // rows[j]: the distribution for i values against j, i rising.
    let mut rows: Vec<Vec<f64>> = (0..=m).map(|_| vec![1.0]).collect();
    for i in 1..=n {
        let mut previous = vec![1.0];
        for (j, row) in rows.iter_mut().enumerate().skip(1) {
            let share = i as f64 / (i + j) as f64;
            let mut next = vec![0.0; i * j + 1];
            // The greatest is one of the first sample: it is above all j of the second.
            for (u, p) in row.iter().enumerate() {
                next[u + j] += share * p;
            }
            for (u, p) in previous.iter().enumerate() {
                next[u] += (1.0 - share) * p;
            }
            *row = next;
            previous.clone_from(row);
        }
    }
    rows.pop().unwrap_or_default()
}

fn normal(u: f64, (n, m): (f64, f64), ties: f64) -> (f64, f64) {
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    let Some(normal) = Normal::new(0.0, 1.0).ok().filter(|_| variance > 0.0) else {
        return (1.0, 1.0);
    };
    let (mean, sd) = (n * m / 2.0, variance.sqrt());
    let tail = |above: f64| normal.sf((above - 0.5) / sd);
    (tail(u - mean), tail(mean - u))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn climbs_from_nothing() {
        let check = |a: &[f64], b: &[f64], expect: (f64, f64, f64)| {
            let got = mann_whitney(a, b).unwrap();
            let near = |x: f64, y: f64| (x - y).abs() < 1e-12;
            assert!(
                near(got.u, expect.0)
                    && near(got.p_greater, expect.1)
                    && near(got.p_less, expect.2),
                "{a:?} {b:?}: {got:?}"
            );
        };
        check(&[2.0], &[1.0], (1.0, 0.5, 1.0));
        check(&[1.0], &[2.0], (0.0, 1.0, 0.5));
        check(&[1.0, 2.0], &[3.0, 4.0], (0.0, 1.0, 1.0 / 6.0));
        check(&[1.0, 3.0], &[2.0, 4.0], (1.0, 5.0 / 6.0, 1.0 / 3.0));
        check(&[7.0; 3], &[7.0; 5], (7.5, 1.0, 1.0));
        assert_eq!(mann_whitney(&[], &[1.0]), Err(Degenerate::TooFew { n: 0 }));
        for bad in [f64::NAN, f64::INFINITY] {
            assert_eq!(mann_whitney(&[1.0], &[bad]), Err(Degenerate::NotFinite));
        }
    }

    #[test]
    fn the_exact_distribution_is_one_and_symmetric() {
        for (n, m) in [(1, 1), (3, 4), (8, 8), (20, 20), (1, 400)] {
            let p = exact(n, m);
            assert_eq!(p.len(), n * m + 1);
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (low, high) in p.iter().zip(p.iter().rev()) {
                assert!((low - high).abs() < 1e-12);
            }
        }
    }
}
