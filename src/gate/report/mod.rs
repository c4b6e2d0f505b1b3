//! A verdict as text: for a terminal, as Markdown, as versioned JSON, as HTML, as JUnit, as a comment on GitHub, as
//! gauges for Prometheus. And tables as CSV.
//! Strings out, nothing else.
//!
//! Refuses to know: how a verdict came about, files, and colours beyond ANSI styles in a string.

mod cells;
pub mod citation;
mod comment;
mod csv;
mod foreign;
pub mod github_escape;
mod json_v1;
mod junit;
mod main_values;
pub mod markdown;
mod not_run;
pub mod numbers;
mod openmetrics;
mod page;
mod pretty;
pub mod reasons;
pub mod redaction;
mod row;
pub mod secrets;
pub mod sheet;
pub mod site;
pub mod terminal;

pub use comment::comment;
pub use comment::publication::{Conclusion, Judged, Link, Past, Publication, State};
pub use csv::{Cell, csv};
pub use foreign::foreign;
pub use github_escape::inert;
pub use json_v1::verdict_json;
pub use junit::{junit, junit_not_measured};
pub use markdown::markdown;
pub use openmetrics::openmetrics;
pub use page::{
    Bar, CheckFigures, Contexts, Over, PERCENTILES, Page, Series, Start, html, two_modes,
};
pub use pretty::pretty_json;
pub use reasons::{
    SEND_AT_ONCE, decisive, first_events, notes, sentence, sentence_and_examples, summary,
};
pub use redaction::redact;
pub use row::limits;
pub use terminal::{View, columns, columns_with_numbers, lines, terminal};

use verdict::plural::{count, first_of};
use verdict::record::{
    Arm, Build, ChangedGates, Comparison, Ending, Exit, Extent, Launch, Rest, RuleId, RunRecord,
    RunVerdict, Shard, SuiteEnding, Verdict,
};

/// Word for a run in which both arms were one build and nothing failed: nothing was compared, so nothing passed.
const ONE_BUILD: &str = "A/A";

/// The verdict in a word.
fn word(record: &RunRecord, verdict: &RunVerdict) -> &'static str {
    match (record.comparison, verdict.verdict) {
        (Comparison::SameBuild, Verdict::Pass) => ONE_BUILD,
        (_, verdict) => verdict.name(),
    }
}

/// The verdict in a sentence.
fn headline(record: &RunRecord, verdict: &RunVerdict) -> String {
    match word(record, verdict) {
        ONE_BUILD => format!("no false alarm; {}", summary(verdict)),
        _ => summary(verdict),
    }
}

/// The verdict in a sentence, with what a pass says nothing about.
fn headline_and_limits(record: &RunRecord, verdict: &RunVerdict) -> String {
    let limits = not_run::limits(record, verdict).into_iter();
    let limits = limits.map(|(label, text)| format!("; {label}: {text}"));
    headline(record, verdict) + &limits.collect::<String>()
}

/// A word as a shell reads it.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Isolation of builds and engines, one line for each kind of machine.
fn isolation(record: &RunRecord) -> Vec<String> {
    let shards: &[Shard] = match &record.extent {
        Extent::Merged { shards } => shards,
        Extent::Whole | Extent::Shard { .. } => &[],
    };
    let machines =
        std::iter::once(&record.machine).chain(shards.iter().map(|shard| &shard.machine));
    let mut lines: Vec<String> = Vec::new();
    for isolation in machines.filter_map(|machine| machine.isolation.as_ref()) {
        let note = isolation.note.iter().map(|note| format!(" ({note})"));
        let line = format!(
            "sandbox of builds and engines: {}{}",
            isolation.names(),
            note.collect::<String>()
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// `1a2b3c4d5e6f`, with a mark where the tree had changes.
pub fn commit_name(build: &Build) -> String {
    let commit = match &build.commit {
        Some(commit) => numbers::commit(commit),
        None => without_commit(build).to_owned(),
    };
    if build.dirty {
        format!("{commit} + uncommitted changes")
    } else {
        commit
    }
}

/// An arm's whole commit, or what it runs that has none.
fn commit_or_why(build: &Build) -> &str {
    let commit = build.commit.as_deref();
    commit.unwrap_or_else(|| without_commit(build))
}

/// What an arm runs that has no commit.
fn without_commit(build: &Build) -> &'static str {
    match build.artifact_sha256 {
        Some(_) => "built outside of a git repository",
        None => "as installed",
    }
}

/// What was compared with what, in a line for each arm; and of a run over several machines, what ran where.
fn arms(record: &RunRecord) -> Vec<String> {
    let mut lines = compared(record);
    match &record.extent {
        Extent::Whole => {}
        Extent::Shard { together, checks } => lines.push(format!(
            "a shard of a run of {} gates, whose {checks} checks share the error budget",
            together.len()
        )),
        Extent::Merged { shards } => lines.extend(shards.iter().map(|shard| {
            let (gates, machine) = (shard.gates.join(", "), &shard.machine.fingerprint);
            format!("{gates}: on {machine}")
        })),
    }
    lines.extend(isolation(record));
    lines
}

fn compared(record: &RunRecord) -> Vec<String> {
    let named = |build: &Build| {
        let subject = build.subject.as_ref();
        let subject = subject.map(|subject| format!(" “{subject}”"));
        let own = own_arguments(record, build.arm);
        let own = (!own.is_empty()).then(|| format!(", with {}", own.join(" ")));
        [Some(commit_name(build)), subject, own]
            .into_iter()
            .flatten()
            .collect::<String>()
    };
    let of = |arm| Build::of(&record.builds, arm).map(named);
    let head = of(Arm::Head).unwrap_or_else(|| "unknown".into());
    let mut lines = match record.comparison {
        Comparison::SameBuild => vec![
            match Build::of(&record.builds, Arm::Head)
                .and_then(|build| build.artifact_sha256.as_ref())
            {
                Some(_) => format!(
                    "A/A run: base and head are one build ({head}), so this shows noise, not a change"
                ),
                None => "A/A run: base and head start one command (`engine.build` is not set), so this shows noise, \
                         not a change"
                    .into(),
            },
        ],
        Comparison::Interleaved => vec![
            format!("base {}", of(Arm::Base).unwrap_or_else(|| "unknown".into())),
            format!("head {head}"),
        ],
        Comparison::Stored => vec![
            format!(
                "base: {} stored sessions of main on this machine",
                here(record)
            ),
            format!("head {head}"),
        ],
        Comparison::Alone => vec![format!("head {head}, measured alone")],
        Comparison::Anchored => vec![
            format!(
                "anchor {}",
                of(Arm::Base).unwrap_or_else(|| "unknown".into())
            ),
            format!("head {head}, recorded in turn with it"),
        ],
    };
    lines.extend(changed_gates(record));
    lines
}

/// `gates/e2e.toml, gates/tpot.toml and 3 more`.
pub fn named_gates(changed: &ChangedGates) -> String {
    let names = changed.files.iter().map(|it| it.escape_debug().to_string());
    let names: Vec<String> = names.collect();
    first_of(&names, names.len(), changed.count as usize)
}

/// Whose gates judge, if they are not base's.
fn changed_gates(record: &RunRecord) -> Option<String> {
    let changed = record.changed_gates.as_ref()?;
    Some(format!(
        "gates differ from base's: {}; judged by the working tree's",
        named_gates(changed)
    ))
}

/// Words of an arm's command that the other's lacks, without secrets; where its files lie says nothing.
fn own_arguments(record: &RunRecord, arm: Arm) -> Vec<String> {
    let words = |arm| Build::of(&record.builds, arm).map_or(&[][..], |build| &build.command);
    let other = match arm {
        Arm::Base => words(Arm::Head),
        Arm::Head => words(Arm::Base),
    };
    let is_own = |(word, _): &(&String, String)| !word.contains('/') && !other.contains(word);
    let own = words(arm).iter().zip(secrets::hidden(words(arm)));
    match other {
        [] => Vec::new(),
        _ => own.filter(is_own).map(|(_, shown)| shown).collect(),
    }
}

/// Stored sessions that this very machine measured.
fn here(record: &RunRecord) -> usize {
    let fingerprint = &record.machine.fingerprint;
    let stored = record.stored.iter();
    stored.filter(|s| s.fingerprint == *fingerprint).count()
}

/// How long the session waited for the machine to cool, where it was to.
fn cooling(record: &RunRecord) -> Option<String> {
    let rests = || record.launches.iter().filter_map(|l| l.rest.as_ref());
    let waited_s = rests().map(|rest| rest.waited_ms).sum::<f64>() / 1e3;
    let left_s = rests().next_back()?.budget_left_ms / 1e3;
    let minutes = (waited_s + left_s) / 60.0;
    let budget = if minutes < 1.0 {
        format!("{:.0} s", waited_s + left_s)
    } else {
        format!("{minutes:.0} min")
    };
    let waited = format!("waited {waited_s:.0} s of {budget} for cooling");
    Some(match hot(record) {
        Some(hot) => format!("{waited}; {hot}"),
        None => waited,
    })
}

/// Launches named in one line, the hottest first.
const HOT_NAMED: usize = 4;

/// The launches that were measured while their machine was still hot, and how hot.
fn hot(record: &RunRecord) -> Option<String> {
    let rested = record.launches.iter();
    let rested = rested.filter_map(|launch| Some((launch, launch.rest.as_ref()?)));
    let excess = rested
        .clone()
        .filter_map(|(launch, rest)| Some((launch, excess(rest)?)));
    let mut hot: Vec<(&Launch, f64)> = excess.collect();
    hot.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let named = hot.iter().take(HOT_NAMED).map(|(launch, excess)| {
        let (position, arm) = (launch.position, launch.arm.name());
        format!(
            "launch {position} ({arm}) {:.1} % above its reference",
            excess * 100.0
        )
    });
    let named: Vec<String> = named.collect();
    let more = match hot.len().saturating_sub(HOT_NAMED) {
        0 => "",
        _ => ", …",
    };
    (!hot.is_empty()).then(|| {
        let (n, all) = (hot.len(), count(rested.count(), "launch"));
        format!("{n} of {all} measured hot: {}{more}", named.join(", "))
    })
}

/// Fraction by which the last probe was above the reference, for a launch that was measured hot.
fn excess(rest: &Rest) -> Option<f64> {
    let excess = rest.probes_ms.last()? / rest.reference_ms - 1.0;
    (excess > rest.within?).then_some(excess)
}

/// What nobody knows of a session that another tool measured; empty for our own.
fn unknown(record: &RunRecord) -> Vec<String> {
    if !record.is_imported() {
        return Vec::new();
    }
    let mut lines = vec![
        "imported: how late the tool's own client was, the machine's state, and whether the arms were launched \
         in turn are not known, and count as the engine's"
            .to_owned(),
    ];
    let launches = record.launches.iter();
    for what in launches
        .filter_map(|l| l.telemetry.as_ref())
        .flat_map(|t| &t.missing)
    {
        let line = format!("missing: {what}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Engines and commands that did not end as they should: what happened, and the end of their logs.
fn failed_logs(record: &RunRecord) -> Vec<(String, &str)> {
    let of_launch = |launch| failed_log(launch).into_iter().chain(failed_suites(launch));
    record.launches.iter().flat_map(of_launch).collect()
}

/// Runs of the project's own tests that did not succeed.
fn failed_suites(launch: &Launch) -> impl Iterator<Item = (String, &str)> {
    let (position, arm) = (launch.position, launch.arm.name());
    launch.suites.iter().filter_map(move |run| {
        let how = match &run.ending {
            SuiteEnding::Succeeded => return None,
            SuiteEnding::Failed { status } => status.clone(),
            SuiteEnding::TimedOut { limit_s } => format!("killed after {limit_s} s"),
            SuiteEnding::NotStarted { detail } => detail.clone(),
        };
        let workload = &run.workload;
        let what = format!("launch {position} ({arm}): {workload}: {how}");
        Some((what, run.log_tail.as_str()))
    })
}

fn failed_log(launch: &Launch) -> Option<(String, &str)> {
    let (detail, log_tail) = match &launch.exit {
        Exit::Stopped => return None,
        Exit::NeverReady { detail, log_tail }
        | Exit::Crashed { detail, log_tail }
        | Exit::Hung { detail, log_tail } => (detail, log_tail.as_str()),
        Exit::Altered { detail } => (detail, ""),
    };
    let (position, arm) = (launch.position, launch.arm.name());
    Some((format!("launch {position} ({arm}): {detail}"), log_tail))
}

/// `8 launches in 4 blocks`.
fn extent(record: &RunRecord, verdict: &RunVerdict) -> String {
    // A recording is measured on after nothing is left to judge.
    let measured = record.launches.chunk_by(|a, b| a.block == b.block);
    let blocks = match record.comparison.is_recording() {
        true => measured.count(),
        false => verdict.blocks as usize,
    };
    let launches = record.launches.len();
    format!(
        "{} in {}",
        count(launches, "launch"),
        count(blocks, "block")
    )
}

/// `stopping early saved 45 s`, where it did.
fn saved(verdict: &RunVerdict) -> Option<String> {
    let seconds = verdict.saved_s;
    if seconds < 1.0 || verdict.verdict == Verdict::Invalid {
        return None;
    }
    Some(if seconds < 100.0 {
        format!("stopping early saved {seconds:.0} s")
    } else {
        format!("stopping early saved {:.0} min", seconds / 60.0)
    })
}

/// True if any check has this verdict.
fn has(run: &RunVerdict, verdict: Verdict) -> bool {
    let mut checks = run.gates.iter().flat_map(|gate| &gate.checks);
    checks.any(|check| check.verdict == verdict)
}

/// Whether a check was tested to the last look.
fn is_capped(verdict: &RunVerdict) -> bool {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    checks.any(|check| check.reason.rule == RuleId::CapReached)
}

/// Why the session stopped, as the end of a sentence.
fn ending(record: &RunRecord, verdict: &RunVerdict) -> String {
    match &record.ending {
        Ending::Decided => match verdict.verdict {
            Verdict::Fail if has(verdict, Verdict::Inconclusive) => {
                "stopped at the first failure".into()
            }
            Verdict::Fail if has(verdict, Verdict::Invalid) => "stopped: no check is open".into(),
            Verdict::Pass | Verdict::Fail => "all checks decided".into(),
            Verdict::Invalid => left_invalid(verdict),
            Verdict::Inconclusive if is_capped(verdict) => "stopped at the last look".into(),
            Verdict::Inconclusive => "stopped: more launches would decide nothing".into(),
        },
        Ending::LastLook => "stopped at the last look".into(),
        Ending::Budget { starting: None } => "stopped: the time budget ran out".into(),
        Ending::Budget {
            starting: Some(starting),
        } => format!("stopped: the time budget ran out while {starting}"),
        Ending::Interrupted => "interrupted".into(),
        Ending::EngineFailed { detail } => format!("an engine failed: {detail}"),
        Ending::Unfinished => "cut off before its end".into(),
    }
}

/// An invalid check ends nothing by itself: the run ends when no check can be decided any more.
fn left_invalid(verdict: &RunVerdict) -> String {
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let invalid = checks().filter(|check| check.verdict == Verdict::Invalid && !check.is_waived());
    let (invalid, all) = (invalid.count(), checks().count());
    let are = if invalid == 1 { "is" } else { "are" };
    format!("stopped: {invalid} of {all} checks {are} invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_changed_gates_are_named_and_all_are_counted() {
        let changed = |count| ChangedGates {
            files: vec!["gates/a\n.toml".into(), "gates/b.toml".into()],
            count,
        };
        assert_eq!(named_gates(&changed(2)), r"gates/a\n.toml, gates/b.toml");
        let more = r"gates/a\n.toml, gates/b.toml and 3 more";
        assert_eq!(named_gates(&changed(5)), more);
    }

    #[test]
    fn a_path_is_one_word() {
        assert_eq!(shell_word(".gate/runs/1-quick"), ".gate/runs/1-quick");
        assert_eq!(shell_word("a b's"), r"'a b'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_launch_is_hot_above_its_own_bound() {
        let rest = |last: f64, within| Rest {
            probes_ms: vec![2.0, last],
            reference_ms: 1.0,
            within,
            ..Rest::default()
        };
        assert_eq!(excess(&rest(1.04, Some(0.05))), None);
        assert_eq!(excess(&rest(1.25, Some(0.05))), Some(0.25));
        // Records from before the bound was kept do not tell.
        assert_eq!(excess(&rest(1.25, None)), None);
    }
}
