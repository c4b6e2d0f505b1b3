//! Main's history as JSON: `infergate-history/1`.

use super::words;
use crate::history::{CheckHistory, Creep, History, Note, Series, Step};
use crate::report::pretty_json;
use serde::Serialize;

const FORMAT: &str = "infergate-history/1";

#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    outcome: &'static str,
    summary: String,
    checks: Vec<JsonCheck<'a>>,
    remarks: &'a [String],
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    id: &'a str,
    metric: &'static str,
    margin: f64,
    is_worse: bool,
    /// Sessions enough, and recent ones, beside an anchor.
    is_known: bool,
    series: Vec<JsonSeries<'a>>,
}

#[derive(Serialize)]
struct JsonSeries<'a> {
    /// Why the series before ended; empty for the first.
    since: &'a [String],
    anchor: Option<JsonAnchor<'a>>,
    is_live: bool,
    is_old: bool,
    /// Differences are relative changes; else they are in the metric's unit.
    is_relative: bool,
    points: Vec<JsonPoint<'a>>,
    steps: Vec<JsonStep<'a>>,
    trend: Option<JsonTrend>,
    creep: Option<JsonCreep>,
}

#[derive(Serialize)]
struct JsonAnchor<'a> {
    name: &'a str,
    commit: &'a str,
}

#[derive(Serialize)]
struct JsonPoint<'a> {
    session: &'a str,
    created: &'a str,
    commit: Option<&'a str>,
    /// Beside an anchor the difference to it, else the value in the metric's unit.
    value: f64,
}

#[derive(Serialize)]
struct JsonStep<'a> {
    /// The first session after it, most likely.
    session: &'a str,
    /// The last commit surely before and the first surely after it.
    from_commit: Option<&'a str>,
    to_commit: Option<&'a str>,
    change: f64,
    interval: [f64; 2],
    p: f64,
    is_worse: bool,
    is_made_good: bool,
    is_alarm: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<JsonNote<'a>>,
}

#[derive(Serialize)]
pub struct JsonNote<'a> {
    /// RFC 3339.
    pub created: &'a str,
    pub by: &'a str,
    /// `kept` or `reverted`, where the author said it.
    pub outcome: Option<&'static str>,
    pub text: &'a str,
}

impl<'a> JsonNote<'a> {
    pub fn of(note: &'a Note) -> Self {
        Self {
            created: &note.created,
            by: &note.by,
            outcome: note.outcome.map(|outcome| outcome.name()),
            text: &note.text,
        }
    }
}

/// A session's change; the ends are `null` where the interval has no bounds.
#[derive(Serialize)]
struct JsonTrend {
    slope: f64,
    interval: [Option<f64>; 2],
}

#[derive(Serialize)]
struct JsonCreep {
    loss: f64,
    interval: [f64; 2],
    p: f64,
    is_alarm: bool,
}

/// The history as JSON, with a newline at its end.
pub fn history_json(history: &History, remarks: &[String], command: &str) -> String {
    let json = Json {
        format: FORMAT,
        outcome: words::outcome(history.outcome()),
        summary: words::summary(history, command),
        checks: history.checks.iter().map(check).collect(),
        remarks,
    };
    pretty_json(&json)
}

fn check(check: &CheckHistory) -> JsonCheck<'_> {
    JsonCheck {
        id: &check.id,
        metric: check.metric.name(),
        margin: check.margin,
        is_worse: check.is_worse(),
        is_known: check.is_known(),
        series: check.series.iter().map(series).collect(),
    }
}

fn series(series: &Series) -> JsonSeries<'_> {
    let difference = |y: f64| match series.scale.is_relative() {
        true => y.exp_m1(),
        false => y,
    };
    let value = |y: f64| match series.anchor {
        Some(_) => difference(y),
        None => series.scale.back(y),
    };
    let points = series.points.iter().map(|point| JsonPoint {
        session: &point.session,
        created: &point.created,
        commit: point.commit.as_deref(),
        value: value(point.value),
    });
    let finite = |y: f64| y.is_finite().then(|| difference(y));
    JsonSeries {
        since: &series.since,
        anchor: series
            .anchor
            .as_ref()
            .map(|(name, commit)| JsonAnchor { name, commit }),
        is_live: series.is_live,
        is_old: series.is_old,
        is_relative: series.scale.is_relative(),
        points: points.collect(),
        steps: series
            .steps
            .iter()
            .map(|found| step(series, found, &difference))
            .collect(),
        trend: series.trend.map(|trend| JsonTrend {
            slope: difference(trend.slope),
            interval: [finite(trend.low), finite(trend.high)],
        }),
        creep: series.creep.as_ref().map(creep),
    }
}

fn step<'a>(series: &'a Series, step: &'a Step, difference: &dyn Fn(f64) -> f64) -> JsonStep<'a> {
    let commit = |at: usize| series.points[at].commit.as_deref();
    let (from, to) = step.sessions;
    let change = &step.change;
    JsonStep {
        session: &series.points[change.at].session,
        from_commit: commit(from),
        to_commit: commit(to),
        change: difference(change.after - change.before),
        interval: [change.interval.0, change.interval.1].map(difference),
        p: change.p,
        is_worse: step.is_worse,
        is_made_good: step.is_made_good,
        is_alarm: step.is_alarm,
        notes: step.notes.iter().map(JsonNote::of).collect(),
    }
}

fn creep(creep: &Creep) -> JsonCreep {
    JsonCreep {
        loss: creep.loss,
        interval: [creep.interval.0, creep.interval.1],
        p: creep.p,
        is_alarm: creep.is_alarm,
    }
}
