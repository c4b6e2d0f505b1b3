//! `gate shard merge`: the shards of one run, measured by several machines, become one record with one verdict.
//!
//! What is put together must be one run: the same gate on the same files, commits and arguments, every gate of the
//! run exactly once. Machines may differ, since a gate's arms are never compared across them.

use crate::commands::plan::shards::is_alike;
use crate::session::results::{Results, read_record};
use crate::session::{Error, ResultsError};
use std::path::{Path, PathBuf};
use verdict::judge;
use verdict::plan::{self, Plan, Selection, WAIVERS_FILE};
use verdict::record::{
    Arm, Build, Comparison, Ending, Extent, Input, MERGED_FORMAT, RunRecord, RunVerdict, Shard,
};

/// Why the records are not one run.
#[derive(Debug, thiserror::Error)]
enum MergeError {
    #[error(
        "{} was measured as a run of its own, with the whole error budget; measure shards with `gate check --gate … \
         --together …`, as `gate shard plan --shards` says", .0.display()
    )]
    NoShard(PathBuf),
    #[error("{} is merged already; name the shards that it was made of", .0.display())]
    Merged(PathBuf),
    #[error("{} is a recording of main: those are stored, not merged", .0.display())]
    Recording(PathBuf),
    #[error("{} and {} are of two runs: {what}", first.display(), second.display())]
    Mixed {
        first: PathBuf,
        second: PathBuf,
        what: String,
    },
    #[error("the gate {gate} is in two shards, {} and {}: name one of them", first.display(), second.display())]
    Twice {
        gate: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("{} measured the gate {gate}, which is not one of its run's", directory.display())]
    Stray { gate: String, directory: PathBuf },
    #[error(
        "no shard has measured {gates}: a run is merged whole; measure it, or name the directory that has it"
    )]
    Missing { gates: String },
    #[error("{} counts {said} tested checks in the run, its files say {found}: it was changed, or another gate wrote it", directory.display())]
    Checks {
        directory: PathBuf,
        said: u32,
        found: u32,
    },
}

impl From<MergeError> for Error {
    fn from(error: MergeError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// A shard as it was read.
struct ShardPart {
    directory: PathBuf,
    record: RunRecord,
    together: Vec<String>,
    checks: u32,
}

/// Puts the records of `directories` together in `out`, which is made, and judges them there.
pub fn merge_directories(
    directories: &[PathBuf],
    out: &Path,
) -> Result<(RunRecord, RunVerdict), Error> {
    let parts = directories.iter().map(|directory| read(directory));
    let parts = parts.collect::<Result<Vec<ShardPart>, Error>>()?;
    let Some(first) = parts.first() else {
        return Err(Error::Usage("name the shards' result directories".into()));
    };
    for part in &parts[1..] {
        one_run(first, part)?;
    }
    every_gate_once(&parts)?;
    let inputs = inputs(&parts);
    let selection = Selection {
        profile: first.record.profile.clone(),
        gates: first.together.clone(),
    };
    let plan = plan::from_inputs(&inputs, &selection).map_err(ResultsError::from)?;
    the_checks_are_the_plans(&parts, &plan)?;
    let results = Results::new(out)?;
    let record = merged(parts, inputs, &plan);
    let verdict = judge::judge(&plan, &record);
    results.begin(&record)?;
    results.finish(&plan, &record, &verdict)?;
    Ok((record, verdict))
}

fn read(directory: &Path) -> Result<ShardPart, Error> {
    let mut record = read_record(directory)?;
    let directory = directory.to_path_buf();
    if record.comparison.is_recording() {
        return Err(MergeError::Recording(directory).into());
    }
    match std::mem::take(&mut record.extent) {
        Extent::Shard { together, checks } => Ok(ShardPart {
            directory,
            record,
            together,
            checks,
        }),
        Extent::Whole => Err(MergeError::NoShard(directory).into()),
        Extent::Merged { .. } => Err(MergeError::Merged(directory).into()),
    }
}

/// Refuses a shard that differs from the first in anything but machine, gates and chance.
fn one_run(first: &ShardPart, part: &ShardPart) -> Result<(), MergeError> {
    let (a, b) = (&first.record, &part.record);
    let differ = |name: &str, a: &str, b: &str| {
        (a != b).then(|| format!("their {name} differs, `{a}` and `{b}`"))
    };
    let names = |gates: &[String]| gates.join(" ");
    let what = differ("version of gate", &a.tool, &b.tool)
        .or_else(|| differ("profile", &a.profile, &b.profile))
        .or_else(|| {
            differ(
                "list of the run's gates",
                &names(&first.together),
                &names(&part.together),
            )
        })
        .or_else(|| {
            let alike = is_alike(a.comparison, b.comparison);
            (!alike).then(|| "one is judged against stored sessions".to_owned())
        })
        .or_else(|| Arm::BOTH.into_iter().find_map(|arm| of_arm(a, b, arm)))
        .or_else(|| {
            let files = a.inputs.iter();
            let both = files.filter_map(|file| Some((file, of_path(&b.inputs, &file.path)?)));
            let mut both = both.filter(|(a, b)| a.text != b.text);
            both.next()
                .map(|(a, _)| format!("their {} differs", a.path))
        })
        .or_else(|| {
            // Of every shard's record, unlike a gate's own files.
            let has_waivers = |record: &RunRecord| of_path(&record.inputs, WAIVERS_FILE).is_some();
            (has_waivers(a) != has_waivers(b)).then(|| format!("one has no {WAIVERS_FILE}"))
        });
    match what {
        None => Ok(()),
        Some(what) => Err(MergeError::Mixed {
            first: first.directory.clone(),
            second: part.directory.clone(),
            what,
        }),
    }
}

/// In what the two records' arm differs: the commit, else what stands for it.
fn of_arm(a: &RunRecord, b: &RunRecord, arm: Arm) -> Option<String> {
    let name = arm.name();
    let [a, b] = [a, b].map(|record| Build::of(&record.builds, arm));
    let (a, b) = match (a, b) {
        (None, None) => return None,
        (Some(a), Some(b)) => (a, b),
        _ => return Some(format!("one has no {name}")),
    };
    if a.commit != b.commit {
        let shown = |build: &Build| {
            build
                .commit
                .clone()
                .unwrap_or_else(|| "no commit".to_owned())
        };
        return Some(format!("their {name} is {} and {}", shown(a), shown(b)));
    }
    if (a.dirty || b.dirty) && a.artifact_sha256 != b.artifact_sha256 {
        return Some(format!(
            "their {name} has uncommitted changes, and was not built alike"
        ));
    }
    // The program's place is the machine's own.
    let words = |build: &Build| build.command.iter().skip(1).cloned().collect::<Vec<_>>();
    if words(a) != words(b) {
        return Some(format!("the arguments of their {name} differ"));
    }
    let other = |name: &str| b.files.iter().find(|file| file.name == name);
    let changed = a.files.iter().find(|file| {
        let other = other(&file.name);
        other.is_some_and(|other| other.sha256 != file.sha256)
    });
    changed.map(|file| format!("{} of their {name} differs", file.name))
}

fn every_gate_once(parts: &[ShardPart]) -> Result<(), MergeError> {
    let measured = || {
        parts
            .iter()
            .flat_map(|part| part.record.gates.iter().map(move |gate| (gate, part)))
    };
    for (at, (gate, part)) in measured().enumerate() {
        let directory = part.directory.clone();
        let gate = gate.clone();
        if !part.together.contains(&gate) {
            return Err(MergeError::Stray { gate, directory });
        }
        if let Some((_, first)) = measured().take(at).find(|(other, _)| **other == gate) {
            return Err(MergeError::Twice {
                gate,
                first: first.directory.clone(),
                second: directory,
            });
        }
    }
    let wanted = parts.iter().flat_map(|part| &part.together);
    let mut missing: Vec<&str> = wanted
        .filter(|gate| measured().all(|(other, _)| other != *gate))
        .map(String::as_str)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    match missing.as_slice() {
        [] => Ok(()),
        gates => Err(MergeError::Missing {
            gates: gates.join(", "),
        }),
    }
}

/// What the shards took as the family of their error budget is what it is.
fn the_checks_are_the_plans(parts: &[ShardPart], plan: &Plan) -> Result<(), MergeError> {
    let found = judge::family(plan);
    match parts.iter().find(|part| part.checks != found) {
        None => Ok(()),
        Some(part) => Err(MergeError::Checks {
            directory: part.directory.clone(),
            said: part.checks,
            found,
        }),
    }
}

/// Each file once, by path.
fn inputs(parts: &[ShardPart]) -> Vec<Input> {
    let all = parts.iter().flat_map(|part| &part.record.inputs);
    let mut inputs: Vec<Input> = all.cloned().collect();
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    inputs.dedup_by(|a, b| a.path == b.path);
    inputs
}

fn of_path<'a>(inputs: &'a [Input], path: &str) -> Option<&'a Input> {
    inputs.iter().find(|input| input.path == path)
}

/// The record of all. What belongs to one machine stands in its shard; beside it stands what reports show.
fn merged(parts: Vec<ShardPart>, inputs: Vec<Input>, plan: &Plan) -> RunRecord {
    let mut shards = Vec::new();
    let mut whole: Option<RunRecord> = None;
    for part in parts {
        let mut record = part.record;
        shards.push(Shard::of(&record));
        match &mut whole {
            None => whole = Some(record),
            Some(whole) => {
                whole.launches.append(&mut record.launches);
                whole.calibration.append(&mut record.calibration);
                whole.elapsed_s += record.elapsed_s;
                whole.created = whole.created.clone().min(record.created);
                if record.comparison == Comparison::Interleaved {
                    whole.comparison = Comparison::Interleaved;
                }
                whole.ending = graver(whole.ending.clone(), record.ending);
                let machine = &record.machine.fingerprint;
                if !whole.machine.fingerprint.contains(machine.as_str()) {
                    whole.machine.fingerprint =
                        format!("{} + {machine}", whole.machine.fingerprint);
                }
            }
        }
    }
    let mut whole = whole.unwrap_or_else(|| unreachable!("there is a first shard"));
    whole.format = MERGED_FORMAT.to_owned();
    whole.gates = plan.gates.iter().map(|gate| gate.name.clone()).collect();
    whole.inputs = inputs;
    whole.stored = Vec::new();
    whole.extent = Extent::Merged { shards };
    whole
}

/// The ending that says most about what is missing.
fn graver(a: Ending, b: Ending) -> Ending {
    let gravity = |ending: &Ending| match ending {
        Ending::Decided => 0,
        Ending::LastLook => 1,
        Ending::Budget { .. } => 2,
        Ending::Interrupted => 3,
        Ending::Unfinished => 4,
        Ending::EngineFailed { .. } => 5,
    };
    if gravity(&b) > gravity(&a) { b } else { a }
}
