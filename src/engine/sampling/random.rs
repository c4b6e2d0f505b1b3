//! Numbers that look random and depend on a seed and a count alone.
//!
//! Main function: [`uniform`]. Refuses to know: what is drawn.

use crate::splitmix::{GAMMA, mix};

/// A number in 0..1 in steps of 2^-53, for draw `count` of `seed`.
///
/// SplitMix64, jumped to its `count`-th number. The seed is mixed first: as it stands, neighbouring seeds
/// would walk through the same numbers.
pub fn uniform(seed: u64, count: u64) -> f64 {
    let state = mix(seed).wrapping_add(count.wrapping_add(1).wrapping_mul(GAMMA));
    (mix(state) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published generator's numbers from state 0. Seed 0 stays 0 when mixed.
    #[test]
    fn equals_the_published_generator() {
        let published = [
            0xe220_a839_7b1d_cdaf_u64,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        for (count, want) in (0..).zip(published) {
            let want = (want >> 11) as f64 / (1u64 << 53) as f64;
            assert!((uniform(0, count) - want).abs() < 1e-18, "{count}");
        }
    }

    /// Along the seeds and along the counts: each of 64 equal parts gets its share, and neighbours are
    /// not correlated.
    #[test]
    fn is_uniform_along_seeds_and_along_counts() {
        const DRAWS: u64 = 64_000;
        let along_seeds = |at: u64| uniform(at, 0);
        let along_counts = |at: u64| uniform(7, at);
        for line in [&along_seeds as &dyn Fn(u64) -> f64, &along_counts] {
            let numbers: Vec<f64> = (0..DRAWS).map(line).collect();
            assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
            let mut counts = [0.0; 64];
            numbers
                .iter()
                .for_each(|number| counts[(number * 64.0) as usize] += 1.0);
            let chi: f64 = counts
                .iter()
                .map(|count| (count - 1000.0f64).powi(2) / 1000.0)
                .sum();
            // 63 degrees of freedom: one run in a million is beyond 127.
            assert!(chi < 127.0, "{chi}");
            let pairs = numbers
                .windows(2)
                .map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5));
            let correlation = pairs.sum::<f64>() * 12.0 / DRAWS as f64;
            assert!(correlation.abs() < 0.02, "{correlation}");
        }
    }
}
