//! A small seeded generator for prompts: SplitMix64. Not for cryptography, nor for statistics.
//!
//! Refuses to know: what is drawn.

use verdict::splitmix::{GAMMA, mix};

/// SplitMix64 from its first number on.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream of its own for each list of keys. Every key passes the finaliser, so that lists which
    /// differ in one bit give unrelated streams.
    pub fn keyed(keys: &[u64]) -> Self {
        let state = keys
            .iter()
            .fold(0, |state, key| mix(state ^ mix(key.wrapping_add(GAMMA))));
        Self::new(state)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Uniform in `0..bound`, without bias: D. Lemire, "Fast random integer generation in an
    /// interval" (2019). A bound of 0 gives 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(bound);
            let low = wide as u64;
            if low >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn gives_the_published_sequence() {
        // Of the reference implementation in C, seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn below_reaches_every_value_and_never_the_bound() {
        let mut random = SplitMix64::new(7);
        let mut counts = [0_u32; 5];
        for _ in 0..5_000 {
            counts[random.below(5) as usize] += 1;
        }
        // Five standard deviations (28) around 1,000.
        assert!(
            counts.iter().all(|n| (860..=1_140).contains(n)),
            "{counts:?}"
        );
        assert_eq!(random.below(1), 0);
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn keys_matter_each_and_in_order() {
        let first = |keys: &[u64]| SplitMix64::keyed(keys).next_u64();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let lists: [&[u64]; 6] = [&[1, 2], &[2, 1], &[1, 3], &[0, 2], &[1, 2, 0], &[]];
        for (i, a) in lists.iter().enumerate() {
            for b in &lists[i + 1..] {
                assert_ne!(first(a), first(b), "{a:?} {b:?}");
            }
        }
    }
}
