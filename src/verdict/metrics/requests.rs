//! The requests of a launch that a check reads.
//!
//! Main type: [`Requests`]. Refuses to know: what is measured of them.

use super::series::SeriesCache;
use crate::plan::{Check, Part, Workload};
use crate::record::{CacheState, Launch, Sample, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The requests of one part of a workload in one launch. Picking them out takes longer than reading most
/// metrics, so that checks on the same part share it.
pub struct Requests<'a> {
    pub launch: &'a Launch,
    pub workload: &'a Workload,
    pub part: &'a Part,
    /// As recorded, void ones and warm-up included.
    pub all: Vec<&'a Sample>,
    /// Those that may enter a number, measured and sound ones, in order of sending.
    pub measured: Vec<&'a Sample>,
    /// As [`Self::all`], of base's launch beside this one; empty where there is none.
    pub base: Vec<&'a Sample>,
    /// That launch itself.
    pub base_launch: Option<&'a Launch>,
    /// What checks have read of them.
    pub series: SeriesCache,
}

impl<'a> Requests<'a> {
    /// Those that the check is about.
    pub fn of(check: &'a Check, workload: &'a Workload, launch: &'a Launch) -> Self {
        let mine = |s: &&Sample| s.workload == workload.id && is_in_part(&check.part, s);
        let all: Vec<&Sample> = launch.samples.iter().filter(mine).collect();
        let mut measured: Vec<&Sample> = all.iter().copied().filter(|s| s.may_enter()).collect();
        measured.sort_by_key(|s| s.index);
        Self {
            launch,
            workload,
            part: &check.part,
            all,
            measured,
            base: Vec::new(),
            base_launch: None,
            series: SeriesCache::default(),
        }
    }

    /// The same, to be compared with base's answers to the same prompts: `base` is its launch of the same block.
    pub fn beside(mut self, check: &'a Check, base: Option<&'a Launch>) -> Self {
        self.base_launch = base;
        let base = base.map(|launch| Self::of(check, self.workload, launch).all);
        self.base = base.unwrap_or_default();
        self
    }

    /// Each of these samples of head with base's to the same request, where base's is sound.
    pub fn beside_base(&self, head: &[&'a Sample]) -> Vec<(&'a Sample, &'a Sample)> {
        let base = self.base.iter().filter(|sample| sample.void.is_none());
        let base: BTreeMap<u32, &Sample> = base.map(|sample| (sample.index, *sample)).collect();
        let pairs = head
            .iter()
            .filter_map(|head| Some((*head, *base.get(&head.index)?)));
        pairs.collect()
    }

    /// Requests of the workload outside of this part that base answered and this launch did not: perhaps no check reads them.
    pub fn lost_elsewhere(&self) -> Vec<&'a Sample> {
        let mine = |s: &&Sample| s.workload == self.workload.id && !is_in_part(self.part, s);
        let is_lost = |s: &&Sample| {
            s.void
                .as_ref()
                .is_some_and(|void| void.rule.blames_engine())
        };
        let elsewhere = self.launch.samples.iter().filter(mine);
        let mut lost: Vec<&Sample> = elsewhere.filter(is_lost).collect();
        if !lost.is_empty() {
            let base = self.base_launch.iter().flat_map(|base| &base.samples);
            let sound = base.filter(|s| mine(s) && s.void.is_none());
            let answered: BTreeSet<u32> = sound.map(|sample| sample.index).collect();
            lost.retain(|sample| answered.contains(&sample.index));
        }
        lost
    }

    /// Whether a check is about the same requests.
    pub fn are_of(&self, check: &Check, workload: &Workload) -> bool {
        let cells = |part: &Part| (part.streamed, part.batch, part.cache, part.context);
        self.workload.id == workload.id && cells(self.part) == cells(&check.part)
    }
}

/// Whether a sample of the check's workload belongs to the part of it that the check reads. Samples
/// outside any cell (a matrix's warm-up) belong to every part.
pub fn is_in_part(part: &Part, sample: &Sample) -> bool {
    let streamed = part.streamed.is_none_or(|s| s == sample.streamed);
    let Some(Setting::Cell {
        batch,
        cache,
        context,
        ..
    }) = sample.setting
    else {
        return streamed;
    };
    streamed
        && part.batch.is_none_or(|b| b == batch)
        && part.cache.is_none_or(|c| c == cache)
        && part.context.is_none_or(|c| c == context)
}

/// The cell of a sample, where it belongs to one.
pub fn cell_of(sample: &Sample) -> Option<Cell> {
    let Some(Setting::Cell {
        batch,
        cache,
        context,
        ..
    }) = sample.setting
    else {
        return None;
    };
    Some(Cell {
        streamed: sample.streamed,
        cache,
        context,
        batch,
    })
}

/// A cell, all passes together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub streamed: bool,
    pub cache: CacheState,
    pub context: u32,
    pub batch: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.streamed { "streamed" } else { "whole" };
        let Self {
            cache,
            context,
            batch,
            ..
        } = self;
        write!(
            f,
            "batch {batch}, {}, context {context}, {mode}",
            cache.name()
        )
    }
}
