//! Which parts of a step are recorded, and the recordings.
//!
//! Main types: [`Ladder`], pure: to how many rows a batch is filled up, and into how many parts attention
//! is split; [`Graphs`], what was recorded for each. All are recorded before the first request, so that
//! their number never grows with requests. Refuses to know: kernels.

use std::collections::HashMap;

use super::launch::MOST_SPLITS;
use crate::engine::backend::Part;

/// Keys that a block of attention takes in one turn, with heads of 128 numbers of 2 bytes.
const TURN_KEYS: usize = 64;

/// Keys that one block reads faster than the parts of several are joined. Predicted, not measured.
const WHOLE_KEYS: usize = 2 * TURN_KEYS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ladder {
    /// Blocks of attention for each row and part.
    pub(super) row_blocks: usize,
    /// Blocks that the GPU holds at once: what a part reads begins with waiting, and more parts than that would
    /// begin one after the other.
    pub(super) at_once: usize,
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
    /// Parts for `rows` rows of which one attends to `longest` positions: a power of two.
    pub(super) fn splits(&self, rows: usize, longest: usize) -> usize {
        if longest <= WHOLE_KEYS {
            return 1;
        }
        let wanted = longest.div_ceil(TURN_KEYS).next_power_of_two();
        let most = self.at_once / (self.row_blocks * rows.max(1));
        let most = 1 << most.max(1).ilog2();
        wanted.min(most).min(MOST_SPLITS)
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
        let doubled = |keys: &usize| (*keys < self.longest).then_some(keys * 2);
        let longest = std::iter::successors(Some(WHOLE_KEYS), doubled);
        let longest = longest.map(|keys| keys.min(self.longest));
        let mut all: Vec<usize> = longest.map(|longest| self.splits(rows, longest)).collect();
        all.dedup();
        all
    }

    /// Rows times splits, of the launch with most of them, where as many as `rows` rows come one by one. A
    /// context that is not split leaves none; one there is always, for launches to name.
    pub(super) fn most_partials(&self, rows: usize) -> usize {
        let split = (1..=rows).map(|rows| (rows, self.splits(rows, self.longest)));
        let split = split.filter(|(_, splits)| *splits > 1);
        split.map(|(rows, splits)| rows * splits).max().unwrap_or(1)
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
            row_blocks: 8,
            at_once: 132,
            longest,
            sequences,
            answers: 16,
        }
    }

    /// Whatever a step brings, its recording is among those that were made.
    #[test]
    fn every_step_finds_its_recording() {
        for sequences in [1, 2, 3, 8, 48, 64, 65] {
            for longest in [1, 16, 128, 129, 256, 257, 5_000, 40_960] {
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
    fn long_contexts_are_split_until_the_gpu_is_full() {
        let ladder = ladder(64, 40_960);
        let splits = |rows, longest| ladder.splits(rows, longest);
        assert_eq!((splits(1, 1), splits(1, 128), splits(1, 129)), (1, 1, 4));
        let of_one = [256, 257, 1_024, 40_960].map(|longest| splits(1, longest));
        assert_eq!(of_one, [4, 8, 16, 16]);
        let of_many = [2, 4, 8, 16, 64].map(|rows| splits(rows, 40_960));
        assert_eq!(of_many, [8, 4, 2, 1, 1]);
        assert_eq!(ladder.all_splits(1), [1, 4, 8, 16]);
        assert_eq!(ladder.most_partials(64), 16);
        let small = Ladder {
            row_blocks: 1,
            ..ladder
        };
        assert_eq!(small.splits(1, 40_960), 64);
    }
}
