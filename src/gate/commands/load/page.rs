//! A load as one HTML page: of one run its percentiles, of several paces what grows with the load, of repeats each run.
//!
//! Main function: [`page`]. Refuses to know: measuring, HTML.

use super::overview::Overview;
use super::view::{self, LoadReport, optional};
use super::{repeats, sweep};
use crate::figures::Distribution;
use crate::report::numbers::number;
use crate::report::sheet::{self, Bar, Bars, Picture, ScaleKind, Sheet, SheetTable, Tone};

/// `command`: the command line that measured. `is_repeated`: one load several times, else a run or a sweep of `steps`.
pub fn page(
    reports: &[LoadReport],
    (steps, is_repeated): (usize, bool),
    command: String,
) -> String {
    let result = match reports {
        runs if is_repeated => several(
            repeats::overview(runs),
            repeats::headline(runs),
            repeats::charts(runs),
        ),
        [report] if steps == 1 => single(report),
        reports => several(
            sweep::overview(reports),
            sweep::headline(reports),
            sweep::charts(reports),
        ),
    };
    let first = reports.first();
    let own = |text: fn(&LoadReport) -> &String| first.map(text).cloned().unwrap_or_default();
    sheet::page(&Sheet {
        title: "gate load".to_owned(),
        badge: badge(reports),
        command,
        tool: own(|report| &report.tool),
        ..result
    })
}

/// A word only where the numbers are none, or not all.
fn badge(reports: &[LoadReport]) -> Option<(Tone, String)> {
    let is_invalid =
        |report: &LoadReport| report.invalid().next().is_some() || report.requests.ok == 0;
    let (tone, word) = if reports.iter().any(is_invalid) {
        (Tone::Invalid, "invalid")
    } else if reports.iter().any(|report| report.stopped.is_some()) {
        (Tone::Inconclusive, "stopped")
    } else if reports.iter().any(|report| !report.complete) {
        (Tone::Inconclusive, "interrupted")
    } else {
        return None;
    };
    Some((tone, word.to_owned()))
}

fn about(report: &LoadReport, left_out: &str) -> Vec<String> {
    let LoadReport {
        server,
        model,
        date,
        ..
    } = report;
    let parameters = view::parameters(report, left_out);
    [server, model, date, &parameters]
        .map(Clone::clone)
        .to_vec()
}

fn several<const N: usize>(
    overview: Overview<'_, N>,
    headline: String,
    pictures: Vec<Picture>,
) -> Sheet {
    let differs = overview.differs;
    Sheet {
        headline,
        about: overview
            .first
            .map_or(Vec::new(), |first| about(first, differs)),
        pictures,
        tables: vec![SheetTable {
            title: "Numbers".to_owned(),
            header: overview.header.map(str::to_owned).to_vec(),
            rows: overview.rows,
        }],
        notes: overview.remarks,
        ..Sheet::default()
    }
}

fn single(report: &LoadReport) -> Sheet {
    let facts = view::lines(report).into_iter();
    let facts = facts.filter(|(name, _)| *name != view::INVALID);
    let invalid = report.invalid().map(|text| format!("Invalid: {text}"));
    Sheet {
        headline: format!(
            "TTFT {} ms, TPOT {} ms at the median; {} output tokens/s",
            optional(report.ttft_ms.p50),
            optional(report.tpot_ms.p50),
            optional(report.throughput.output_tokens_per_s)
        ),
        about: about(report, ""),
        notices: view::cut(report).into_iter().chain(invalid).collect(),
        pictures: percentiles(report).into_iter().collect(),
        tables: vec![SheetTable {
            title: "Numbers".to_owned(),
            header: view::TIMES.map(str::to_owned).to_vec(),
            rows: view::time_rows(report),
        }],
        facts: facts.map(|(name, text)| (name.to_owned(), text)).collect(),
        ..Sheet::default()
    }
}

/// The times of a run, each with what most requests take and what the slowest take.
fn percentiles(report: &LoadReport) -> Option<Picture> {
    let row = |(label, times): (&str, Distribution)| {
        let named = [
            ("p50", times.p50),
            ("p90", times.p90),
            ("p99", times.p99),
            ("p99.9", times.p999),
        ];
        let known = named
            .iter()
            .filter_map(|(name, value)| Some((*name, (*value)?)));
        let known: Vec<(&str, f64)> = known.collect();
        let texts = known
            .iter()
            .map(|(name, value)| format!("{name} {}", number(*value)));
        let last = known.last().map(|(_, value)| *value);
        Bar {
            label: label.to_owned(),
            value: texts.collect::<Vec<_>>().join(", "),
            bar: times.p50.zip(last),
            // A time of 0 has no place.
            span: times
                .min
                .filter(|min| *min > 0.0)
                .or(times.p50)
                .zip(times.max),
            dots: known
                .iter()
                .map(|(name, value)| (*value, format!("{name}: {} ms", number(*value))))
                .collect(),
            ..Bar::default()
        }
    };
    let times = [
        ("TTFT", report.ttft_ms),
        ("TPOT", report.tpot_ms),
        ("ITL", report.itl_ms),
        ("E2E", report.e2e_ms),
    ];
    let bars = Bars {
        title: "Times in ms".to_owned(),
        note: "Dots: p50, p90, p99 and p99.9, as far as there are requests enough for them. The thin line reaches from the \
               fastest request to the slowest. Equal ratios are equally far apart."
            .to_owned(),
        kind: ScaleKind::Log,
        shown: number,
        marks: Vec::new(),
        rows: times.into_iter().filter(|(_, of)| of.n > 0).map(row).collect(),
    };
    bars.drawn().map(Picture::Bars)
}
