//! Extent of a record: a whole run, one machine's shard, or several machines' shards.

use super::{Extent, RunRecord, Shard};

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
    /// is the number of the run's checks that share the error budget.
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
            changed_gates: None,
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
