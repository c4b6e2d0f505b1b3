//! Changes of a series' mean: number, places with their certainty, and sizes.
//!
//! Main type: [`ChangePoint`]. Two steps. *Optimal partitioning* (Jackson et al. 2005, "An algorithm for
//! optimal partitioning of data on an interval") finds, over all ways to cut the series into segments of at
//! least [`SHORTEST`] values, the one with the least sum of squares about the segments' means plus a penalty of
//! 2 ln(n) σ² a cut, σ² from the differences of neighbours (von Neumann 1941), which no step inflates. Then
//! the weakest cut is dropped until each is shown: two-sided pooled t between the segments beside it, times
//! the number of values, at most `alpha`. No random numbers: the same series gives the same answer.
//!
//! Refuses to know: what the values are, and whether more is worse.

use super::autocorrelation::shown_dependence;
use crate::stats::{Estimate, mean, variance};

/// Fewest values of a segment: one or two wild ones are no new level.
const SHORTEST: usize = 4;

/// Fewest values of the newest segment, which is still growing.
const NEWEST: usize = 2;

/// One-sided p at which a step must be shown without the most extreme value of either side: one wild value is no
/// step, however wild.
const WITHOUT_WILDEST: f64 = 3e-4;

/// Penalty of a cut, in units of ln(n) σ².
const PENALTY: f64 = 2.0;

/// Confidence of a step's interval and of its place.
const CONFIDENCE: f64 = 0.95;

/// A place where the mean changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// The first value after the change is, with 95 % confidence, one of these (both ends included): from
    /// the profile of the sum of squares over all places between the neighbouring cuts, with a flat prior
    /// (Smith 1975, "A Bayesian approach to inference about a change-point").
    pub place: (usize, usize),
    /// Means of the segments before and after, in the values' unit.
    pub before: f64,
    pub after: f64,
    /// 95 % interval of `after` − `before`; both ends equal to it where neither segment varies.
    pub interval: (f64, f64),
    /// Two-sided p of the step, times the number of values; 1 where one value makes the step; 0 where neither
    /// segment varies.
    pub p: f64,
    /// `p` for values that depend on their neighbours as they do within the levels.
    pub p_dependent: f64,
}

/// The changes of the mean that are shown at level `alpha`, in order.
///
/// Empty for fewer than 6 values (a segment of four and the newest of two), for constants, where a value is not
/// finite, and for an `alpha` that is not above 0. Of 120 independent normal values without a change, about one series
/// in a thousand gives a change point at `alpha` = .001. Values that depend on their neighbours give more: a random walk
/// is all change points.
pub fn change_points(values: &[f64], alpha: f64) -> Vec<ChangePoint> {
    if values.len() < SHORTEST + NEWEST || values.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let series = RandomSeries::new(values);
    let mut cuts = series.optimal_cuts();
    loop {
        let found = series.describe(&cuts);
        let weakest = found
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.p.total_cmp(&b.1.p));
        match weakest {
            Some((at, point)) if point.p.is_nan() || point.p > alpha => {
                cuts.remove(at);
                series.place_anew(&mut cuts);
            }
            _ => return found,
        }
    }
}

/// A series with its running sums, centred so that a large offset costs no digits.
struct RandomSeries<'a> {
    values: &'a [f64],
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl<'a> RandomSeries<'a> {
    fn new(values: &'a [f64]) -> Self {
        let centre = mean(values).unwrap_or_default();
        let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
        let (mut sum, mut square) = (0.0, 0.0);
        for value in values {
            sum += value - centre;
            square += (value - centre).powi(2);
            sums.push(sum);
            squares.push(square);
        }
        Self {
            values,
            sums,
            squares,
        }
    }

    /// Sum of squares about the mean of the values from `a` to before `b`.
    fn scatter(&self, a: usize, b: usize) -> f64 {
        let sum = self.sums[b] - self.sums[a];
        (self.squares[b] - self.squares[a] - sum * sum / (b - a) as f64).max(0.0)
    }

    /// Half the mean square of the neighbours' differences.
    fn noise(&self) -> f64 {
        let squares: Vec<f64> = self
            .values
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).powi(2))
            .collect();
        mean(&squares).unwrap_or_default() / 2.0
    }

    /// Fewest values of a segment with this end.
    fn shortest(&self, end: usize) -> usize {
        match end == self.values.len() {
            true => NEWEST,
            false => SHORTEST,
        }
    }

    /// The cuts of the best partition, in order.
    fn optimal_cuts(&self) -> Vec<usize> {
        let n = self.values.len();
        let penalty = PENALTY * (n as f64).ln() * self.noise();
        let mut cost = vec![f64::INFINITY; n + 1];
        let mut last = vec![0; n + 1];
        // The first segment pays no penalty.
        cost[0] = -penalty;
        for end in SHORTEST..=n {
            for start in 0..=end - self.shortest(end) {
                let with = cost[start] + self.scatter(start, end) + penalty;
                if with < cost[end] {
                    cost[end] = with;
                    last[end] = start;
                }
            }
        }
        let mut cuts = Vec::new();
        let mut end = last[n];
        while end > 0 {
            cuts.push(end);
            end = last[end];
        }
        cuts.reverse();
        cuts
    }

    /// Moves each cut to the best place between its neighbours, which a dropped one may have changed.
    fn place_anew(&self, cuts: &mut [usize]) {
        for i in 0..cuts.len() {
            let (start, end) = self.around(cuts, i);
            let split = |&at: &usize| self.scatter(start, at) + self.scatter(at, end);
            let places = start + SHORTEST..=end - self.shortest(end);
            let best = places.min_by(|a, b| split(a).total_cmp(&split(b)));
            cuts[i] = best.unwrap_or(cuts[i]);
        }
    }

    /// The cuts beside the `i`-th one, or the series' ends.
    fn around(&self, cuts: &[usize], i: usize) -> (usize, usize) {
        let start = i.checked_sub(1).map_or(0, |before| cuts[before]);
        let end = cuts.get(i + 1).copied().unwrap_or(self.values.len());
        (start, end)
    }

    fn describe(&self, cuts: &[usize]) -> Vec<ChangePoint> {
        let rho = shown_dependence(&levels(self.values, cuts));
        let points = cuts.iter().enumerate().map(|(i, &at)| {
            let (start, end) = self.around(cuts, i);
            self.point(start, at, end, rho)
        });
        points.collect()
    }

    fn point(&self, start: usize, at: usize, end: usize, rho: f64) -> ChangePoint {
        let (left, right) = (&self.values[start..at], &self.values[at..end]);
        let [before, after] = [left, right].map(|side| mean(side).unwrap_or(f64::NAN));
        let step = after - before;
        let (interval, p, p_dependent) = match pooled(left, right) {
            Some(e) => {
                let looks = self.values.len() as f64;
                let p_of = |e: Estimate| 2.0 * e.p_greater(0.0).min(e.p_less(0.0)) * looks;
                let (p, p_dependent) = match is_by_one_value(left, right, &e) {
                    true => (1.0, 1.0),
                    false => (p_of(e), p_of(e.dependent(rho))),
                };
                (e.interval(CONFIDENCE), p, p_dependent)
            }
            // Two levels without any spread differ for certain, unless they are one.
            None => {
                let p = if step.abs() > 0.0 { 0.0 } else { 1.0 };
                ((step, step), p, p)
            }
        };
        ChangePoint {
            at,
            place: self.place(start, at, end),
            before,
            after,
            interval,
            p: p.min(1.0),
            p_dependent: p_dependent.min(1.0),
        }
    }

    /// The places that hold 95 % of the profile, the likeliest first, and all between them.
    fn place(&self, start: usize, at: usize, end: usize) -> (usize, usize) {
        let n = (end - start) as f64;
        let split = |at: usize| self.scatter(start, at) + self.scatter(at, end);
        let weight = |place: usize| {
            let (left, right) = ((place - start) as f64, (end - place) as f64);
            -(n - 2.0) / 2.0 * split(place).ln() - (left * right).ln() / 2.0
        };
        let mut places: Vec<(usize, f64)> = (start + 1..end).map(|p| (p, weight(p))).collect();
        let top = places
            .iter()
            .map(|(_, w)| *w)
            .fold(f64::NEG_INFINITY, f64::max);
        if !top.is_finite() {
            return (at, at);
        }
        for (_, weight) in &mut places {
            *weight = (*weight - top).exp();
        }
        let total: f64 = places.iter().map(|(_, w)| w).sum();
        places.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut held, mut first, mut last) = (0.0, at, at);
        for (place, weight) in places {
            if held >= CONFIDENCE * total {
                break;
            }
            held += weight;
            first = first.min(place);
            last = last.max(place);
        }
        (first, last)
    }
}

/// The values of each level, by the places at which a new one begins.
fn levels(values: &[f64], cuts: &[usize]) -> Vec<Vec<f64>> {
    let borders = [&[0], cuts, &[values.len()]].concat();
    let levels = borders.windows(2);
    levels.map(|b| values[b[0]..b[1]].to_vec()).collect()
}

/// Student's two-sample t with one variance: segments are short, and noise that changes with the level would
/// be another engine. `None` where neither side varies.
fn pooled(left: &[f64], right: &[f64]) -> Option<Estimate> {
    let (n, m) = (left.len() as f64, right.len() as f64);
    let df = n + m - 2.0;
    let square = (variance(left)? * (n - 1.0) + variance(right)? * (m - 1.0)) / df;
    let se = (square * (1.0 / n + 1.0 / m)).sqrt();
    let est = mean(right)? - mean(left)?;
    (se > 0.0).then_some(Estimate { est, se, df })
}

/// Whether a step is not shown without the most extreme value of one of its sides.
fn is_by_one_value(left: &[f64], right: &[f64], step: &Estimate) -> bool {
    let sign = step.est.signum();
    let variance_of = |n: usize| 1.0 / n as f64;
    let square = step.se.powi(2) / (variance_of(left.len()) + variance_of(right.len()));
    let is_not_shown = |side: &[f64], other: &[f64], sign: f64| {
        let level = mean(other).unwrap_or(f64::NAN);
        let mut beyond: Vec<f64> = side.iter().map(|v| sign * (v - level)).collect();
        beyond.sort_by(f64::total_cmp);
        beyond.pop();
        let Some(est) = mean(&beyond) else {
            return true;
        };
        let se = (square * (variance_of(beyond.len()) + variance_of(other.len()))).sqrt();
        let without = Estimate {
            est,
            se,
            df: step.df,
        };
        without.p_greater(0.0) > WITHOUT_WILDEST
    };
    is_not_shown(right, left, sign) || is_not_shown(left, right, -sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALPHA: f64 = 1e-3;

    /// Spread of about one, with no drift and no repetition.
    fn noise(i: usize) -> f64 {
        let x = (i as f64 * 12.9898).sin() * 43_758.547;
        (x - x.floor() - 0.5) * 3.4
    }

    /// `levels` of a length each, with noise of standard deviation `sd`.
    fn stairs(levels: &[(f64, usize)], sd: f64) -> Vec<f64> {
        let plain = levels
            .iter()
            .flat_map(|&(level, n)| std::iter::repeat_n(level, n));
        plain
            .enumerate()
            .map(|(i, level)| level + sd * noise(i))
            .collect()
    }

    #[track_caller]
    fn check(values: &[f64], expect: &[usize]) {
        let found: Vec<usize> = change_points(values, ALPHA).iter().map(|p| p.at).collect();
        assert_eq!(found, expect, "{values:?}");
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], &[]);
        check(&[1.0], &[]);
        check(&[1.0, 9.0], &[]);
        check(&[0.1; 40], &[]);
        check(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], &[]);
        check(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0], &[4]);
        check(&[1.0, 1.0, 1.0, 1.0, 9.0], &[]);
        check(&[1.0, 1.0, 1.0, 1.0, 1.0, 9.0], &[]);
        check(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0], &[4]);
        let mut with_nan = stairs(&[(0.0, 10), (9.0, 10)], 1.0);
        check(&with_nan, &[10]);
        assert_eq!(change_points(&with_nan, 0.0), []);
        assert_eq!(change_points(&with_nan, f64::NAN).len(), 1);
        with_nan[3] = f64::NAN;
        check(&with_nan, &[]);
    }

    #[test]
    fn levels_are_told_apart() {
        check(&stairs(&[(0.0, 60)], 1.0), &[]);
        check(&stairs(&[(0.0, 20), (4.0, 20)], 1.0), &[20]);
        check(&stairs(&[(0.0, 12), (4.0, 12), (8.0, 12)], 1.0), &[12, 24]);
        // What was mended is seen as well: a search that only halves the series passes over it.
        check(&stairs(&[(0.0, 40), (5.0, 6), (0.0, 40)], 1.0), &[40, 46]);
        // One wild value, or two, are no level.
        check(&stairs(&[(0.0, 20), (50.0, 2), (0.0, 20)], 1.0), &[]);
    }

    #[test]
    fn the_newest_level_is_seen_after_two_values_and_a_wild_one_is_none() {
        let mut values = stairs(&[(0.0, 40), (7.0, 1)], 1.0);
        check(&values, &[]);
        values = stairs(&[(0.0, 40), (7.0, 2)], 1.0);
        check(&values, &[40]);
        // The other three are where all are.
        values = stairs(&[(0.0, 40), (0.0, 4)], 1.0);
        values[42] = 500.0;
        check(&values, &[]);
    }

    /// By hand: each side has variance 2, so se = 1, t = 6 and df = 6. For an even number of degrees the
    /// two-sided p is closed: cos² = 6/42, sin = √(6/7), p = 1 − sin (1 + cos²/2 + 3 cos⁴/8) = 9.645352e-4.
    /// t(.975, 6) = 2.446912. Cut at 4 the scatter is 12, at 5 28.2, at 3 51.8: of weights RSS⁻³ / √(left ·
    /// right) the first has 91 %, the first two 98 %.
    #[test]
    fn a_step_has_its_pooled_t() {
        let half = 6.0_f64.sqrt() / 2.0;
        let side = |level: f64| [level - half, level + half, level + half, level - half];
        let step = pooled(&side(0.0), &side(6.0)).unwrap();
        assert!((2.0 * step.p_greater(0.0) - 9.645_352e-4).abs() < 1e-9);
        assert!((step.interval(CONFIDENCE).0 - (6.0 - 2.446_911_85)).abs() < 1e-6);
        let values = [side(0.0), side(6.0)].concat();
        let series = RandomSeries::new(&values);
        assert_eq!(series.place(0, 4, 8), (4, 5));
    }

    /// Waves that last some values count for less than they are many; values that alternate show no dependence.
    #[test]
    fn values_that_resemble_the_one_before_show_a_step_less() {
        let wave = |level: f64| (0..24).map(move |i| level + [1.0, 0.8, -1.0, -0.8][i / 2 % 4]);
        let swings = |level: f64| (0..24).map(move |i| level + [1.0, -1.0][i % 2]);
        let point = |values: Vec<f64>| change_points(&values, ALPHA)[0];
        let waves = point(wave(0.0).chain(wave(5.0)).collect());
        let fair = point(swings(0.0).chain(swings(5.0)).collect());
        assert_eq!((waves.at, fair.at), (24, 24));
        assert!(waves.p_dependent > 1e3 * waves.p, "{waves:?}");
        assert!(fair.p_dependent.total_cmp(&fair.p).is_eq(), "{fair:?}");
    }

    #[test]
    fn a_faint_step_is_known_less_well_than_a_clear_one() {
        let width = |step: f64| {
            let found = change_points(&stairs(&[(0.0, 30), (step, 30)], 1.0), ALPHA);
            assert_eq!(found.len(), 1, "{step}");
            found[0].place.1 - found[0].place.0
        };
        assert!(width(1.4) > width(3.0));
        assert_eq!(width(9.0), 0);
    }

    /// The least cost over every partition, by trying all of them.
    fn least_cost(series: &RandomSeries<'_>, penalty: f64, from: usize) -> f64 {
        let n = series.values.len();
        let mut least = series.scatter(from, n);
        for cut in from + SHORTEST..=n - NEWEST {
            let with = series.scatter(from, cut) + penalty + least_cost(series, penalty, cut);
            least = least.min(with);
        }
        least
    }

    proptest! {
        #[test]
        fn no_partition_is_better(values in prop::collection::vec(-5.0..5.0_f64, 6..22)) {
            let series = RandomSeries::new(&values);
            let penalty = PENALTY * (values.len() as f64).ln() * series.noise();
            let cuts = series.optimal_cuts();
            let ends: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([values.len()]).collect();
            let cost: f64 = ends.windows(2).map(|e| series.scatter(e[0], e[1])).sum();
            let cost = cost + penalty * cuts.len() as f64;
            prop_assert!(cost <= least_cost(&series, penalty, 0) + 1e-9);
        }

        #[test]
        fn shift_scale_and_mirror(levels in prop::collection::vec(-9.0..9.0_f64, 1..4), shift in -1e3..1e3_f64, scale in 0.5..2.0_f64) {
            let levels: Vec<(f64, usize)> = levels.into_iter().map(|level| (level, 10)).collect();
            let values = stairs(&levels, 1.0);
            let moved: Vec<f64> = values.iter().map(|v| v * -scale + shift).collect();
            let places = |values: &[f64]| change_points(values, ALPHA).iter().map(|p| p.at).collect::<Vec<_>>();
            prop_assert_eq!(places(&values), places(&moved));
        }
    }
}
