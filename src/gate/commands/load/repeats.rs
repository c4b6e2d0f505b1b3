//! One load several times over: each run's numbers, and their mean with an interval between runs.
//!
//! Main functions: [`overview`], [`json()`], [`charts`]. Refuses to know: how a run was measured.

use super::overview::Overview;
use super::sweep::wrong;
use super::view::{LoadReport, optional};
use crate::report::numbers::number;
use crate::report::pretty_json;
use crate::report::sheet::{Chart, ChartLine, Picture, Point, ScaleKind, Tone};
use serde::Serialize;
use serde_json::{Map, Value, json};
use verdict::stats::{mean, t_quantile, variance};

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

type Number = fn(&LoadReport) -> Option<f64>;

/// What is told of each run: its name in JSON, its column, and the number.
const NUMBERS: [(&str, &str, Number); 6] = [
    ("ttft_ms_p50", "TTFT p50", |run| run.ttft_ms.p50),
    ("ttft_ms_p99", "p99", |run| run.ttft_ms.p99),
    ("tpot_ms_p50", "TPOT p50", |run| run.tpot_ms.p50),
    ("tpot_ms_p99", "p99", |run| run.tpot_ms.p99),
    ("e2e_ms_p50", "E2E p50", |run| run.e2e_ms.p50),
    ("output_tokens_per_s", "tokens/s", |run| {
        run.throughput.output_tokens_per_s
    }),
];

/// Of valid runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct BetweenRuns {
    mean: f64,
    /// Ends of the interval that holds the mean of all such runs with 95 % confidence, by Student's t: what one run's
    /// many requests cannot tell.
    low: f64,
    high: f64,
    runs: usize,
}

/// `None`: fewer than two runs have the number.
fn between(values: &[f64]) -> Option<BetweenRuns> {
    let (mean, n) = (mean(values)?, values.len() as f64);
    let error = (variance(values)? / n).sqrt();
    let half = error * t_quantile(0.5 + CONFIDENCE / 2.0, n - 1.0)?;
    Some(BetweenRuns {
        mean,
        low: mean - half,
        high: mean + half,
        runs: values.len(),
    })
}

/// Of the valid runs; `None` also if one of them lacks the number, since the others would not be the load's.
fn of_runs(runs: &[LoadReport], value: Number) -> Option<BetweenRuns> {
    let valid = runs.iter().filter(|run| is_valid(run));
    between(&valid.map(value).collect::<Option<Vec<f64>>>()?)
}

fn is_valid(run: &LoadReport) -> bool {
    run.complete && run.invalid().next().is_none()
}

/// The runs in one table.
pub fn overview(runs: &[LoadReport]) -> Overview<'_, 8> {
    Overview {
        first: runs.first(),
        differs: "",
        header: header(),
        rows: rows(runs),
        remarks: remarks(runs),
    }
}

/// Every run's report, and what lies between them.
pub fn json(runs: &[LoadReport]) -> String {
    let between = NUMBERS.iter().map(|(name, _, value)| {
        let between = of_runs(runs, *value);
        ((*name).to_owned(), json!(between))
    });
    let all = json!({
        "runs": runs,
        "between_runs": Value::from(between.collect::<Map<String, Value>>()),
    });
    pretty_json(&all)
}

/// The middle of the times and the throughput, each with its interval.
pub fn headline(runs: &[LoadReport]) -> String {
    let valid = runs.iter().filter(|run| is_valid(run)).count();
    let told = |((title, unit), (_, _, value)): ((&str, &str), &(&str, &str, Number))| {
        let of = of_runs(runs, *value)?;
        let [mean, low, high] = [of.mean, of.low, of.high].map(number);
        Some(format!("{title} {mean} {unit} [{low}, {high}]"))
    };
    let told: Vec<String> = TITLES.into_iter().zip(&NUMBERS).filter_map(told).collect();
    match told.is_empty() {
        true => format!(
            "{valid} of {} runs are valid: there is no interval",
            runs.len()
        ),
        false => format!(
            "Mean of {valid} runs: {}",
            told[..told.len().min(3)].join("; ")
        ),
    }
}

/// The numbers of [`NUMBERS`] by themselves, with their units.
const TITLES: [(&str, &str); 6] = [
    ("TTFT p50", "ms"),
    ("TTFT p99", "ms"),
    ("TPOT p50", "ms"),
    ("TPOT p99", "ms"),
    ("E2E p50", "ms"),
    ("Output", "tokens/s"),
];

/// Each number of each run, with the interval of the mean.
pub fn charts(runs: &[LoadReport]) -> Vec<Picture> {
    let chart = |((title, unit), (_, _, value)): ((&str, &str), &(&str, &str, Number))| {
        let level = of_runs(runs, *value).map(|of| (of.mean, of.low, of.high));
        let mean = level.map_or("", |_| ", their mean and its 95 % interval");
        let points = (1..).zip(runs).filter_map(|(number_of, run)| {
            let y = value(run)?;
            Some(Point {
                x: f64::from(number_of),
                y,
                tone: if is_valid(run) {
                    Tone::Head
                } else {
                    Tone::Invalid
                },
                label: format!("run {number_of}: {}", number(y)),
            })
        });
        let chart = Chart {
            title: format!("{title}, {unit}: runs{mean}"),
            x: "run".to_owned(),
            kinds: (ScaleKind::Linear, ScaleKind::Linear),
            shown: number,
            lines: vec![ChartLine {
                name: title.to_owned(),
                tone: Tone::Head,
                points: points.collect(),
                is_joined: false,
            }],
            level,
            mark: None,
        };
        chart.drawn().map(Picture::Chart)
    };
    TITLES.into_iter().zip(&NUMBERS).filter_map(chart).collect()
}

fn header() -> [&'static str; 8] {
    let mut header = ["run", "valid", "", "", "", "", "", ""];
    for (column, (_, name, _)) in header[2..].iter_mut().zip(NUMBERS) {
        *column = name;
    }
    header
}

/// Each run's, then the mean's and the interval's.
fn rows(runs: &[LoadReport]) -> Vec<Vec<String>> {
    let of_run = |(number, run): (usize, &LoadReport)| {
        let mark = if is_valid(run) { "" } else { " !" };
        let name = format!("{number}{mark}");
        let sound = format!("{}/{}", run.requests.ok, run.requests.sent);
        let values = NUMBERS.iter().map(|(_, _, value)| optional(value(run)));
        [name, sound].into_iter().chain(values).collect()
    };
    let between = NUMBERS.map(|(_, _, value)| of_runs(runs, value));
    let of_all = |name: &str, value: fn(BetweenRuns) -> f64| {
        let values = between.iter().map(|of| optional(of.map(value)));
        let names = [name.to_owned(), String::new()];
        names.into_iter().chain(values).collect()
    };
    let mut rows: Vec<Vec<String>> = (1..).zip(runs).map(of_run).collect();
    rows.push(of_all("mean", |of| of.mean));
    rows.push(of_all("95 % from", |of| of.low));
    rows.push(of_all("to", |of| of.high));
    rows
}

/// What the rows mean, and what is wrong with which run.
fn remarks(runs: &[LoadReport]) -> Vec<String> {
    let valid = runs.iter().filter(|run| is_valid(run)).count();
    let mut remarks = vec![match valid {
        0 | 1 => "Times in ms. There is no interval: fewer than two runs are valid.".to_owned(),
        _ => format!(
            "Times in ms. Mean and interval are over the {valid} valid runs, one value each."
        ),
    }];
    let of_runs = (1..).zip(runs).flat_map(|(number, run)| {
        let texts = wrong(run).into_iter();
        texts.map(move |text| format!("run {number}: {text}"))
    });
    remarks.extend(of_runs);
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::load::view::tests::report;
    use crate::figures::Distribution;

    /// An engine could keep its slow runs' numbers from being known.
    #[test]
    fn a_number_that_one_run_lacks_has_no_interval() {
        let run = |p50| LoadReport {
            ttft_ms: Distribution {
                p50,
                ..Distribution::default()
            },
            client_beyond_limit: Vec::new(),
            ..report()
        };
        let p50: Number = |run| run.ttft_ms.p50;
        let runs = [run(Some(50.0)), run(Some(52.0)), run(None)];
        assert!(of_runs(&runs[..2], p50).is_some_and(|of| of.runs == 2));
        assert_eq!(of_runs(&runs, p50), None);
    }

    #[test]
    fn the_interval_is_by_students_t() {
        assert_eq!(between(&[]), None);
        assert_eq!(between(&[3.0]), None);
        // s = 1, n = 3: 4.302653 (two degrees of freedom) / √3.
        let of = between(&[1.0, 2.0, 3.0]).unwrap();
        assert!((of.mean - 2.0).abs() < 1e-12);
        assert!((of.high - 2.0 - 2.484_138).abs() < 1e-5, "{of:?}");
        assert!((of.low + of.high - 4.0).abs() < 1e-12);
        let equal = between(&[5.0, 5.0]).unwrap();
        assert!((equal.high - equal.low).abs() < 1e-12);
    }
}
