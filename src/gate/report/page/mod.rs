//! A verdict as one HTML file that needs nothing else: no font, no address; its own scripts alone run, by their hashes in
//! its Content-Security-Policy, and only turn its drawings into ones that can be zoomed. It reads whole without them.
//!
//! Every value is escaped by the template engine; nothing here writes a tag. Main type: [`Page`]. Refuses to know: how
//! its numbers were found, and files.

mod dots;
mod figures;
mod interval;
mod lines;
mod waterfall;

pub use figures::{Bar, CheckFigures, Contexts, Over, PERCENTILES, Series, Start};

use super::comment::chart::sparkline;
use super::comment::publication::Past;
use super::reasons::capital;
use super::redaction::redact;
use super::row::{self, Row};
use super::secrets::hidden;
use super::{cells, numbers, reasons};
use crate::explanation::{Explanation, Mode, ModeSplit};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use verdict::record::{
    Arm, Build, CheckVerdict, RunRecord, RunVerdict, Unit, Verdict, is_ignorable,
};

const TEMPLATE: &str = include_str!("../templates/report.html.j2");
pub const STYLE: &str = include_str!("../templates/report.css");
const SCRIPT: &str = concat!(
    include_str!("../templates/drawings.js"),
    include_str!("../templates/report.js")
);
/// uPlot 1.6.32 (MIT licence), as its package `uplot` brings it.
pub const UPLOT: &str = include_str!("../templates/vendor/uPlot.min.js");
pub const UPLOT_STYLE: &str = include_str!("../templates/vendor/uPlot.min.css");

/// Characters of one text.
const MOST: usize = 20_000;
/// … and of the heading.
const HEADING: usize = 240;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub record: &'a RunRecord,
    pub verdict: &'a RunVerdict,
    /// Checks without an entry have no drawings.
    pub figures: &'a [CheckFigures],
    /// What was read beside the launches.
    pub readings: &'a [Over],
    pub starts: &'a [Start],
    pub explanations: &'a [Explanation],
    /// Where the gravest failure sits.
    pub cause: Option<&'a str>,
    /// The command that measures the same again, where one does.
    pub again: Option<&'a str>,
    pub past: Option<&'a Past>,
    /// Sentences below the verdict.
    pub notices: &'a [String],
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
pub fn shown(text: &str) -> String {
    // XML, which a feed is, has no noncharacters.
    let is_kept = |c: &char| {
        !matches!(c, '\u{fffe}' | '\u{ffff}') && (!c.is_control() || matches!(c, '\n' | '\t'))
    };
    redact(text).chars().filter(is_kept).take(MOST).collect()
}

/// A heading, cut where an engine had much to say.
fn short(text: &str) -> String {
    match text.char_indices().nth(HEADING) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn all_shown(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| shown(line)).collect()
}

/// A script's or a style's source for the policy.
pub fn hash(script: &str) -> String {
    format!(
        "'sha256-{}'",
        BASE64_STANDARD.encode(Sha256::digest(script))
    )
}

fn values(page: &Page<'_>) -> Value {
    let Page {
        record,
        verdict,
        past,
        notices,
        cause,
        again,
        ..
    } = page;
    let rows = row::worst_first(verdict).into_iter().map(of_row);
    context! {
        style => Value::from_safe_string(format!("{UPLOT_STYLE}\n{STYLE}")),
        scripts => [UPLOT, SCRIPT].map(|text| Value::from_safe_string(text.to_owned())),
        hashes => Value::from_safe_string([UPLOT, SCRIPT].map(hash).join(" ")),
        data => Value::from_safe_string(data(page)),
        verdict => super::word(record, verdict),
        summary => short(&shown(&capital(&super::headline_and_limits(record, verdict)))),
        cause => cause.map(shown),
        arms => match record.builds.iter().any(|build| build.commit.is_some()) {
            true => all_shown(super::compared(record)),
            false => Vec::new(),
        },
        extent => shown(&format!("profile {}, {}", record.profile, super::extent(record, verdict))),
        machine => shown(&record.machine.fingerprint),
        again => again.map(shown),
        notices => all_shown(notices.to_vec()),
        rows => rows.collect::<Vec<_>>(),
        gates => row::gates_worst_first(verdict).into_iter().map(|gate| context! {
            title => shown(&gate.title),
            verdict => gate.verdict.name(),
            is_open => gate.verdict != Verdict::Pass || verdict.gates.len() == 1,
            checks => gate.checks.iter().map(|check| of_check(page, check)).collect::<Vec<_>>(),
        }).collect::<Vec<_>>(),
        readings => page.readings.iter().map(over).collect::<Vec<_>>(),
        starts => starts(page.starts),
        engines => engines(&record.builds),
        past => past.and_then(|past| Some(context! { check => shown(&past.check), line => sparkline(past)? })),
        logs => super::failed_logs(record).iter().map(|(what, tail)| context! {
            what => shown(what), tail => shown(tail),
        }).collect::<Vec<_>>(),
        facts => facts(record, verdict),
        tool => shown(&record.tool),
    }
}

fn of_row(check: &CheckVerdict) -> Value {
    let row = Row::of(check);
    context! {
        id => shown(&row.check),
        anchor => anchor(&check.id),
        word => row.verdict,
        base => row.base,
        head => row.head,
        change => row.change,
        fails => row.fails,
        passes => row.passes,
        interval => interval::drawing(check),
    }
}

/// A check's name as an element's, unlike that of any other check.
fn anchor(id: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => format!("-{:x}", u32::from(c)),
    };
    id.chars().map(plain).collect()
}

fn of_check(page: &Page<'_>, check: &CheckVerdict) -> Value {
    let figures = page.figures.iter().find(|it| it.check == check.id);
    let explanation = page.explanations.iter().find(|it| it.check == check.id);
    context! {
        id => shown(&check.id),
        anchor => anchor(&check.id),
        word => check.word(),
        metric => format!("{} of {}", check.statistic, check.metric),
        rule => check.reason.rule.name(),
        reason => shown(&reasons::sentence(check)),
        notes => all_shown(reasons::notes(check)),
        grid => cells::for_template(check),
        launches => figures.and_then(|it| launches(check, it)),
        percentiles => figures.and_then(percentiles),
        tokens => figures.and_then(tokens),
        contexts => figures.and_then(contexts),
        waterfall => figures.and_then(|it| waterfall::drawing(&it.waterfall)),
        explanation => explanation.map(explained),
    }
}

/// The launches over time, and by arm beside that.
fn launches(check: &CheckVerdict, figures: &CheckFigures) -> Option<Value> {
    let unit = figures.unit;
    let shown = |value| numbers::value(value, unit);
    let dots: Vec<dots::Dot> = figures
        .launches
        .iter()
        .map(|(position, arm, value)| dots::Dot {
            position: *position,
            is_head: *arm == Arm::Head,
            value: *value,
            label: format!("launch {position} ({}): {}", arm.name(), shown(*value)),
        })
        .collect();
    // Zeros in a row are a sentence, no drawing.
    let first = dots.first()?.value;
    if dots.iter().all(|dot| dot.value.total_cmp(&first).is_eq()) {
        let launches = match dots.len() {
            1 => "the only launch".to_owned(),
            n => format!("all {n} launches"),
        };
        return Some(context! { alike => format!("{launches}: {}", shown(first)) });
    }
    let means = [check.base, check.head];
    let drawing = dots::drawing(&dots, &figures.limits, means, &shown)?;
    Some(context! { alike => (), drawing => drawing })
}

/// Requests of both arms by percentile: a drawing and a table.
fn percentiles(figures: &CheckFigures) -> Option<Value> {
    let [base, head] = &figures.percentiles;
    let shown = |value| numbers::value(value, figures.unit);
    let x = |p: f64| -(1.0 - p).log10();
    let named = [0.5, 0.9, 0.99, 0.999];
    let ticks = named.map(|p| (x(p), format!("p{}", numbers::number(p * 100.0))));
    let curve = |values: &[f64]| {
        PERCENTILES
            .iter()
            .map(|p| x(*p))
            .zip(values.iter().copied())
            .collect()
    };
    let drawing = lines::drawing(&curve(base), &curve(head), &ticks, &shown)?;
    let at = |values: &[f64], p: f64| {
        let place = PERCENTILES.iter().position(|q| q.total_cmp(&p).is_eq())?;
        values.get(place).copied()
    };
    let known = named
        .map(|p| (p, at(base, p), at(head, p)))
        .into_iter()
        .filter(|(_, base, head)| base.is_some() || head.is_some());
    let rows = known.map(|(p, base, head)| {
        let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), shown);
        let change = base.zip(head).filter(|(base, _)| *base > 0.0);
        let change = change.map(|(base, head)| format!("{:+.1} %", (head / base - 1.0) * 100.0));
        context! {
            name => format!("p{}", numbers::number(p * 100.0)),
            base => cell(base),
            head => cell(head),
            change => change.unwrap_or_else(|| "–".to_owned()),
        }
    });
    Some(context! { drawing => drawing, rows => rows.collect::<Vec<_>>() })
}

/// Median time to each token of an answer.
fn tokens(figures: &CheckFigures) -> Option<Value> {
    let [base, head] = &figures.tokens;
    let shown = |value| numbers::value(value, Unit::Milliseconds);
    let of = |series: &Series| series.clone();
    let last = base.iter().chain(head).map(|(x, _)| *x).fold(0.0, f64::max);
    let ticks = [0.25, 0.5, 0.75, 1.0].map(|share| {
        let at = (last * share).round();
        (at, format!("{at:.0}"))
    });
    lines::drawing(&of(base), &of(head), &ticks, &shown)
}

/// TPOT at each context, and the line through it.
fn contexts(figures: &CheckFigures) -> Option<Value> {
    let shown = |value| numbers::value(value, Unit::MillisecondsPerToken);
    let of = |arm: usize| figures.contexts[arm].as_ref();
    let dots = [0, 1].map(|arm| of(arm).map_or_else(Series::new, |it| it.points.clone()));
    let xs = || dots.iter().flatten().map(|(x, _)| *x);
    let (first, last) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let fit = |arm: usize| -> Series {
        let ends = of(arm).map(|it| [first, last].map(|x| (x, it.base + it.slope * x)));
        ends.into_iter().flatten().collect()
    };
    let ticks: BTreeSet<u64> = xs().map(|x| x.round() as u64).collect();
    let step = ticks.len().div_ceil(8).max(1);
    let ticks = ticks.iter().step_by(step);
    let ticks: Vec<(f64, String)> = ticks.map(|x| (*x as f64, x.to_string())).collect();
    let drawing = lines::with_dots([&fit(0), &fit(1)], [&dots[0], &dots[1]], &ticks, &shown)?;
    let words = ["base", "head"]
        .into_iter()
        .zip([0, 1])
        .filter_map(|(arm, place)| {
            let Contexts { base, slope, .. } = of(place)?;
            let slope = numbers::number(slope * 1e3);
            Some(format!("{arm}: {} + {slope} µs × context", shown(*base)))
        });
    Some(context! { drawing => drawing, lines => words.collect::<Vec<_>>() })
}

fn over(over: &Over) -> Value {
    let shown = |value| format!("{} {}", numbers::number(value), over.unit);
    let end = over
        .base
        .iter()
        .chain(&over.head)
        .map(|(x, _)| *x)
        .fold(0.0, f64::max);
    let ticks = [0.0, 0.5, 1.0].map(|share| (end * share, format!("{:.0} s", end * share)));
    context! { name => over.name, drawing => lines::drawing(&over.base, &over.head, &ticks, &shown) }
}

/// Start-up stages as bars on one scale.
fn starts(starts: &[Start]) -> Vec<Value> {
    let total = |start: &Start| start.stages.iter().map(|(_, ms)| *ms).sum::<f64>();
    let most = starts.iter().map(total).fold(0.0, f64::max);
    let of = |start: &Start| {
        let stages = start.stages.iter().map(|(name, ms)| {
            context! { name => shown(name), ms => numbers::value(*ms, Unit::Milliseconds), share => format!("{:.2}", ms / most * 100.0) }
        });
        context! { arm => start.arm.name(), total => numbers::value(total(start), Unit::Milliseconds), stages => stages.collect::<Vec<_>>() }
    };
    starts.iter().filter(|_| most > 0.0).map(of).collect()
}

fn explained(explanation: &Explanation) -> Value {
    let facets = explanation.facets.iter().map(|row| {
        context! {
            name => shown(&row.name),
            base => numbers::optional(row.base, row.unit),
            head => numbers::optional(row.head, row.unit),
            change => numbers::interval(row.change, row.interval),
        }
    });
    let number = |value: Option<f64>| value.map_or("–".to_owned(), numbers::number);
    let readings = explanation.readings.iter().map(|row| {
        context! { name => row.name, base => number(row.base), head => number(row.head), launch => number(row.launch) }
    });
    let first_bad = explanation.first_bad.as_ref().map(|bad| {
        format!(
            "first bad launch: launch {} (head), {} beyond {}; {} of {} launches of head are beyond it",
            bad.launch,
            numbers::value(bad.value, explanation.unit),
            numbers::value(bad.bound, explanation.unit),
            bad.beyond,
            bad.of
        )
    });
    let answers = explanation.answers.iter().take(10).map(|row| {
        let quoted = |text: &String| shown(&format!("{text:?}"));
        let [expected, alone] = [&row.expected, &row.alone].map(|text| text.as_ref().map(quoted));
        context! { case => shown(&row.case), said => quoted(&row.said), expected, alone }
    });
    context! {
        sits => explanation.sits.as_deref().map(shown),
        facets => facets.collect::<Vec<_>>(),
        readings => readings.collect::<Vec<_>>(),
        first_bad => first_bad,
        modes => explanation.modes.as_ref().map(|split| modes(explanation, split)),
        answers => answers.collect::<Vec<_>>(),
        right => if explanation.answers.iter().any(|row| row.sent.is_some()) { "base" } else { "expected" },
        has_alone => explanation.answers.iter().any(|row| row.alone.is_some()),
    }
}

/// Both modes of launches in words.
pub fn two_modes(split: &ModeSplit, unit: Unit) -> String {
    let of = |mode: &Mode| {
        let value = numbers::value(mode.value, unit);
        format!("{value} ({} of base, {} of head)", mode.base, mode.head)
    };
    format!(
        "launches in two modes: {} and {}",
        of(&split.low),
        of(&split.high)
    )
}

/// Two modes of launches, and the readings that differ between them.
fn modes(explanation: &Explanation, split: &ModeSplit) -> Value {
    let rows = split.readings.iter().map(|row| {
        context! {
            name => shown(&row.name),
            low => numbers::number(row.low),
            high => numbers::number(row.high),
            p => numbers::p(row.p),
            of_all => numbers::p(row.p_of_all),
        }
    });
    context! {
        text => two_modes(split, explanation.unit),
        compared => split.compared,
        rows => rows.collect::<Vec<_>>(),
    }
}

/// Both engines' command lines without secrets, word by word, with those marked that the other has not.
fn engines(builds: &[Build]) -> Vec<Value> {
    let of = |build: &Build| {
        let others = builds.iter().filter(|other| other.arm != build.arm);
        let others: Vec<&String> = others.flat_map(|other| &other.command).collect();
        let words = build.command.iter().zip(hidden(&build.command));
        let marked = words.map(|(word, text)| {
            let is_own = builds.len() > 1 && !others.contains(&word);
            context! { text => shown(&text), is_own => is_own }
        });
        context! { arm => build.arm.name(), words => marked.collect::<Vec<_>>() }
    };
    builds
        .iter()
        .filter(|build| !build.command.is_empty())
        .map(of)
        .collect()
}

/// The drawings' numbers for the script, as JSON that no `</script>` can end.
fn data(page: &Page<'_>) -> String {
    let points =
        |series: &Series| -> Vec<[f64; 2]> { series.iter().map(|(x, y)| [*x, *y]).collect() };
    let checks = page.figures.iter().map(|it| {
        let launches = it.launches.iter();
        let launches =
            launches.map(|(position, arm, value)| json!([position, *arm == Arm::Head, value]));
        json!({
            "id": anchor(&it.check),
            "unit": numbers::value(2.0, it.unit).split_once(' ').map_or("", |(_, unit)| unit),
            "scale": if it.unit == Unit::Fraction { 100.0 } else { 1.0 },
            "limits": it.limits,
            "launches": launches.collect::<Vec<_>>(),
            "percentiles": it.percentiles,
            "tokens": it.tokens.each_ref().map(points),
            "contexts": it.contexts.each_ref().map(|of| of.as_ref().map(|of| {
                json!({ "points": points(&of.points), "base": of.base, "slope": of.slope })
            })),
        })
    });
    let readings = page.readings.iter().map(|over| {
        json!({ "name": over.name, "unit": over.unit, "base": points(&over.base), "head": points(&over.head) })
    });
    let all = json!({
        "percentiles": PERCENTILES,
        "checks": checks.collect::<Vec<_>>(),
        "readings": readings.collect::<Vec<_>>(),
    });
    all.to_string().replace('<', "\\u003c")
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
