//! Seeds: one that no request named, and those of a prompt's further choices.
//!
//! Refuses to know: what is drawn by them.

use crate::splitmix::{GAMMA, mix};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A seed that no request named, by the system's randomness.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The seed of a prompt's choice `index`. The first draws as a request for one choice does; the others'
/// seeds are scattered, so that neighbouring seeds share no choices.
pub fn choice_seed(seed: u64, index: usize) -> u64 {
    if index == 0 {
        return seed;
    }
    mix(seed.wrapping_add(GAMMA.wrapping_mul(index as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn choices_of_neighbouring_seeds_have_seeds_of_their_own() {
        assert_eq!(choice_seed(5, 0), 5);
        let seeds = (0..16).flat_map(|seed| (0..16).map(move |index| choice_seed(seed, index)));
        assert_eq!(seeds.collect::<BTreeSet<u64>>().len(), 256);
        assert_ne!(fresh_seed(), fresh_seed());
    }
}
