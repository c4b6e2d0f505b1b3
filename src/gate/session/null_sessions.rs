//! Earlier sessions of one build that null sessions can be drawn from: main's stored ones, and kept result
//! directories of A/A sessions.

use super::baseline::{key_on, store};
use super::results::read_record;
use super::resume::has_further_args;
use super::{Error, Project};
use crate::baseline::Key;
use crate::calibration::{PastSession, pairs_of_blocks, pairs_of_launches};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use verdict::judge;
use verdict::plan::{self, Plan};
use verdict::record::{Comparison, Ending, Extent, RunRecord, Verdict};

/// Most result directories that are read, the newest by name: each may be large.
const MOST_KEPT: usize = 50;

/// Gate → its past sessions on this machine, oldest first; those in `not_from` left out. A result directory that
/// cannot be read is no reason to end: it is left out as well.
pub fn sessions(
    project: &Project,
    record: &RunRecord,
    not_from: &Path,
) -> Result<BTreeMap<String, Vec<PastSession>>, Error> {
    let keys: BTreeMap<&str, Key> = project
        .plan
        .gates
        .iter()
        .map(|gate| {
            let key = key_on(&project.plan, gate, &record.machine.fingerprint);
            (gate.name.as_str(), key)
        })
        .collect();
    let mut found: BTreeMap<String, Vec<PastSession>> = BTreeMap::new();
    for (gate, key) in &keys {
        let stored = store(project).find(key)?;
        let stored = stored.iter().map(pairs_of_launches);
        found.entry((*gate).to_owned()).or_default().extend(stored);
    }
    for directory in kept(&project.workspace.runs(), not_from) {
        for (gate, session) in kept_session(&directory, &keys) {
            found.entry(gate).or_default().push(session);
        }
    }
    for sessions in found.values_mut() {
        sessions.sort_by(|a, b| a.created.cmp(&b.created));
    }
    Ok(found)
}

/// Result directories under `runs`, those of calibrations included, oldest first.
fn kept(runs: &Path, not_from: &Path) -> Vec<PathBuf> {
    let not_from = not_from.canonicalize().ok();
    let mut directories = folders(runs);
    let of_calibrations: Vec<PathBuf> = directories.iter().flat_map(|d| folders(d)).collect();
    directories.extend(of_calibrations);
    directories.retain(|directory| {
        let is_ours = not_from.as_ref().is_some_and(|not| {
            let path = directory.canonicalize();
            path.is_ok_and(|path| path.starts_with(not))
        });
        super::results::has_run(directory) && !is_ours
    });
    directories.sort();
    let surplus = directories.len().saturating_sub(MOST_KEPT);
    directories.split_off(surplus)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir()).collect()
}

/// The gates of an A/A session that was measured under these keys.
fn kept_session(directory: &Path, keys: &BTreeMap<&str, Key>) -> Vec<(String, PastSession)> {
    let Ok(record) = read_record(directory) else {
        return Vec::new();
    };
    let Ok(mut plan) = plan::from_record(&record) else {
        return Vec::new();
    };
    // What was waived, and until when, says nothing of the machine.
    plan.waivers.clear();
    if !is_null_session(&plan, &record) {
        return Vec::new();
    }
    let session = pairs_of_blocks(&plan, &record);
    let same = plan.gates.iter().filter(|gate| {
        let key = key_on(&plan, gate, &record.machine.fingerprint);
        keys.get(gate.name.as_str()) == Some(&key)
    });
    same.map(|gate| (gate.name.clone(), session.clone()))
        .collect()
}

/// A/A of the engine as it is configured, over for good, and a measurement.
fn is_null_session(plan: &Plan, record: &RunRecord) -> bool {
    let is_session = !matches!(record.extent, Extent::Merged { .. });
    let is_over = !matches!(record.ending, Ending::Unfinished | Ending::Interrupted);
    record.comparison == Comparison::SameBuild
        && is_session
        && is_over
        && !has_further_args(plan, record)
        && judge::judge(plan, record).verdict != Verdict::Invalid
}
