//! The session's launches as blocks, and the looks at which they are judged.

use crate::record::{Arm, Launch, RunRecord};
use std::collections::{BTreeMap, BTreeSet};

/// NVML reasons that void a block: hardware slowdown, software thermal, hardware thermal, power brake.
/// Not 0x4, the software power cap, which is a GPU's normal state under load.
const THROTTLE_BITS: u32 = 0x8 | 0x20 | 0x40 | 0x80;

/// Launches in order of execution.
pub(super) struct Session<'a> {
    launches: Vec<&'a Launch>,
    arms: &'static [Arm],
}

/// What the judge may see: the session up to the end of a block, or as it stands.
pub(super) struct Scope<'a> {
    /// Every launch so far, in order of execution.
    pub(super) launches: Vec<&'a Launch>,
    /// Blocks that were dropped since the machine throttled.
    pub(super) throttled: BTreeSet<u32>,
    /// The sound blocks that the latest look reads.
    pub(super) looked_at: BTreeSet<u32>,
    /// Number of the latest look's blocks; 0 before the first.
    pub(super) looked: u32,
    /// The last block of this scope brought that look.
    pub(super) is_look: bool,
    /// Nothing more was measured.
    pub(super) is_end: bool,
    /// The next look, if there is one.
    pub(super) next: Option<u32>,
    /// All sound blocks so far.
    pub(super) sound: u32,
}

/// Whether a GPU of the engine throttled while the launch was measured.
pub fn is_throttled(launch: &Launch) -> bool {
    launch
        .throttle_bits
        .is_some_and(|bits| bits & THROTTLE_BITS != 0)
}

impl<'a> Session<'a> {
    pub(super) fn new(record: &'a RunRecord) -> Self {
        let mut launches: Vec<&Launch> = record.launches.iter().collect();
        launches.sort_by_key(|l| l.position);
        Self {
            launches,
            arms: record.comparison.arms(),
        }
    }

    /// The session after each of its blocks, and as it stands.
    pub(super) fn scopes(&self, looks: &[u32]) -> (Vec<Scope<'a>>, Scope<'a>) {
        let mut blocks: Vec<u32> = self.launches.iter().map(|l| l.block).collect();
        blocks.dedup();
        let after_blocks = blocks
            .into_iter()
            .map(|block| {
                let so_far = self.launches.iter().copied().filter(|l| l.block <= block);
                let mut scope = self.scope(so_far.collect(), looks);
                let is_new = scope.looked_at.last() == Some(&block);
                scope.is_look = is_new && scope.sound == scope.looked;
                scope
            })
            .collect();
        let mut end = self.scope(self.launches.clone(), looks);
        end.is_end = true;
        (after_blocks, end)
    }

    fn scope(&self, launches: Vec<&'a Launch>, looks: &[u32]) -> Scope<'a> {
        let blocks = self.sound_blocks(&launches);
        let sound = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        let looked = looks
            .iter()
            .copied()
            .filter(|&look| look <= sound)
            .max()
            .unwrap_or(0);
        let throttled = launches.iter().filter(|l| is_throttled(l));
        Scope {
            throttled: throttled.map(|l| l.block).collect(),
            looked_at: blocks.into_iter().take(looked as usize).collect(),
            looked,
            is_look: false,
            is_end: false,
            next: looks.iter().copied().find(|&look| look > looked),
            sound,
            launches,
        }
    }

    /// Blocks that hold one clean, unthrottled launch of every arm, in order.
    fn sound_blocks(&self, launches: &[&Launch]) -> Vec<u32> {
        let mut blocks: BTreeMap<u32, Vec<&Launch>> = BTreeMap::new();
        for launch in launches {
            blocks.entry(launch.block).or_default().push(launch);
        }
        let is_sound = |launches: &[&Launch]| {
            let clean = launches
                .iter()
                .all(|l| l.exit.is_clean() && !is_throttled(l));
            clean
                && self
                    .arms
                    .iter()
                    .all(|&arm| launches.iter().any(|l| l.arm == arm))
        };
        blocks.retain(|_, launches| is_sound(launches));
        blocks.into_keys().collect()
    }
}
