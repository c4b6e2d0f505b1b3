//! By how much streams slow one another down.

use super::{by_cell, values};
use crate::metrics::timing::request;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::CacheState;
use crate::stats;
use std::collections::BTreeMap;

/// Greatest over caches and contexts of the median TPOT at the greatest batch over that at the least one.
pub fn contention(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let mut samples = at.measured()?;
    samples.retain(|s| s.streamed);
    let n = samples.len();
    let mut ladders: BTreeMap<(CacheState, u32), Vec<(u32, f64)>> = BTreeMap::new();
    for (cell, samples) in by_cell(at, samples)? {
        let tpots = values(at, &samples, request::positive_tpot_ms)?;
        let median = stats::median(&tpots).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
        let ladder = ladders.entry((cell.cache, cell.context)).or_default();
        // Cells come in the order of their batches.
        ladder.push((cell.batch, median));
    }
    let mut worst: Option<(f64, String)> = None;
    for ((cache, context), ladder) in &ladders {
        let [(few, alone), .., (many, beside)] = ladder[..] else {
            return Err(at.undefined(Why::NoLadder, None));
        };
        let ratio = beside / alone;
        if worst.as_ref().is_none_or(|(most, _)| ratio > *most) {
            let remark = format!(
                "TPOT {alone:.4} ms at batch {few}, {beside:.4} ms at batch {many}, {}, context {context}",
                cache.name()
            );
            worst = Some((ratio, remark));
        }
    }
    let (value, remark) = worst.ok_or_else(|| at.undefined(Why::NoLadder, None))?;
    let mut measure = LaunchMeasure::single(value, n);
    measure.remarks.push(remark);
    Ok(measure)
}
