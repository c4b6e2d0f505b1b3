//! Numbers that look random and are the same in every run. Refuses to know: what is drawn.

/// Knuth's generator (MMIX): the upper 31 bits of its states after `seed`.
pub(crate) fn numbers(seed: u64) -> impl Iterator<Item = usize> {
    let next = |state: &u64| {
        Some(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407),
        )
    };
    std::iter::successors(next(&seed), next).map(|state| (state >> 33) as usize)
}
