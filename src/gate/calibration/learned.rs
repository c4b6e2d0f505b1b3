//! What a machine's own sessions show of how launches vary, for gates that nobody calibrated.
//!
//! Each session of two arms leaves its launches' values, block by block, in a file beside the certificates; later ones
//! take from it the variance by which they are judged. A head that is slower shifts all of its launches alike, and neither
//! the spread within an arm nor that of the blocks' differences knows of it, so sessions need not be A/A. A head that varies
//! more makes later sessions less sure. One that varies less makes them surer, until they vary more than that.

use super::launch_noise;
use super::noise::in_blocks;
use super::store::folder_name;
use crate::baseline::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use verdict::judge::{self, on_test_scale};
use verdict::plan::{Gate, Plan, Rule};
use verdict::record::{LaunchNoise, RunRecord};

/// Sessions that are kept, the newest.
const KEPT: usize = 40;

/// One session of a gate: a line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// RFC 3339, UTC.
    pub created: String,
    /// Check id → its blocks, base and head, on the scale of the test.
    pub checks: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Learned {
    /// Of a session's comparisons by t; `sound`: the checks that were a measurement.
    pub fn of(plan: &Plan, record: &RunRecord, gate: &Gate, sound: &[&str]) -> Self {
        let compared = gate.checks.iter().filter(|check| {
            matches!(check.rule, Rule::Regression { .. }) && sound.contains(&check.id.as_str())
        });
        let checks = compared.filter_map(|check| {
            on_test_scale(check.metric, 1.0)?;
            let measures = judge::launch_measures(plan, record, &check.id).into_iter();
            let values = measures.filter_map(|(launch, measure)| {
                let value = on_test_scale(check.metric, measure.ok()?.value)?;
                let is_sound = launch.exit.is_clean() && !launch.is_throttled();
                (value.is_finite() && is_sound).then_some((launch.block, launch.arm, value))
            });
            Some((check.id.clone(), in_blocks(values)))
        });
        Self {
            created: record.created.clone(),
            checks: checks.collect(),
        }
    }

    fn has_blocks(&self) -> bool {
        self.checks.values().any(|blocks| blocks.len() > 1)
    }
}

/// Adds a session to those of its gate, and drops the oldest beyond forty. One without two blocks is left out.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn remember(folder: &Path, key: &Key, profile: &str, session: &Learned) -> io::Result<()> {
    if !session.has_blocks() {
        return Ok(());
    }
    let path = path(folder, key, profile);
    let mut sessions = read(&path);
    sessions.push(session.clone());
    let surplus = sessions.len().saturating_sub(KEPT);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    for session in &sessions[surplus..] {
        serde_json::to_writer(&mut file, session)?;
        file.write_all(b"\n")?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The sessions of a gate since that moment (RFC 3339), and what they show of each check. A file that cannot be read
/// shows nothing.
pub fn recall(
    folder: &Path,
    key: &Key,
    profile: &str,
    since: jiff::Timestamp,
) -> (usize, BTreeMap<String, LaunchNoise>) {
    let mut sessions = read(&path(folder, key, profile));
    // What claims to be of tomorrow was not measured.
    let now = jiff::Timestamp::now();
    let is_recent = |session: &Learned| {
        let created = session.created.parse::<jiff::Timestamp>();
        created.is_ok_and(|created| (since..=now).contains(&created))
    };
    sessions.retain(is_recent);
    let mut of_checks: BTreeMap<&str, Vec<Vec<(f64, f64)>>> = BTreeMap::new();
    for (check, blocks) in sessions.iter().flat_map(|session| &session.checks) {
        of_checks.entry(check).or_default().push(blocks.clone());
    }
    let noise = of_checks
        .into_iter()
        .filter_map(|(check, blocks)| Some((check.to_owned(), launch_noise(&blocks)?)));
    (sessions.len(), noise.collect())
}

fn path(folder: &Path, key: &Key, profile: &str) -> PathBuf {
    folder.join(format!("{}.jsonl", folder_name(key, profile)))
}

fn read(path: &Path) -> Vec<Learned> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let text = include_str!("../../../tests/data/calibration-v1.json");
        let certificate: super::super::Certificate = serde_json::from_str(text).unwrap();
        certificate.key
    }

    fn session(day: u32, blocks: Vec<(f64, f64)>) -> Learned {
        Learned {
            created: format!("2026-11-{day:02}T00:00:00Z"),
            checks: BTreeMap::from([("tpot/regression".into(), blocks)]),
        }
    }

    fn shared(day: u32) -> Learned {
        let of = |block: u32| {
            let machine = f64::from((day * 7 + block * 5) % 9) / 10.0;
            (machine, machine + f64::from((day + block) % 3) / 1e3)
        };
        session(day, (0..4).map(of).collect())
    }

    #[test]
    fn seven_sessions_show_that_blocks_share_what_the_machine_does() {
        let folder = tempfile::tempdir().unwrap();
        let since = |day: &str| format!("2026-11-{day}T00:00:00Z").parse().unwrap();
        for day in 1..=7 {
            let (sessions, noise) = recall(folder.path(), &key(), "quick", since("01"));
            assert_eq!((sessions, noise.len()), (day as usize - 1, 0));
            remember(folder.path(), &key(), "quick", &shared(day)).unwrap();
        }
        let (sessions, noise) = recall(folder.path(), &key(), "quick", since("01"));
        let found = noise["tpot/regression"];
        assert_eq!(sessions, 7);
        assert!(found.paired && found.sd < 0.002, "{found:?}");
        // Of the same gate in another size, and after a while, nothing is known.
        assert_eq!(recall(folder.path(), &key(), "full", since("01")).0, 0);
        let (sessions, noise) = recall(folder.path(), &key(), "quick", since("03"));
        assert_eq!((sessions, noise.len()), (5, 0));
    }

    #[test]
    fn the_oldest_go_and_what_cannot_be_read_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), &key(), "quick");
        fs::write(&path, "{\n\u{0}\n").unwrap();
        let one = session(1, vec![(0.0, 0.1), (0.1, 0.0)]);
        for _ in 0..KEPT + 3 {
            remember(folder.path(), &key(), "quick", &one).unwrap();
        }
        remember(
            folder.path(),
            &key(),
            "quick",
            &session(2, vec![(0.0, 0.0)]),
        )
        .unwrap();
        assert_eq!(read(&path), vec![one; KEPT]);
    }
}
