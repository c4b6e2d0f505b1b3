//! SplitMix64, the mixing behind every seeded number here that is neither for cryptography nor drawn in
//! bulk: G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators" (OOPSLA
//! 2014), with the constants of S. Vigna's public-domain `splitmix64.c`.
//!
//! The generator's state goes up by [`GAMMA`]; [`mix`] makes a number of each state. Refuses to know: what
//! is drawn.

/// 2⁶⁴ / golden ratio, made odd.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser: a bijection on 64 bits.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
