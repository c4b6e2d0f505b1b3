//! Results of `gate load`: a table of 80 columns, Markdown and JSON.
//!
//! Main type: [`LoadReport`]. Refuses to know: how it was measured, exit codes.

use crate::figures::{Distribution, Speed, Throughput};
use crate::report::markdown::escape;
use crate::report::numbers::number;
use crate::report::terminal::{STYLE, WIDTH, wrap};
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use verdict::plural::count;
use verdict::record::{ClientHealth, Spread};

/// Column of the values under the table.
const LABEL: usize = 14;
/// Before the reason why the numbers are none.
pub const INVALID: &str = "INVALID";

/// One run. Times in milliseconds, rates per second.
#[derive(Clone, Debug, Serialize)]
pub struct LoadReport {
    /// Name and version of this program.
    pub tool: String,
    /// RFC 3339, UTC.
    pub date: String,
    /// The server's address, as it was given.
    pub server: String,
    pub model: String,
    /// What was asked for, by the names of the command line.
    pub parameters: Map<String, Value>,
    /// False: interrupted or stopped; the numbers are of what was done until then.
    pub complete: bool,
    /// Why not everything was sent, where the server itself was the reason.
    pub stopped: Option<String>,
    pub ttft_ms: Distribution,
    pub tpot_ms: Distribution,
    pub itl_ms: Distribution,
    pub icl_ms: Distribution,
    pub e2e_ms: Distribution,
    pub throughput: Throughput,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodShare>,
    /// Prompt tokens computed per second, and output tokens per second of one stream.
    pub prefill: Speed,
    pub generation: Speed,
    /// Output tokens per output event.
    pub burst_factor: Option<f64>,
    /// Tokens of a sound request: whoever compares two runs must know that they did the same work.
    pub prompt_tokens: Distribution,
    pub output_tokens: Distribution,
    /// Of conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnReport>,
    pub requests: Requests,
    /// `None` where the run was interrupted before any request was done.
    pub client: Option<ClientHealth>,
    /// In which ways the client was not good enough for these numbers.
    pub client_beyond_limit: Vec<String>,
    /// How the server's own timings contradict its streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_contradicts: Option<String>,
    /// Why prefill and generation cannot both have been that fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implausible: Option<String>,
    /// What could not be measured although the requests are sound.
    pub notes: Vec<String>,
}

impl LoadReport {
    /// Why the numbers are none, if so.
    pub fn invalid(&self) -> impl Iterator<Item = &String> {
        self.client_beyond_limit
            .iter()
            .chain(&self.server_contradicts)
            .chain(&self.implausible)
    }
}

/// Requests within the SLO.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GoodShare {
    pub share: f64,
    pub requests_per_s: f64,
}

/// Turns `from` to `to` of all conversations, counted from 1.
#[derive(Clone, Debug, Serialize)]
pub struct TurnReport {
    pub from: u32,
    pub to: u32,
    /// Sound requests.
    pub requests: usize,
    pub ttft_ms: Distribution,
    /// With the history.
    pub prompt_tokens: Distribution,
    /// From the end of the answer before each to its send: what the client takes to read that answer.
    pub pause_ms: Distribution,
    /// Prompt tokens from the server's cache, as a share; `None`: the server did not say so of each request.
    pub cached_share: Option<f64>,
}

/// Measured requests; warm-up is counted apart.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Requests {
    pub warmup: usize,
    pub sent: usize,
    pub ok: usize,
    /// By the rule that they broke.
    pub void: BTreeMap<&'static str, usize>,
    /// Of the first sample that broke each.
    pub details: BTreeMap<&'static str, String>,
}

/// The report for a terminal.
pub fn load_table(report: &LoadReport) -> String {
    let mut out = String::new();
    let LoadReport {
        server,
        model,
        date,
        ..
    } = report;
    let _ = writeln!(out, "{server}  {model}  {date}");
    for line in wrap(&parameters(report, ""), usize::from(WIDTH)) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(cut) = cut(report) {
        for line in wrap(&cut, usize::from(WIDTH)) {
            let _ = writeln!(out, "{line}");
        }
    }
    let _ = writeln!(out, "\n{}\n", table(TIMES, time_rows(report)));
    for (label, text) in lines(report) {
        let mut wrapped = wrap(&text, usize::from(WIDTH) - LABEL).into_iter();
        let first = wrapped.next().unwrap_or_default();
        let _ = writeln!(out, "{label:<LABEL$}{first}");
        for line in wrapped {
            let _ = writeln!(out, "{:LABEL$}{line}", "");
        }
    }
    out
}

/// The report as Markdown, for a pull request or an issue.
pub fn load_markdown(report: &LoadReport) -> String {
    let mut out = markdown_head(report, "");
    out += &markdown_table(TIMES, time_rows(report));
    let cut = cut(report).map(|text| ("not complete", text));
    for (label, text) in cut.into_iter().chain(lines(report)) {
        let _ = writeln!(out, "- **{label}**: {}", escape(&text));
    }
    out
}

/// What was measured, but for the parameter of this name.
pub fn markdown_head(report: &LoadReport, left_out: &str) -> String {
    let [server, model] = [&report.server, &report.model].map(|text| escape(text));
    let parameters = escape(&parameters(report, left_out));
    format!("{server} · {model} · {}\n\n{parameters}\n\n", report.date)
}

/// A table and an empty line: names on the left, numbers on the right of their columns.
pub fn markdown_table<const N: usize>(header: [&str; N], rows: Vec<Vec<String>>) -> String {
    let mut out = format!(
        "| {} |\n|---{}|\n",
        header.join(" | "),
        "|--:".repeat(N - 1)
    );
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out.push('\n');
    out
}

/// That not all requests were sent, and why.
pub fn cut(report: &LoadReport) -> Option<String> {
    match &report.stopped {
        Some(why) => Some(format!(
            "STOPPED: {why}; these are the requests that were done by then"
        )),
        None if report.complete => None,
        None => Some("INTERRUPTED: these are the requests that were done by then".to_owned()),
    }
}

/// What was asked for, but for the parameter of this name.
pub fn parameters(report: &LoadReport, left_out: &str) -> String {
    let shown = report
        .parameters
        .iter()
        .filter(|(name, _)| *name != left_out);
    let shown = shown.map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A table for a terminal: names on the left, numbers on the right of their columns, closer together where long
/// numbers leave no room.
pub fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let spaced = |spaces: u16| {
        let mut table = Table::new();
        table.load_style(STYLE).set_width(WIDTH).set_header(header);
        table.add_rows(rows.clone());
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, spaces));
            if number > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    };
    let widest = |table: &String| table.lines().map(|line| line.chars().count()).max();
    let fits = |table: &String| widest(table) <= Some(usize::from(WIDTH));
    let mut tables = [2, 1].map(spaced).into_iter();
    tables.find(fits).unwrap_or_else(|| spaced(0))
}

pub const TIMES: [&str; 9] = [
    "ms", "mean", "p50", "p90", "p99", "p99.9", "min", "max", "n",
];

/// The rows of the table under [`TIMES`].
pub fn time_rows(report: &LoadReport) -> Vec<Vec<String>> {
    let row = |(name, summary): (&str, Distribution)| {
        let values = summary.numbers().map(|(_, value)| optional(value));
        let name = [name.to_owned()].into_iter();
        name.chain(values).chain([summary.n.to_string()]).collect()
    };
    let rows = [
        ("TTFT", report.ttft_ms),
        ("TPOT", report.tpot_ms),
        ("ITL", report.itl_ms),
        ("ICL", report.icl_ms),
        ("E2E", report.e2e_ms),
    ];
    rows.into_iter().map(row).collect()
}

/// What stands below the table: a name and a text each.
pub fn lines(report: &LoadReport) -> Vec<(&'static str, String)> {
    let Throughput {
        output_tokens_per_s,
        output_tokens_per_s_full,
    } = report.throughput;
    let mut lines = vec![(
        "throughput",
        format!(
            "{} output tokens/s; {} at full occupancy",
            optional(output_tokens_per_s),
            optional(output_tokens_per_s_full)
        ),
    )];
    lines.extend(speeds(report));
    if report.prompt_tokens.mean.is_some() {
        let [prompt, answer] = [report.prompt_tokens, report.output_tokens].map(mean_and_range);
        lines.push(("tokens", format!("{prompt} a prompt, {answer} an answer")));
    }
    lines.extend(report.turns.iter().map(turns));
    if let Some(factor) = report.burst_factor {
        lines.push((
            "burst factor",
            format!("{} tokens an event", number(factor)),
        ));
    }
    if let Some(GoodShare {
        share,
        requests_per_s,
    }) = report.goodput
    {
        let (share, rate) = (number(share * 100.0), number(requests_per_s));
        lines.push(("goodput", format!("{share} % of requests, {rate} a second")));
    }
    let Requests {
        warmup,
        sent,
        ok,
        void,
        details,
    } = &report.requests;
    lines.push((
        "requests",
        format!("{sent} sent, {ok} valid; {warmup} warm-up"),
    ));
    for (name, count) in void {
        let detail = details.get(name).map_or("", String::as_str);
        lines.push(("void", format!("{count} × {name}; the first: {detail}")));
    }
    if let Some(health) = &report.client {
        lines.push(("client", client(health)));
    }
    lines.extend(report.notes.iter().map(|text| ("note", text.clone())));
    lines.extend(report.invalid().map(|text| (INVALID, text.clone())));
    lines
}

/// The mean, and the ends where they differ.
fn mean_and_range(tokens: Distribution) -> String {
    let mean = optional(tokens.mean);
    match (tokens.min, tokens.max) {
        (Some(least), Some(most)) if least < most => {
            format!("{mean} ({} to {})", number(least), number(most))
        }
        _ => mean,
    }
}

fn turns(turns: &TurnReport) -> (&'static str, String) {
    let name = match (turns.from, turns.to) {
        (from, to) if from == to => format!("turn {from}"),
        (from, to) => format!("turns {from} to {to}"),
    };
    let cached = match turns.cached_share {
        Some(share) => format!("{} % of them cached", number(share * 100.0)),
        None => "the server does not say how many were cached".to_owned(),
    };
    let pause = turns.pause_ms.p50.map_or_else(String::new, |pause| {
        format!("; sent {} ms after the answer before, p50", number(pause))
    });
    let text = format!(
        "{name}: TTFT {} ms p50, {} p99; {} prompt tokens, {cached}; {}{pause}",
        optional(turns.ttft_ms.p50),
        optional(turns.ttft_ms.p99),
        optional(turns.prompt_tokens.mean),
        count(turns.requests, "request"),
    );
    ("by turn", text)
}

/// What each phase did per second in the middle request, and how that is known.
fn speeds(report: &LoadReport) -> Vec<(&'static str, String)> {
    let LoadReport {
        prefill,
        generation,
        ..
    } = report;
    let by = match prefill.clock.as_str() {
        "server" => "by the server's timings",
        _ => "over TTFT, queues included",
    };
    let prefill = prefill.tokens_per_s.p50.map(|rate| {
        let text = format!("{} prompt tokens/s computed, median; {by}", number(rate));
        ("prefill", text)
    });
    let generation = generation.tokens_per_s.p50.map(|rate| {
        let text = format!(
            "{} output tokens/s a stream, median; by its events (1 / TPOT)",
            number(rate)
        );
        ("generation", text)
    });
    prefill.into_iter().chain(generation).collect()
}

fn client(health: &ClientHealth) -> String {
    let late = |spread: Spread| number(spread.p99);
    let steal = health.steal_share.map_or_else(String::new, |share| {
        format!(
            "; {} % of the machine taken by its host",
            number(share * 100.0)
        )
    });
    format!(
        "p99 of lateness in ms: sends {}, reads {}, timers {}; kernel stamps on {} %, ambiguous events {} %; \
         {} of {} streams at once; {} s of CPU on {} in {} s{steal}",
        late(health.send_lag_ms),
        late(health.read_lag_ms),
        late(health.loop_delay_ms),
        number(health.kernel_share * 100.0),
        number(health.ambiguous_share * 100.0),
        health.streams_reached,
        health.streams_asked,
        number(health.cpu_s),
        count(health.threads, "thread"),
        number(health.wall_s),
    )
}

pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::report::pretty_json;

    pub fn report() -> LoadReport {
        let values: Vec<f64> = (1..=120).map(f64::from).collect();
        let few = Distribution::of(&values[..9]);
        LoadReport {
            tool: "infergate 0".into(),
            date: "2026-01-02T03:04:05Z".into(),
            server: "http://127.0.0.1:8000".into(),
            model: "m".into(),
            parameters: Map::from_iter([
                ("concurrency".into(), 4.into()),
                ("requests".into(), 120.into()),
            ]),
            complete: true,
            stopped: None,
            ttft_ms: Distribution::of(&values),
            tpot_ms: few,
            itl_ms: Distribution::of(&[]),
            icl_ms: Distribution::of(&[123_456.789]),
            e2e_ms: Distribution::of(&[0.000_12]),
            throughput: Throughput {
                output_tokens_per_s: Some(1234.5),
                output_tokens_per_s_full: None,
            },
            prefill: Speed {
                clock: "stream".into(),
                tokens_per_s: Distribution::of(&[1980.0]),
            },
            generation: Speed::default(),
            goodput: Some(GoodShare {
                share: 0.5,
                requests_per_s: 3.0,
            }),
            burst_factor: Some(1.0),
            prompt_tokens: few,
            output_tokens: few,
            turns: Vec::new(),
            requests: Requests {
                warmup: 2,
                sent: 121,
                ok: 120,
                void: BTreeMap::from([("token-counts", 1)]),
                details: BTreeMap::from([("token-counts", "a sentence of some length ".repeat(6))]),
            },
            client: Some(ClientHealth::default()),
            client_beyond_limit: vec!["the client sent late".into()],
            server_contradicts: None,
            implausible: None,
            notes: vec!["one answer arrived at one moment".into()],
        }
    }

    #[test]
    fn long_numbers_move_columns_together() {
        let row = |n: &str| {
            [
                vec!["TTFT".to_owned()],
                vec!["0.0009123".to_owned(); 7],
                vec![n.to_owned()],
            ]
            .concat()
        };
        for line in table(TIMES, [row("6300")]).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn the_table_fits_80_columns_and_hides_nothing() {
        let table = load_table(&report());
        for line in table.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for part in [
            "TTFT",
            "60.5",
            "–",
            "token-counts",
            "INVALID",
            "note          one answer",
            "prefill       1980 prompt tokens/s computed, median; over TTFT, queues included",
            "1234",
            "50 %",
        ] {
            assert!(table.contains(part), "{part} in\n{table}");
        }
        let cut = load_table(&LoadReport {
            complete: false,
            ..report()
        });
        assert!(cut.contains("INTERRUPTED"));
        let stopped = load_table(&LoadReport {
            complete: false,
            stopped: Some("the engine is gone ".repeat(9)),
            ..report()
        });
        assert!(stopped.contains("STOPPED: the engine") && !stopped.contains("INTERRUPTED"));
        assert!(stopped.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn the_json_has_nulls_where_nothing_is_known() {
        let json: Value = serde_json::from_str(&pretty_json(&report())).unwrap();
        assert_eq!(json["itl_ms"]["n"], 0);
        assert_eq!(json["itl_ms"]["p50"], Value::Null);
        assert_eq!(json["tpot_ms"]["p99"], Value::Null);
        assert_eq!(json["requests"]["void"]["token-counts"], 1);
        assert_eq!(json["parameters"]["concurrency"], 4);
    }
}
