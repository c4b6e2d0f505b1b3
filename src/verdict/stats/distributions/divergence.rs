//! A lower bound of the Kullback–Leibler divergence of two distributions of which only the likeliest outcomes are
//! known.
//!
//! By the data-processing inequality no merging of outcomes raises a divergence (Cover and Thomas, *Elements of
//! Information Theory*, second edition, section 2.8 for the inequality, theorem 2.7.1 for the log sum inequality by
//! which it follows).

/// Probability below which what is left of q is rounding.
const ROUNDING: f64 = 1e-6;

/// The least KL(p ‖ q), in nats, that is possible with what is known:
///
/// - `both`: probabilities (p, q) of outcomes that are known of both;
/// - `of_p`: probabilities of outcomes that are known of p alone; each has `most` in q at the most.
///
/// All others are one outcome with what is left. Never negative; 0 for equal lists and where nothing is known. NaN among
/// the probabilities gives NaN.
pub fn kl_at_least(both: &[(f64, f64)], of_p: &[f64], most: f64) -> f64 {
    let known: f64 = both.iter().map(|&(p, q)| term(p, q)).sum();
    let (p_both, q_both) = both
        .iter()
        .fold((0.0, 0.0), |(ps, qs), &(p, q)| (ps + p, qs + q));
    let p_alone: f64 = of_p.iter().sum();
    let p_rest = (1.0 - p_both - p_alone).max(0.0);
    let q_left = (1.0 - q_both).max(ROUNDING);
    // The sum of both terms is convex in what the outcomes of p alone have in q: least where q is shared as p is, or as
    // near to that as `most` lets it be.
    let as_p = q_left * p_alone / (p_alone + p_rest).max(f64::MIN_POSITIVE);
    let q_alone = as_p.min(most * of_p.len() as f64);
    let q_rest = (q_left - q_alone).max(ROUNDING);
    let least = known + term(p_alone, q_alone) + term(p_rest, q_rest);
    if least < 0.0 { 0.0 } else { least }
}

/// p ln(p / q), which is 0 where p is.
fn term(p: f64, q: f64) -> f64 {
    if p <= 0.0 { 0.0 } else { p * (p / q).ln() }
}

#[cfg(test)]
mod tests {
    use super::kl_at_least;
    use proptest::prelude::*;

    #[track_caller]
    fn check(both: &[(f64, f64)], of_p: &[f64], most: f64, expect: f64) {
        let got = kl_at_least(both, of_p, most);
        assert!((got - expect).abs() < 1e-4, "{got} for {expect}");
    }

    #[test]
    fn what_is_known_is_what_counts() {
        check(&[], &[], 1.0, 0.0);
        check(&[(0.5, 0.5), (0.3, 0.3)], &[], 0.3, 0.0);
        check(&[(1.0, 1.0)], &[], 1.0, 0.0);
        // The worked case of docs/metrics.md: 0.6 ln(0.6/0.5) + 0.3 ln(0.3/0.4) + 0.1 ln(0.1/0.1).
        check(&[(0.6, 0.5), (0.3, 0.4)], &[], 0.4, 0.0231);
        // An outcome of p that q puts below its least of 0.01: 0.9 ln(0.9/0.01) + 0.1 ln(0.1/0.99).
        check(&[], &[0.9], 0.01, 3.8206);
        // One that q need not put below what p gives it says nothing.
        check(&[], &[0.3], 0.5, 0.0);
        assert!(kl_at_least(&[(f64::NAN, 0.5)], &[], 0.5).is_nan());
    }

    proptest! {
        #[test]
        fn no_list_of_the_likeliest_shows_more_than_the_whole(
            weights in prop::collection::vec((0.01_f64..1.0, 0.01_f64..1.0), 3..12),
            k in 1_usize..12,
        ) {
            let (ps, qs) = weights.iter().fold((0.0, 0.0), |(p, q), w| (p + w.0, q + w.1));
            let all: Vec<(f64, f64)> = weights.iter().map(|w| (w.0 / ps, w.1 / qs)).collect();
            let whole: f64 = all.iter().map(|&(p, q)| p * (p / q).ln()).sum();
            let list = |of: fn(&(f64, f64)) -> f64| {
                let mut order: Vec<usize> = (0..all.len()).collect();
                order.sort_by(|&a, &b| of(&all[b]).total_cmp(&of(&all[a])));
                order.truncate(k);
                order
            };
            let (of_p, of_q) = (list(|w| w.0), list(|w| w.1));
            let most = of_q.iter().map(|&i| all[i].1).fold(1.0, f64::min);
            let (both, alone): (Vec<usize>, Vec<usize>) = of_p.iter().partition(|i| of_q.contains(i));
            let both: Vec<(f64, f64)> = both.into_iter().map(|i| all[i]).collect();
            let alone: Vec<f64> = alone.into_iter().map(|i| all[i].0).collect();
            let least = kl_at_least(&both, &alone, most);
            prop_assert!((0.0..=whole + 1e-4).contains(&least), "{least} of {whole}");
            if k >= all.len() {
                prop_assert!((least - whole).abs() < 1e-4, "{least} of {whole}");
            }
        }
    }
}
