//! The parts that a workload's time falls into, as far as one launch tells them: what a failed check is taken
//! apart by.
//!
//! Main function: [`facets`]. Each part is a metric of `docs/metrics.md`, or made like one. A part that the launch
//! does not tell is left out. Refuses to know: arms, and which part is to blame.

use super::matrix::{ContextLine, tpot_line};
use super::timing::request::{e2e_ms, tpot_ms, ttft_ms};
use super::{Place, Requests, measure};
use crate::plan::{Check, Workload, WorkloadKind};
use crate::record::{Launch, Metric, Sample, ServerTimings, Statistic, Unit};
use crate::stats;

/// Turns over which the line of TPOT over context is drawn one by one; more are taken in groups.
const POINTS: usize = 40;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    PortOpen,
    Stage(String),
    Ready,
    FirstToken,
    FirstResponse,
    /// Time to the first token: queueing and prefill.
    Ttft,
    /// The same of a conversation's first and last fifth of turns.
    TtftEarly,
    TtftLate,
    /// The server's own time for the prompt, and for the answer after it.
    ServerPrefill,
    ServerDecode,
    /// Client's time for a request less both of the server's.
    Between,
    /// Time per token after the first.
    Tpot,
    /// At context 0, and what a token of context adds.
    TpotBase,
    TpotSlope,
}

/// What work a part is time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Start,
    Prefill,
    Decode,
    Transport,
}

impl Facet {
    pub fn name(&self) -> String {
        match self {
            Self::PortOpen => "port open".into(),
            Self::Stage(name) => format!("stage {name}"),
            Self::Ready => "ready".into(),
            Self::FirstToken => "first token".into(),
            Self::FirstResponse => "first response".into(),
            Self::Ttft => "TTFT".into(),
            Self::TtftEarly => "TTFT, first turns".into(),
            Self::TtftLate => "TTFT, last turns".into(),
            Self::ServerPrefill => "server's prefill".into(),
            Self::ServerDecode => "server's decoding".into(),
            Self::Between => "client − server".into(),
            Self::Tpot => "TPOT".into(),
            Self::TpotBase => "TPOT at context 0".into(),
            Self::TpotSlope => "TPOT per context".into(),
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Self::Tpot | Self::TpotBase => Unit::MillisecondsPerToken,
            Self::TpotSlope => Unit::MicrosecondsPerToken,
            _ => Unit::Milliseconds,
        }
    }

    pub fn work(&self) -> Work {
        match self {
            Self::PortOpen
            | Self::Stage(_)
            | Self::Ready
            | Self::FirstToken
            | Self::FirstResponse => Work::Start,
            Self::Ttft | Self::TtftEarly | Self::TtftLate | Self::ServerPrefill => Work::Prefill,
            Self::ServerDecode | Self::Tpot | Self::TpotBase | Self::TpotSlope => Work::Decode,
            Self::Between => Work::Transport,
        }
    }
}

/// The parts of a launch that ran the check's workload, in the units of [`Facet::unit`]; medians over requests of
/// the check's part of it. None for workloads that are about what is answered.
pub fn facets(check: &Check, workload: &Workload, launch: &Launch) -> Vec<(Facet, f64)> {
    if matches!(
        workload.kind,
        WorkloadKind::Goldens(_) | WorkloadKind::Texts(_) | WorkloadKind::Tasks(_)
    ) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if check.metric.is_of_start() {
        found.extend(of_start(check, workload, launch));
    }
    let requests = Requests::of(check, workload, launch);
    let place = Place {
        launch,
        workload,
        part: &check.part,
        requests: &requests,
    };
    let Ok(samples) = place.measured() else {
        return found;
    };
    let median = |metric| of_metric(check, workload, launch, metric, Statistic::Median);
    let (early, late) = match workload.kind {
        WorkloadKind::Session(_) => first_and_last_turns(&samples),
        _ => (None, None),
    };
    let line = line_of(&place);
    let server = |time: fn(&ServerTimings) -> f64| {
        median_of(&samples, |sample| sample.timings.as_ref().map(time))
    };
    let parts = [
        (Facet::Ttft, median(Metric::Ttft)),
        (Facet::TtftEarly, early),
        (Facet::TtftLate, late),
        (Facet::ServerPrefill, server(|t| t.prompt_ms)),
        (Facet::ServerDecode, server(|t| t.predicted_ms)),
        (Facet::Between, median_of(&samples, between)),
        (Facet::Tpot, median(Metric::Tpot)),
        (Facet::TpotBase, line.as_ref().map(|line| line.base)),
        (Facet::TpotSlope, line.map(|line| line.slope * 1e3)),
    ];
    found.extend(
        parts
            .into_iter()
            .filter_map(|(facet, value)| Some((facet, value?))),
    );
    found
}

fn of_start(check: &Check, workload: &Workload, launch: &Launch) -> Vec<(Facet, f64)> {
    let single = |facet, metric| {
        let value = of_metric(check, workload, launch, metric, Statistic::Single)?;
        Some((facet, value))
    };
    let stages = launch.startup.stages.iter();
    let stages = stages.map(|stage| Some((Facet::Stage(stage.name.clone()), stage.ms)));
    [single(Facet::PortOpen, Metric::PortOpen)]
        .into_iter()
        .chain(stages)
        .chain([
            single(Facet::Ready, Metric::Ready),
            single(Facet::FirstToken, Metric::FirstToken),
            single(Facet::FirstResponse, Metric::FirstResponse),
        ])
        .flatten()
        .collect()
}

fn of_metric(
    check: &Check,
    workload: &Workload,
    launch: &Launch,
    metric: Metric,
    statistic: Statistic,
) -> Option<f64> {
    let check = Check {
        metric,
        statistic,
        ..check.clone()
    };
    measure(&check, workload, launch).ok().map(|m| m.value)
}

fn median_of(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = samples.iter().filter_map(|sample| value(sample)).collect();
    // A part that some requests lack is no part of all of them.
    (values.len() == samples.len()).then(|| stats::median(&values))?
}

fn between(sample: &Sample) -> Option<f64> {
    let timings = sample.timings.as_ref()?;
    Some(e2e_ms(sample).ok()? - timings.prompt_ms - timings.predicted_ms)
}

fn first_and_last_turns(samples: &[&Sample]) -> (Option<f64>, Option<f64>) {
    let times: Vec<f64> = samples.iter().filter_map(|s| ttft_ms(s).ok()).collect();
    stats::head_tail_medians(&times).unzip()
}

/// TPOT over the contexts of a launch, by the least absolute deviations; `None` for workloads of one context.
pub fn context_line(check: &Check, workload: &Workload, launch: &Launch) -> Option<ContextLine> {
    let requests = Requests::of(check, workload, launch);
    let place = Place {
        launch,
        workload,
        part: &check.part,
        requests: &requests,
    };
    line_of(&place)
}

fn line_of(place: &Place<'_>) -> Option<ContextLine> {
    match place.workload.kind {
        WorkloadKind::Session(_) => over_turns(&place.measured().ok()?),
        WorkloadKind::Matrix(_) => Some(tpot_line(place).ok()?.0),
        _ => None,
    }
}

/// The context of a turn is that of its middle token.
fn over_turns(samples: &[&Sample]) -> Option<ContextLine> {
    let point = |sample: &&Sample| {
        let answered = f64::from(sample.tokens.completion?) / 2.0;
        Some((
            f64::from(sample.tokens.prompt?) + answered,
            tpot_ms(sample).ok()?,
        ))
    };
    let points: Vec<(f64, f64)> = samples.iter().filter_map(point).collect();
    let groups = points.chunks(points.len().div_ceil(POINTS).max(1));
    let middle = |group: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        stats::median(&group.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    };
    let points: Vec<(f64, f64)> = groups
        .map(|group| (middle(group, |p| p.0), middle(group, |p| p.1)))
        .collect();
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (base, slope) = stats::least_absolute_line(&x, &y)?;
    Some(ContextLine {
        points,
        base,
        slope,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, launch, steady, streamed};
    use super::*;
    use crate::plan::Session;
    use crate::record::Stage;

    fn names(found: &[(Facet, f64)]) -> Vec<String> {
        found.iter().map(|(facet, _)| facet.name()).collect()
    }

    fn value(found: &[(Facet, f64)], wanted: &Facet) -> f64 {
        let found = found.iter().find(|(facet, _)| facet == wanted);
        found.map(|(_, value)| *value).unwrap()
    }

    #[test]
    fn a_request_is_prefill_decoding_and_the_way_between() {
        // First token after 50 ms, then 5 more every 10 ms: 100 ms in all.
        let mut samples: Vec<Sample> = (0..3).map(|i| streamed("w", i, 50.0, 10.0, 6)).collect();
        let tpot = check(Metric::Tpot, Statistic::Median);
        let found = facets(&tpot, &steady("w"), &launch(0, samples.clone()));
        assert_eq!(names(&found), ["TTFT", "TPOT"]);
        for sample in &mut samples {
            sample.timings = Some(ServerTimings {
                prompt_n: 8,
                prompt_ms: 45.0,
                predicted_n: 6,
                predicted_ms: 48.0,
            });
        }
        let found = facets(&tpot, &steady("w"), &launch(0, samples.clone()));
        assert!((value(&found, &Facet::Between) - 7.0).abs() < 1e-9);
        assert!((value(&found, &Facet::ServerPrefill) - 45.0).abs() < 1e-9);
        // One request without the server's account: nobody knows of the whole.
        samples[1].timings = None;
        let found = facets(&tpot, &steady("w"), &launch(0, samples));
        assert_eq!(names(&found), ["TTFT", "TPOT"]);
        assert_eq!(facets(&tpot, &steady("w"), &launch(0, vec![])), []);
    }

    #[test]
    fn a_start_is_its_stages() {
        let mut l = launch(0, vec![streamed("w", 0, 50.0, 10.0, 6)]);
        l.startup.port_open_ns = Some(5_000_000);
        l.startup.stages = vec![Stage {
            name: "weights".into(),
            ms: 3.0,
        }];
        let found = facets(&check(Metric::Ready, Statistic::Single), &steady("w"), &l);
        let expect = [
            "port open",
            "stage weights",
            "first token",
            "first response",
            "TTFT",
            "TPOT",
        ];
        assert_eq!(names(&found), expect);
    }

    #[test]
    fn a_conversation_has_a_line_over_its_contexts() {
        let samples = (0..10_u32).map(|turn| {
            // 10 ms and 2 µs for each token of context.
            let context = 100.0 * f64::from(turn) + 3.0;
            let mut sample = streamed("w", turn, 50.0 + f64::from(turn), 10.0 + context * 2e-3, 6);
            sample.tokens.prompt = Some(100 * turn);
            sample
        });
        let workload = Workload {
            kind: WorkloadKind::Session(Session {
                turns: 10,
                warmup_turns: 0,
                message_words: 1,
                reply_tokens: 6,
                spacing: None,
                duration: None,
            }),
            ..steady("w")
        };
        let drift = check(Metric::PrefillDrift, Statistic::Single);
        let found = facets(&drift, &workload, &launch(0, samples.collect()));
        assert!((value(&found, &Facet::TpotBase) - 10.0).abs() < 1e-3);
        assert!((value(&found, &Facet::TpotSlope) - 2.0).abs() < 1e-3);
        assert!((value(&found, &Facet::TtftEarly) - 50.5).abs() < 1e-9);
        assert!((value(&found, &Facet::TtftLate) - 58.5).abs() < 1e-9);
    }
}
