//! How much of a run a record holds: all of it, one machine's shard, or the shards of several machines.

use super::{Build, Comparison, Ending, Machine, RunRecord, StoredBase};
use serde::{Deserialize, Serialize};

/// Name and version of the format of a record of several machines. A gate that knows shards no more than it
/// knows this name would take their launches for one session.
pub const MERGED_FORMAT: &str = "infergate-run/2";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Extent {
    /// The session is the run.
    #[default]
    Whole,
    /// Some of the run's gates; other machines measure the others.
    Shard {
        /// The gates of the whole run, these among them, in plan order.
        together: Vec<String>,
        /// Their checks: the family that shares the error budget.
        checks: u32,
    },
    /// Every gate, measured on one machine or several. `launches` holds those of the first shard, then those of the
    /// second, and so on.
    Merged { shards: Vec<Shard> },
}

impl Extent {
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// What one machine measured, but for its launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    pub gates: Vec<String>,
    /// RFC 3339, UTC.
    pub created: String,
    pub seed: u64,
    pub comparison: Comparison,
    pub machine: Machine,
    pub builds: Vec<Build>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredBase>,
    pub ending: Ending,
    pub elapsed_s: f64,
    /// How many of the record's launches are its own.
    pub launches: u32,
}

impl Shard {
    /// The session of one machine, but for its launches.
    pub fn of(session: &RunRecord) -> Self {
        Self {
            gates: session.gates.clone(),
            created: session.created.clone(),
            seed: session.seed,
            comparison: session.comparison,
            machine: session.machine.clone(),
            builds: session.builds.clone(),
            stored: session.stored.clone(),
            ending: session.ending.clone(),
            elapsed_s: session.elapsed_s,
            launches: u32::try_from(session.launches.len()).unwrap_or(u32::MAX),
        }
    }
}

impl RunRecord {
    /// The sessions that a merged record was made of, as each was measured; empty for every other record. `checks`
    /// is the number of all checks of the run.
    pub fn shard_sessions(&self, checks: u32) -> Vec<Self> {
        let Extent::Merged { shards } = &self.extent else {
            return Vec::new();
        };
        let mut rest = self.launches.as_slice();
        let sessions = shards.iter().map(|shard| {
            let own = rest.len().min(shard.launches as usize);
            let (launches, others) = rest.split_at(own);
            rest = others;
            self.session(shard, launches.to_vec(), checks)
        });
        sessions.collect()
    }

    fn session(&self, shard: &Shard, launches: Vec<super::Launch>, checks: u32) -> Self {
        let Shard {
            gates,
            created,
            seed,
            comparison,
            machine,
            builds,
            stored,
            ending,
            elapsed_s,
            launches: _,
        } = shard.clone();
        let cited = self.calibration.iter();
        Self {
            format: super::RUN_FORMAT.to_owned(),
            tool: self.tool.clone(),
            created,
            profile: self.profile.clone(),
            seed,
            comparison,
            machine,
            builds,
            calibration: cited.filter(|c| gates.contains(&c.gate)).cloned().collect(),
            gates,
            inputs: self.inputs.clone(),
            stored,
            launches,
            ending,
            elapsed_s,
            described: None,
            extent: Extent::Shard {
                together: self.gates.clone(),
                checks,
            },
        }
    }
}
