//! Holm's correction for several tests.

/// Step-down adjusted p-values (Holm 1979), in the order of the input: each may be held against the
/// family's budget directly. NaN counts as 1. No values give no values; one value is itself.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let clean = |v: f64| if v.is_nan() { 1.0 } else { v.clamp(0.0, 1.0) };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| clean(p[a]).total_cmp(&clean(p[b])));
    let mut adjusted = vec![1.0; p.len()];
    let mut floor = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        let factor = (p.len() - rank) as f64;
        floor = floor.max((clean(p[i]) * factor).min(1.0));
        adjusted[i] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(p: &[f64], expect: &[f64]) {
        let got = holm(p);
        assert_eq!(got.len(), expect.len());
        for (g, e) in got.iter().zip(expect) {
            assert!((g - e).abs() < 1e-12, "{p:?}: {got:?}");
        }
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], &[]);
        check(&[0.03], &[0.03]);
        check(&[0.03, 0.01], &[0.03, 0.02]);
        check(&[0.04, 0.04], &[0.08, 0.08]);
        check(&[0.2, 0.03, 0.013, 0.0004], &[0.2, 0.06, 0.039, 0.0016]);
        check(&[0.01, f64::NAN], &[0.02, 1.0]);
        check(&[0.0, 0.9, 0.9], &[0.0, 1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn never_below_p_nor_above_bonferroni(p in prop::collection::vec(0.0..=1.0_f64, 1..12)) {
            let n = p.len() as f64;
            for (adjusted, raw) in holm(&p).iter().zip(&p) {
                prop_assert!(*adjusted >= *raw && *adjusted <= (raw * n).min(1.0) + 1e-12);
            }
            let mut back = p.clone();
            back.reverse();
            let mut there = holm(&back);
            there.reverse();
            prop_assert_eq!(there, holm(&p));
        }
    }
}
