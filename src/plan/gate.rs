//! One gate's file: workloads, metrics and the rules that must hold.

use super::data;
use super::diagnostic::{Diagnostic, suggestion};
use super::files::Files;
use super::model::{Check, Gate, Goldens, Rule, Session, Steady, Tasks, Workload, WorkloadKind};
use super::quantity::Dimension;
use super::section::{Field, Section, Source};
use crate::digest;
use crate::record::{Metric, MetricKind, Statistic};

/// Floors of sample counts below which a quantile means nothing (shared reason: docs/metrics.md).
const MIN_SAMPLES: u32 = 30;
const MIN_SAMPLES_P95: u32 = 200;
const MIN_SAMPLES_P99: u32 = 1000;

/// Reads `gates/NAME.toml` for one profile; data files that it names come from `files`.
pub(super) fn read(
    name: &str,
    source: Source<'_>,
    profile: &str,
    files: &mut dyn Files,
) -> Result<Gate, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, profile);
    let mut defined_by = vec![source.text.to_owned(), profile.to_owned()];
    let title = root.required("title")?.text()?.to_owned();
    let engine_args = root
        .optional("engine_args")
        .map_or(Ok(Vec::new()), |field| field.texts())?;
    let workloads_field = root.required("workload")?;
    let mut workloads = Vec::new();
    for (key, field) in workloads_field.section()?.entries() {
        workloads.push(read_workload(
            format!("{name}/{key}"),
            &field,
            files,
            &mut defined_by,
        )?);
    }
    if workloads.is_empty() {
        return Err(workloads_field.wrong("a gate needs a workload"));
    }
    let checks_field = root.required("check")?;
    let mut checks = Vec::<Check>::new();
    for field in checks_field.list()? {
        let check = read_check(name, &field, &workloads)?;
        if checks.iter().any(|other| other.id == check.id) {
            return Err(field.wrong(format!("two checks are called `{}`", check.id)));
        }
        checks.push(check);
    }
    if checks.is_empty() {
        return Err(checks_field.wrong("a gate needs a check"));
    }
    root.finish()?;
    Ok(Gate {
        name: name.to_owned(),
        title,
        file: source.file.to_owned(),
        hash: digest::of_parts(defined_by.iter().map(String::as_bytes)),
        engine_args,
        workloads,
        checks,
    })
}

fn read_workload(
    id: String,
    field: &Field<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<Workload, Diagnostic> {
    type Reader =
        fn(&Section<'_, '_>, &mut dyn Files, &mut Vec<String>) -> Result<WorkloadKind, Diagnostic>;
    let readers: [(&str, Reader); 4] = [
        ("steady", read_steady),
        ("session", read_session),
        ("goldens", read_goldens),
        ("tasks", read_tasks),
    ];
    let section = field.section()?;
    let reader = section.required("kind")?.choice(&readers)?;
    let launches = section
        .optional("launches")
        .map(|f| f.count(1..1000))
        .transpose()?;
    let kind = reader(&section, files, defined_by)?;
    section.finish()?;
    Ok(Workload { id, launches, kind })
}

fn read_steady(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    Ok(WorkloadKind::Steady(Steady {
        requests: section.required("requests")?.count(1..1_000_001)?,
        warmup: section.required("warmup")?.count(0..100_001)?,
        prompt_tokens: section.required("prompt_tokens")?.count(1..1_000_001)?,
        output_tokens: section.required("output_tokens")?.count(1..1_000_001)?,
        concurrency: section.required("concurrency")?.count(1..4097)?,
    }))
}

fn read_session(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let turns_field = section.required("turns")?;
    let session = Session {
        turns: turns_field.count(1..100_001)?,
        warmup_turns: section.required("warmup_turns")?.count(0..10_001)?,
        message_words: section.required("message_words")?.count(1..10_001)?,
        reply_tokens: section.required("reply_tokens")?.count(1..10_001)?,
    };
    if session.turns < session.warmup_turns + 3 {
        return Err(turns_field.wrong("a session needs at least 3 turns after its warm-up"));
    }
    Ok(WorkloadKind::Session(session))
}

fn read_goldens(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let data = read_data(&section.required("file")?, files, defined_by, data::goldens)?;
    Ok(WorkloadKind::Goldens(Goldens {
        cases: data.cases,
        texts: data.texts,
        near_tie_nats: section.required("near_tie")?.quantity(Dimension::Nats)?,
        top_k: section.required("top_k")?.count(1..21)?,
    }))
}

fn read_tasks(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let cases = read_data(&section.required("file")?, files, defined_by, data::tasks)?;
    Ok(WorkloadKind::Tasks(Tasks { cases }))
}

/// Reads a data file that stands beside the gates, as `parse` understands it.
fn read_data<T>(
    field: &Field<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, Diagnostic> {
    let name = field.text()?;
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(field.wrong(format!("`{name}` leaves the folder `gates/`")));
    }
    let path = format!("gates/{name}");
    let text = files
        .read(&path)
        .map_err(|error| field.wrong(format!("cannot read `{path}`: {error}")))?;
    let data = parse(&text).map_err(|reason| field.wrong(format!("`{path}`: {reason}")))?;
    defined_by.push(text);
    Ok(data)
}

fn read_check(
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
    let statistic = read_statistic(&section, metric)?;
    let min_samples = read_min_samples(&section, metric, statistic, workload)?;
    let rule = read_rule(&section, metric)?;
    let line = section.source.line(&section.span());
    section.finish()?;
    Ok(Check {
        id: format!("{gate}/{name}"),
        workload: workload.id.clone(),
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
    match metric {
        Metric::Ready => true,
        // Its gauge is read by telemetry, which records do not hold yet.
        Metric::KvBytes => false,
        Metric::Ttft | Metric::Tpot | Metric::Icl | Metric::E2e | Metric::PrefilledTokens => {
            matches!(kind, WorkloadKind::Steady(_) | WorkloadKind::Session(_))
        }
        Metric::PrefillExcess | Metric::PrefillDrift => matches!(kind, WorkloadKind::Session(_)),
        Metric::GoldenMismatches | Metric::LogprobError | Metric::LogprobRegret => {
            matches!(kind, WorkloadKind::Goldens(_))
        }
        Metric::Accuracy => matches!(kind, WorkloadKind::Tasks(_)),
    }
}

/// Whether the metric is one value a launch, so that no statistic can be chosen.
fn is_single(metric: Metric) -> bool {
    match metric {
        Metric::Ttft
        | Metric::Tpot
        | Metric::Icl
        | Metric::E2e
        | Metric::PrefilledTokens
        | Metric::KvBytes => false,
        Metric::PrefillExcess
        | Metric::PrefillDrift
        | Metric::GoldenMismatches
        | Metric::LogprobError
        | Metric::LogprobRegret
        | Metric::Accuracy
        | Metric::Ready => true,
    }
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
        _ if metric == Metric::Ready => (1, 1),
        WorkloadKind::Steady(steady) => (
            match statistic {
                Statistic::P95 => MIN_SAMPLES_P95,
                Statistic::P99 => MIN_SAMPLES_P99,
                Statistic::Median | Statistic::Mean | Statistic::Max => MIN_SAMPLES,
                Statistic::Single => 1,
            },
            steady.requests,
        ),
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
            if metric.kind() == MetricKind::Score && metric != Metric::PrefillDrift =>
        {
            Err(rule_field.wrong(format!(
                "`{metric}` has no relative change: judge it by a ceiling"
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
