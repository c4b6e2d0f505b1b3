//! One gate's file: its workloads (`workload.rs`) and the rules that must hold (`check.rs`).

use super::compatibility::{can_take_turns, is_tested_by_t};
use super::{check, workload};
use crate::digest;
use crate::plan::model::{Bound, Check, Gate, LAUNCHES, Part, Workload};
use crate::plan::source::diagnostic::Diagnostic;
use crate::plan::source::files::Files;
use crate::plan::source::section::{Field, Section, Source};
use crate::record::{Interleave, Metric, PageCache, Statistic};

/// The profile that a gate is read for, beside which others there are.
#[derive(Clone, Copy)]
pub struct Profile<'a> {
    pub name: &'a str,
    /// The profile whose values hold where this one has none.
    pub like: Option<&'a str>,
    /// Its judge looks after so many blocks.
    pub looks: &'a [u32],
    /// Names of all profiles.
    pub all: &'a [String],
    /// Its `interleave`.
    pub interleave: Interleave,
}

/// Reads `gates/NAME.toml` for one profile; data files that it names come from `files`.
pub fn read(
    name: &str,
    source: Source<'_>,
    profile: Profile<'_>,
    files: &mut dyn Files,
) -> Result<Gate, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, profile.name).with_profiles(profile.all, profile.like);
    let mut defined_by = vec![source.text.to_owned(), profile.name.to_owned()];
    defined_by.extend(profile.like.map(str::to_owned));
    let title = root.required("title")?.text()?.to_owned();
    let engine_args = root.given("engine_args", Field::texts)?.unwrap_or_default();
    let page_cache = root.given("page_cache", |field| {
        field.choice(&[PageCache::Cold, PageCache::Warm].map(|c| (c.name(), c)))
    })?;
    let workloads_field = root.required("workload")?;
    let mut workloads = Vec::new();
    for (key, field) in workloads_field.section()?.entries() {
        workloads.push(workload::read(
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
        let check = check::read(name, &field, &workloads)?;
        if check.statistic == Statistic::Max && field.section()?.optional("statistic").is_none() {
            // The default was the median once, whose stored values are no series with these.
            defined_by.push(format!("{}: max", check.id));
        }
        if checks.iter().any(|other| other.id == check.id) {
            return Err(field.wrong(format!("two checks are called `{}`", check.id)));
        }
        checks.push(check);
    }
    if checks.is_empty() {
        return Err(checks_field.wrong("a gate needs a check"));
    }
    for (field, check) in checks_field.list()?.iter().zip(&checks) {
        holds_the_median(field, check, &checks)?;
    }
    for ((_, field), workload) in workloads_field.section()?.entries().iter().zip(&workloads) {
        is_checked(field, workload, &checks)?;
        end_at_a_look(field, workload, &checks, profile.looks)?;
    }
    root.finish()?;
    let interleave = match profile.interleave {
        Interleave::Requests if page_cache.is_none() && can_take_turns(&workloads, &checks) => {
            defined_by.push("interleave = requests".into());
            Interleave::Requests
        }
        _ => Interleave::Launches,
    };
    Ok(Gate {
        name: name.to_owned(),
        title,
        file: source.file.to_owned(),
        hash: digest::of_parts(defined_by.iter().map(String::as_bytes)),
        engine_args,
        page_cache,
        interleave,
        workloads,
        checks,
    })
}

/// A bound in medians of the launch's own requests sees no slowdown of all of them: their median must be checked too.
fn holds_the_median(
    field: &Field<'_, '_>,
    check: &Check,
    checks: &[Check],
) -> Result<(), Diagnostic> {
    let part = Part {
        slo: None,
        ..check.part.clone()
    };
    let is_held = |metric: Metric| {
        checks.iter().any(|other| {
            let is_of_same = other.workload == check.workload && other.part == part;
            is_of_same && other.metric == metric && other.statistic == Statistic::Median
        })
    };
    let slo = check.part.slo.unwrap_or_default();
    let bounds = [
        (slo.ttft, Metric::Ttft),
        (slo.tpot, Metric::Tpot),
        (slo.e2e, Metric::E2e),
    ];
    for (bound, metric) in bounds {
        if matches!(bound, Some(Bound::Medians(_))) && !is_held(metric) {
            let mut refusal = field.wrong(format!(
                "`{}` is blind to a slowdown of all requests: its bound is a multiple of their own median",
                check.id
            ));
            refusal.help = Some(format!(
                "add a check of `{metric}` with statistic = \"median\" on the same workload to this gate"
            ));
            return Err(refusal);
        }
    }
    Ok(())
}

/// Requests of a workload that no check reads could all fail, and the gate would pass.
fn is_checked(
    field: &Field<'_, '_>,
    workload: &Workload,
    checks: &[Check],
) -> Result<(), Diagnostic> {
    if checks.iter().any(|check| check.workload == workload.id) {
        return Ok(());
    }
    let mut refusal = field.wrong(format!(
        "no check reads `{}`: the gate would pass even if all its requests failed",
        field.name
    ));
    refusal.help = Some("name the workload in a check (`workload = \"…\"`), or remove it".into());
    Err(refusal)
}

/// Launches beyond the last look that they reach are measured and never tested.
fn end_at_a_look(
    field: &Field<'_, '_>,
    workload: &Workload,
    checks: &[Check],
    looks: &[u32],
) -> Result<(), Diagnostic> {
    let Some(launches) = workload.launches else {
        return Ok(());
    };
    let is_tested =
        |check: &&Check| check.workload == workload.id && is_tested_by_t(check.metric, check.rule);
    let tested = checks.iter().find(is_tested);
    // Fewer launches decide on a calibrated machine alone.
    let looks: Vec<u32> = looks
        .iter()
        .copied()
        .filter(|look| *look >= LAUNCHES)
        .collect();
    let is_within = looks.last().is_some_and(|last| launches < *last);
    let (Some(check), true, false) = (tested, is_within, looks.contains(&launches)) else {
        return Ok(());
    };
    let looks: Vec<String> = looks.iter().map(u32::to_string).collect();
    let place = field.section()?.required("launches")?;
    let mut refusal = place.wrong(format!(
        "after {launches} launches nobody looks, and `{}` is tested at looks alone",
        check.id
    ));
    refusal.help = Some(format!(
        "the profile's looks are after {} blocks: name one of them",
        looks.join(", ")
    ));
    Err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Input;

    #[test]
    fn a_greatest_value_by_default_is_part_of_the_hash() {
        let is_text_alone = |check: &str| {
            let text = format!(
                "title = \"G\"\n[workload.w]\nkind = \"steady\"\nrequests = 40\nwarmup = 0\nprompt_tokens = 8\n\
                 output_tokens = 8\nconcurrency = 1\n[[check]]\nname = \"c\"\n{check}\n"
            );
            let source = Source {
                file: "gates/g.toml",
                text: &text,
            };
            let profile = Profile {
                name: "full",
                like: None,
                looks: &[4],
                all: &[],
                interleave: Interleave::Launches,
            };
            let mut files: &[Input] = &[];
            let gate = read("g", source, profile, &mut files).unwrap();
            gate.hash == digest::of_parts([text.as_bytes(), "full".as_bytes()])
        };
        let memory = "metric = \"gpu_memory\"\nlimit = \"1 GiB\"\nrule = ";
        assert!(!is_text_alone(&format!("{memory}\"ceiling\"")));
        assert!(is_text_alone(&format!("{memory}\"floor\"")));
        let given = format!("{memory}\"ceiling\"\nstatistic = \"max\"");
        assert!(is_text_alone(&given));
        let latency = "metric = \"e2e\"\nlimit = \"1 s\"\nrule = \"ceiling\"";
        assert!(is_text_alone(latency));
    }
}
