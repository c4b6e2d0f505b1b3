//! A paged cache with sequences in it, and the rows that attend to them: what the kernels for single rows, for
//! decoding and for tiles are held against.

use engine::Element;
use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{Heads, RowsAttention, SPLIT_INTS};

use crate::kernel_parity::lab::{Lab, Placed, close, rounding};

pub(crate) const PAGE: usize = 16;

/// f32 sums, and exponentials within two units in the last place.
const SUM: f64 = 4e-6;

/// A sequence in the cache: which page holds each of its page indices.
pub(crate) struct Sequence {
    pages: Vec<usize>,
    /// Where its list begins in what the kernel reads.
    pub(crate) first: usize,
    gap: usize,
}

/// A cache with pages in random order, NaN wherever no sequence has a key.
pub(crate) struct Cache<D: Device> {
    pub(crate) keys: Placed<D::Memory>,
    pub(crate) values: Placed<D::Memory>,
    pub(crate) pages: usize,
    pub(crate) lists: D::Memory,
    pub(crate) sequences: Vec<Sequence>,
    heads: Heads,
}

impl<D: Device> Cache<D> {
    /// For sequences of so many positions each, of which all but `gap` pages after the sink's are held.
    pub(crate) fn new(
        lab: &mut Lab<D>,
        heads: Heads,
        lengths: &[usize],
        sink: usize,
        gap: usize,
    ) -> Self {
        let Heads { kv_heads, d, .. } = heads;
        let sink_pages = sink.div_ceil(PAGE);
        let held = |length: usize| {
            (0..length.div_ceil(PAGE))
                .filter(move |index| *index < sink_pages || *index >= sink_pages + gap)
        };
        let pages: usize = lengths
            .iter()
            .map(|length| held(*length).count())
            .sum::<usize>()
            + 2;
        let mut free: Vec<usize> = (0..pages).collect();
        for at in (1..pages).rev() {
            let other = lab.below(at + 1);
            free.swap(at, other);
        }
        let size = pages * kv_heads * PAGE * d;
        let (mut keys, mut values) = (vec![f32::NAN; size], vec![f32::NAN; size]);
        let (mut lists, mut sequences) = (Vec::new(), Vec::new());
        for length in lengths {
            let mut own = vec![usize::MAX; length.div_ceil(PAGE)];
            let first = lists.len();
            for index in held(*length) {
                let page = free.pop().unwrap();
                own[index] = page;
                lists.push(page as i32);
                for position in index * PAGE..(*length).min((index + 1) * PAGE) {
                    for head in 0..kv_heads {
                        let start = ((page * kv_heads + head) * PAGE + position % PAGE) * d;
                        for i in start..start + d {
                            (keys[i], values[i]) = (lab.number() * 2.0, lab.number());
                        }
                    }
                }
            }
            sequences.push(Sequence {
                pages: own,
                first,
                gap,
            });
        }
        lists.push(0);
        Self {
            keys: lab.place_elements(&keys),
            values: lab.place_elements(&values),
            pages,
            lists: lab.ints(&lists),
            sequences,
            heads,
        }
    }

    /// Where a position's key and value begin.
    pub(crate) fn slot(&self, sequence: usize, position: usize, kv_head: usize) -> usize {
        let page = self.sequences[sequence].pages[position / PAGE];
        assert_ne!(page, usize::MAX, "a position in the gap");
        ((page * self.heads.kv_heads + kv_head) * PAGE + position % PAGE) * self.heads.d
    }

    /// One head of one row: softmax over the positions with their queries, times the values.
    pub(crate) fn attend(
        &self,
        sequence: usize,
        head: usize,
        seen: &[(usize, &[f64])],
        scale: f64,
    ) -> Vec<f64> {
        let Heads { heads, kv_heads, d } = self.heads;
        let kv_head = head / (heads / kv_heads);
        let score = |(position, q): &(usize, &[f64])| {
            let start = self.slot(sequence, *position, kv_head);
            let key = &self.keys.numbers[start..start + d];
            q.iter().zip(key).map(|(a, b)| a * b).sum::<f64>() * scale
        };
        let scores: Vec<f64> = seen.iter().map(score).collect();
        let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores
            .iter()
            .map(|score| (score - greatest).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; d];
        for ((position, _), weight) in seen.iter().zip(weights) {
            let start = self.slot(sequence, *position, kv_head);
            for (out, value) in out.iter_mut().zip(&self.values.numbers[start..start + d]) {
                *out += value * weight / total;
            }
        }
        out
    }
}

/// Tolerance of an output whose values are below 1: probabilities are rounded to the element on tensor
/// cores, and the result is.
pub(crate) fn tolerance(element: Element) -> (f64, f64) {
    (2.0 * rounding(element) + SUM, rounding(element) / 2.0 + SUM)
}

/// The last row of each sequence, which attends by itself.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) lengths: Vec<usize>,
    pub(crate) heads: Heads,
    /// Sink and window; 0 for none.
    pub(crate) window: (usize, usize),
    /// Parts that a row's keys are divided into at the most.
    pub(crate) parts: usize,
}

impl Rows {
    /// Rows are divided into all the parts, none and half of them.
    fn parts_of(&self, row: usize) -> usize {
        [self.parts, 1, self.parts.div_ceil(2)][row % 3]
    }

    /// Who does what: the last rows first, with nothing to do between two.
    fn splits(&self, sequences: &[Sequence]) -> Vec<[i32; SPLIT_INTS]> {
        let mut splits = Vec::new();
        for (row, (sequence, position)) in sequences.iter().zip(self.positions()).enumerate().rev()
        {
            let (first, parts) = (splits.len(), self.parts_of(row));
            let (position, first_page, gap) = (position as usize, sequence.first, sequence.gap);
            splits.extend((0..parts).map(|part| {
                [row, position, first_page, gap, part, parts, first, 0].map(|int| int as i32)
            }));
            splits.push([-1; SPLIT_INTS]);
        }
        splits
    }

    /// Pages behind the sink's that no sequence needs any more.
    pub(crate) fn gap(&self) -> usize {
        let (sink, window) = self.window;
        let shortest = self.lengths.iter().min().unwrap();
        let hidden = match window {
            0 => 0,
            _ => shortest.saturating_sub(window) / PAGE,
        };
        hidden.saturating_sub(sink.div_ceil(PAGE))
    }

    pub(crate) fn positions(&self) -> Vec<i32> {
        let last = |length: &usize| *length as i32 - 1;
        self.lengths.iter().map(last).collect()
    }

    /// Positions that the last row of a sequence sees; true: under the sink's angle.
    pub(crate) fn seen(&self, length: usize) -> Vec<(usize, bool)> {
        let (sink, window) = self.window;
        let far = window > 0 && length > sink + window;
        let sees = |p: &usize| !far || *p < sink || p + window >= length;
        let seen = (0..length).filter(sees);
        seen.map(|p| (p, far && p < sink)).collect()
    }
}

/// The rest of what a launch for them takes, and what comes out of it.
pub(crate) struct Batch<D: Device> {
    splits: D::Memory,
    split_count: usize,
    partial: D::Memory,
    partial_ml: D::Memory,
    arrived: D::Memory,
    pub(crate) out: D::Memory,
    scale: f32,
}

impl<D: Device> Batch<D> {
    pub(crate) fn new(lab: &mut Lab<D>, case: &Rows, sequences: &[Sequence]) -> Self {
        let Heads { heads, d, .. } = case.heads;
        let splits = case.splits(sequences);
        let (n, parts) = (sequences.len(), splits.len() * heads);
        Self {
            splits: lab.ints(splits.as_flattened()),
            split_count: splits.len(),
            partial: lab.poisoned_floats(parts * d),
            partial_ml: lab.poisoned_floats(parts * 2),
            arrived: lab.ints(&vec![0; n * heads]),
            out: lab.poisoned_elements(n * heads * d),
            scale: 1.0 / (d as f32).sqrt(),
        }
    }

    pub(crate) fn attention(&self, case: &Rows, cache: &Cache<D>) -> RowsAttention {
        let (sink, window) = case.window;
        RowsAttention {
            keys: cache.keys.view(),
            values: cache.values.view(),
            cache_pages: cache.pages,
            pages: cache.lists.view(),
            splits: self.splits.view(),
            split_count: self.split_count,
            is_joined: case.parts > 1,
            partial: self.partial.view(),
            partial_ml: self.partial_ml.view(),
            arrived: self.arrived.view(),
            out: self.out.view(),
            scale: self.scale,
            sink,
            window,
        }
    }

    /// Holds what came out against the cache, with the queries of (row, head, whether under the sink's angle).
    pub(crate) fn check(
        &self,
        lab: &mut Lab<D>,
        kernel: &str,
        case: &Rows,
        cache: &Cache<D>,
        query: impl Fn(usize, usize, bool) -> Vec<f64>,
    ) {
        let name = format!("{kernel} {case:?}");
        let is_zero = lab.bytes(&self.arrived).iter().all(|byte| *byte == 0);
        assert!(is_zero, "{name}: the count");
        let mut want = Vec::new();
        for (row, length) in case.lengths.iter().enumerate() {
            for head in 0..case.heads.heads {
                let [near, far] = [false, true].map(|by_sink| query(row, head, by_sink));
                let of = |(p, by_sink)| (p, if by_sink { &far[..] } else { &near[..] });
                let seen: Vec<(usize, &[f64])> = case.seen(*length).into_iter().map(of).collect();
                want.extend(cache.attend(row, head, &seen, f64::from(self.scale)));
            }
        }
        let (relative, absolute) = tolerance(lab.element());
        let out = lab.read_elements(&self.out);
        close(&name, &out, &want, relative, absolute);
    }
}

pub(crate) fn heads(heads: usize, kv_heads: usize, d: usize) -> Heads {
    Heads { heads, kv_heads, d }
}

/// Every head size, in groups of one and two; every group; wide heads in groups that one block takes in turns, and
/// that two take.
pub(crate) fn sizes() -> Vec<Rows> {
    let by_size = [16, 48, 64, 80, 96, 128, 256].into_iter().flat_map(|d| {
        [(1, 1), (2, 4)].map(|(group, parts)| Rows {
            lengths: vec![1, 15, 16, 17, 40],
            heads: heads(2 * group, 2, d),
            window: (0, 0),
            parts,
        })
    });
    let by_group = (1..=9).map(|group| Rows {
        lengths: vec![17, 33, 3],
        heads: heads(group, 1, 64),
        window: (0, 0),
        parts: [1, 4][group % 2],
    });
    let wide = [(8, 1), (8, 4), (9, 4)].map(|(group, parts)| Rows {
        lengths: vec![17, 300, 3],
        heads: heads(2 * group, 2, 256),
        window: (0, 0),
        parts,
    });
    by_size.chain(by_group).chain(wide).collect()
}

pub(crate) fn contexts() -> Vec<Rows> {
    let of = |parts| {
        let case = |lengths, heads| Rows {
            lengths,
            heads,
            window: (0, 0),
            parts,
        };
        let many = (0..33).map(|row| 1 + row * 5).collect();
        // A long row takes long to emulate: in few parts a shorter one.
        let longest = if parts < 16 { 1_500 } else { 4_095 };
        [
            case(vec![longest, 1, 1_000], heads(2, 1, 128)),
            case(many, heads(4, 2, 48)),
        ]
    };
    [1, 4, 16, 64].into_iter().flat_map(of).collect()
}

pub(crate) fn windows() -> Vec<Rows> {
    let windows = [(0, 1), (0, 23), (4, 20), (16, 32), (21, 40), (37, 5)];
    let mut cases = Vec::new();
    for window in windows {
        for parts in [1, 4] {
            for lengths in [vec![200, 217, 301], vec![3, 30, 61, 100]] {
                cases.push(Rows {
                    lengths,
                    heads: heads(3, 1, 64),
                    window,
                    parts,
                });
            }
        }
    }
    cases
}
