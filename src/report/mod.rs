//! A verdict as text: for a terminal, as Markdown, as versioned JSON. Strings out, nothing else.
//!
//! Refuses to know: how a verdict came about, files, and colours beyond ANSI styles in a string.

mod json_v1;
mod markdown;
mod numbers;
mod terminal;

pub use json_v1::verdict_json;
pub use markdown::markdown;
pub use terminal::terminal;

use crate::record::{Arm, Build, Comparison, Ending, Exit, Launch, RunRecord};

/// `1a2b3c4d5e6f`, with a mark where the tree had changes.
fn commit_name(build: &Build) -> String {
    let commit = match &build.commit {
        Some(commit) => commit.chars().take(12).collect(),
        None => "no commit".to_owned(),
    };
    if build.dirty {
        format!("{commit} + uncommitted changes")
    } else {
        commit
    }
}

/// What was compared with what, in a line for each arm.
fn arms(record: &RunRecord) -> Vec<String> {
    let of = |arm| Build::of(&record.builds, arm).map(commit_name);
    let head = of(Arm::Head).unwrap_or_else(|| "unknown".into());
    match record.comparison {
        Comparison::SameBuild => vec![
            format!("head {head}, equal to its base"),
            "an A/A run: one build was measured against itself".into(),
        ],
        Comparison::Interleaved => vec![
            format!("base {}", of(Arm::Base).unwrap_or_else(|| "unknown".into())),
            format!("head {head}"),
        ],
        Comparison::Stored => vec![
            format!(
                "base: {} stored sessions of main on this machine",
                record.stored.len()
            ),
            format!("head {head}"),
        ],
        Comparison::Alone => vec![format!("head {head}, measured alone")],
    }
}

/// Engines that did not end as they should: what happened, and the end of their logs.
fn failed_logs(record: &RunRecord) -> Vec<(String, &str)> {
    record.launches.iter().filter_map(failed_log).collect()
}

fn failed_log(launch: &Launch) -> Option<(String, &str)> {
    let (detail, log_tail) = match &launch.exit {
        Exit::Stopped => return None,
        Exit::NeverReady { detail, log_tail }
        | Exit::Crashed { detail, log_tail }
        | Exit::Hung { detail, log_tail } => (detail, log_tail),
    };
    let (position, arm) = (launch.position, launch.arm.name());
    Some((format!("launch {position} ({arm}): {detail}"), log_tail))
}

/// Why the session stopped, as the end of a sentence.
fn ending(record: &RunRecord) -> String {
    match &record.ending {
        Ending::Decided => "every check was decided".into(),
        Ending::LastLook => "the last look was reached".into(),
        Ending::Budget => "the time budget was spent".into(),
        Ending::Interrupted => "it was interrupted".into(),
        Ending::EngineFailed { detail } => format!("an engine failed: {detail}"),
        Ending::Unfinished => "the record is unfinished".into(),
    }
}
