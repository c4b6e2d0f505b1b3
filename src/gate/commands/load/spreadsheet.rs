//! Runs of `gate load` as CSV: a row for each.
//!
//! Main function: [`load_csv`]. Refuses to know: how a run was measured.

use super::view::LoadReport;
use crate::report::{Cell, csv};
use serde_json::Value;
use std::collections::BTreeSet;

/// The runs in the order in which they were measured. What was asked for has the names of the command line, with `ask_` before
/// them. Numbers of an invalid run stand there too: its column `invalid` says why they are none.
pub fn load_csv(reports: &[LoadReport]) -> String {
    let asked: BTreeSet<&str> = reports
        .iter()
        .flat_map(|report| report.parameters.keys().map(String::as_str))
        .collect();
    let rows = reports.iter().map(|report| row(report, &asked));
    let rows: Vec<Vec<(String, Cell)>> = rows.collect();
    let names = rows
        .first()
        .map(|row| row.iter().map(|(name, _)| name.clone()));
    let names: Vec<String> = names.into_iter().flatten().collect();
    let cells = rows
        .iter()
        .map(|row| row.iter().map(|(_, cell)| cell.clone()).collect());
    csv(names.iter().map(String::as_str), cells)
}

/// Column names with their cells: the same names in each row.
fn row(report: &LoadReport, asked: &BTreeSet<&str>) -> Vec<(String, Cell)> {
    let LoadReport {
        date,
        server,
        model,
        requests,
        throughput,
        goodput,
        ..
    } = report;
    let mut row: Vec<(String, Cell)> = vec![
        ("date".into(), date.as_str().into()),
        ("server".into(), server.as_str().into()),
        ("model".into(), model.as_str().into()),
    ];
    row.extend(asked.iter().map(|name| {
        let value = report.parameters.get(*name);
        (format!("ask_{name}"), parameter(value))
    }));
    let invalid = report.invalid().map(String::as_str).collect::<Vec<_>>();
    let void: usize = requests.void.values().sum();
    let mut add = |name: &str, cell: Cell| row.push((name.to_owned(), cell));
    add("complete", report.complete.into());
    add(
        "stopped",
        report.stopped.as_deref().unwrap_or_default().into(),
    );
    add("invalid", invalid.join("; ").as_str().into());
    add("requests_sent", requests.sent.into());
    add("requests_sound", requests.ok.into());
    add("requests_void", void.into());
    add("requests_warmup", requests.warmup.into());
    let times = [
        ("ttft_ms", report.ttft_ms),
        ("tpot_ms", report.tpot_ms),
        ("itl_ms", report.itl_ms),
        ("icl_ms", report.icl_ms),
        ("e2e_ms", report.e2e_ms),
        ("prompt_tokens", report.prompt_tokens),
        ("output_tokens", report.output_tokens),
    ];
    for (name, of) in times {
        for (part, value) in of.numbers() {
            add(&format!("{name}_{part}"), value.into());
        }
        add(&format!("{name}_n"), Cell::Count(Some(of.n)));
    }
    let (whole, full) = (
        throughput.output_tokens_per_s,
        throughput.output_tokens_per_s_full,
    );
    add("output_tokens_per_s", whole.into());
    add("output_tokens_per_s_full", full.into());
    add("goodput_share", goodput.map(|of| of.share).into());
    add(
        "goodput_requests_per_s",
        goodput.map(|of| of.requests_per_s).into(),
    );
    add("tokens_per_event", report.burst_factor.into());
    row
}

fn parameter(value: Option<&Value>) -> Cell {
    match value {
        None | Some(Value::Null) => Cell::Number(None),
        Some(Value::Bool(flag)) => Cell::Flag(*flag),
        Some(Value::Number(number)) => match number.as_u64() {
            Some(count) => Cell::Count(Some(count)),
            None => Cell::Number(number.as_f64()),
        },
        Some(Value::String(text)) => Cell::Text(text.clone()),
        Some(other) => Cell::Text(other.to_string()),
    }
}
