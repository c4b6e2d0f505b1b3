//! `[[check]]`: one rule on one metric, as a gate's file says it.
//!
//! Main function: [`read`]. Refuses to know: which metric fits which workload and rule (`compatibility.rs`).

use super::compatibility;
use super::series;
use crate::plan::model::{
    Bound, Check, EngineSeries, Named, Part, RequestBounds, Rule, Workload, WorkloadKind,
};
use crate::plan::source::diagnostic::{Diagnostic, suggestion};
use crate::plan::source::quantity::Dimension;
use crate::plan::source::section::{Field, Section};
use crate::record::{CacheState, Direction, Metric, Statistic};

/// Reads one `[[check]]`.
pub fn read(
    gate: &str,
    field: &Field<'_, '_>,
    workloads: &[Workload],
) -> Result<Check, Diagnostic> {
    let section = field.section()?;
    let name = section.required("name")?.name()?;
    let metric_field = section.required("metric")?;
    let metric = metric_field.choice(&Metric::ALL.map(|metric| (metric.name(), metric)))?;
    let workload = pick_workload(gate, &section, workloads)?;
    if !compatibility::fits(metric, &workload.kind) {
        return Err(metric_field.wrong(format!(
            "`{metric}` cannot be measured on the workload `{}`",
            workload.id
        )));
    }
    let part = read_part(&section, metric, workload)?;
    if let Some(why) = compatibility::lack(metric, &part, &workload.kind) {
        let mut refusal = metric_field.wrong(format!(
            "`{metric}` cannot be measured on this part of the workload `{}`",
            workload.id
        ));
        refusal.help = Some(why.to_owned());
        return Err(refusal);
    }
    let rule = read_rule(&section, metric)?;
    let statistic = read_statistic(&section, metric, rule)?;
    let sent = compatibility::samples(metric, statistic, &part, &workload.kind);
    let min_samples = read_min_samples(&section, metric, statistic, workload, sent)?;
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

fn read_part(
    section: &Section<'_, '_>,
    metric: Metric,
    workload: &Workload,
) -> Result<Part, Diagnostic> {
    let part = Part {
        batch: section.given("batch", |f| f.count(1..4097))?,
        context: section.given("context", |f| f.count(1..1_000_001))?,
        cache: section.given("cache", |f| {
            f.choice(&CacheState::ALL.map(|cache| (cache.name(), cache)))
        })?,
        streamed: section.given("streamed", Field::flag)?,
        stage: section.given("stage", |f| f.text().map(str::to_owned))?,
        slo: section.given("slo", read_slo)?,
        named: read_named(section, metric)?,
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

/// `counter = "…"` or `gauge = "…"` with what belongs to them.
fn read_named(section: &Section<'_, '_>, metric: Metric) -> Result<Option<Named>, Diagnostic> {
    let counter = section.given("counter", read_series)?;
    let gauge = section.given("gauge", read_series)?;
    let over = section.given("over", read_series)?;
    let allow_zero = section.given("allow_zero", Field::flag)?;
    let is_gauge = metric == Metric::Gauge;
    let is_counter = metric.is_of_windows() && metric != Metric::EnergyPerToken;
    let keys = [
        (
            is_counter == counter.is_some(),
            "`counter = \"…\"` is required with the metrics `counter_…`, and belongs to no other",
        ),
        (
            is_gauge == gauge.is_some(),
            "`gauge = \"…\"` is required with the metric `gauge`, and belongs to no other",
        ),
        (
            (metric == Metric::CounterRatio) == over.is_some(),
            "`over = \"…\"` is required with the metric `counter_ratio`, and belongs to no other",
        ),
        (
            is_counter || is_gauge || allow_zero.is_none(),
            "`allow_zero` belongs to a counter or a gauge",
        ),
    ];
    if let Some((_, why)) = keys.iter().find(|(fits, _)| !fits) {
        return Err(section.wrong(*why));
    }
    Ok(counter.or(gauge).map(|series| Named {
        series,
        over,
        allow_zero: allow_zero.unwrap_or(false),
    }))
}

fn read_series(field: &Field<'_, '_>) -> Result<EngineSeries, Diagnostic> {
    series::parse(field.text()?).map_err(|why| {
        let mut refusal = field.wrong(why);
        refusal.help = Some(
            "write a name of the engine's /metrics, with labels where some are meant: \
             \"requests_total\", \"requests_total{kind='decode'}\""
                .into(),
        );
        refusal
    })
}

fn read_slo(field: &Field<'_, '_>) -> Result<RequestBounds, Diagnostic> {
    let section = field.section()?;
    let bound = |key| section.given(key, read_bound);
    let slo = RequestBounds {
        ttft: bound("ttft")?,
        tpot: bound("tpot")?,
        e2e: bound("e2e")?,
    };
    section.finish()?;
    if slo == RequestBounds::default() {
        return Err(field.wrong("an SLO needs a bound: `ttft`, `tpot` or `e2e`"));
    }
    Ok(slo)
}

/// `"20 ms"`, or `"1.5 ×"` of the launch's median.
fn read_bound(field: &Field<'_, '_>) -> Result<Bound, Diagnostic> {
    let Ok(times) = field.quantity(Dimension::Ratio) else {
        return field
            .quantity(Dimension::Time)
            .map(Bound::Ms)
            .map_err(|mut refusal| {
                refusal.help = Some(format!(
                    "write {}, or \"1.5 ×\" for one and a half times the launch's median",
                    Dimension::Time.example()
                ));
                refusal
            });
    };
    if times <= 1.0 {
        let what =
            "a bound in medians must be above 1 ×: half of all requests are above the median";
        return Err(field.wrong(what));
    }
    Ok(Bound::Medians(times))
}

/// Where none is given: the median; of readings that must stay below a ceiling the greatest, since a median bounds only half of
/// them.
fn read_statistic(
    section: &Section<'_, '_>,
    metric: Metric,
    rule: Rule,
) -> Result<Statistic, Diagnostic> {
    let Some(field) = section.optional("statistic") else {
        return Ok(match rule {
            _ if metric.is_single() => Statistic::Single,
            Rule::Ceiling { .. } if compatibility::is_telemetry(metric) => Statistic::Max,
            _ => Statistic::Median,
        });
    };
    let statistic = field.choice(&Statistic::ALL.map(|s| (s.name(), s)))?;
    if metric.is_single() != (statistic == Statistic::Single) {
        return Err(field.wrong(if metric.is_single() {
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
    (floor, sent): (u32, u32),
) -> Result<u32, Diagnostic> {
    let Some(field) = section.optional("min_samples") else {
        if sent < floor {
            let mut refusal = section.wrong(format!(
                "the {statistic} of `{metric}` needs {floor} samples a launch, `{}` sends {sent} of them",
                workload.id
            ));
            refusal.help = Some(format!(
                "send {floor} requests, or set a lower `min_samples`"
            ));
            return Err(refusal);
        }
        return Ok(floor);
    };
    let given = field.count(1..1_000_001)?;
    if given > sent {
        return Err(field.wrong(format!(
            "`min_samples` is {given}, but `{}` sends {sent} of them",
            workload.id
        )));
    }
    Ok(given)
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
        let field = section.required("limit")?;
        let limit = field.quantity(Dimension::of(metric.unit()))?;
        if limit > 1.0 && compatibility::is_part_of_a_whole(metric) {
            return Err(field.wrong(format!("`{metric}` is a share, never more than 100 %")));
        }
        Ok(limit)
    };
    // The engine's own numbers may be good either way: without its model on the GPU, it needs little memory there.
    let is_own = metric.is_of_windows()
        || compatibility::is_telemetry(metric)
        || matches!(metric, Metric::BurstFactor | Metric::PrefilledTokens);
    let never_fails = match (name, metric.direction()) {
        (Name::Ceiling, Direction::HigherIsBetter) => Some(("more", "ceiling", "floor")),
        (Name::Floor, Direction::LowerIsBetter) => Some(("less", "floor", "ceiling")),
        _ => None,
    };
    if let Some((better, given, other)) = never_fails.filter(|_| !is_own) {
        return Err(rule_field.wrong(format!(
            "`{metric}` is better the {better} it is: no worse head fails a {given}, write a {other}"
        )));
    }
    match name {
        Name::Ceiling => Ok(Rule::Ceiling { limit: limit()? }),
        Name::Floor => Ok(Rule::Floor { limit: limit()? }),
        Name::Regression if !compatibility::has_relative_change(metric) => Err(rule_field.wrong(
            format!("`{metric}` has no relative change: judge it by a ceiling or a floor"),
        )),
        Name::Regression if compatibility::counts_cases(metric) => {
            let message =
                format!("`{metric}` counts cases: as many in head as in base may be other ones");
            let mut refusal = rule_field.wrong(message);
            refusal.help = Some("judge it by a ceiling, such as limit = \"0 cases\"".into());
            Err(refusal)
        }
        Name::Regression => read_regression(section, metric),
    }
}

fn read_regression(section: &Section<'_, '_>, metric: Metric) -> Result<Rule, Diagnostic> {
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
    if metric.direction() == Direction::HigherIsBetter && ceiling >= 1.0 {
        return Err(ceiling_field.wrong(format!("`{metric}` cannot fall by 100 % or more")));
    }
    Ok(Rule::Regression { margin, ceiling })
}
