//! Variance components: how much of a spread lies within groups and how much between them.

use crate::stats::mean;

/// Of values in groups, in the squared unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Components {
    /// Within a group.
    pub within: f64,
    /// Degrees of freedom of `within`: values less groups.
    pub df: u32,
    /// Between the groups' true levels, 0 where the estimate is negative; `None` with a single group.
    pub between: Option<f64>,
}

/// One-way random effects by the analysis of variance, groups of any size (Searle, Casella and McCulloch,
/// *Variance Components*, 1992, section 3.6): within = SSW / (N − k), between = (MSB − within) / n₀ with
/// n₀ = (N − Σn² / N) / (k − 1). Empty groups do not count; a group of one value tells about `between`
/// alone.
///
/// `None` where no group has two values and where a value is not finite. Constants have components of 0.
pub fn one_way(groups: &[Vec<f64>]) -> Option<Components> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let all: Vec<f64> = groups.iter().copied().flatten().copied().collect();
    if all.iter().any(|v| !v.is_finite()) || all.len() <= groups.len() {
        return None;
    }
    let (k, n) = (groups.len() as f64, all.len() as f64);
    let grand = mean(&all)?;
    let (mut within, mut between, mut squares) = (0.0, 0.0, 0.0);
    for group in &groups {
        let (centre, size) = (mean(group)?, group.len() as f64);
        within += group.iter().map(|v| (v - centre).powi(2)).sum::<f64>();
        between += size * (centre - grand).powi(2);
        squares += size * size;
    }
    let within = within / (n - k);
    let typical = (n - squares / n) / (k - 1.0);
    Some(Components {
        within,
        df: u32::try_from(all.len() - groups.len()).unwrap_or(u32::MAX),
        between: (groups.len() > 1).then(|| ((between / (k - 1.0) - within) / typical).max(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(groups: &[&[f64]], expect: Option<(f64, u32, Option<f64>)>) {
        let groups: Vec<Vec<f64>> = groups.iter().map(|g| g.to_vec()).collect();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        match (one_way(&groups), expect) {
            (None, None) => {}
            (Some(got), Some((within, df, between))) => {
                assert!(close(got.within, within) && got.df == df, "{got:?}");
                assert_eq!(got.between.is_some(), between.is_some(), "{got:?}");
                assert!(
                    close(got.between.unwrap_or(0.0), between.unwrap_or(0.0)),
                    "{got:?}"
                );
            }
            (got, expect) => panic!("{got:?} where {expect:?} was expected"),
        }
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], None);
        check(&[&[]], None);
        check(&[&[1.0]], None);
        check(&[&[1.0], &[2.0]], None);
        check(&[&[1.0, 3.0]], Some((2.0, 1, None)));
        check(&[&[1.0, 3.0], &[]], Some((2.0, 1, None)));
        check(&[&[2.0, 2.0], &[2.0, 2.0]], Some((0.0, 2, Some(0.0))));
        check(&[&[2.0, 2.0], &[5.0, 5.0]], Some((0.0, 2, Some(4.5))));
        check(&[&[1.0, f64::NAN]], None);
        check(&[&[1.0, f64::INFINITY]], None);
    }

    #[test]
    fn groups_of_unequal_size() {
        // numpy, by the formulas above
        let groups: [&[f64]; 3] = [&[1.0, 2.0, 4.0], &[3.0, 5.0], &[10.0, 9.0, 8.0, 9.5]];
        check(
            &groups,
            Some((1.475_694_444_444_444_4, 6, Some(14.495_192_307_692_308))),
        );
    }

    #[test]
    fn a_negative_estimate_is_nought() {
        check(&[&[1.0, 9.0], &[9.0, 1.0]], Some((32.0, 2, Some(0.0))));
    }
}
