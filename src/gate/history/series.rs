//! Entries → series: which sessions can be compared, and what ended each comparison.

use super::creep::Creep;
use super::scale::scale_of;
use super::{Age, CheckHistory, History, Point, Series, Watched, steps};
use crate::baseline::{Entry, Key, age_days};
use verdict::record::{machine_changes, short};
use verdict::stats;

/// The series of one check, in the order in which they began.
pub fn of(entries: &[Entry], check: &Watched, age: &Age, last: usize) -> Vec<Series> {
    let mut groups: Vec<Vec<&Entry>> = Vec::new();
    for entry in entries.iter().filter(|entry| holds(entry, check)) {
        match groups
            .iter_mut()
            .find(|group| is_comparable(group[0], entry))
        {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    let mut found: Vec<Series> = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let since = match i.checked_sub(1) {
            Some(before) => differences(groups[before][0], group[0]),
            None => Vec::new(),
        };
        let newest = &group[group.len() - 1].created;
        let replaces = |later: &&Vec<&Entry>| {
            // A session without an anchor ends no series that has one.
            let same_kind = later[0].anchor.is_some() || group[0].anchor.is_none();
            same_kind && later[0].created > *newest
        };
        let is_live = groups[i + 1..].iter().find(replaces).is_none();
        let kept = &group[group.len().saturating_sub(last)..];
        found.push(read(kept, check, age, since, is_live));
    }
    found
}

/// Whether a session has values of the check, of its anchor too if there is one.
fn holds(entry: &Entry, check: &Watched) -> bool {
    let sound = |values: Option<&Vec<f64>>| values.is_some_and(|values| !values.is_empty());
    let anchor = entry.anchor.as_ref();
    entry.key.gate == check.gate
        && sound(entry.values.get(&check.id))
        && anchor.is_none_or(|anchor| sound(anchor.values.get(&check.id)))
}

fn is_comparable(a: &Entry, b: &Entry) -> bool {
    let anchor = |entry: &Entry| entry.anchor.as_ref().map(|anchor| anchor.commit.clone());
    a.key == b.key && anchor(a) == anchor(b)
}

/// Why the values of two sessions of one gate cannot be compared, part by part; empty where they can.
pub fn differences(then: &Entry, now: &Entry) -> Vec<String> {
    let (old, new): (&Key, &Key) = (&then.key, &now.key);
    let mut found = machine_changes(&old.fingerprint, &new.fingerprint);
    if old.model != new.model {
        found.push(format!("model {} → {}", old.model, new.model));
    }
    if old.gate_hash != new.gate_hash {
        found.push("the gate's definition changed".to_owned());
    }
    found.extend(words("engine", &old.engine, &new.engine));
    let anchor = |entry: &Entry| entry.anchor.as_ref().map(|anchor| anchor.commit.clone());
    if anchor(then) != anchor(now) {
        let name = |entry: &Entry| match &entry.anchor {
            Some(anchor) => format!("{} ({})", anchor.name, short(&anchor.commit)),
            None => "none".to_owned(),
        };
        found.push(format!("anchor {} → {}", name(then), name(now)));
    }
    found
}

/// The words of a configuration that are in one of two alone.
fn words(what: &str, then: &[String], now: &[String]) -> Option<String> {
    if then == now {
        return None;
    }
    let without = |all: &[String], of: &[String]| {
        let left: Vec<&str> = all
            .iter()
            .filter(|word| !of.contains(word))
            .map(String::as_str)
            .collect();
        match left.is_empty() {
            true => "none".to_owned(),
            false => left.join(" "),
        }
    };
    let (gone, new) = (without(then, now), without(now, then));
    Some(format!("{what} configuration {gone} → {new}"))
}

fn read(
    entries: &[&Entry],
    check: &Watched,
    age: &Age,
    since: Vec<String>,
    is_live: bool,
) -> Series {
    let arms = |entry: &Entry| {
        let anchor = entry.anchor.as_ref();
        [
            entry.values.get(&check.id).cloned(),
            anchor.and_then(|anchor| anchor.values.get(&check.id).cloned()),
        ]
    };
    let all = entries.iter().flat_map(|entry| arms(entry)).flatten();
    let scale = scale_of(check.metric, all.flatten());
    let mean = |values: Vec<f64>| {
        let values: Vec<f64> = values.into_iter().map(|v| scale.forward(v)).collect();
        stats::mean(&values).unwrap_or(f64::NAN)
    };
    let points = entries.iter().map(|entry| {
        let [main, anchor] = arms(entry).map(|values| values.map(mean));
        Point {
            session: entry.session.clone(),
            created: entry.created.clone(),
            commit: entry.commit.clone(),
            value: main.unwrap_or(f64::NAN) - anchor.unwrap_or(0.0),
        }
    });
    // A latency of nought has no logarithm; such a session says nothing.
    let points: Vec<Point> = points.filter(|point| point.value.is_finite()).collect();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let is_old = points.last().is_none_or(|point| {
        age_days(&point.created, &age.now).is_none_or(|days| days > f64::from(age.most_days))
    });
    let anchor = entries.first().and_then(|entry| entry.anchor.as_ref());
    let anchor = anchor.map(|anchor| (anchor.name.clone(), short(&anchor.commit).to_owned()));
    let creep = (anchor.is_some() && scale.is_relative()).then(|| {
        Creep::of(
            &losses(check, &values),
            check.margin,
            check.metric.direction(),
        )
    });
    let machine = entries.first().map(|entry| entry.key.fingerprint.clone());
    Series {
        machine: machine.unwrap_or_default(),
        since,
        is_live,
        is_old,
        scale,
        steps: steps::of(&points, check.metric.direction()),
        trend: stats::trend(&values),
        creep: creep.flatten(),
        anchor,
        points,
    }
}

/// The values with their sign turned so that more is worse.
fn losses(check: &Watched, values: &[f64]) -> Vec<f64> {
    let sign = check.metric.direction().sign();
    values.iter().map(|value| sign * value).collect()
}

/// Reads the history of each watched check. `entries` are oldest first; of each series only the newest `last`
/// sessions are read.
pub fn tell(entries: &[Entry], watched: &[Watched], age: &Age, last: usize) -> History {
    let mut checks: Vec<CheckHistory> = watched
        .iter()
        .map(|check| CheckHistory {
            id: check.id.clone(),
            metric: check.metric,
            margin: check.margin,
            series: of(entries, check, age, last),
        })
        .collect();
    // The more series there are, the more often chance alone makes a step of one of them.
    let tested = checks.iter().flat_map(CheckHistory::judged).count();
    for check in &mut checks {
        for series in check.series.iter_mut().filter(|series| series.is_judged()) {
            steps::alarm(&mut series.steps, tested);
        }
    }
    History {
        checks,
        notes: Vec::new(),
    }
}
