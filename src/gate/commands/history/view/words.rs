//! Sentences of a history, for terminal, Markdown and JSON alike.

use crate::history::{CheckHistory, Creep, History, Note, Outcome, Point, RATIOS, Series, Step};
use crate::report::numbers;
use crate::report::redaction::redact;
use verdict::plural::count;
use verdict::record::is_ignorable;

pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Quiet => "quiet",
        Outcome::Worse => "worse",
        Outcome::Unknown => "unknown",
    }
}

/// One sentence or two: what the exit code says, and what mends it.
pub fn summary(history: &History, command: &str) -> String {
    let checks = &history.checks;
    if checks.is_empty() {
        return format!("nothing is stored yet: `{command}` on main stores a session");
    }
    let ids = |wanted: &dyn Fn(&CheckHistory) -> bool| {
        let ids = checks.iter().filter(|check| wanted(check));
        ids.map(|check| check.id.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let worse = ids(&CheckHistory::is_worse);
    let unknown = ids(&|check| !check.is_known());
    match history.outcome() {
        Outcome::Worse => format!("main became worse: {worse}"),
        Outcome::Unknown => format!(
            "too few or too old sessions beside an anchor ({RATIOS} recent ones are needed): {unknown}; \
             `{command}` on main stores one more"
        ),
        Outcome::Quiet => format!(
            "{}: no creep beyond the margin, no step for the worse",
            count(checks.len(), "check")
        ),
    }
}

/// `main over v0.3.0 (4f1c2d3e5a6b), 132 sessions, 2026-07-13 (…) – 2026-11-21 (…)`.
pub fn title(check: &CheckHistory, series: &Series) -> String {
    let what = match &series.anchor {
        Some((name, commit)) => format!("main over {name} ({commit})"),
        None => "main alone".to_owned(),
    };
    let sessions = count(series.points.len(), "session");
    let dates = match (series.points.first(), series.points.last()) {
        (Some(first), Some(last)) => format!(", {} – {}", place(first), place(last)),
        _ => String::new(),
    };
    let mut text = format!("{what}, {sessions}{dates}");
    if !series.is_live && !series.points.is_empty() {
        text.push_str(&format!(
            "; ended at {}",
            value(check, series, series.level())
        ));
    } else if series.is_old {
        text.push_str("; too old to say how main is today");
    }
    text
}

/// Date of the first session.
pub fn begin(series: &Series) -> &str {
    let first = series.points.first();
    first.map_or("with no sound value", |point| day(&point.created))
}

/// `! 2026-08-04  +1.4 % [+1.0, +1.8] worse in 99498ac4482c..c1a624dcbab5`, the range as git writes it.
pub fn step(check: &CheckHistory, series: &Series, step: &Step) -> String {
    let mark = if step.is_worse { '!' } else { '^' };
    let since = if step.is_made_good {
        ", made good since"
    } else {
        ""
    };
    let (size, place) = (step_size(check, series, step), step_place(series, step));
    let date = day(&series.points[step.change.at].created);
    format!("{mark} {date}  {size} {place}{since}")
}

/// `+1.4 % [+1.0, +1.8] worse`.
pub fn step_size(check: &CheckHistory, series: &Series, step: &Step) -> String {
    let change = &step.change;
    let size = change.after - change.before;
    let interval = [size, change.interval.0, change.interval.1];
    let size = with_interval(check, series, interval, 1);
    let kind = if step.is_worse { "worse" } else { "better" };
    format!("{size} {kind}")
}

/// The commits between which a step fell.
pub fn step_place(series: &Series, step: &Step) -> String {
    let (from, to) = step.sessions;
    range(&series.points[from], &series.points[to])
}

pub fn note(note: &Note) -> String {
    let outcome = note.outcome.map(|outcome| outcome.name());
    said(outcome, &note.text, &note.by, &note.created)
}

/// `kept: the new sampler costs it (Ada, 2026-08-13)`. Text from a store: what turns the direction of writing, or is
/// not seen, is left out.
pub fn said(outcome: Option<&str>, text: &str, by: &str, created: &str) -> String {
    let outcome = outcome.map_or(String::new(), |outcome| format!("{outcome}: "));
    let said = format!("{outcome}{text} ({by}, {})", day(created));
    redact(&said)
        .chars()
        .filter(|c| !is_ignorable(*c))
        .collect()
}

/// The commits between which a step fell.
fn range(from: &Point, to: &Point) -> String {
    match (&from.commit, &to.commit) {
        (Some(a), Some(b)) if a == b => {
            let commit = numbers::commit(a);
            format!("while main stood at {commit}, so that no commit did it")
        }
        (Some(a), Some(b)) => format!("in {}..{}", numbers::commit(a), numbers::commit(b)),
        _ => format!("between {} and {}", day(&from.created), day(&to.created)),
    }
}

pub fn trend(check: &CheckHistory, series: &Series) -> Option<String> {
    let trend = series.trend?;
    let shown = with_interval(check, series, [trend.slope, trend.low, trend.high], 2);
    Some(format!("trend {shown} a session"))
}

pub fn creep(anchor: &str, creep: &Creep) -> String {
    let (low, high) = creep.interval;
    let (kind, [mean, low, high]) = match creep.loss >= 0.0 {
        true => ("worse", [creep.loss, low, high]),
        false => ("better", [-creep.loss, -high, -low]),
    };
    let [mean, low, high] = [mean, low, high].map(|x| format!("{:.1}", x * 100.0));
    let (name, shown) = match creep.is_alarm {
        true => ("CREEP", "beyond"),
        false => ("no creep", "not shown to be beyond"),
    };
    format!(
        "{name}: the last {RATIOS} sessions are {mean} % [{low}, {high}] {kind} than {anchor}, {shown} the \
         margin of {:.1} % (p = {})",
        creep.margin * 100.0,
        numbers::p(creep.p)
    )
}

/// A point of a series: relative to its anchor, or in the metric's unit.
pub fn value(check: &CheckHistory, series: &Series, y: f64) -> String {
    match series.anchor {
        Some(_) => difference(check, series, y),
        None => numbers::value(series.scale.back(y), check.metric.unit()),
    }
}

/// A difference between two points of a series.
fn difference(check: &CheckHistory, series: &Series, y: f64) -> String {
    match series.scale.is_relative() {
        true => format!("{:+.1} %", y.exp_m1() * 100.0),
        false => plain(check, y),
    }
}

/// `+1.4 % [+1.0, +1.8]` of a difference and its interval, with so many digits of a percentage.
fn with_interval(
    check: &CheckHistory,
    series: &Series,
    difference: [f64; 3],
    digits: usize,
) -> String {
    let is_relative = series.scale.is_relative();
    let shown = |y: f64| match y.is_finite() {
        true if is_relative => format!("{:+.digits$}", y.exp_m1() * 100.0),
        true => plain(check, y),
        false => "unknown".to_owned(),
    };
    let [middle, low, high] = difference.map(shown);
    let unit = if is_relative { " %" } else { "" };
    format!("{middle}{unit} [{low}, {high}]")
}

fn plain(check: &CheckHistory, y: f64) -> String {
    let sign = if y > 0.0 { "+" } else { "" };
    format!("{sign}{}", numbers::value(y, check.metric.unit()))
}

/// `2026-11-21 (9f8e7d6c5b4a)`.
fn place(point: &Point) -> String {
    match &point.commit {
        Some(commit) => format!("{} ({})", day(&point.created), numbers::commit(commit)),
        None => day(&point.created).to_owned(),
    }
}

/// The date of an RFC 3339 time.
pub fn day(time: &str) -> &str {
    time.split_once('T').map_or(time, |(day, _)| day)
}
