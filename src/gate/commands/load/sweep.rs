//! Several paces of `gate load` side by side, and the knee between them.
//!
//! Main functions: [`overview`], [`json()`], [`charts`]; [`knee`]. Refuses to know: how a step was measured.

use super::overview::Overview;
use super::view::{LoadReport, optional};
use crate::report::numbers::number;
use crate::report::pretty_json;
use crate::report::sheet::{Chart, ChartLine, Picture, Point, ScaleKind, Tone};
use serde_json::{Value, json};

/// A number of a step.
type Number = fn(&LoadReport) -> Option<f64>;

/// Steps from which a knee can be told.
const LEAST_STEPS: usize = 3;

/// How far above the straight line to the last step the knee must lie, as a share of the best throughput: below that
/// throughput grows in proportion to the load.
const BEND: f64 = 0.1;

const COLUMNS: [&str; 8] = [
    "", "valid", "TTFT p50", "p99", "TPOT p50", "p99", "tokens/s", "good",
];

/// Each step's pace and throughput, and the knee: the pace of the step that lies farthest above the straight line from
/// nothing to the greatest load (Satopaa et al., "Finding a Kneedle in a Haystack", 2011, for a rising curve without
/// smoothing). Steps without numbers are left out; `None`: too few are left, or none stands out.
pub fn knee(points: &[(f64, Option<f64>)]) -> Option<usize> {
    let known = || {
        let points = points.iter().enumerate();
        points.filter_map(|(place, (load, rate))| Some((place, *load, (*rate)?)))
    };
    if known().count() < LEAST_STEPS {
        return None;
    }
    let greatest = |of: fn((usize, f64, f64)) -> f64| known().map(of).fold(0.0, f64::max);
    let (most_load, most_rate) = (greatest(|at| at.1), greatest(|at| at.2));
    let above = |(_, load, rate): (usize, f64, f64)| rate / most_rate - load / most_load;
    let best = known().max_by(|a, b| above(*a).total_cmp(&above(*b)))?;
    (above(best) >= BEND).then_some(best.0)
}

/// The steps in one table.
pub fn overview(reports: &[LoadReport]) -> Overview<'_, 8> {
    let mut header = COLUMNS;
    header[0] = reports.first().map_or("", pace_shown);
    Overview {
        first: reports.first(),
        differs: reports.first().map_or("", pace_name),
        header,
        rows: rows(reports),
        remarks: remarks(reports),
    }
}

/// Every step's report, and the knee's pace.
pub fn json(reports: &[LoadReport]) -> String {
    let knee = knee(&points(reports));
    let all = json!({
        "steps": reports,
        "knee": knee.map(|place| load(&reports[place])),
    });
    pretty_json(&all)
}

fn pace_name(report: &LoadReport) -> &'static str {
    if report.parameters.contains_key("rate") {
        "rate"
    } else {
        "concurrency"
    }
}

fn pace_shown(report: &LoadReport) -> &'static str {
    match pace_name(report) {
        "concurrency" => "streams",
        other => other,
    }
}

/// The streams or the rate that was asked for.
fn load(report: &LoadReport) -> f64 {
    let value = report.parameters.get(pace_name(report));
    value.and_then(Value::as_f64).unwrap_or(0.0)
}

fn points(reports: &[LoadReport]) -> Vec<(f64, Option<f64>)> {
    let points = reports.iter().map(|report| {
        let rate = report.throughput.output_tokens_per_s;
        let is_known = report.complete && report.invalid().next().is_none();
        (load(report), rate.filter(|_| is_known))
    });
    points.collect()
}

fn rows(reports: &[LoadReport]) -> Vec<Vec<String>> {
    let knee = knee(&points(reports));
    let rows = reports.iter().enumerate().map(|(place, report)| {
        let mark = match report.invalid().next() {
            Some(_) => " !",
            None if knee == Some(place) => " *",
            None => "",
        };
        let good = report
            .goodput
            .map(|good| format!("{} %", number(good.share * 100.0)));
        vec![
            number(load(report)) + mark,
            format!("{}/{}", report.requests.ok, report.requests.sent),
            optional(report.ttft_ms.p50),
            optional(report.ttft_ms.p99),
            optional(report.tpot_ms.p50),
            optional(report.tpot_ms.p99),
            optional(report.throughput.output_tokens_per_s),
            good.unwrap_or_else(|| "–".into()),
        ]
    });
    rows.collect()
}

/// The knee, and what is wrong with which step.
fn remarks(reports: &[LoadReport]) -> Vec<String> {
    let mut remarks = vec!["Times in ms.".to_owned()];
    let mark = knee(&points(reports)).map_or("", |_| "* ");
    remarks.push(format!("{mark}{}", knee_remark(reports)));
    remarks.extend(of_steps(reports));
    remarks
}

/// The knee with its throughput, or why there is none.
pub fn headline(reports: &[LoadReport]) -> String {
    let points = points(reports);
    match knee(&points).map(|place| points[place]) {
        Some((load, Some(rate))) => format!(
            "Knee at {} {}: {} output tokens/s, {:.0} % of the greatest throughput",
            number(load),
            unit(reports),
            number(rate),
            100.0 * rate / greatest(&points)
        ),
        _ => knee_remark(reports).trim_end_matches('.').to_owned(),
    }
}

/// Of the load.
fn unit(reports: &[LoadReport]) -> &'static str {
    match reports.first().map(pace_name) {
        Some("rate") => "requests/s",
        _ => "streams",
    }
}

/// The greatest throughput of the steps.
fn greatest(points: &[(f64, Option<f64>)]) -> f64 {
    let rates = points.iter().filter_map(|point| point.1);
    rates.fold(0.0, f64::max)
}

/// The knee in a sentence, or why there is none.
fn knee_remark(reports: &[LoadReport]) -> String {
    let points = points(reports);
    match knee(&points) {
        Some(place) => {
            let (load, rate) = points[place];
            format!(
                "Knee: {} {}. It has {} % of the greatest throughput; beyond it load grows faster than throughput.",
                reports.first().map_or("", pace_shown),
                number(load),
                number(100.0 * rate.unwrap_or(0.0) / greatest(&points)),
            )
        }
        None if points.iter().filter(|point| point.1.is_some()).count() < LEAST_STEPS => {
            "No knee: fewer than three valid steps.".into()
        }
        None => {
            "No knee: throughput grows with the load up to the last step; add greater loads.".into()
        }
    }
}

/// Throughput and times against the load, the knee marked.
pub fn charts(reports: &[LoadReport]) -> Vec<Picture> {
    let points = points(reports);
    let knee = knee(&points).map(|place| (points[place].0, "knee".to_owned()));
    let name = reports.first().map_or("", pace_shown);
    let line = |title: &str, tone: Tone, value: Number| {
        let points = reports
            .iter()
            .zip(&points)
            .filter_map(|(report, (x, rate))| {
                let y = value(report)?;
                let is_sound = rate.is_some();
                Some(Point {
                    x: *x,
                    y,
                    tone: if is_sound { tone } else { Tone::Invalid },
                    label: format!("{name} {}: {}", number(*x), number(y)),
                })
            });
        ChartLine {
            name: title.to_owned(),
            tone,
            points: points.collect(),
            is_joined: true,
        }
    };
    let chart = |title: &str, lines: Vec<ChartLine>| {
        let values = |of: fn(&Point) -> f64| {
            let points = lines.iter().flat_map(|line| &line.points);
            points.map(of).collect::<Vec<f64>>()
        };
        let chart = Chart {
            title: title.to_owned(),
            x: unit(reports).to_owned(),
            kinds: (kind(&values(|at| at.x)), kind(&values(|at| at.y))),
            shown: number,
            lines,
            level: None,
            mark: knee.clone(),
        };
        chart.drawn().map(Picture::Chart)
    };
    let both =
        |p50: Number, p99: Number| vec![line("p99", Tone::Base, p99), line("p50", Tone::Head, p50)];
    let rate = |report: &LoadReport| report.throughput.output_tokens_per_s;
    let charts = [
        chart("Output tokens/s", vec![line("tokens/s", Tone::Head, rate)]),
        chart("TTFT, ms", both(|r| r.ttft_ms.p50, |r| r.ttft_ms.p99)),
        chart("TPOT, ms", both(|r| r.tpot_ms.p50, |r| r.tpot_ms.p99)),
    ];
    charts.into_iter().flatten().collect()
}

/// Values far apart are seen by their ratios.
fn kind(values: &[f64]) -> ScaleKind {
    const FAR: f64 = 12.0;
    let (low, high) = (
        values.iter().copied().reduce(f64::min),
        values.iter().copied().reduce(f64::max),
    );
    match low.zip(high) {
        Some((low, high)) if low > 0.0 && high > FAR * low => ScaleKind::Log,
        _ => ScaleKind::FromZero,
    }
}

/// What is wrong with which steps: a sentence that several share is said once.
fn of_steps(reports: &[LoadReport]) -> Vec<String> {
    let mut said = Vec::<(String, Vec<String>)>::new();
    for report in reports {
        let pace = number(load(report));
        for text in wrong(report) {
            match said.iter_mut().find(|(known, _)| *known == text) {
                Some((_, paces)) => paces.push(pace.clone()),
                None => said.push((text, vec![pace.clone()])),
            }
        }
    }
    let name = reports.first().map_or("", pace_shown);
    let texts = said.into_iter();
    let texts = texts.map(|(text, paces)| format!("{name} {}: {text}", paces.join(", ")));
    texts.collect()
}

/// What is wrong with one run.
pub fn wrong(report: &LoadReport) -> Vec<String> {
    let mut wrong = Vec::new();
    match &report.stopped {
        Some(why) => wrong.push(format!("STOPPED: {why}")),
        None if report.complete => {}
        None => wrong.push("INTERRUPTED".to_owned()),
    }
    let broken = report.requests.void.iter().map(|(name, count)| {
        let detail = report.requests.details.get(name).map_or("", String::as_str);
        format!("{count} void, {name}; the first: {detail}")
    });
    wrong.extend(broken);
    wrong.extend(report.invalid().map(|text| format!("! INVALID: {text}")));
    wrong.extend(report.notes.iter().cloned());
    wrong
}

#[cfg(test)]
mod tests {
    use super::knee;

    #[test]
    fn the_knee_is_where_throughput_stops_growing_with_the_load() {
        let known = |points: &[(f64, f64)]| {
            let points: Vec<_> = points
                .iter()
                .map(|(load, rate)| (*load, Some(*rate)))
                .collect();
            knee(&points)
        };
        let saturated = [
            (1.0, 10.0),
            (2.0, 20.0),
            (4.0, 38.0),
            (8.0, 45.0),
            (16.0, 46.0),
        ];
        assert_eq!(known(&saturated), Some(2));
        // In proportion up to the end.
        assert_eq!(
            known(&[(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 79.0)]),
            None
        );
        assert_eq!(known(&[(1.0, 10.0), (8.0, 12.0)]), None);
        // A step without numbers is none, in whatever order they were measured.
        let mut gap: Vec<_> = saturated
            .iter()
            .rev()
            .map(|(load, rate)| (*load, Some(*rate)))
            .collect();
        gap[2].1 = None;
        assert_eq!(knee(&gap), Some(1));
        assert_eq!(knee(&[]), None);
    }
}
