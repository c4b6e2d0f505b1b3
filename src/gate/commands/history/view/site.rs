//! Main's history as the numbers and words of static pages.

use super::{changelog, words};
use crate::history::{CheckHistory, History, Note, NoteOutcome, Series};
use crate::report::numbers;
use crate::report::site::{Site, SiteCheck, SiteLevel, SiteMark, SitePoint, SiteSeries, SiteStep};
use verdict::record::Unit;
use verdict::stats;

/// Where one more session lies in 95 of 100 cases: below this quantile, and above its opposite.
const UPPER: f64 = 0.975;

/// Contents of the pages.
pub struct Told<'a> {
    pub history: &'a History,
    pub remarks: &'a [String],
    /// The command that stores one more session.
    pub command: &'a str,
    pub waivers: &'a [(String, String)],
    /// Tags of main: their names, and when they were made, in seconds since 1970.
    pub releases: &'a [(String, i64)],
}

/// `repository`: its address on GitHub, for links to commits.
pub fn site(told: &Told<'_>, (created, repository): (String, Option<&str>)) -> Site {
    let Told {
        history,
        remarks,
        command,
        ..
    } = told;
    Site {
        outcome: words::outcome(history.outcome()),
        summary: words::summary(history, command),
        remarks: remarks.to_vec(),
        created,
        repository: repository.map(str::to_owned),
        checks: history
            .checks
            .iter()
            .map(|check| of_check(told, check, repository))
            .collect(),
        entries: changelog::entries(history),
    }
}

fn gate(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

fn of_check(told: &Told<'_>, check: &CheckHistory, repository: Option<&str>) -> SiteCheck {
    let mut waivers = told.waivers.iter();
    let waiver = waivers.find(|(waived, _)| *waived == check.id);
    let living = check.series.iter().rfind(|series| series.is_live);
    let level = living.filter(|series| !series.points.is_empty());
    SiteCheck {
        gate: gate(&check.id).to_owned(),
        id: check.id.clone(),
        outcome: match (check.is_worse(), check.is_known()) {
            (true, _) => "worse",
            (false, true) => "quiet",
            (false, false) => "unknown",
        },
        level: level.map_or("–".to_owned(), |it| words::value(check, it, it.level())),
        sessions: check.series.iter().map(|series| series.points.len()).sum(),
        waiver: waiver.map(|(_, text)| text.clone()),
        series: check
            .series
            .iter()
            .map(|series| of_series(told, check, series, repository))
            .collect(),
    }
}

fn of_series(
    told: &Told<'_>,
    check: &CheckHistory,
    series: &Series,
    repository: Option<&str>,
) -> SiteSeries {
    let (unit, scale) = unit(check, series);
    let value = |y: f64| {
        let value = match (&series.anchor, series.scale.is_relative()) {
            (Some(_), true) => y.exp_m1(),
            (Some(_), false) => y,
            (None, _) => series.scale.back(y),
        };
        value * scale
    };
    // A session whose time cannot be read takes the time of the one before: steps refer to points by their place.
    let mut last = 0.0;
    let mut point = |point: &crate::history::Point| {
        let at = point.created.parse::<jiff::Timestamp>();
        last = at.map_or(last, |at| at.as_second() as f64);
        let url = point.commit.as_ref().zip(repository);
        SitePoint {
            at: last,
            value: value(point.value),
            commit: point
                .commit
                .as_deref()
                .map_or_else(String::new, numbers::commit),
            url: url.map(|(commit, repository)| format!("{repository}/commit/{commit}")),
        }
    };
    let points: Vec<SitePoint> = series.points.iter().map(&mut point).collect();
    let mut lines: Vec<String> = series
        .steps
        .iter()
        .flat_map(|step| {
            let notes = step.notes.iter().map(words::note);
            std::iter::once(words::step(check, series, step)).chain(notes)
        })
        .collect();
    if series.is_live {
        lines.extend(words::trend(check, series));
        let creep = series.anchor.as_ref().zip(series.creep.as_ref());
        lines.extend(creep.map(|((anchor, _), creep)| words::creep(anchor, creep)));
    }
    let steps = series.steps.iter().map(|step| SiteStep {
        point: step.change.at,
        text: words::step(check, series, step),
        is_worse: step.is_worse,
    });
    SiteSeries {
        title: words::title(check, series),
        machine: series.machine.clone(),
        marks: marks(told, check, series),
        since: series.since.clone(),
        unit,
        is_live: series.is_live,
        lines,
        steps: steps.collect(),
        levels: levels(series, &value),
        points,
    }
}

/// Releases and notes within the series' time.
fn marks(told: &Told<'_>, check: &CheckHistory, series: &Series) -> Vec<SiteMark> {
    let seconds = |time: &str| Some(time.parse::<jiff::Timestamp>().ok()?.as_second() as f64);
    let ends = series.points.first().zip(series.points.last());
    let ends =
        ends.and_then(|(first, last)| Some(seconds(&first.created)?..=seconds(&last.created)?));
    let Some(ends) = ends else { return Vec::new() };
    let releases = told.releases.iter().map(|(name, at)| SiteMark {
        at: *at as f64,
        kind: "release",
        text: name.clone(),
    });
    let is_here = |note: &&Note| {
        let mut points = series.points.iter();
        points.any(|point| note.is_about(&point.session, point.commit.as_deref(), &check.id))
    };
    let of_steps = series.steps.iter().flat_map(|step| &step.notes);
    let notes = told.history.notes.iter().filter(is_here).chain(of_steps);
    let notes = notes.filter_map(|note| {
        let kind = match note.outcome {
            Some(NoteOutcome::Reverted) => "reverted",
            Some(NoteOutcome::Kept) => "kept",
            None => "note",
        };
        let text = format!("{kind}: {}", note.text);
        Some(SiteMark {
            at: seconds(&note.measured)?,
            kind,
            text,
        })
    });
    releases
        .chain(notes)
        .filter(|mark| ends.contains(&mark.at))
        .collect()
}

/// The name of the unit, and what values are multiplied by for it.
fn unit(check: &CheckHistory, series: &Series) -> (String, f64) {
    let is_share = match series.anchor {
        Some(_) => series.scale.is_relative(),
        None => check.metric.unit() == Unit::Fraction,
    };
    if is_share {
        return ("%".to_owned(), 100.0);
    }
    let two = numbers::uncut(2.0, check.metric.unit());
    let name = two.split_once(' ').map_or("", |(_, name)| name);
    (name.to_owned(), 1.0)
}

/// Means between steps, and where 95 % of single sessions lie around each.
fn levels(series: &Series, value: &dyn Fn(f64) -> f64) -> Vec<SiteLevel> {
    let begins = std::iter::once(0).chain(series.steps.iter().map(|step| step.change.at));
    let ends = series.steps.iter().map(|step| step.change.at);
    let ends = ends.chain([series.points.len()]);
    let level = |(from, to): (usize, usize)| {
        let values: Vec<f64> = series.points[from..to].iter().map(|p| p.value).collect();
        let mean = stats::mean(&values)?;
        // The prediction interval of one more value of a normal distribution.
        let n = values.len() as f64;
        let spread = stats::variance(&values).zip(stats::t_quantile(UPPER, n - 1.0));
        let spread = spread.map_or(0.0, |(variance, t)| t * (variance * (1.0 + 1.0 / n)).sqrt());
        Some(SiteLevel {
            from,
            to,
            value: value(mean),
            low: value(mean - spread),
            high: value(mean + spread),
        })
    };
    begins.zip(ends).filter_map(level).collect()
}
