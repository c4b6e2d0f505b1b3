//! CUDA graphs of a step's parts, and the sizes for which they are captured.
//!
//! Main types: [`CaptureSizes`], pure: to how many rows a batch is filled up, and to how many splits of attention;
//! [`Graphs`], the graph of each. All are captured before the first request, so that their number never
//! grows with requests. Refuses to know: kernels.

use std::collections::HashMap;

use super::launch::MOST_PARTS;
use super::splits::{Slots, TURN_KEYS};
use crate::backend::Part;

/// Numbers of splits beyond one a row that are captured, in times what the GPU holds at once, rounded up to the whole.
const WAVES: [usize; 3] = [1, 2, 4];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CaptureSizes {
    pub(super) slots: Slots,
    /// Most positions that a row attends to.
    pub(super) longest: usize,
    /// Most sequences that decode together.
    pub(super) sequences: usize,
    /// Most rows that are answered together.
    pub(super) answers: usize,
}

/// Size of a graph: the part of the step, its rows, and its splits of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) part: Part,
    pub(super) rows: usize,
    pub(super) splits: usize,
}

impl CaptureSizes {
    /// Numbers of splits for which a graph of this many rows is captured, ascending: one per row, then as many as
    /// fill the GPU once, twice and so on, up to the number of keys.
    fn split_counts(&self, rows: usize) -> Vec<usize> {
        let useful = rows * self.longest.div_ceil(TURN_KEYS).clamp(1, MOST_PARTS);
        let more = WAVES.map(|waves| (rows / self.slots.0 + waves) * self.slots.0);
        let mut counts = vec![rows];
        counts.extend(more.map(|count| count.min(useful)));
        counts.dedup();
        counts
    }

    /// Most splits of so many rows.
    pub(super) fn most_splits(&self, rows: usize) -> usize {
        self.split_counts(rows).last().copied().unwrap_or(rows)
    }

    /// The number that so many splits of `rows` rows are filled up to.
    pub(super) fn split_bucket(&self, rows: usize, splits: usize) -> usize {
        let mut counts = self.split_counts(rows).into_iter();
        counts.find(|count| *count >= splits).unwrap_or(splits)
    }

    /// Rows that a batch of `rows` decoding sequences is filled up to; `None` where none was captured.
    pub(super) fn bucket(&self, part: Part, rows: usize) -> Option<usize> {
        let most = self.most(part);
        (rows >= 1 && rows <= most).then(|| rows.next_power_of_two().min(most))
    }

    fn most(&self, part: Part) -> usize {
        match part {
            Part::Network => self.sequences,
            Part::Answers => self.answers,
        }
    }

    fn buckets(&self, part: Part) -> Vec<usize> {
        let mut buckets: Vec<usize> = Vec::new();
        while let Some(next) = self.bucket(part, buckets.last().map_or(1, |last| last + 1)) {
            buckets.push(next);
        }
        buckets
    }

    /// Everything to record.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for part in [Part::Network, Part::Answers] {
            for rows in self.buckets(part) {
                let splits = match part {
                    Part::Network => self.split_counts(rows),
                    Part::Answers => vec![1],
                };
                let shape = |splits| Shape { part, rows, splits };
                shapes.extend(splits.into_iter().map(shape));
            }
        }
        shapes
    }
}

/// Recordings by shape.
pub(super) struct Graphs<G> {
    recorded: HashMap<Shape, G>,
}

impl<G> Graphs<G> {
    pub(super) fn new() -> Self {
        Self {
            recorded: HashMap::new(),
        }
    }

    pub(super) fn get(&self, shape: &Shape) -> Option<&G> {
        self.recorded.get(shape)
    }

    pub(super) fn keep(&mut self, shape: Shape, graph: G) {
        self.recorded.insert(shape, graph);
    }

    pub(super) fn count(&self) -> u64 {
        self.recorded.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(sequences: usize, longest: usize) -> CaptureSizes {
        CaptureSizes {
            slots: Slots(16),
            longest,
            sequences,
            answers: 16,
        }
    }

    /// Whatever a step brings, its graph is among those that were captured.
    #[test]
    fn every_step_finds_its_recording() {
        for sequences in [1, 2, 3, 8, 48, 64, 65] {
            for longest in [1, 16, 128, 129, 256, 257, 5_000, 40_960] {
                let ladder = ladder(sequences, longest);
                let shapes = ladder.shapes();
                for rows in 1..=sequences {
                    let bucket = ladder.bucket(Part::Network, rows).unwrap();
                    assert!(bucket >= rows && bucket < 2 * rows.max(1) + usize::from(rows == 1));
                    let most = ladder.most_splits(bucket);
                    for short in (0..40).map(|at| 1 + at * (longest - 1) / 39) {
                        let mut keys = vec![1; bucket];
                        keys[..rows].fill(short);
                        keys[rows / 2] = longest;
                        let parts = ladder.slots.parts(&keys, most).iter().sum();
                        let splits = ladder.split_bucket(bucket, parts);
                        assert!(splits >= parts);
                        let shape = Shape {
                            part: Part::Network,
                            rows: bucket,
                            splits,
                        };
                        assert!(shapes.contains(&shape), "{shape:?} {ladder:?}");
                    }
                }
                assert_eq!(ladder.bucket(Part::Network, sequences + 1), None);
            }
        }
        assert_eq!(
            ladder(48, 100).buckets(Part::Network),
            [1, 2, 4, 8, 16, 32, 48]
        );
        assert_eq!(ladder(4, 100).buckets(Part::Answers), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn splits_fill_the_gpu_a_few_times() {
        let counts = |rows, longest| ladder(64, longest).split_counts(rows);
        assert_eq!(counts(1, 40_960), [1, 16, 32, 64]);
        assert_eq!(counts(16, 40_960), [16, 32, 48, 80]);
        assert_eq!(counts(64, 40_960), [64, 80, 96, 128]);
        // What there are no keys for is not captured.
        assert_eq!(counts(1, 64), [1]);
        assert_eq!(counts(1, 600), [1, 10]);
        assert_eq!(counts(8, 600), [8, 16, 32, 64]);
        // However many rows there are, a long one can be divided; and more rows never have less room.
        for slots in [1, 7, 8, 16, 33, 132] {
            let ladder = CaptureSizes {
                slots: Slots(slots),
                ..ladder(64, 40_960)
            };
            for rows in 1..=512 {
                let enough = (rows + 3 * slots).min(rows * MOST_PARTS);
                assert!(ladder.most_splits(rows) >= enough);
                assert!(ladder.most_splits(rows) <= ladder.most_splits(rows + 1));
            }
        }
    }

    /// A long row among short ones, and rows that do not divide the GPU, are done within a half more than the least
    /// time that any division takes: all slots busy all the time. As a step has them, with rows of padding.
    #[test]
    fn contexts_that_differ_share_the_gpu() {
        let beside = |long: usize, short: usize, count| {
            let mut keys = vec![short; count];
            keys.insert(count / 2, long);
            keys
        };
        let ladder = ladder(128, 40_960);
        for mut keys in [
            beside(8_192, 200, 8),
            beside(32_768, 500, 31),
            beside(32_768, 500, 127),
            vec![8_192; 5],
            vec![8_192; 9],
            vec![8_192; 17],
        ] {
            let work: usize = keys.iter().map(|keys| keys.div_ceil(TURN_KEYS)).sum();
            let rows = ladder.bucket(Part::Network, keys.len()).unwrap();
            keys.resize(rows, 1);
            let each = ladder.slots.part_keys(&keys, ladder.most_splits(rows));
            let (took, least) = (ladder.slots.turns(&keys, each), work.div_ceil(16));
            let whole = ladder.slots.turns(&keys, 40_960);
            println!("{took} of {whole} turns, {least} at the least");
            assert!(
                took < whole && took <= least * 3 / 2 + 12,
                "{keys:?}: {took} of {least}"
            );
        }
    }
}
