//! Main's history as static pages: an index, a page a gate, and a feed. They need nothing else, like the report's page.
//!
//! Every value is escaped by the template engine. Main function: [`site`]. Refuses to know: how steps are found, and files.

use super::page::{STYLE, UPLOT, UPLOT_STYLE, hash, shown};
use super::reasons::capital;
use jiff::Timestamp;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;
use std::collections::BTreeSet;
use verdict::digest;

const PAGE: &str = include_str!("templates/history.html.j2");
const FEED: &str = include_str!("templates/feed.xml.j2");
const SCRIPT: &str = concat!(
    include_str!("templates/drawings.js"),
    include_str!("templates/history.js")
);

/// A history in words and numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// `quiet`, `worse` or `unknown`.
    pub outcome: &'static str,
    pub summary: String,
    pub remarks: Vec<String>,
    /// RFC 3339.
    pub created: String,
    /// Address of the repository, where it is known.
    pub repository: Option<String>,
    pub checks: Vec<SiteCheck>,
    /// The newest first.
    pub entries: Vec<SiteEntry>,
}

/// One check's series.
#[derive(Clone, Debug, Serialize)]
pub struct SiteCheck {
    pub gate: String,
    pub id: String,
    pub outcome: &'static str,
    /// Of the newest living series since its last step.
    pub level: String,
    pub sessions: usize,
    /// The check may be red for a while: until when, who says so, and why.
    #[serde(skip)]
    pub waiver: Option<String>,
    pub series: Vec<SiteSeries>,
}

/// Sessions that can be compared, oldest first.
#[derive(Clone, Debug, Serialize)]
pub struct SiteSeries {
    #[serde(skip)]
    pub title: String,
    /// Why it began: a driver, a clock, a gate's definition.
    #[serde(skip)]
    pub since: Vec<String>,
    /// The machine's fingerprint.
    pub machine: String,
    pub unit: String,
    pub is_live: bool,
    /// Trend, creep and steps, in words.
    #[serde(skip)]
    pub lines: Vec<String>,
    pub points: Vec<SitePoint>,
    pub steps: Vec<SiteStep>,
    pub marks: Vec<SiteMark>,
    /// What the points are drawn against: the level between steps, and where 95 % of single sessions lie around it.
    pub levels: Vec<SiteLevel>,
}

/// One session.
#[derive(Clone, Debug, Serialize)]
pub struct SitePoint {
    /// Seconds since 1970.
    pub at: f64,
    pub value: f64,
    pub commit: String,
    /// Of the commit, where the repository is known.
    pub url: Option<String>,
}

/// A step of main's level, before a point.
#[derive(Clone, Debug, Serialize)]
pub struct SiteStep {
    pub point: usize,
    #[serde(skip)]
    pub text: String,
    pub is_worse: bool,
}

/// A release, or a note that somebody wrote.
#[derive(Clone, Debug, Serialize)]
pub struct SiteMark {
    /// Seconds since 1970.
    pub at: f64,
    /// `release`, `kept`, `reverted` or `note`.
    pub kind: &'static str,
    pub text: String,
}

/// The points from one step to the next.
#[derive(Clone, Debug, Serialize)]
pub struct SiteLevel {
    pub from: usize,
    pub to: usize,
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// A line of the changelog: a step, or a note on a session.
#[derive(Clone, Debug, Serialize)]
pub struct SiteEntry {
    /// `2026-11-25`.
    pub date: String,
    pub gate: Option<String>,
    pub check: String,
    pub number: String,
    /// What it is about, whatever later sessions say of its size: a step's session, a note's time and text.
    pub key: String,
    pub meaning: Vec<String>,
}

/// Names and contents of the files.
pub fn site(site: &Site) -> Vec<(String, String)> {
    let mut gates: Vec<&str> = site
        .checks
        .iter()
        .map(|check| check.gate.as_str())
        .collect();
    gates.dedup();
    let mut files = vec![
        ("index.html".to_owned(), page(site, &gates, None)),
        ("feed.xml".to_owned(), feed(site)),
    ];
    let pages = gates
        .iter()
        .map(|gate| (file(gate), page(site, &gates, Some(gate))));
    files.extend(pages);
    files
}

/// A gate's page; its name is a file's, as the plan reads it.
fn file(gate: &str) -> String {
    format!("gate-{gate}.html")
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment
}

/// A template of this room with its values escaped.
pub fn render(template: &str, values: Value) -> String {
    let written = environment().render_str(template, values);
    // Its long form quotes values.
    written.unwrap_or_else(|error| format!("the template failed: {:?}", error.kind()))
}

/// The page of one gate, or the index.
fn page(site: &Site, gates: &[&str], gate: Option<&str>) -> String {
    let mut checks: Vec<&SiteCheck> = site
        .checks
        .iter()
        .filter(|check| check.sessions > 0 && gate.is_none_or(|gate| check.gate == gate))
        .collect();
    checks.sort_by_key(|check| match check.outcome {
        "worse" => 0,
        "unknown" => 1,
        _ => 2,
    });
    let of = |check: &&SiteCheck| {
        let living = check.series.iter().rfind(|series| series.is_live);
        context! {
            id => shown(&check.id),
            gate => file(&check.gate),
            outcome => check.outcome,
            level => check.level.clone(),
            sessions => check.sessions,
            waiver => check.waiver.as_deref().map(shown),
            line => living.map(spark),
            series => check.series.iter().map(|series| context! {
                title => shown(&series.title),
                since => series.since.iter().map(|text| shown(text)).collect::<Vec<_>>(),
                is_live => series.is_live,
                machine => shown(&series.machine),
                marks => series.marks.iter().map(|mark| context! {
                    day => day(mark.at), text => shown(&mark.text),
                }).collect::<Vec<_>>(),
                lines => series.lines.iter().map(|text| shown(text)).collect::<Vec<_>>(),
                line => spark(series),
            }).collect::<Vec<_>>(),
        }
    };
    let machines: BTreeSet<&str> = checks
        .iter()
        .flat_map(|check| &check.series)
        .map(|series| series.machine.as_str())
        .collect();
    // Only a gate's page draws; no text of the data can end the element.
    let data = match gate {
        Some(_) => serde_json::to_string(&checks).unwrap_or_default(),
        None => "[]".to_owned(),
    };
    let entries = site.entries.iter();
    let entries = entries.filter(|entry| match (gate, &entry.gate) {
        (Some(gate), Some(of)) => gate == of,
        _ => true,
    });
    render(
        PAGE,
        context! {
            style => Value::from_safe_string(format!("{UPLOT_STYLE}\n{STYLE}")),
            scripts => [UPLOT, SCRIPT].map(|text| Value::from_safe_string(text.to_owned())),
            hashes => Value::from_safe_string([UPLOT, SCRIPT].map(hash).join(" ")),
            data => Value::from_safe_string(data.replace('<', "\\u003c")),
            gate => gate,
            gates => gates.iter().map(|gate| context! { name => *gate, file => file(gate) }).collect::<Vec<_>>(),
            machines => machines.into_iter().map(shown).collect::<Vec<_>>(),
            outcome => site.outcome,
            summary => capital(&shown(&site.summary)),
            remarks => site.remarks.iter().map(|text| shown(text)).collect::<Vec<_>>(),
            created => site.created.clone(),
            checks => checks.iter().map(of).collect::<Vec<_>>(),
            entries => entries.map(entry).collect::<Vec<_>>(),
        },
    )
}

fn entry(entry: &SiteEntry) -> Value {
    // A step is found anew each night: the same one has the same id.
    let id = digest::of_parts([&entry.check, &entry.key].map(|text| text.as_bytes()));
    context! {
        id => id,
        date => entry.date.clone(),
        check => shown(&entry.check),
        number => shown(&entry.number),
        meaning => entry.meaning.iter().map(|text| shown(text)).collect::<Vec<_>>(),
    }
}

/// An Atom feed (RFC 4287) of the changelog.
fn feed(site: &Site) -> String {
    render(
        FEED,
        context! {
            created => site.created.clone(),
            id => digest::of_parts([site.repository.as_deref().unwrap_or("infergate").as_bytes()]),
            entries => site.entries.iter().map(entry).collect::<Vec<_>>(),
        },
    )
}

/// `2026-11-25`; empty where no calendar has the day.
fn day(seconds: f64) -> String {
    let time = Timestamp::from_second(seconds as i64);
    time.map_or_else(
        |_| String::new(),
        |time| time.strftime("%Y-%m-%d").to_string(),
    )
}

/// Points of a line in a box of 160 × 32.
fn spark(series: &SiteSeries) -> String {
    let values = series.points.iter().map(|point| point.value);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let last = series.points.len().saturating_sub(1).max(1) as f64;
    let round = |v: f64| (v * 10.0).round() / 10.0;
    // More points than pixels are not seen.
    let step = series.points.len().div_ceil(320).max(1);
    let points = series
        .points
        .iter()
        .enumerate()
        .step_by(step)
        .map(|(i, point)| {
            let share = if high > low {
                (point.value - low) / (high - low)
            } else {
                0.5
            };
            format!(
                "{},{}",
                round(2.0 + 156.0 * i as f64 / last),
                round(29.0 - 26.0 * share)
            )
        });
    points.collect::<Vec<_>>().join(" ")
}
