//! The cost of an effect, for a terminal and as JSON.

use crate::calibration::{NoiseSource, PowerPlan, PowerRow, Wanted};
use crate::report::citation::{day, percent};
use crate::report::{pretty_json, terminal};
use serde::Serialize;
use std::fmt::Write;
use verdict::plural::count;

/// Format of the JSON.
const FORMAT: &str = "infergate-power/1";

/// The plan in 80 columns.
pub fn power_text(plan: &PowerPlan) -> String {
    let mut out = String::new();
    let cap = plan.looks.last().copied().unwrap_or_default();
    let intro = format!(
        "what is found in {} of sessions that judge {} together (profile {}, at most {cap} blocks of two launches):",
        percent(plan.power),
        count(plan.checks, "check"),
        plan.profile,
    );
    say(&mut out, &intro);
    if plan.rows.is_empty() {
        say(
            &mut out,
            "no check of these gates compares head with base by launches that vary",
        );
        return out;
    }
    let header = [
        "check",
        "effect",
        "launch sd",
        "blocks",
        "launches",
        "minutes",
        "passes unchanged",
    ];
    let rows = plan.rows.iter().map(row).collect();
    let _ = writeln!(
        out,
        "\n{}\n",
        terminal::columns(header.map(str::to_owned).to_vec(), rows)
    );
    for line in plan.rows.iter().flat_map(|row| remarks(row, cap)) {
        say(&mut out, &line);
    }
    for line in &plan.unknown {
        say(&mut out, line);
    }
    let mut sources: Vec<String> = plan.rows.iter().map(|row| source(&row.source)).collect();
    sources.dedup();
    say(&mut out, &format!("launch sd {}", sources.join("; ")));
    out
}

fn row(row: &PowerRow) -> Vec<String> {
    let blocks = row.wanted.blocks();
    let shown = |n: Option<String>| n.unwrap_or_else(|| "–".to_owned());
    vec![
        row.check.clone(),
        percent(row.effect),
        match row.paired {
            true => format!("{:.2} % (pairs)", row.sd * 100.0),
            false => format!("{:.2} %", row.sd * 100.0),
        },
        shown(blocks.map(|n| n.to_string())),
        shown(blocks.map(|n| format!("{n} + {n}"))),
        shown(minutes(row).map(|minutes| format!("{minutes:.1}"))),
        shown(row.to_pass.map(|n| format!("after {n}"))),
    ]
}

/// Of both arms' launches.
fn minutes(row: &PowerRow) -> Option<f64> {
    Some(f64::from(2 * row.wanted.blocks()?) * row.launch_s? / 60.0)
}

fn remarks(row: &PowerRow, cap: u32) -> Option<String> {
    let check = &row.check;
    let effect = percent(row.effect);
    match row.wanted {
        Wanted::WithinMargin => Some(format!(
            "{check}: no number of launches finds {effect}: up to the margin of {} a change is no regression",
            percent(row.margin)
        )),
        Wanted::TooMany => Some(format!(
            "{check}: not even 1000 blocks find {effect}: launches vary too much; measure more in each, or on a \
             quieter machine"
        )),
        Wanted::Blocks(blocks) if blocks > cap => Some(format!(
            "{check}: {blocks} blocks are more than the profile's last look at {cap}: name a later one in its `looks`"
        )),
        Wanted::Blocks(_) => None,
    }
}

fn source(source: &NoiseSource) -> String {
    match source {
        NoiseSource::Certificate(created) => format!("by the certificate of {}", day(created)),
        NoiseSource::Stored(sessions) => format!(
            "by {} of main, since there is no certificate that holds: minutes are not known",
            count(*sessions, "stored session")
        ),
        NoiseSource::Given => "as given with --sd".to_owned(),
    }
}

fn say(out: &mut String, text: &str) {
    for line in terminal::wrap(text, usize::from(terminal::WIDTH)) {
        let _ = writeln!(out, "{line}");
    }
}

#[derive(Serialize)]
struct Plan<'a> {
    format: &'static str,
    profile: &'a str,
    power: f64,
    looks: &'a [u32],
    checks: u32,
    rows: Vec<JsonRow<'a>>,
    /// Why checks have no row.
    unknown: &'a [String],
}

#[derive(Serialize)]
struct JsonRow<'a> {
    check: &'a str,
    /// Fraction.
    effect: f64,
    launch_sd: f64,
    /// `launch_sd` is that of the difference of two launches of a block.
    paired: bool,
    /// `certificate`, `stored` or `given`.
    source: &'static str,
    /// `null` where no number up to 1000 suffices.
    blocks: Option<u32>,
    minutes: Option<f64>,
    blocks_to_pass: Option<u32>,
    remark: Option<String>,
}

/// The plan as JSON, with a newline at its end.
pub fn power_json(plan: &PowerPlan) -> String {
    let cap = plan.looks.last().copied().unwrap_or_default();
    let rows = plan.rows.iter().map(|row| JsonRow {
        check: &row.check,
        effect: row.effect,
        launch_sd: row.sd,
        paired: row.paired,
        source: match row.source {
            NoiseSource::Certificate(_) => "certificate",
            NoiseSource::Stored(_) => "stored",
            NoiseSource::Given => "given",
        },
        blocks: row.wanted.blocks(),
        minutes: minutes(row),
        blocks_to_pass: row.to_pass,
        remark: remarks(row, cap),
    });
    let json = Plan {
        format: FORMAT,
        profile: &plan.profile,
        power: plan.power,
        looks: &plan.looks,
        checks: plan.checks,
        rows: rows.collect(),
        unknown: &plan.unknown,
    };
    pretty_json(&json)
}
