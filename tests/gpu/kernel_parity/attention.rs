//! Attention over pages: rows by themselves, split or not, with windows; tiles of rows.

use engine::Element;
use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{self, Heads, Prefill, Queries, TILE_ROWS};

use crate::kernel_parity::attention_decode;
use crate::kernel_parity::lab::{Lab, close};
use crate::kernel_parity::paged::{Batch, Cache, Rows, contexts, heads, sizes, tolerance, windows};
use crate::on_a_device;

/// Rows whose own keys are in the cache, and rows that decode.
fn check<D: Device>(lab: &mut Lab<D>, case: &Rows) {
    check_rows(lab, case);
    attention_decode::check(lab, case);
}

fn check_rows<D: Device>(lab: &mut Lab<D>, case: &Rows) {
    let (n, Heads { heads, d, .. }) = (case.lengths.len(), case.heads);
    let (sink, _) = case.window;
    let cache = Cache::new(lab, case.heads, &case.lengths, sink, case.gap());
    let batch = Batch::new(lab, case, &cache.sequences);
    let [q, q_sink] = [(); 2].map(|()| lab.elements(n * heads * d, 1.0));
    let queries = Queries {
        q: q.view(),
        q_sink: (sink > 0).then(|| q_sink.view()),
    };
    let of = batch.attention(case, &cache);
    launch::attention_rows(&mut lab.device, &of, &queries, n, case.heads).unwrap();
    batch.check(lab, "attention_rows", case, &cache, |row, head, by_sink| {
        let start = (row * heads + head) * d;
        let from = if by_sink { &q_sink } else { &q };
        from.numbers[start..start + d].to_vec()
    });
}

#[test]
fn single_rows_of_every_head_size_and_group() {
    on_a_device!(check_sizes, Element::ALL);
}

fn check_sizes<D: Device>(lab: &mut Lab<D>) {
    sizes().iter().for_each(|case| check(lab, case));
}

#[test]
fn single_rows_of_long_contexts_and_large_batches() {
    on_a_device!(check_contexts, Element::ALL);
}

fn check_contexts<D: Device>(lab: &mut Lab<D>) {
    contexts().iter().for_each(|case| check(lab, case));
}

#[test]
fn single_rows_with_a_window() {
    on_a_device!(check_windows, Element::ALL);
}

fn check_windows<D: Device>(lab: &mut Lab<D>) {
    windows().iter().for_each(|case| check(lab, case));
}

/// Rows `start..end` of each sequence, in tiles.
fn check_tiles<D: Device>(lab: &mut Lab<D>, ranges: &[(usize, usize)], sizes: Heads) {
    let Heads { heads, d, .. } = sizes;
    let lengths: Vec<usize> = ranges.iter().map(|(_, end)| *end).collect();
    let cache = Cache::new(lab, sizes, &lengths, 0, 0);
    let n: usize = ranges.iter().map(|(start, end)| end - start).sum();
    let q = lab.elements(n * heads * d, 1.0);
    let mut tiles = Vec::new();
    let mut row = 0;
    for ((start, end), sequence) in ranges.iter().zip(&cache.sequences) {
        for at in (*start..*end).step_by(TILE_ROWS) {
            let count = TILE_ROWS.min(end - at);
            tiles.extend([row, count, at, sequence.first].map(|int| int as i32));
            row += count;
        }
    }
    let out = lab.poisoned_elements(n * heads * d);
    let count = tiles.len() / launch::TILE_INTS;
    let tiles = lab.ints(&tiles);
    let scale = 1.0 / (d as f32).sqrt();
    let of = Prefill {
        q: q.view(),
        keys: cache.keys.view(),
        values: cache.values.view(),
        cache_pages: cache.pages,
        pages: cache.lists.view(),
        tiles: tiles.view(),
        out: out.view(),
        scale,
    };
    launch::attention_prefill(&mut lab.device, &of, count, n, sizes).unwrap();
    let mut want = Vec::with_capacity(n * heads * d);
    let mut row = 0;
    for (sequence, (start, end)) in ranges.iter().enumerate() {
        for position in *start..*end {
            for head in 0..heads {
                let at = (row * heads + head) * d;
                let q = &q.numbers[at..at + d];
                let seen: Vec<(usize, &[f64])> = (0..=position).map(|p| (p, q)).collect();
                want.extend(cache.attend(sequence, head, &seen, f64::from(scale)));
            }
            row += 1;
        }
    }
    let (relative, absolute) = tolerance(lab.element());
    let name = format!("attention_prefill {sizes:?} {ranges:?}");
    let got = lab.read_elements(&out);
    assert_eq!(got.len() * lab.element().bytes(), n * heads * d * 2);
    close(&name, &got, &want, relative, absolute);
}

#[test]
fn tiles_of_rows() {
    on_a_device!(check_all_tiles, [Element::Bf16, Element::F16]);
}

fn check_all_tiles<D: Device>(lab: &mut Lab<D>) {
    let ranges = [(0, 1), (0, 17), (15, 33), (0, 65), (100, 130)];
    for d in [16, 48, 64, 80, 96, 128, 256] {
        check_tiles(lab, &ranges, heads(2, 2, d));
        check_tiles(lab, &ranges[..3], heads(2, 1, d));
    }
    for group in 3..=8 {
        check_tiles(lab, &[(3, 40)], heads(group, 1, 64));
    }
    check_tiles(lab, &[(4_080, 4_095)], heads(2, 1, 128));
}
