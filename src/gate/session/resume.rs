//! A session that was cut off goes on: in its directory, with its seed, from its last finished launch.
//!
//! What was kept and what comes must be one measurement, so everything that could change a result has to
//! be as it was: [`ResumeError::Changed`] shows what is not.

use super::arms::Arms;
use super::results::read_record;
use super::sources::commits;
use super::{
    Base, Error, Event, Options, Outcome, Place, Project, ResultsError, build_arms, checkpoint,
    new_record,
};
use crate::report::secrets::hidden;
use similar::TextDiff;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use verdict::plan::{self, Plan, Selection};
use verdict::record::{Arm, Build, Comparison, Ending, EngineFile, Extent, Input, RunRecord};

/// Most lines of a file's difference that are shown, and most characters of each.
const SHOWN_LINES: usize = 24;
const SHOWN_CHARACTERS: usize = 160;

#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    #[error(
        "the session in {} is finished, nothing of it is missing; `gate report` shows its verdict", .0.display()
    )]
    Finished(PathBuf),
    #[error(
        "{} is a recording of main, which is not continued; `gate baseline record` makes a whole one", .0.display()
    )]
    Recording(PathBuf),
    #[error(
        "{} was merged from the shards of several machines: go on with a shard, then merge them again", .0.display()
    )]
    Merged(PathBuf),
    #[error(
        "the session in {} cannot go on, since what it measured was not this:\n{}\nput it back as it was, or \
         measure anew without --resume", directory.display(), changes.join("\n")
    )]
    Changed {
        directory: PathBuf,
        /// One a difference: what, then old and new.
        changes: Vec<String>,
    },
}

impl From<ResumeError> for Error {
    fn from(error: ResumeError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Continues the unfinished or interrupted session in `directory`, which `start` lies in the project of. Where
/// the session was of a named commit, `head` names it again.
pub async fn resume(
    start: &Path,
    directory: &Path,
    head: Option<String>,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let mut cancel = std::pin::pin!(cancel);
    let begun = read_record(directory)?;
    let of = (start, &Selection::of(&begun));
    let place = Place::Old(directory);
    let project = Project::open(of, begun.comparison, place, cancel.as_mut()).await?;
    // Only now does nobody else measure here: what was read before may have been another session's.
    let mut record = read_record(directory)?;
    refuse_what_cannot_go_on(&record, directory)?;
    let refuse = |changes: Vec<String>| {
        let directory = directory.to_path_buf();
        match changes.is_empty() {
            true => Ok(()),
            false => Err(ResumeError::Changed { directory, changes }),
        }
    };
    let options = Options {
        head,
        ..options(start, &record)?
    };
    // What costs nothing to know is compared before anything is built.
    let mut changes = files(&record.inputs, &project.inputs);
    changes.extend(sources(&options, &project, &record)?);
    changes.extend(surroundings(&options, &project, &record));
    refuse(changes)?;
    let arms = tokio::select! {
        arms = build_arms(&options, &project, on_event) => arms?,
        () = &mut cancel => return Err(Error::Interrupted),
    };
    refuse(builds(&record, &arms.builds))?;
    record.ending = Ending::Unfinished;
    on_event(Event::Resumed {
        launches: u32::try_from(record.launches.len()).unwrap_or(u32::MAX),
        elapsed: Duration::try_from_secs_f64(record.elapsed_s).unwrap_or_default(),
        is_cut_off: checkpoint::has_partial(directory)?,
    });
    super::run(&project, &arms, record, on_event, cancel).await
}

fn refuse_what_cannot_go_on(record: &RunRecord, directory: &Path) -> Result<(), ResumeError> {
    if record.comparison.is_recording() {
        return Err(ResumeError::Recording(directory.to_path_buf()));
    }
    if matches!(record.extent, Extent::Merged { .. }) {
        return Err(ResumeError::Merged(directory.to_path_buf()));
    }
    match record.ending {
        Ending::Unfinished | Ending::Interrupted => Ok(()),
        _ => Err(ResumeError::Finished(directory.to_path_buf())),
    }
}

/// The options that the session was begun with, as far as its record tells.
fn options(start: &Path, record: &RunRecord) -> Result<Options, Error> {
    let plan = plan::from_record(record).map_err(ResultsError::from)?;
    let commit = |arm| Build::of(&record.builds, arm).and_then(|build| build.commit.clone());
    let base = match (record.comparison, commit(Arm::Base)) {
        (Comparison::Stored, _) => Base::Stored,
        // Main may have moved on meanwhile; the session's base has not.
        (_, Some(commit)) => Base::Ref(commit),
        (_, None) => Base::Main,
    };
    Ok(Options {
        start: start.to_path_buf(),
        selection: Selection::of(record),
        base,
        head: None,
        out: None,
        seed: Some(record.seed),
        base_args: further_args(&plan, record, Arm::Base),
        head_args: further_args(&plan, record, Arm::Head),
        same_build: record.comparison == Comparison::SameBuild,
        together: Vec::new(),
    })
}

/// Whether an engine was started otherwise than it is configured.
pub fn has_further_args(plan: &Plan, record: &RunRecord) -> bool {
    let mut arms = Arm::BOTH.iter();
    arms.any(|&arm| !further_args(plan, record, arm).is_empty())
}

/// What stands in an arm's command after the configured one.
fn further_args(plan: &Plan, record: &RunRecord, arm: Arm) -> Vec<String> {
    let command = Build::of(&record.builds, arm).map(|build| build.command.as_slice());
    let further = command.and_then(|words| words.get(plan.engine.serve.len()..));
    further.unwrap_or_default().to_vec()
}

/// What a session measured that these options and builds are not, one line or diff a difference.
pub fn differences(
    options: &Options,
    project: &Project,
    record: &RunRecord,
    now: &[Build],
) -> Vec<String> {
    let mut changes = files(&record.inputs, &project.inputs);
    changes.extend(surroundings(options, project, record));
    changes.extend(builds(record, now));
    changes
}

/// Files that define the plan.
pub fn files(old: &[Input], new: &[Input]) -> Vec<String> {
    let of = |inputs: &[Input], path: &str| {
        let found = inputs.iter().find(|input| input.path == path);
        found.map(|input| input.text.clone()).unwrap_or_default()
    };
    let mut paths: Vec<&str> = old.iter().chain(new).map(|i| i.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .filter_map(|path| file(path, &of(old, path), &of(new, path)))
        .collect()
}

fn file(path: &str, old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let diff = TextDiff::from_lines(old, new);
    let text = diff
        .unified_diff()
        .context_radius(1)
        .header(&format!("{path} (then)"), &format!("{path} (now)"))
        .to_string();
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.chars().take(SHOWN_CHARACTERS).collect())
        .collect();
    let hidden = lines.len().saturating_sub(SHOWN_LINES);
    lines.truncate(SHOWN_LINES);
    if hidden > 0 {
        lines.push(format!("… and {hidden} lines more"));
    }
    Some(lines.join("\n"))
}

/// The commits, where the engine is built from sources.
fn sources(options: &Options, project: &Project, record: &RunRecord) -> Result<Vec<String>, Error> {
    if project.plan.engine.build.is_none() {
        return Ok(Vec::new());
    }
    let now = commits(options, &project.root)?;
    let then = |arm| Build::of(&record.builds, arm).and_then(|build| build.commit.clone());
    let both = [("head", Arm::Head, now.head), ("base", Arm::Base, now.base)];
    Ok(both
        .into_iter()
        .filter_map(|(name, arm, now)| {
            let what = format!("{name}'s commit");
            change(&what, &shown(then(arm)), &shown(now))
        })
        .collect())
}

/// The machine, this program, and what is measured.
fn surroundings(options: &Options, project: &Project, record: &RunRecord) -> Vec<String> {
    let nothing_built = Arms {
        comparison: record.comparison,
        builds: Vec::new(),
        artifacts: Vec::new(),
        is_head_a_commit: false,
        foreign: Vec::new(),
    };
    let now = new_record(options, project, &nothing_built);
    [
        change("tool", &record.tool, &now.tool),
        change("profile", &record.profile, &now.profile),
        change("gates", &record.gates.join(", "), &now.gates.join(", ")),
        change(
            "machine",
            &record.machine.fingerprint,
            &now.machine.fingerprint,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What was built, and how it is started.
pub fn builds(record: &RunRecord, now: &[Build]) -> Vec<String> {
    let arms = record.comparison.arms().iter();
    arms.flat_map(|&arm| {
        let [then, now] = [record.builds.as_slice(), now].map(|builds| Build::of(builds, arm));
        let artifact = |build: Option<&Build>| shown(build.and_then(|b| b.artifact_sha256.clone()));
        let command = |build: Option<&Build>| shown(build.map(|b| b.command.join(" ")));
        let name = arm.name();
        let [old, new] = [then, now].map(|build| build.map_or(&[][..], |b| &b.files));
        let mut changes = engine_files(name, old, new);
        changes.extend(change(
            &format!("{name}'s artifact (SHA-256)"),
            &artifact(then),
            &artifact(now),
        ));
        let is_other = change("", &command(then), &command(now)).is_some();
        let [then, now] =
            [then, now].map(|build| shown(build.map(|b| hidden(&b.command).join(" "))));
        changes.extend(is_other.then(|| format!("{name}'s command: {then} → {now}")));
        changes
    })
    .collect()
}

/// What the engine is made of beside its artifact.
fn engine_files(arm: &str, then: &[EngineFile], now: &[EngineFile]) -> Vec<String> {
    let of = |files: &[EngineFile], name: &str| {
        let found = files.iter().find(|file| file.name == name);
        shown(found.map(|file| format!("{} bytes, {}", file.bytes, file.sha256)))
    };
    let mut names: Vec<&str> = then.iter().chain(now).map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| {
            let what = format!("{arm}'s {name} (size, SHA-256)");
            change(&what, &of(then, name), &of(now, name))
        })
        .collect()
}

fn shown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "none".into())
}

pub fn change(what: &str, then: &str, now: &str) -> Option<String> {
    (then != now).then(|| format!("{what}: {then} → {now}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &str, text: &str) -> Input {
        Input {
            path: path.into(),
            text: text.into(),
        }
    }

    #[track_caller]
    fn check(old: &[Input], new: &[Input], expect: &[&str]) {
        assert_eq!(files(old, new), expect);
    }

    #[test]
    fn changed_files_are_shown_as_a_diff() {
        let old = [input("a", "1\n2\n3\n4\n5\n"), input("b", "x\n")];
        check(&old, &old, &[]);
        check(
            &old,
            &[old[1].clone(), input("a", "1\n2\n3\n4!\n5\n")],
            &["--- a (then)\n+++ a (now)\n@@ -3,3 +3,3 @@\n 3\n-4\n+4!\n 5"],
        );
        check(
            &old[1..],
            &[],
            &["--- b (then)\n+++ b (now)\n@@ -1 +0,0 @@\n-x"],
        );
    }

    #[test]
    fn other_files_of_an_engine_are_named() {
        let file = |name: &str, sha256: &str| EngineFile {
            name: name.into(),
            bytes: 8,
            sha256: sha256.into(),
        };
        let old = [file("model", "a1"), file("tokenizer.json", "b1")];
        assert_eq!(engine_files("head", &old, &old), [""; 0]);
        let new = [file("tokenizer.json", "b2"), file("vllm", "c1")];
        assert_eq!(
            engine_files("head", &old, &new),
            [
                "head's model (size, SHA-256): 8 bytes, a1 → none",
                "head's tokenizer.json (size, SHA-256): 8 bytes, b1 → 8 bytes, b2",
                "head's vllm (size, SHA-256): none → 8 bytes, c1",
            ]
        );
    }

    #[test]
    fn a_long_difference_is_cut() {
        let text: String = (0..100)
            .map(|i| format!("{i} {}\n", "x".repeat(500)))
            .collect();
        let shown = file("a", &text, "").unwrap();
        assert_eq!(shown.lines().count(), SHOWN_LINES + 1);
        assert!(shown.ends_with("… and 79 lines more"), "{shown}");
        assert!(
            shown
                .lines()
                .all(|line| line.chars().count() <= SHOWN_CHARACTERS)
        );
    }
}
