//! Attention of rows that decode: norm, RoPE, the row's own key and the cache in one kernel. Over the cases of
//! attention.rs.

use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{self, Heads, Projected, RowsAttention};

use crate::kernel_parity::elementwise::{EPS, angle, some_turned, turned};
use crate::kernel_parity::lab::{Lab, Placed, close, loaded, rounding, stored};
use crate::kernel_parity::paged::{Batch, Cache, Rows};

/// What the projection gave the rows, and what it is turned by.
struct Given<M> {
    qkv: Placed<M>,
    q_norm: Placed<M>,
    k_norm: Placed<M>,
    cos_sin: Placed<M>,
    sink_cos_sin: Placed<M>,
    /// Of the pairs that are turned.
    frequencies: Vec<f64>,
    positions: Vec<i32>,
    sink_position: i32,
    heads: Heads,
}

impl<M> Given<M> {
    fn new<D: Device<Memory = M>>(lab: &mut Lab<D>, case: &Rows) -> Self {
        let Heads { heads, kv_heads, d } = case.heads;
        let n = case.lengths.len();
        let turns = some_turned(lab.below(3), d / 2);
        let frequency = |i: usize| f64::from(10_000f32.powf(-(i as f32) / turns as f32));
        let frequencies: Vec<f64> = (0..turns).map(frequency).collect();
        let positions = case.positions();
        let sink_position = (case.window.0 + case.window.1) as i32;
        let cos_sin = |position: i32| -> Vec<f32> {
            let mut angles: Vec<f64> = frequencies.iter().map(|f| angle(position, *f)).collect();
            angles.resize(d / 2, 0.0);
            let cosines = angles.iter().map(|angle| angle.cos());
            let sines = angles.iter().map(|angle| angle.sin());
            cosines.chain(sines).map(|x| x as f32).collect()
        };
        let all: Vec<f32> = positions.iter().copied().flat_map(cos_sin).collect();
        let sink = cos_sin(sink_position);
        Self {
            qkv: lab.floats(n * (heads + 2 * kv_heads) * d, 1.0),
            q_norm: lab.floats(d, 1.5),
            k_norm: lab.floats(d, 1.5),
            cos_sin: lab.place_floats(&all),
            sink_cos_sin: lab.place_floats(&sink),
            frequencies,
            positions,
            sink_position,
            heads: case.heads,
        }
    }

    /// Head `at` of a row's stacked q, k and v.
    fn head(&self, row: usize, at: usize) -> &[f64] {
        let Heads { heads, kv_heads, d } = self.heads;
        let first = (row * (heads + 2 * kv_heads) + at) * d;
        &self.qkv.numbers[first..first + d]
    }

    fn query(&self, row: usize, head: usize, by_sink: bool) -> Vec<f64> {
        let position = if by_sink {
            self.sink_position
        } else {
            self.positions[row]
        };
        turned(
            self.head(row, head),
            &self.q_norm.numbers,
            position,
            &self.frequencies,
        )
    }

    fn key(&self, row: usize, kv_head: usize) -> Vec<f64> {
        let head = self.head(row, self.heads.heads + kv_head);
        turned(
            head,
            &self.k_norm.numbers,
            self.positions[row],
            &self.frequencies,
        )
    }

    fn value(&self, row: usize, kv_head: usize) -> &[f64] {
        self.head(row, self.heads.heads + self.heads.kv_heads + kv_head)
    }
}

/// The last row of each sequence, whose own key and value the kernel makes: their places hold NaN before.
pub(crate) fn check<D: Device>(lab: &mut Lab<D>, case: &Rows) {
    let (n, sink) = (case.lengths.len(), case.window.0);
    let given = Given::new(lab, case);
    let mut cache = Cache::new(lab, case.heads, &case.lengths, sink, case.gap());
    let own_slots = own_slots(case, &cache);
    for placed in [&mut cache.keys, &mut cache.values] {
        for (_, _, slot) in &own_slots {
            placed.numbers[*slot..slot + case.heads.d].fill(f64::NAN);
        }
        *placed = lab.place_elements(&narrow(&placed.numbers));
    }
    let batch = Batch::new(lab, case, &cache.sequences);
    let of = batch.attention(case, &cache);
    let projected = Projected {
        qkv: given.qkv.view(),
        q_norm: given.q_norm.view(),
        k_norm: given.k_norm.view(),
        eps: EPS,
        cos_sin: given.cos_sin.view(),
        sink_cos_sin: (sink > 0).then(|| given.sink_cos_sin.view()),
    };
    launch::attention_decode(&mut lab.device, &of, &projected, n, case.heads).unwrap();
    check_repeated(lab, case, &of, &projected, &batch.out);
    check_cache(lab, &format!("{case:?}"), &mut cache, &given, &own_slots);
    batch.check(
        lab,
        "attention_decode",
        case,
        &cache,
        |row, head, by_sink| given.query(row, head, by_sink),
    );
}

/// Row, key head, and where in the cache its own key and value belong.
fn own_slots<D: Device>(case: &Rows, cache: &Cache<D>) -> Vec<(usize, usize, usize)> {
    let heads = |row| (0..case.heads.kv_heads).map(move |kv_head| (row, kv_head));
    let rows = (0..case.lengths.len()).flat_map(heads);
    rows.map(|(row, kv_head)| {
        let slot = cache.slot(row, case.lengths[row] - 1, kv_head);
        (row, kv_head, slot)
    })
    .collect()
}

/// Launches right behind each other, with the same room between, give the same to the bit, whichever block ends
/// last.
fn check_repeated<D: Device>(
    lab: &mut Lab<D>,
    case: &Rows,
    of: &RowsAttention,
    projected: &Projected,
    first: &D::Memory,
) {
    let n = case.lengths.len();
    if case.parts == 1 || n > 5 {
        return;
    }
    let size = n * case.heads.heads * case.heads.d;
    let outs: Vec<D::Memory> = (0..3).map(|_| lab.poisoned_elements(size)).collect();
    for out in &outs {
        let of = RowsAttention {
            out: out.view(),
            ..*of
        };
        launch::attention_decode(&mut lab.device, &of, projected, n, case.heads).unwrap();
    }
    let want = lab.bytes(first);
    for out in &outs {
        assert!(lab.bytes(out) == want, "{:?} {}", case.heads, case.parts);
    }
}

/// Own keys and values are where they belong, and nothing else has changed. `cache` has them afterwards, as they
/// were stored.
fn check_cache<D: Device>(
    lab: &mut Lab<D>,
    name: &str,
    cache: &mut Cache<D>,
    given: &Given<D::Memory>,
    own_slots: &[(usize, usize, usize)],
) {
    let d = given.heads.d;
    let (relative, absolute) = (rounding(lab.element()) + 2e-6, 4e-6);
    let mut stored_now = [&cache.keys, &cache.values].map(|placed| {
        let bytes = lab.bytes(&placed.memory);
        loaded(lab.element(), &bytes)
    });
    for (row, kv_head, slot) in own_slots {
        let [keys, values] = &stored_now;
        let place = *slot..slot + d;
        close(
            name,
            &keys[place.clone()],
            &given.key(*row, *kv_head),
            relative,
            absolute,
        );
        close(
            name,
            &values[place],
            given.value(*row, *kv_head),
            relative,
            absolute,
        );
    }
    for (placed, now) in [&mut cache.keys, &mut cache.values]
        .into_iter()
        .zip(&mut stored_now)
    {
        for (_, _, slot) in own_slots {
            let place = *slot..slot + d;
            placed.numbers[place.clone()].copy_from_slice(&now[place]);
        }
        let same =
            stored(lab.element(), &narrow(&placed.numbers)) == stored(lab.element(), &narrow(now));
        assert!(same, "{name}: another place of the cache was written");
    }
}

fn narrow(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|x| *x as f32).collect()
}
