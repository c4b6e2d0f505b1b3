//! Numbers across the cells of a matrix: which failed, how streamed and whole answers compare, the line of
//! TPOT over context, the ladder of throughput over batches.

mod contention;
mod stream_mismatches;

pub use contention::contention;
pub use stream_mismatches::stream_mismatches;

use super::correctness::answers::Answers;
use super::requests::{Cell, cell_of};
use super::timing::{request, throughput};
use super::value::Place;
use super::{LaunchMeasure, Undefined, Why};
use crate::plan::Matrix;
use crate::record::{CacheState, CellOutcome, CellVerdict, Phase, Sample, Void, VoidRule};
use crate::stats;
use std::collections::BTreeMap;

/// Of the greatest throughput: where the ladder has reached so much of it, it saturates.
const SATURATED: f64 = 0.95;

/// Samples of the measured phase by cell.
fn by_cell<'a>(
    at: &Place<'_>,
    samples: Vec<&'a Sample>,
) -> Result<BTreeMap<Cell, Vec<&'a Sample>>, Undefined> {
    let mut cells: BTreeMap<Cell, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let cell = cell_of(sample).ok_or_else(|| at.undefined(Why::NoCell, Some(sample)))?;
        cells.entry(cell).or_default().push(sample);
    }
    Ok(cells)
}

/// Cells that FAIL: an answer failed, was empty or degenerate. A cell whose answers are otherwise void, or
/// differ from the answer that the same prompt got alone, gets a WARN in the remarks; the others are OK.
/// Every cell of the plan must be there.
pub fn failed_cells(at: &Place<'_>, matrix: &Matrix) -> Result<LaunchMeasure, Undefined> {
    let answers = Answers::of(at);
    let mut measured = at.all();
    measured.retain(|s| s.phase == Phase::Measured);
    let n = measured.len();
    let cells = by_cell(at, measured)?;
    if let Some(missing) = planned(at, matrix).find(|cell| !cells.contains_key(cell)) {
        return Err(at.undefined(Why::CellMissing(missing.to_string()), None));
    }
    let mut remarks = Vec::new();
    let mut verdicts = Vec::new();
    for (cell, samples) in &cells {
        let (outcome, why) = outcome(samples, &answers);
        if outcome != CellOutcome::Ok {
            remarks.push(format!("{} {cell}: {why}", outcome.name()));
        }
        verdicts.push(cell.verdict(outcome, samples));
    }
    let of = |outcome| verdicts.iter().filter(|v| v.outcome == outcome).count();
    let (ok, warned, failed) = (
        of(CellOutcome::Ok),
        of(CellOutcome::Warn),
        of(CellOutcome::Fail),
    );
    remarks.sort();
    remarks.insert(0, format!("{ok} cells OK, {warned} WARN, {failed} FAIL"));
    let mut measure = LaunchMeasure::single(failed as f64, n);
    measure.remarks = remarks;
    measure.cells = verdicts;
    Ok(measure)
}

/// What the answers of a cell show, and why that is not OK.
fn outcome(samples: &[&Sample], answers: &Answers<'_>) -> (CellOutcome, String) {
    use CellOutcome::{Fail, Ok, Warn};
    let n = samples.len();
    // An answer that base gave whole and head did not is head's fault.
    let is_blamed = |sample: &Sample, void: &Void| match void.rule {
        VoidRule::FinishReason => answers.in_base(sample).is_some(),
        rule => rule.blames_engine(),
    };
    let voids = |blamed: bool| {
        let voids = samples.iter().filter_map(|s| Some((s, s.void.as_ref()?)));
        let voids = voids.filter(move |(s, void)| is_blamed(s, void) == blamed);
        voids.map(|(_, void)| void)
    };
    if let Some(first) = voids(true).next() {
        let (k, rule) = (voids(true).count(), first.rule.name());
        return (
            Fail,
            format!("{k} of {n} answers, {rule}: {}", first.detail),
        );
    }
    let wrong: Vec<String> = samples.iter().filter_map(|s| answers.wrong(s)).collect();
    if let Some(first) = wrong.first() {
        return (
            Fail,
            format!("{} of {n} answers wrong: {first}", wrong.len()),
        );
    }
    if let Some(first) = voids(false).next() {
        let (k, rule) = (voids(false).count(), first.rule.name());
        return (
            Warn,
            format!("{k} of {n} answers, {rule}: {}", first.detail),
        );
    }
    let from_alone = samples.iter().filter(|s| answers.differs_from_alone(s));
    let from_base = samples.iter().filter(|s| answers.differs_from_base(s));
    match (from_alone.count(), from_base.count()) {
        (0, 0) => match samples.iter().filter(|s| s.is_blank()).count() {
            0 => (Ok, String::new()),
            k => (Warn, format!("{k} of {n} answers are blank")),
        },
        (0, k) => (
            Warn,
            format!("{k} of {n} answers differ from base's to the same prompts"),
        ),
        (k, _) => (
            Warn,
            format!("{k} of {n} answers differ from what the same prompt got alone"),
        ),
    }
}

impl Cell {
    fn verdict(self, outcome: CellOutcome, samples: &[&Sample]) -> CellVerdict {
        let sound = samples.iter().filter(|s| s.may_enter());
        let times: Vec<f64> = sound.filter_map(|s| request::e2e_ms(s).ok()).collect();
        CellVerdict {
            batch: self.batch,
            cache: self.cache,
            context: self.context,
            streamed: self.streamed,
            outcome,
            e2e_ms: stats::median(&times),
        }
    }
}

/// The plan's cells that belong to the check's part.
fn planned(at: &Place<'_>, matrix: &Matrix) -> impl Iterator<Item = Cell> {
    let part = at.part.clone();
    let matrix = matrix.clone();
    let mut cells = Vec::new();
    for &streamed in &matrix.streamed {
        for &cache in &matrix.caches {
            for &context in &matrix.contexts {
                cells.extend(matrix.batches.iter().map(|&batch| Cell {
                    streamed,
                    cache,
                    context,
                    batch,
                }));
            }
        }
    }
    cells.into_iter().filter(move |cell| {
        part.streamed.is_none_or(|s| s == cell.streamed)
            && part.cache.is_none_or(|c| c == cell.cache)
            && part.context.is_none_or(|c| c == cell.context)
            && part.batch.is_none_or(|b| b == cell.batch)
    })
}

/// exp of the greatest |ln(median E2E whole / median E2E streamed)| over the cells that were asked both
/// ways: 1 says that streaming makes no difference, whichever of the two is slower.
pub fn stream_parity(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let n = samples.len();
    let mut medians = BTreeMap::new();
    for (cell, samples) in by_cell(at, samples)? {
        let times = values(at, &samples, request::e2e_ms)?;
        let median = stats::median(&times).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
        medians.insert(cell, median);
    }
    let mut worst: Option<(f64, Cell, f64)> = None;
    for (cell, streamed) in medians.iter().filter(|(cell, _)| cell.streamed) {
        let twin = Cell {
            streamed: false,
            ..*cell
        };
        let Some(whole) = medians.get(&twin) else {
            continue;
        };
        let ratio = whole / streamed;
        let parity = ratio.ln().abs().exp();
        if worst.is_none_or(|(most, ..)| parity > most) {
            worst = Some((parity, *cell, ratio));
        }
    }
    let (value, cell, ratio) = worst.ok_or_else(|| at.undefined(Why::NoPair, None))?;
    let mut measure = LaunchMeasure::single(value, n);
    let Cell {
        cache,
        context,
        batch,
        ..
    } = cell;
    measure.remarks.push(format!(
        "most at batch {batch}, {}, context {context}: a whole answer takes {ratio:.3} times the streamed one's time",
        cache.name()
    ));
    Ok(measure)
}

/// TPOT at context 0 in ms, by the line through the cells' medians with the least absolute deviations.
pub fn tpot_base(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let (line, samples) = tpot_line(at)?;
    Ok(line.measure(line.base, samples))
}

/// What a token of context adds to TPOT, in µs, by the same line.
pub fn tpot_slope(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let (line, samples) = tpot_line(at)?;
    Ok(line.measure(line.slope * 1e3, samples))
}

/// TPOT over context: a line through a matrix's cells or a conversation's turns.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextLine {
    /// Context in tokens, and the median TPOT there, ms.
    pub points: Vec<(f64, f64)>,
    /// At context 0, ms.
    pub base: f64,
    /// What a token of context adds, ms.
    pub slope: f64,
}

impl ContextLine {
    fn measure(&self, value: f64, samples: usize) -> LaunchMeasure {
        let mut measure = LaunchMeasure::single(value, samples);
        let points = self
            .points
            .iter()
            .map(|(context, tpot)| format!("{tpot:.4} ms at {context:.0}"));
        measure.remarks.push(format!(
            "TPOT = {:.4} ms + {:.4} µs × context; {}",
            self.base,
            self.slope * 1e3,
            points.collect::<Vec<_>>().join(", ")
        ));
        measure
    }
}

/// The line through the cells' medians, and the samples behind it. A cell's context is that of its middle token: the prompt
/// and half of the answer.
pub fn tpot_line(at: &Place<'_>) -> Result<(ContextLine, usize), Undefined> {
    let mut samples = at.measured()?;
    samples.retain(|s| s.streamed);
    let n = samples.len();
    let mut points = Vec::new();
    for (cell, samples) in by_cell(at, samples)? {
        let tpots = values(at, &samples, request::tpot_ms)?;
        let median = stats::median(&tpots).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
        let answered = samples.first().and_then(|s| s.tokens.completion);
        let context = f64::from(cell.context) + f64::from(answered.unwrap_or(0)) / 2.0;
        points.push((context, median));
    }
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (base, slope) = stats::least_absolute_line(&x, &y)
        .ok_or_else(|| at.undefined(Why::TooFewContexts { n: x.len() }, None))?;
    let line = ContextLine {
        points,
        base,
        slope,
    };
    Ok((line, n))
}

/// Least over the ladder's steps of throughput at a batch / throughput at the batch below, for each
/// combination of the other axes. Below 1 a larger batch brings less.
pub fn throughput_step(at: &Place<'_>, matrix: &Matrix) -> Result<LaunchMeasure, Undefined> {
    if matrix.batches.len() < 2 || at.part.batch.is_some() {
        return Err(at.undefined(Why::NoLadder, None));
    }
    let samples = at.measured()?;
    let n = samples.len();
    let mut ladders: BTreeMap<(bool, CacheState, u32), Vec<(u32, f64)>> = BTreeMap::new();
    for (cell, samples) in by_cell(at, samples)? {
        let rate = throughput::of_runs(&samples).map_err(|(why, s)| at.undefined(why, s))?;
        let ladder = (cell.streamed, cell.cache, cell.context);
        ladders.entry(ladder).or_default().push((cell.batch, rate));
    }
    let mut worst = f64::INFINITY;
    let mut remarks = Vec::new();
    for ladder in ladders.values_mut() {
        ladder.sort_unstable_by_key(|(batch, _)| *batch);
        let steps = ladder.windows(2).map(|pair| pair[1].1 / pair[0].1);
        worst = steps.fold(worst, f64::min);
        remarks.extend(saturation(ladder));
    }
    if !worst.is_finite() {
        return Err(at.undefined(Why::NoLadder, None));
    }
    let mut measure = LaunchMeasure::single(worst, n);
    measure.remarks = remarks;
    Ok(measure)
}

fn saturation(ladder: &[(u32, f64)]) -> Option<String> {
    let most = ladder.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (batch, _) = ladder.iter().find(|(_, rate)| *rate >= SATURATED * most)?;
    let shown = ladder
        .iter()
        .map(|(batch, rate)| format!("{rate:.0} at {batch}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    Some(format!("tokens/s: {shown}; saturates at {batch} in flight"))
}

fn values(
    at: &Place<'_>,
    samples: &[&Sample],
    value: fn(&Sample) -> Result<f64, Why>,
) -> Result<Vec<f64>, Undefined> {
    let values = samples.iter();
    values
        .map(|s| value(s).map_err(|why| at.undefined(why, Some(s))))
        .collect()
}

#[cfg(test)]
mod tests;
