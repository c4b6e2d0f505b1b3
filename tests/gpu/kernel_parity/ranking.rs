//! From logits to the numbers that answers are made of.

use std::ops::Range;

use engine::Element;
use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{self, MOST_BANNED, MOST_TOP, RESULTS, Rank, SUMS};

use crate::kernel_parity::lab::{Lab, close};
use crate::on_a_device;

#[test]
fn ranking() {
    on_a_device!(check_ranking, [Element::F32]);
}

struct Row {
    logits: Vec<f32>,
    banned: Vec<u32>,
    given: i32,
    top: usize,
    /// 0: nothing is drawn.
    temperature: f32,
    chance: f64,
}

impl Row {
    /// Weights of a draw by the book, in f64.
    fn weights(&self) -> Vec<f64> {
        let allowed = |id: usize| !self.banned.contains(&(id as u32));
        let each = || self.logits.iter().enumerate();
        let of_allowed = each().filter(|(id, _)| allowed(*id));
        let best = of_allowed.fold(f64::NEG_INFINITY, |best, (_, x)| best.max(f64::from(*x)));
        let weight = |x: f32| ((f64::from(x) - best) / f64::from(self.temperature)).exp();
        each()
            .map(|(id, x)| if allowed(id) { weight(*x) } else { 0.0 })
            .collect()
    }
}

fn better(logits: &[f32]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..logits.len())
        .filter(|id| !logits[*id].is_nan())
        .collect();
    ids.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    ids
}

fn check_ranking<D: Device>(lab: &mut Lab<D>) {
    for (n, vocab) in [(1, 20), (3, 448), (8, 2_048), (16, 2_049), (5, 151_936)] {
        let mut rows: Vec<Row> = (0..n).map(|at| draw(lab, at, vocab)).collect();
        if vocab < CHUNK * 2 && n > 2 {
            rows[1].logits[vocab - 1] = f32::NAN;
            rows[2].logits.fill(f32::NEG_INFINITY);
        }
        check(lab, &rows, vocab);
    }
}

/// Logits of one block.
const CHUNK: usize = 2_048;

/// Few different logits, so that there are ties, or many whose chunks differ.
fn draw<D: Device>(lab: &mut Lab<D>, at: usize, vocab: usize) -> Row {
    let coarse = at.is_multiple_of(2);
    let logits: Vec<f32> = (0..vocab)
        .map(|id| {
            if coarse {
                lab.below(50) as f32 - 25.0
            } else {
                lab.number() * 12.0 + (id / CHUNK * 5 % 7) as f32
            }
        })
        .collect();
    let best = better(&logits);
    let count = [0, 1, MOST_BANNED.min(vocab - 1)][at % 3];
    let mut banned: Vec<u32> = best.iter().take(count).map(|id| *id as u32).collect();
    banned.sort_unstable();
    Row {
        given: if coarse { lab.below(vocab) as i32 } else { -1 },
        top: [0, 1, 5, MOST_TOP][at % 4],
        temperature: [1.0, 0.3, 40.0, 0.0, 1e-5][at % 5],
        chance: match at % 7 {
            5 => 0.0,
            6 => 1.0 - f64::EPSILON,
            _ => lab.below(1 << 20) as f64 / f64::from(1 << 20),
        },
        logits,
        banned,
    }
}

/// The chance lies in the token's part of the whole, but for the rounding of f32.
fn check_draw(row: &Row, drawn: i32, total: f64) {
    const ROUNDING: f64 = 2e-6;
    let weights = row.weights();
    let want: f64 = weights.iter().sum();
    close("weights", &[total], &[want], ROUNDING, 0.0);
    let drawn = drawn as usize;
    assert!(weights[drawn] > 0.0, "{drawn} may not be drawn");
    let before: f64 = weights[..drawn].iter().sum();
    let part: Range<f64> = before / want - ROUNDING..(before + weights[drawn]) / want + ROUNDING;
    assert!(
        part.contains(&row.chance),
        "{drawn} is at {part:?}, not {}",
        row.chance
    );
}

fn check<D: Device>(lab: &mut Lab<D>, rows: &[Row], vocab: usize) {
    let n = rows.len();
    let logits: Vec<f32> = rows.iter().flat_map(|row| row.logits.clone()).collect();
    let logits = lab.place_floats(&logits);
    let padded = |row: &Row| {
        let mut ids: Vec<i32> = row.banned.iter().map(|id| *id as i32).collect();
        ids.resize(MOST_BANNED, 0);
        ids
    };
    let banned: Vec<i32> = rows.iter().flat_map(padded).collect();
    let list = |of: &dyn Fn(&Row) -> i32| rows.iter().map(of).collect::<Vec<i32>>();
    let counts = list(&|row| row.banned.len() as i32);
    let (given, top) = (list(&|row| row.given), list(&|row| row.top as i32));
    let beta = |row: &Row| {
        if row.temperature > 0.0 {
            row.temperature.recip()
        } else {
            0.0
        }
    };
    let betas = lab.ints(&list(&|row| beta(row).to_bits().cast_signed()));
    let chances: Vec<u8> = rows
        .iter()
        .flat_map(|row| row.chance.to_ne_bytes())
        .collect();
    let chance = lab.place(&chances);
    let [banned, counts, given, top] = [banned, counts, given, top].map(|ints| lab.ints(&ints));
    let [part_values, part_ids, part_sums] =
        launch::part_bytes(vocab).map(|bytes| lab.poisoned(n * bytes));
    let (values, ids) = (lab.poisoned(n * RESULTS * 4), lab.poisoned(n * RESULTS * 4));
    let sums = lab.poisoned(n * SUMS * 8);
    let of = Rank {
        logits: logits.view(),
        banned: banned.view(),
        banned_count: counts.view(),
        given: given.view(),
        top: top.view(),
        beta: betas.view(),
        chance: chance.view(),
        part_values: part_values.view(),
        part_ids: part_ids.view(),
        part_sums: part_sums.view(),
        values: values.view(),
        ids: ids.view(),
        sums: sums.view(),
    };
    launch::rank(&mut lab.device, &of, n, vocab).unwrap();
    let values = lab.guarded(&values);
    let ids = lab.guarded(&ids);
    let sums = lab.guarded(&sums);
    let sum_of = |at: usize| f64::from_ne_bytes(sums.as_chunks::<8>().0[at]);
    for (at, row) in rows.iter().enumerate() {
        let value = |place: usize| {
            let words = values.as_chunks::<4>().0;
            f32::from_ne_bytes(words[at * RESULTS + place])
        };
        let id = |place: usize| i32::from_ne_bytes(ids.as_chunks::<4>().0[at * RESULTS + place]);
        let nan = row.logits.iter().any(|logit| logit.is_nan());
        assert_eq!(id(0), i32::from(nan), "NaN in row {at} of {vocab}");
        if nan {
            continue;
        }
        let order = better(&row.logits);
        assert_eq!(value(0).to_bits(), row.logits[order[0]].to_bits());
        if row.logits[order[0]].is_finite() {
            let allowed = order
                .iter()
                .find(|id| !row.banned.contains(&(**id as u32)))
                .unwrap();
            assert_eq!(
                (id(1), value(1).to_bits()),
                (*allowed as i32, row.logits[*allowed].to_bits())
            );
            let greatest = f64::from(value(0));
            let sum: f64 = row
                .logits
                .iter()
                .map(|x| (f64::from(*x) - greatest).exp())
                .sum();
            let got = sum_of(SUMS * at);
            close("log-sum-exp", &[got], &[greatest + sum.ln()], 1e-7, 2e-6);
            if row.temperature > 0.0 {
                check_draw(row, id(3), sum_of(SUMS * at + 1));
                assert_eq!(value(3).to_bits(), row.logits[id(3) as usize].to_bits());
            }
        }
        if row.given >= 0 {
            assert_eq!(value(2).to_bits(), row.logits[row.given as usize].to_bits());
        }
        for (place, want) in order.iter().take(row.top).enumerate() {
            let got = (id(4 + place), value(4 + place).to_bits());
            assert_eq!(
                got,
                (*want as i32, row.logits[*want].to_bits()),
                "top {place} of row {at}"
            );
        }
    }
}
