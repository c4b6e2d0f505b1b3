//! The change points of a series, with the commits between which each fell.

use super::Note;
use verdict::record::Direction;
use verdict::stats::{self, ChangePoint};

/// A step is told at this p, which stands for all places of its series.
const TOLD: f64 = 1e-3;

/// It is an alarm at this one, shared among all series, with the sessions' dependence on the one before counted: a
/// history is read every morning, and each morning chance has another try (`tests/it/history/` counts what that comes
/// to). [`TOLD`] ignores dependence: an overlooked step looks like it.
const ALARM: f64 = 2e-4;

/// A change of main's level.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub change: ChangePoint,
    /// The change lies, with 95 % confidence, after the first and not after the second of these sessions;
    /// indices of the series' points.
    pub sessions: (usize, usize),
    pub is_worse: bool,
    /// Main is nearer today to where it was before the step than to where the step brought it.
    pub is_made_good: bool,
    /// Worse, not made good, and not by chance even among all series.
    pub is_alarm: bool,
    /// What people wrote about it, oldest first.
    pub notes: Vec<Note>,
}

/// The steps of a series, in order; none raises an alarm yet.
pub fn of(points: &[Point], direction: Direction) -> Vec<Step> {
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let changes = stats::change_points(&values, TOLD);
    let today = changes.last().map(|change| change.after);
    let sign = direction.sign();
    let step = |change: ChangePoint| {
        let is_worse = sign * (change.after - change.before) > 0.0;
        let middle = f64::midpoint(change.before, change.after);
        Step {
            change,
            sessions: (change.place.0 - 1, change.place.1),
            is_worse,
            is_made_good: is_worse && today.is_some_and(|today| sign * (today - middle) < 0.0),
            is_alarm: false,
            notes: Vec::new(),
        }
    };
    changes.into_iter().map(step).collect()
}

/// Marks the steps that stay significant among `series` many series.
pub fn alarm(steps: &mut [Step], series: usize) {
    for step in steps {
        let p = step.change.p_dependent * series.max(1) as f64;
        step.is_alarm = step.is_worse && !step.is_made_good && p <= ALARM;
    }
}

/// One session's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub session: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub commit: Option<String>,
    /// On the series' scale: with an anchor main's mean less the anchor's.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight values a level, alternating by a little.
    fn steps(levels: &[f64], direction: Direction) -> Vec<Step> {
        let point = |level: f64, i: usize| Point {
            session: format!("{i}"),
            created: String::new(),
            commit: None,
            value: level + if i.is_multiple_of(2) { 0.002 } else { -0.002 },
        };
        let points: Vec<Point> = levels
            .iter()
            .flat_map(|&level| (0..8).map(move |i| point(level, i)))
            .collect();
        let mut steps = of(&points, direction);
        alarm(&mut steps, 9);
        steps
    }

    #[track_caller]
    fn check(levels: &[f64], direction: Direction, expect: &[(usize, bool, bool, bool)]) {
        let found: Vec<_> = steps(levels, direction)
            .iter()
            .map(|s| (s.change.at, s.is_worse, s.is_made_good, s.is_alarm))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn only_what_is_worse_and_stays_so_is_an_alarm() {
        use Direction::{HigherIsBetter as Higher, LowerIsBetter as Lower};
        check(&[0.0], Lower, &[]);
        check(&[0.0, 0.02], Lower, &[(8, true, false, true)]);
        check(&[0.0, 0.02], Higher, &[(8, false, false, false)]);
        check(&[0.0, -0.02], Higher, &[(8, true, false, true)]);
        check(
            &[0.0, 0.02, 0.0],
            Lower,
            &[(8, true, true, false), (16, false, false, false)],
        );
        check(
            &[0.0, 0.02, 0.015, 0.04],
            Lower,
            &[(8, true, false, true), (24, true, false, true)],
        );
    }

    #[test]
    fn more_series_want_a_smaller_p() {
        let mut found = steps(&[0.0, 0.02], Direction::LowerIsBetter);
        let most = ALARM / found[0].change.p_dependent;
        for (series, expect) in [(most * 0.5, true), (most * 2.0, false)] {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a positive number, far below 2⁶⁴"
            )]
            alarm(&mut found, series as usize);
            assert_eq!(found[0].is_alarm, expect);
        }
    }
}
