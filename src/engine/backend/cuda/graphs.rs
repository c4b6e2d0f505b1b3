//! Which parts of a step are recorded, and the recordings.
//!
//! Main types: [`Ladder`], pure: to how many rows a batch is filled up, and into how many parts attention
//! is split; [`Graphs`], what was recorded for each. All are recorded before the first request, so that
//! their number never grows with requests. Refuses to know: kernels.

use std::collections::HashMap;

use crate::engine::backend::Part;

/// Parts that a row's keys may be split into.
const SPLITS: [usize; 4] = [1, 4, 16, 64];

/// Keys that are worth a part of their own: fewer are read faster than parts are joined.
const SPLIT_KEYS: usize = 256;

/// Blocks of attention for each multiprocessor that hide each other's waiting; more parts than that bring
/// only more to join.
const BLOCKS_EACH: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ladder {
    pub(super) kv_heads: usize,
    pub(super) multiprocessors: usize,
    /// Most positions that a row attends to.
    pub(super) longest: usize,
    /// Most sequences that decode together.
    pub(super) sequences: usize,
    /// Most rows that are answered together.
    pub(super) answers: usize,
}

/// One recording: a part of the step for so many rows, with attention split so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) part: Part,
    pub(super) rows: usize,
    pub(super) splits: usize,
}

impl Ladder {
    /// Parts for `rows` rows of which one attends to `longest` positions.
    pub(super) fn splits(&self, rows: usize, longest: usize) -> usize {
        let wanted = longest.div_ceil(SPLIT_KEYS);
        let blocks = self.kv_heads * rows.max(1);
        let most = BLOCKS_EACH * self.multiprocessors / blocks;
        let allowed = SPLITS.into_iter().filter(|splits| *splits <= most.max(1));
        let mut allowed: Vec<usize> = allowed.collect();
        let greatest = allowed.pop().unwrap_or(1);
        let enough = allowed.into_iter().find(|splits| *splits >= wanted);
        enough.unwrap_or(greatest)
    }

    /// Rows that a batch of `rows` decoding sequences is filled up to; `None` where none was recorded.
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
                    Part::Network => self.all_splits(rows),
                    Part::Answers => vec![1],
                };
                let shape = |splits| Shape { part, rows, splits };
                shapes.extend(splits.into_iter().map(shape));
            }
        }
        shapes
    }

    /// All that [`splits`](Self::splits) says for so many rows, ascending.
    fn all_splits(&self, rows: usize) -> Vec<usize> {
        let bounds = SPLITS.into_iter().map(|splits| splits * SPLIT_KEYS);
        let longest = bounds
            .chain([self.longest])
            .map(|keys| keys.min(self.longest));
        let mut all: Vec<usize> = longest.map(|longest| self.splits(rows, longest)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Rows times splits, of the launch with most of them, where as many as `rows` rows come one by one.
    pub(super) fn most_partials(&self, rows: usize) -> usize {
        let counts = (1..=rows).map(|rows| rows * self.splits(rows, self.longest));
        counts.max().unwrap_or(1)
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

    fn ladder(sequences: usize, longest: usize) -> Ladder {
        Ladder {
            kv_heads: 8,
            multiprocessors: 132,
            longest,
            sequences,
            answers: 16,
        }
    }

    /// Whatever a step brings, its recording is among those that were made.
    #[test]
    fn every_step_finds_its_recording() {
        for sequences in [1, 2, 3, 8, 48, 64, 65] {
            for longest in [1, 16, 255, 256, 257, 5_000, 40_960] {
                let ladder = ladder(sequences, longest);
                let shapes = ladder.shapes();
                for rows in 1..=sequences {
                    let bucket = ladder.bucket(Part::Network, rows).unwrap();
                    assert!(bucket >= rows && bucket < 2 * rows.max(1) + usize::from(rows == 1));
                    for context in 1..=longest.min(700) {
                        let splits = ladder.splits(bucket, context * longest / longest.min(700));
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
    fn long_contexts_are_split_until_the_gpu_is_busy() {
        let ladder = ladder(64, 40_960);
        let splits = |rows, longest| ladder.splits(rows, longest);
        assert_eq!((splits(1, 1), splits(1, 256), splits(1, 257)), (1, 1, 4));
        assert_eq!(
            (splits(1, 1_024), splits(1, 8_192), splits(1, 40_960)),
            (4, 64, 64)
        );
        assert_eq!(
            (splits(4, 40_960), splits(32, 40_960), splits(64, 40_960)),
            (16, 1, 1)
        );
        assert_eq!(ladder.most_partials(64), 64);
    }
}
