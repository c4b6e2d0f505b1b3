//! Attention of rows that decode: norm, RoPE, the row's own key and the cache in one kernel.

use infergate::engine::Element;
use infergate::engine::cuda::device::{Device, Memory};
use infergate::engine::cuda::launch::{self, Heads, Projected, RowsAttention};

use crate::elementwise::{EPS, angle, turned};
use crate::lab::{Lab, Placed, close, loaded, rounding, stored};
use crate::on_a_device;
use crate::paged::{Cache, Rows, contexts, sizes, tolerance, windows};

#[test]
fn decoding_of_every_head_size_and_group() {
    on_a_device!(check_sizes, Element::ALL);
}

fn check_sizes<D: Device>(lab: &mut Lab<D>) {
    sizes().iter().for_each(|case| check(lab, case));
}

#[test]
fn decoding_of_long_contexts_and_large_batches() {
    on_a_device!(check_contexts, Element::ALL);
}

fn check_contexts<D: Device>(lab: &mut Lab<D>) {
    contexts().iter().for_each(|case| check(lab, case));
}

#[test]
fn decoding_with_a_window() {
    on_a_device!(check_windows, Element::ALL);
}

fn check_windows<D: Device>(lab: &mut Lab<D>) {
    windows().iter().for_each(|case| check(lab, case));
}

/// What the projection gave the rows, and what it is turned by.
struct Given<M> {
    qkv: Placed<M>,
    q_norm: Placed<M>,
    k_norm: Placed<M>,
    cos_sin: Placed<M>,
    sink_cos_sin: Placed<M>,
    frequencies: Vec<f64>,
    positions: Vec<i32>,
    sink_position: i32,
    heads: Heads,
}

impl<M> Given<M> {
    fn new<D: Device<Memory = M>>(lab: &mut Lab<D>, case: &Rows) -> Self {
        let Heads { heads, kv_heads, d } = case.heads;
        let n = case.lengths.len();
        let frequency = |i: usize| f64::from(10_000f32.powf(-2.0 * i as f32 / d as f32));
        let frequencies: Vec<f64> = (0..d / 2).map(frequency).collect();
        let positions: Vec<i32> = case
            .lengths
            .iter()
            .map(|length| *length as i32 - 1)
            .collect();
        let sink_position = (case.window.0 + case.window.1) as i32;
        let cos_sin = |position: i32| -> Vec<f32> {
            let angles: Vec<f64> = frequencies.iter().map(|f| angle(position, *f)).collect();
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
fn check<D: Device>(lab: &mut Lab<D>, case: &Rows) {
    let (n, Heads { heads, kv_heads, d }) = (case.lengths.len(), case.heads);
    let (sink, window) = case.window;
    let given = Given::new(lab, case);
    let mut cache = Cache::new(lab, case.heads, &case.lengths, sink, case.gap());
    let own_slots: Vec<(usize, usize, usize)> = (0..n)
        .flat_map(|row| (0..kv_heads).map(move |kv_head| (row, kv_head)))
        .map(|(row, kv_head)| {
            (
                row,
                kv_head,
                cache.slot(row, case.lengths[row] - 1, kv_head),
            )
        })
        .collect();
    for placed in [&mut cache.keys, &mut cache.values] {
        for (_, _, slot) in &own_slots {
            placed.numbers[*slot..slot + d].fill(f64::NAN);
        }
        let narrow: Vec<f32> = placed.numbers.iter().map(|x| *x as f32).collect();
        *placed = lab.place_elements(&narrow);
    }
    let ints = |of: &dyn Fn(usize) -> usize| (0..n).map(|row| of(row) as i32).collect::<Vec<i32>>();
    let firsts = lab.ints(&ints(&|row| cache.sequences[row].first));
    let gaps = lab.ints(&ints(&|row| cache.sequences[row].gap));
    let positions = lab.ints(&given.positions);
    let partial = lab.poisoned_floats(n * heads * case.splits * d);
    let partial_ml = lab.poisoned_floats(n * heads * case.splits * 2);
    let arrived = lab.ints(&vec![0; n * heads]);
    let out = lab.poisoned_elements(n * heads * d);
    let scale = 1.0 / (d as f32).sqrt();
    let of = RowsAttention {
        keys: cache.keys.view(),
        values: cache.values.view(),
        cache_pages: cache.pages,
        pages: cache.lists.view(),
        first_page: firsts.view(),
        gaps: gaps.view(),
        positions: positions.view(),
        partial: partial.view(),
        partial_ml: partial_ml.view(),
        arrived: arrived.view(),
        out: out.view(),
        scale,
        sink,
        window,
        splits: case.splits,
    };
    let projected = Projected {
        qkv: given.qkv.view(),
        q_norm: given.q_norm.view(),
        k_norm: given.k_norm.view(),
        eps: EPS,
        cos_sin: given.cos_sin.view(),
        sink_cos_sin: (sink > 0).then(|| given.sink_cos_sin.view()),
    };
    launch::attention_decode(&mut lab.device, &of, &projected, n, case.heads).unwrap();
    check_repeated(lab, case, &of, &projected, &out);
    let name = format!(
        "attention_decode {:?} {:?} {:?} {}",
        case.heads, case.lengths, case.window, case.splits
    );
    assert!(
        lab.bytes(&arrived).iter().all(|byte| *byte == 0),
        "{name}: the count"
    );
    check_cache(lab, &name, &mut cache, &given, &own_slots);
    let mut want = Vec::with_capacity(n * heads * d);
    for (row, length) in case.lengths.iter().enumerate() {
        for head in 0..heads {
            let [near_q, sink_q] = [false, true].map(|by_sink| given.query(row, head, by_sink));
            let query = |(p, by_sink)| (p, if by_sink { &sink_q[..] } else { &near_q[..] });
            let seen: Vec<(usize, &[f64])> = case.seen(*length).into_iter().map(query).collect();
            want.extend(cache.attend(row, head, &seen, f64::from(scale)));
        }
    }
    let (relative, absolute) = tolerance(lab.element());
    close(&name, &lab.read_elements(&out), &want, relative, absolute);
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
    if case.splits == 1 || n > 5 {
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
        assert!(lab.bytes(out) == want, "{:?} {}", case.heads, case.splits);
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
        let narrow = |numbers: &[f64]| -> Vec<f32> { numbers.iter().map(|x| *x as f32).collect() };
        let same =
            stored(lab.element(), &narrow(&placed.numbers)) == stored(lab.element(), &narrow(now));
        assert!(same, "{name}: another place of the cache was written");
    }
}
