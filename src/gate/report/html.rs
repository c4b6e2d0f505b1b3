//! A verdict as one HTML file that needs nothing else: no script, no font, no address. It says so in its own
//! Content-Security-Policy.
//!
//! Every value is escaped by the template engine; nothing here writes a tag. Main type: [`Page`]. Refuses to know:
//! where launches' values come from, and files.

use super::comment::chart::sparkline;
use super::comment::publication::Past;
use super::plot::{Dot, plot};
use super::redaction::redact;
use super::{cells, numbers, reasons};
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};
use verdict::record::{Arm, CheckVerdict, RunRecord, RunVerdict, Unit, Verdict, is_ignorable};

const TEMPLATE: &str = include_str!("templates/report.html.j2");

/// Characters of one text.
const MOST: usize = 20_000;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub record: &'a RunRecord,
    pub verdict: &'a RunVerdict,
    /// Checks without an entry have no chart.
    pub launches: &'a [CheckLaunches],
    pub past: Option<&'a Past>,
    /// Sentences below the verdict.
    pub notices: &'a [String],
}

/// A check's value in every launch.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckLaunches {
    /// `gate/check`.
    pub check: String,
    pub unit: Unit,
    /// Of an absolute rule, in the metric's unit.
    pub limit: Option<f64>,
    /// In order of execution: the launch's position, its arm and its value.
    pub values: Vec<(u32, Arm, f64)>,
}

/// The page. Deterministic.
pub fn html(page: &Page<'_>) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let written = environment
        .render_str(TEMPLATE, values(page))
        .unwrap_or_else(|error| {
            format!(
                "<!doctype html><p>The report's template failed: {}",
                shown(&format!("{error:#}")).replace('<', "&lt;")
            )
        });
    written.chars().filter(|c| !is_ignorable(*c)).collect()
}

/// A text without secrets and of bounded length, escaped later.
fn shown(text: &str) -> String {
    let is_kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    redact(text).chars().filter(is_kept).take(MOST).collect()
}

fn all_shown(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| shown(line)).collect()
}

fn values(page: &Page<'_>) -> Value {
    let Page {
        record,
        verdict,
        past,
        notices,
        ..
    } = page;
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    context! {
        verdict => super::word(record, verdict),
        summary => shown(&super::headline(record, verdict)),
        notices => all_shown(notices.to_vec()),
        rows => checks.map(row).collect::<Vec<_>>(),
        gates => verdict.gates.iter().map(|gate| context! {
            title => shown(&gate.title),
            verdict => gate.verdict.name(),
            is_open => gate.verdict != Verdict::Pass || verdict.gates.len() == 1,
            checks => gate.checks.iter().map(|check| of_check(page, check)).collect::<Vec<_>>(),
        }).collect::<Vec<_>>(),
        past => past.and_then(|past| Some(context! { check => shown(&past.check), line => sparkline(past)? })),
        logs => super::failed_logs(record).iter().map(|(what, tail)| context! {
            what => shown(what), tail => shown(tail),
        }).collect::<Vec<_>>(),
        facts => facts(record, verdict),
        tool => shown(&record.tool),
    }
}

fn row(check: &CheckVerdict) -> Value {
    let unit = check.metric.unit();
    context! {
        id => shown(&check.id),
        word => check.word(),
        metric => format!("{} {}", check.statistic, check.metric),
        base => numbers::optional(check.base, unit),
        head => numbers::optional(check.head, unit),
        change => numbers::change(check),
    }
}

fn of_check(page: &Page<'_>, check: &CheckVerdict) -> Value {
    let launches = page
        .launches
        .iter()
        .find(|launches| launches.check == check.id);
    context! {
        id => shown(&check.id),
        word => check.word(),
        rule => check.reason.rule.name(),
        reason => shown(&reasons::sentence(check)),
        notes => all_shown(reasons::notes(check)),
        grid => cells::for_template(check),
        waiver => check.waiver.as_ref().map(|w| shown(&format!("until {}, {}: {} ({})", w.expires, w.owner, w.reason, w.issue))),
        plot => launches.and_then(chart),
    }
}

/// The launches over time, and by arm beside that.
fn chart(launches: &CheckLaunches) -> Option<Value> {
    let CheckLaunches {
        unit,
        limit,
        values,
        ..
    } = launches;
    let dots: Vec<Dot> = values
        .iter()
        .map(|(position, arm, value)| Dot {
            position: *position,
            is_head: *arm == Arm::Head,
            value: *value,
            label: format!(
                "launch {position} ({}): {}",
                arm.name(),
                numbers::value(*value, *unit)
            ),
        })
        .collect();
    plot(&dots, *limit, &|value| numbers::value(value, *unit))
}

fn facts(record: &RunRecord, verdict: &RunVerdict) -> Vec<(String, String)> {
    let mut facts: Vec<(&str, String)> = Vec::new();
    for build in &record.builds {
        let commit = super::commit_or_why(build);
        let dirty = if build.dirty {
            " with uncommitted changes"
        } else {
            ""
        };
        facts.push((build.arm.name(), format!("{commit}{dirty}")));
    }
    facts.push(("profile", record.profile.clone()));
    facts.push((
        "measured",
        format!(
            "{}; {}",
            super::extent(record, verdict),
            super::ending(record, verdict)
        ),
    ));
    facts.push(("time", super::comment::cost(record, verdict)));
    facts.extend(super::cooling(record).map(|line| ("cooling", line)));
    facts.extend(
        super::isolation(record)
            .into_iter()
            .map(|line| ("isolation", line)),
    );
    facts.extend(
        super::citation::citations(record)
            .into_iter()
            .map(|line| ("calibration", line)),
    );
    facts.push(("machine", record.machine.fingerprint.clone()));
    facts.push(("seed", record.seed.to_string()));
    facts.push(("begun", record.created.clone()));
    facts
        .into_iter()
        .map(|(name, text)| (name.to_owned(), shown(&text)))
        .collect()
}
