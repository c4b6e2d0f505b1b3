//! `gate shard plan`: the plan as it was understood, and with `--shards` how to share it among machines.

pub mod shards;

use crate::cli::names::GateArgs;
use crate::cli::{Exit, output};
use crate::report;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use shards::{Cost, CostSource, Layout, LayoutOptions};
use std::env;
use std::fmt::Write;
use verdict::plan::{self, Gate, LAUNCHES, Selection};
use verdict::plural::count;
use verdict::record::Comparison;

#[derive(Args)]
pub struct PlanArgs {
    /// Which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick")]
    profile: String,
    #[command(flatten)]
    gates: GateArgs,
    /// Divide the gates among up to N machines
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=256))]
    shards: Option<usize>,
    /// Print JSON; with --shards in one line, for `strategy.matrix` of a GitHub workflow
    #[arg(long)]
    json: bool,
}

/// Prints what a session of these gates would measure, and how long.
pub fn show(selection: Selection) -> anyhow::Result<Exit> {
    output::print(&gate_table(&layout(selection, None)?))?;
    Ok(Exit::Pass)
}

fn layout(selection: Selection, shards: Option<usize>) -> anyhow::Result<Layout> {
    let start = env::current_dir()?;
    Ok(shards::layout(&LayoutOptions {
        start,
        selection,
        shards,
    })?)
}

pub fn run(args: PlanArgs) -> anyhow::Result<Exit> {
    let PlanArgs {
        profile,
        gates,
        shards,
        json,
    } = args;
    let selection = Selection {
        profile,
        gates: gates.names(),
    };
    let layout = layout(selection, shards)?;
    let text = match (json, shards) {
        (true, Some(_)) => format!("{}\n", serde_json::to_string(&matrix(&layout))?),
        (true, None) => report::pretty_json(&told(&layout)),
        (false, Some(_)) => shard_table(&layout),
        (false, None) => gate_table(&layout),
    };
    output::print(&text)?;
    if let Some(wanted) = shards.filter(|wanted| *wanted > layout.shards.len()) {
        let there = layout.shards.len();
        output::note(&format!(
            "{there} of the {wanted} shards are used: a gate is never taken apart"
        ));
    }
    Ok(Exit::Pass)
}

/// What `strategy.matrix` takes.
#[derive(Serialize)]
struct ShardMatrix {
    include: Vec<ShardEntry>,
}

#[derive(Serialize)]
struct ShardEntry {
    /// From 1.
    shard: usize,
    of: usize,
    /// Names between spaces, as `--gate` takes them.
    gates: String,
    /// … and those of all shards, as `--together` takes them.
    together: String,
    /// At the most: up to the last look, within the profile's budget.
    minutes: f64,
}

fn matrix(layout: &Layout) -> ShardMatrix {
    let together: Vec<&str> = layout
        .plan
        .gates
        .iter()
        .map(|gate| gate.name.as_str())
        .collect();
    let of = layout.shards.len();
    let entries = layout
        .shards
        .iter()
        .zip(1..)
        .map(|(planned, shard)| ShardEntry {
            shard,
            of,
            gates: planned.gates.join(" "),
            together: together.join(" "),
            minutes: tenths(layout.minutes(planned)),
        });
    ShardMatrix {
        include: entries.collect(),
    }
}

/// The plan for machines.
#[derive(Serialize)]
struct Told<'a> {
    profile: &'a str,
    looks: &'a [u32],
    budget_s: f64,
    /// Up to the first look, however fast the engine is.
    least_s: f64,
    false_alarm: f64,
    gates: Vec<ToldGate<'a>>,
}

#[derive(Serialize)]
struct ToldGate<'a> {
    gate: &'a str,
    title: &'a str,
    file: &'a str,
    checks: Vec<&'a str>,
    /// Gates with equal numbers share launches.
    launch: usize,
    /// Seconds that this gate's requests take in a launch at the least, however fast the engine is.
    least_s: f64,
    /// Seconds of a launch: its start, and this gate's own requests; `null` where nobody knows.
    start_s: Option<f64>,
    work_s: Option<f64>,
    /// `measured`, `stored`, `guessed` or `unknown`.
    known: &'static str,
}

fn told(layout: &Layout) -> Told<'_> {
    let design = &layout.plan.design;
    let gates = layout.plan.gates.iter().zip(&layout.costs);
    let gates = gates.map(|(gate, cost)| told_gate(gate, cost));
    Told {
        profile: &design.profile,
        looks: &design.looks,
        budget_s: design.budget.as_secs_f64(),
        least_s: plan::least_session_s(&layout.plan, Comparison::Interleaved),
        false_alarm: design.alpha,
        gates: gates.collect(),
    }
}

fn told_gate<'a>(gate: &'a Gate, cost: &Cost) -> ToldGate<'a> {
    ToldGate {
        gate: &gate.name,
        title: &gate.title,
        file: &gate.file,
        checks: gate.checks.iter().map(|check| check.id.as_str()).collect(),
        launch: cost.group + 1,
        least_s: plan::least_s(gate),
        start_s: cost.seconds().map(|spent| spent.start_s),
        work_s: cost.seconds().map(|spent| spent.work_s),
        known: match cost.source {
            CostSource::Results => "measured",
            CostSource::Stored => "stored",
            CostSource::Guessed => "guessed",
            CostSource::Unknown => "unknown",
        },
    }
}

fn gate_table(layout: &Layout) -> String {
    let design = &layout.plan.design;
    let mut text = String::new();
    let checks: usize = layout.plan.gates.iter().map(|gate| gate.checks.len()).sum();
    let groups = layout.costs.iter().map(|cost| cost.group + 1).max();
    let looks = design.looks.iter().map(|look| match *look < LAUNCHES {
        true => format!("{look} (where calibrated)"),
        false => look.to_string(),
    });
    let looks: Vec<String> = looks.collect();
    let _ = writeln!(
        text,
        "profile {}: {}, {}, {} per arm and block",
        design.profile,
        count(layout.plan.gates.len(), "gate"),
        count(checks, "check"),
        count(groups.unwrap_or(0), "launch"),
    );
    let least = plan::least_session_s(&layout.plan, Comparison::Interleaved);
    // Where no gate fixes a time, what the engine takes is all.
    let least = match least > 0.0 {
        true => format!(", at least {}", span(least)),
        false => String::new(),
    };
    let _ = writeln!(
        text,
        "results are tested after {} blocks; at most {}{least}",
        looks.join(", "),
        span(design.budget.as_secs_f64()),
    );
    let _ = writeln!(
        text,
        "false-alarm rate of the run: at most {:.0} %\n",
        design.alpha * 100.0,
    );
    let mut header = vec!["gate", "checks", "launch", "start", "work"];
    // Few gates fix a time.
    let leasts = layout.plan.gates.iter().map(plan::least_s);
    let has_least = leasts.clone().any(|least| least > 0.0);
    header.extend(has_least.then_some("minimum"));
    header.push("times of");
    let blocks = layout.plan.most_blocks();
    let gates = layout.plan.gates.iter().zip(&layout.costs);
    let rows = gates.zip(leasts).map(|((gate, cost), least)| {
        let mut row = vec![
            gate.name.clone(),
            gate.checks.len().to_string(),
            (cost.group + 1).to_string(),
            seconds(cost.seconds().map(|spent| spent.start_s)),
            work(cost, gate.blocks_of(blocks), blocks),
        ];
        row.extend(has_least.then(|| seconds(Some(least).filter(|least| *least > 0.0))));
        row.push(source(cost.source).to_owned());
        row
    });
    text.push_str(&table(&header, rows.collect()));
    let mut looks = design.looks.iter().copied();
    let least = looks.find(|look| *look >= LAUNCHES).unwrap_or(blocks);
    let within = |blocks: u32| {
        let seconds = layout.session_s(blocks)?;
        Some(seconds.min(design.budget.as_secs_f64()))
    };
    if let (Some(first), Some(last)) = (within(least.min(blocks)), within(blocks)) {
        let _ = writeln!(
            text,
            "\nby these times {} up to the first test, {} up to the last; builds and rests come on top",
            span(first),
            span(last)
        );
    }
    if layout.costs.iter().all(|cost| cost.seconds().is_none()) {
        text.push_str("\ndurations are unknown until a first run here, or `gate baseline pull`\n");
    }
    text
}

fn shard_table(layout: &Layout) -> String {
    let of = layout.shards.len();
    let shards = layout.shards.iter().zip(1..);
    let rows = shards.map(|(planned, number)| {
        vec![
            format!("{number} of {of}"),
            planned.gates.join(" "),
            span(layout.minutes(planned) * 60.0),
        ]
    });
    let mut text = table(&["shard", "gates", "at most"], rows.collect());
    text.push_str(&durations(layout));
    text
}

/// How the durations behind a division are known, and what helps where they are not.
fn durations(layout: &Layout) -> String {
    let guessed = named(layout, &CostSource::Guessed);
    let unknown = named(layout, &CostSource::Unknown);
    let measured = layout.costs.len() - guessed.len() - unknown.len();
    let mut text = format!(
        "\ndurations: {measured} measured, {} estimated",
        guessed.len()
    );
    if !unknown.is_empty() {
        let _ = write!(text, ", {} unknown", unknown.len());
    }
    text.push('\n');
    let help = "a run on this machine, or `gate baseline pull`, shows their durations";
    for (said, gates) in [
        ("estimated from their token counts", guessed),
        ("unknown, divided by their token counts", unknown),
    ] {
        if !gates.is_empty() {
            let said = format!("{said}: {}; {help}", gates.join(" "));
            text.push_str(&report::lines(&said));
        }
    }
    text
}

/// The gates whose costs have this source.
fn named<'a>(layout: &'a Layout, source: &CostSource) -> Vec<&'a str> {
    let gates = layout.plan.gates.iter().zip(&layout.costs);
    gates
        .filter(|(_, cost)| cost.source == *source)
        .map(|(gate, _)| gate.name.as_str())
        .collect()
}

fn source(source: CostSource) -> &'static str {
    match source {
        CostSource::Results => "a run here",
        CostSource::Stored => "main's record",
        CostSource::Guessed => "estimate by tokens",
        CostSource::Unknown => "unknown",
    }
}

/// `24.0 min`; below a minute `9.5 s`.
fn span(seconds: f64) -> String {
    match seconds < 60.0 {
        true => format!("{seconds:.1} s"),
        false => format!("{:.1} min", seconds / 60.0),
    }
}

/// `9.5 s`; of a gate that works in the first launches only `9.5 s, once` or `9.5 s, 3 times`.
fn work(cost: &Cost, launches: u32, all: u32) -> String {
    match cost.seconds() {
        Some(spent) if launches < all && launches == 1 => format!("{:.1} s, once", spent.work_s),
        Some(spent) if launches < all => format!("{:.1} s, {launches} times", spent.work_s),
        known => seconds(known.map(|spent| spent.work_s)),
    }
}

fn seconds(known: Option<f64>) -> String {
    known.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1} s"))
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header = header.iter().map(|name| (*name).to_owned());
    format!("{}\n", report::columns(header.collect(), rows))
}

fn tenths(minutes: f64) -> f64 {
    (minutes * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_short_span_is_in_seconds() {
        for (seconds, text) in [
            (0.04, "0.0 s"),
            (2.6, "2.6 s"),
            (59.9, "59.9 s"),
            (60.0, "1.0 min"),
            (1380.0, "23.0 min"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
