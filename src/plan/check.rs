//! `[[check]]`: one rule on one metric, and whether the two fit each other and their workload.

use super::diagnostic::{Diagnostic, suggestion};
use super::model::{Check, Matrix, Part, Rule, Slo, Workload, WorkloadKind};
use super::quantity::Dimension;
use super::section::{Field, Section};
use crate::record::{CacheState, Metric, Statistic};

/// Floors of sample counts below which a quantile means nothing (reason: docs/metrics.md).
const MIN_SAMPLES: u32 = 30;
const MIN_SAMPLES_P95: u32 = 200;
const MIN_SAMPLES_P99: u32 = 1000;
/// Fewest readings of a gauge that tell how it behaves.
const MIN_READINGS: u32 = 5;

/// Reads one `[[check]]`.
pub(super) fn read(
    gate: &str,
    field: &Field<'_, '_>,
    workloads: &[Workload],
) -> Result<Check, Diagnostic> {
    let section = field.section()?;
    let name = section.required("name")?.text()?;
    let metric_field = section.required("metric")?;
    let metric = metric_field.choice(&Metric::ALL.map(|metric| (metric.name(), metric)))?;
    let workload = pick_workload(gate, &section, workloads)?;
    if !fits(metric, &workload.kind) {
        return Err(metric_field.wrong(format!(
            "`{metric}` cannot be measured on the workload `{}`",
            workload.id
        )));
    }
    let part = read_part(&section, metric, workload)?;
    let statistic = read_statistic(&section, metric)?;
    let min_samples = read_min_samples(&section, metric, statistic, workload)?;
    let rule = read_rule(&section, metric)?;
    let line = section.source.line(&section.span());
    section.finish()?;
    Ok(Check {
        id: format!("{gate}/{name}"),
        workload: workload.id.clone(),
        part,
        metric,
        statistic,
        rule,
        min_samples,
        line,
    })
}

fn pick_workload<'w>(
    gate: &str,
    section: &Section<'_, '_>,
    workloads: &'w [Workload],
) -> Result<&'w Workload, Diagnostic> {
    let Some(field) = section.optional("workload") else {
        return match workloads {
            [only] => Ok(only),
            _ => Err(section.wrong("this gate has several workloads: say `workload = \"…\"`")),
        };
    };
    let name = field.text()?;
    let id = format!("{gate}/{name}");
    workloads.iter().find(|w| w.id == id).ok_or_else(|| {
        let names = workloads
            .iter()
            .filter_map(|w| w.id.split_once('/'))
            .map(|(_, n)| n);
        let mut refusal = field.wrong(format!("there is no workload `{name}` in this gate"));
        refusal.help = Some(suggestion(name, names));
        refusal
    })
}

/// Which metrics a kind of workload can give.
fn fits(metric: Metric, kind: &WorkloadKind) -> bool {
    use WorkloadKind as Kind;
    let independent = matches!(
        kind,
        Kind::Steady(_) | Kind::Mixed(_) | Kind::Trace(_) | Kind::Matrix(_)
    );
    let timed = independent || matches!(kind, Kind::Session(_) | Kind::Staggered(_));
    match metric {
        Metric::Ready | Metric::PortOpen | Metric::Stage => true,
        Metric::FirstToken | Metric::FirstResponse => matches!(kind, Kind::FirstRequest(_)),
        Metric::Ttft
        | Metric::Tpot
        | Metric::Icl
        | Metric::Itl
        | Metric::E2e
        | Metric::BurstFactor
        | Metric::PrefillRate
        | Metric::DecodeRate
        | Metric::PrefilledTokens
        | Metric::TransportOverhead
        | Metric::TtftOverhead
        | Metric::Goodput
        | Metric::FailedRequests => timed,
        Metric::Throughput | Metric::ThroughputFull => independent,
        Metric::ThroughputStep
        | Metric::StreamParity
        | Metric::StreamMismatches
        | Metric::TpotBase
        | Metric::TpotSlope
        | Metric::FailedCells => matches!(kind, Kind::Matrix(_)),
        Metric::WallTtft | Metric::InterleavingBenefit => matches!(kind, Kind::Staggered(_)),
        Metric::KvBytes | Metric::KvUsage | Metric::KvGrowth | Metric::RssGrowth => timed,
        Metric::PrefillExcess | Metric::PrefillDrift => matches!(kind, Kind::Session(_)),
        Metric::GoldenMismatches | Metric::LogprobError | Metric::LogprobRegret => {
            matches!(kind, Kind::Goldens(_))
        }
        Metric::Accuracy => matches!(kind, Kind::Tasks(_)),
    }
}

/// Whether the metric is one value a launch, so that no statistic can be chosen.
fn is_single(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::Ttft
            | Metric::Tpot
            | Metric::Icl
            | Metric::Itl
            | Metric::E2e
            | Metric::BurstFactor
            | Metric::PrefillRate
            | Metric::DecodeRate
            | Metric::PrefilledTokens
            | Metric::TransportOverhead
            | Metric::TtftOverhead
            | Metric::WallTtft
            | Metric::KvBytes
            | Metric::KvUsage
    )
}

/// Whether one value stands for the launch whatever it sent, so that no number of samples is needed.
fn is_of_launch(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ready
            | Metric::PortOpen
            | Metric::Stage
            | Metric::FirstToken
            | Metric::FirstResponse
    )
}

/// Whether it is read beside the requests and not from them.
fn is_telemetry(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::KvBytes | Metric::KvUsage | Metric::KvGrowth | Metric::RssGrowth
    )
}

fn read_part(
    section: &Section<'_, '_>,
    metric: Metric,
    workload: &Workload,
) -> Result<Part, Diagnostic> {
    let part = Part {
        batch: section
            .optional("batch")
            .map(|f| f.count(1..4097))
            .transpose()?,
        context: section
            .optional("context")
            .map(|f| f.count(1..1_000_001))
            .transpose()?,
        cache: section
            .optional("cache")
            .map(|f| f.choice(&CacheState::ALL.map(|cache| (cache.name(), cache))))
            .transpose()?,
        streamed: section.optional("streamed").map(|f| f.flag()).transpose()?,
        stage: section
            .optional("stage")
            .map(|f| f.text().map(str::to_owned))
            .transpose()?,
        slo: section.optional("slo").map(|f| read_slo(&f)).transpose()?,
    };
    if (metric == Metric::Stage) != part.stage.is_some() {
        return Err(section.wrong("`stage = \"…\"` belongs to the metric `stage`, and it to that"));
    }
    if (metric == Metric::Goodput) != part.slo.is_some() {
        return Err(section.wrong("`slo = { … }` belongs to the metric `goodput`, and it to that"));
    }
    let cells = part.batch.is_some() || part.context.is_some() || part.cache.is_some();
    match &workload.kind {
        WorkloadKind::Matrix(matrix) => {
            let missing = part.batch.is_some_and(|b| !matrix.batches.contains(&b))
                || part.context.is_some_and(|c| !matrix.contexts.contains(&c))
                || part.cache.is_some_and(|c| !matrix.caches.contains(&c))
                || part.streamed.is_some_and(|s| !matrix.streamed.contains(&s));
            if missing {
                return Err(section.wrong(format!("`{}` has no such cell", workload.id)));
            }
        }
        _ if cells => {
            return Err(section.wrong(
                "`batch`, `context` and `cache` choose cells of a matrix, and this is none",
            ));
        }
        _ => {}
    }
    Ok(part)
}

fn read_slo(field: &Field<'_, '_>) -> Result<Slo, Diagnostic> {
    let section = field.section()?;
    let bound = |key| {
        section
            .optional(key)
            .map(|f| f.quantity(Dimension::Time))
            .transpose()
    };
    let slo = Slo {
        ttft_ms: bound("ttft")?,
        tpot_ms: bound("tpot")?,
        e2e_ms: bound("e2e")?,
    };
    section.finish()?;
    if slo == Slo::default() {
        return Err(field.wrong("an SLO needs a bound: `ttft`, `tpot` or `e2e`"));
    }
    Ok(slo)
}

fn read_statistic(section: &Section<'_, '_>, metric: Metric) -> Result<Statistic, Diagnostic> {
    let Some(field) = section.optional("statistic") else {
        return Ok(if is_single(metric) {
            Statistic::Single
        } else {
            Statistic::Median
        });
    };
    let statistic = field.choice(&Statistic::ALL.map(|s| (s.name(), s)))?;
    if is_single(metric) != (statistic == Statistic::Single) {
        return Err(field.wrong(if is_single(metric) {
            format!("`{metric}` is one value a launch: leave `statistic` out")
        } else {
            format!("`{metric}` has many values a launch: `single` is no statistic of it")
        }));
    }
    Ok(statistic)
}

/// The floor of samples: given, or by statistic; more than the workload sends is refused.
fn read_min_samples(
    section: &Section<'_, '_>,
    metric: Metric,
    statistic: Statistic,
    workload: &Workload,
) -> Result<u32, Diagnostic> {
    let (floor, sent) = match &workload.kind {
        _ if is_of_launch(metric) => (1, 1),
        // These count readings, as many as the launch takes time for.
        _ if is_telemetry(metric) => (MIN_READINGS, u32::MAX),
        WorkloadKind::Steady(steady) => (floor_of(statistic), steady.requests),
        WorkloadKind::Mixed(mixed) => (floor_of(statistic), mixed.requests),
        WorkloadKind::Trace(trace) => (
            floor_of(statistic),
            count(trace.entries.len()) - trace.warmup,
        ),
        WorkloadKind::Matrix(matrix) => (1, cell_requests(matrix)),
        WorkloadKind::Staggered(staggered) => (1, staggered.users * staggered.passes),
        WorkloadKind::FirstRequest(_) => (1, 1),
        WorkloadKind::Session(session) => (3, session.turns - session.warmup_turns),
        WorkloadKind::Goldens(_) | WorkloadKind::Tasks(_) => (1, u32::MAX),
    };
    let Some(field) = section.optional("min_samples") else {
        if sent < floor {
            let mut refusal = section.wrong(format!(
                "the {statistic} of `{metric}` needs {floor} samples a launch, `{}` sends {sent}",
                workload.id
            ));
            refusal.help = Some(format!(
                "send {floor} requests, or set `min_samples` and know why"
            ));
            return Err(refusal);
        }
        return Ok(floor);
    };
    let given = field.count(1..1_000_001)?;
    if given > sent {
        return Err(field.wrong(format!(
            "`min_samples` is {given}, but `{}` sends {sent}",
            workload.id
        )));
    }
    Ok(given)
}

/// Below how many requests a statistic means nothing.
fn floor_of(statistic: Statistic) -> u32 {
    match statistic {
        Statistic::P95 => MIN_SAMPLES_P95,
        Statistic::P99 => MIN_SAMPLES_P99,
        Statistic::Median | Statistic::Mean | Statistic::Max => MIN_SAMPLES,
        Statistic::Single => 1,
    }
}

/// Measured requests of the largest cell.
fn cell_requests(matrix: &Matrix) -> u32 {
    let batch = matrix.batches.iter().max().copied().unwrap_or(1);
    batch
        .saturating_mul(matrix.passes)
        .saturating_mul(matrix.rounds)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn read_rule(section: &Section<'_, '_>, metric: Metric) -> Result<Rule, Diagnostic> {
    #[derive(Clone, Copy)]
    enum Name {
        Regression,
        Ceiling,
        Floor,
    }
    let rule_field = section.required("rule")?;
    let name = rule_field.choice(&[
        ("regression", Name::Regression),
        ("ceiling", Name::Ceiling),
        ("floor", Name::Floor),
    ])?;
    let limit = || {
        section
            .required("limit")?
            .quantity(Dimension::of(metric.unit()))
    };
    match name {
        Name::Ceiling => Ok(Rule::Ceiling { limit: limit()? }),
        Name::Floor => Ok(Rule::Floor { limit: limit()? }),
        Name::Regression
            if matches!(
                metric,
                Metric::LogprobError
                    | Metric::LogprobRegret
                    | Metric::Goodput
                    | Metric::KvGrowth
                    | Metric::RssGrowth
            ) =>
        {
            Err(rule_field.wrong(format!(
                "`{metric}` has no relative change: judge it by a ceiling or a floor"
            )))
        }
        Name::Regression => read_regression(section),
    }
}

fn read_regression(section: &Section<'_, '_>) -> Result<Rule, Diagnostic> {
    let margin_field = section.required("margin")?;
    let margin = margin_field.quantity(Dimension::Fraction)?;
    let ceiling_field = section.required("ceiling")?;
    let ceiling = ceiling_field.quantity(Dimension::Fraction)?;
    if ceiling <= margin {
        let mut refusal = ceiling_field.wrong("the ceiling must lie above the margin");
        refusal.help = Some(
            "below the margin a change is noise; at the ceiling it must be found: between them \
             nothing is promised"
                .into(),
        );
        return Err(refusal);
    }
    Ok(Rule::Regression { margin, ceiling })
}
