//! Number of first values of a series that are not yet at its level.

use crate::stats::{Degenerate, median, one_sample};

/// Values in a window.
const WINDOW: usize = 5;
/// A window this far from the level, on the scale of the values, is not at it: five values of a hundred
/// that are nearer move no median that anybody judges.
const TOLERANCE: f64 = 0.01;
/// … and this surely, two-sided.
const SURE: f64 = 0.001;
/// Fewer series cannot be that sure of a window.
const LEAST_SERIES: usize = 8;

/// What the beginning of several series of one process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So many first values; the rest is steady.
    Ends(usize),
    /// Longer than half of the series, or there is no level at all.
    BeyondHalf,
}

/// The first value from which the rest is steady, in windows of five: a window is not steady where the mean
/// over the series of (its median − the series' level) lies beyond 0.01 with two-sided p < .001 (one-sample
/// t over the series). The level of a series is the median of its second half; windows within the first
/// half are tested, and the warm-up ends with the last that is not steady. Values are logarithms, so 0.01
/// is 1 %. Averaging over replications is Welch's method (1983); the test replaces his eye.
///
/// `None` for fewer than eight series or two windows in half of the shortest, and where a value is not
/// finite. Constants are steady from the first.
pub fn warm_up(series: &[Vec<f64>]) -> Option<WarmUp> {
    let half = series.iter().map(Vec::len).min()? / 2;
    let finite = series.iter().flatten().all(|v| v.is_finite());
    if series.len() < LEAST_SERIES || half < 2 * WINDOW || !finite {
        return None;
    }
    let windows = half / WINDOW;
    let levels: Vec<f64> = series
        .iter()
        .map(|s| median(&s[s.len() / 2..]))
        .collect::<Option<_>>()?;
    let is_steady = |window: usize| {
        let off: Option<Vec<f64>> = series
            .iter()
            .zip(&levels)
            .map(|(s, level)| Some(median(&s[window * WINDOW..][..WINDOW])? - level))
            .collect();
        off.is_none_or(|off| is_at_level(&off))
    };
    let last = (0..windows).rev().find(|&window| !is_steady(window));
    Some(match last {
        None => WarmUp::Ends(0),
        Some(window) if window + 1 == windows => WarmUp::BeyondHalf,
        Some(window) => WarmUp::Ends((window + 1) * WINDOW),
    })
}

/// Whether these distances from the level, one a series, are none that matters.
fn is_at_level(off: &[f64]) -> bool {
    match one_sample(off) {
        Ok(e) => {
            let p = 2.0 * e.p_greater(0.0).min(e.p_less(0.0));
            e.est.abs() <= TOLERANCE || p >= SURE
        }
        Err(Degenerate::NoVariance) => off[0].abs() <= TOLERANCE,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight series around 3 with a little of their own, moved by `shape`.
    fn eight(length: usize, shape: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
        let value = |launch: usize, i: usize| {
            let own = ((launch * 7 + i * 13) % 11) as f64 * 1e-4;
            3.0 + launch as f64 * 0.05 + own + shape(i)
        };
        (0..8)
            .map(|launch| (0..length).map(|i| value(launch, i)).collect())
            .collect()
    }

    #[track_caller]
    fn check(series: &[Vec<f64>], expect: Option<WarmUp>) {
        assert_eq!(warm_up(series), expect);
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], None);
        check(&[vec![1.0]], None);
        check(&eight(40, |_| 0.0)[..7], None);
        check(&eight(19, |_| 0.0), None);
        check(&vec![vec![2.0; 40]; 8], Some(WarmUp::Ends(0)));
        check(&eight(40, |_| 0.0), Some(WarmUp::Ends(0)));
        let mut broken = eight(40, |_| 0.0);
        broken[3][5] = f64::NAN;
        check(&broken, None);
    }

    #[test]
    fn slow_first_values_are_found_to_the_window() {
        let slow = |until: usize| move |i: usize| if i < until { 0.1 } else { 0.0 };
        check(&eight(100, slow(3)), Some(WarmUp::Ends(5)));
        check(&eight(100, slow(10)), Some(WarmUp::Ends(10)));
        // A median of five is not moved by two.
        check(&eight(100, slow(12)), Some(WarmUp::Ends(10)));
        check(&eight(100, slow(23)), Some(WarmUp::Ends(25)));
    }

    #[test]
    fn what_lies_within_the_tolerance_is_steady() {
        let near = |i: usize| if i < 10 { 0.008 } else { 0.0 };
        check(&eight(100, near), Some(WarmUp::Ends(0)));
    }

    #[test]
    fn a_trend_without_end_has_no_level() {
        check(&eight(100, |i| i as f64 * 0.01), Some(WarmUp::BeyondHalf));
        let constant: Vec<f64> = (0..40).map(|i| if i < 20 { 1.0 } else { 2.0 }).collect();
        check(&vec![constant; 8], Some(WarmUp::BeyondHalf));
    }
}
