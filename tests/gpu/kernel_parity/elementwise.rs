//! Embedding, norms, sums, SwiGLU, gates, angles and the QKV epilogue, page copies, conversions, random numbers.

use engine::Element;
use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{self, Heads, QkvEpilogue};

use crate::kernel_parity::lab::{Lab, close, loaded, rounding, stored};
use crate::on_a_device;

pub(crate) const EPS: f32 = 1e-6;
/// f32 sums of up to some thousand terms.
const SUM: f64 = 2e-6;

#[test]
fn embedding() {
    on_a_device!(check_embedding, Element::ALL);
}

fn check_embedding<D: Device>(lab: &mut Lab<D>) {
    for (n, cols) in [(1, 8), (3, 128), (8, 2056), (33, 1024)] {
        let vocab = 37;
        let table = lab.elements(vocab * cols, 3.0);
        let tokens: Vec<i32> = (0..n).map(|_| lab.below(vocab) as i32).collect();
        let (out, ids) = (lab.poisoned_floats(n * cols), lab.ints(&tokens));
        let (device, view) = (&mut lab.device, out.view());
        launch::embedding(device, table.view(), vocab, ids.view(), view, n, cols).unwrap();
        let row = |id: &i32| table.numbers[*id as usize * cols..(*id as usize + 1) * cols].to_vec();
        let want: Vec<f64> = tokens.iter().flat_map(row).collect();
        close("embedding", &lab.read_floats(&out), &want, 0.0, 0.0);
    }
}

fn norm(x: &[f64], weight: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + f64::from(EPS)).sqrt();
    x.iter()
        .zip(weight)
        .map(|(x, weight)| x * scale * weight)
        .collect()
}

#[test]
fn norms() {
    on_a_device!(check_norms, Element::ALL);
}

fn check_norms<D: Device>(lab: &mut Lab<D>) {
    let tolerance = rounding(lab.element()) + SUM;
    let sizes = [
        (1, 4),
        (3, 128),
        (8, 1028),
        (33, 2560),
        (2, 4096),
        (2, 4100),
        (2, 16_384),
    ];
    for (n, cols) in sizes {
        let (x, weight) = (lab.floats(n * cols, 2.0), lab.floats(cols, 1.5));
        let rows: Vec<i32> = (0..n).map(|_| lab.below(n) as i32).collect();
        let out = lab.poisoned_elements(n * cols);
        let ids = lab.ints(&rows);
        let delta = lab.floats(n * cols, 2.0);
        let sum: Vec<f64> = x
            .numbers
            .iter()
            .zip(&delta.numbers)
            .map(|(a, b)| a + b)
            .collect();
        for (picked, added) in [(false, false), (true, false), (false, true), (true, true)] {
            let rows_view = picked.then(|| ids.view());
            let of = (x.view(), added.then(|| delta.view()));
            let (device, weight_view) = (&mut lab.device, weight.view());
            launch::rms_norm(
                device,
                of,
                n,
                rows_view,
                weight_view,
                EPS,
                out.view(),
                n,
                cols,
            )
            .unwrap();
            let from = if added { &sum } else { &x.numbers };
            let place = |at: usize| if picked { rows[at] as usize } else { at };
            let row = |at: usize| &from[place(at) * cols..(place(at) + 1) * cols];
            let want: Vec<f64> = (0..n)
                .flat_map(|at| norm(row(at), &weight.numbers))
                .collect();
            close("rms_norm", &lab.read_elements(&out), &want, tolerance, 1e-6);
        }
        let stream = lab.bytes(&x.memory);
        close("x", &loaded(Element::F32, &stream), &x.numbers, 0.0, 0.0);
        let out = lab.poisoned_elements(n * cols);
        let (device, weight_view) = (&mut lab.device, weight.view());
        launch::add_rms_norm(
            device,
            x.view(),
            delta.view(),
            weight_view,
            EPS,
            out.view(),
            n,
            cols,
        )
        .unwrap();
        let want = sum.chunks(cols).flat_map(|row| norm(row, &weight.numbers));
        let want: Vec<f64> = want.collect();
        close(
            "add_rms_norm",
            &lab.read_elements(&out),
            &want,
            tolerance,
            1e-6,
        );
        let stream = lab.bytes(&x.memory);
        close("its sum", &loaded(Element::F32, &stream), &sum, 1e-7, 1e-9);
    }
}

#[test]
fn biases() {
    on_a_device!(check_biases, [Element::F32]);
}

fn check_biases<D: Device>(lab: &mut Lab<D>) {
    for (n, cols) in [(1, 4), (9, 1028), (33, 64)] {
        let (x, bias) = (lab.floats(n * cols, 2.0), lab.floats(cols, 2.0));
        launch::add_bias(&mut lab.device, x.view(), bias.view(), n, cols).unwrap();
        let rows = x.numbers.chunks(cols);
        let want = rows.flat_map(|row| row.iter().zip(&bias.numbers).map(|(a, b)| a + b));
        let want: Vec<f64> = want.collect();
        let got = lab.bytes(&x.memory);
        close("add_bias", &loaded(Element::F32, &got), &want, 1e-7, 1e-9);
    }
}

#[test]
fn swiglu() {
    on_a_device!(check_swiglu, Element::ALL);
}

fn check_swiglu<D: Device>(lab: &mut Lab<D>) {
    for (n, m) in [(1, 4), (3, 384), (8, 1028), (33, 64)] {
        let gate_up = lab.floats(n * 2 * m, 6.0);
        let out = lab.poisoned_elements(n * m);
        launch::swiglu(&mut lab.device, gate_up.view(), out.view(), n, m).unwrap();
        let want = gate_up.numbers.chunks(2 * m).flat_map(|row| {
            let (gate, up) = row.split_at(m);
            gate.iter()
                .zip(up)
                .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
        });
        let want: Vec<f64> = want.collect();
        let tolerance = rounding(lab.element()) + SUM;
        close("swiglu", &lab.read_elements(&out), &want, tolerance, 1e-7);
    }
}

#[test]
fn gates() {
    on_a_device!(check_gate, Element::ALL);
}

fn check_gate<D: Device>(lab: &mut Lab<D>) {
    for count in [4, 1_020, 1_028, 9_000] {
        let (gate, x) = (lab.floats(count, 6.0), lab.elements(count, 2.0));
        launch::gate(&mut lab.device, gate.view(), x.view(), count).unwrap();
        let open = |gate: &f64| 1.0 / (1.0 + (-gate).exp());
        let pairs = x.numbers.iter().zip(&gate.numbers);
        let want: Vec<f64> = pairs.map(|(x, gate)| x * open(gate)).collect();
        let got = loaded(lab.element(), &lab.bytes(&x.memory));
        close("gate", &got, &want, rounding(lab.element()) + SUM, 1e-7);
    }
}

/// Those of a stretched model are longer, as far as they are turned.
#[test]
fn angles() {
    on_a_device!(check_angles, [Element::F32]);
}

fn check_angles<D: Device>(lab: &mut Lab<D>) {
    let (half, turns, scale) = (24, 10, 1.25);
    let frequencies: Vec<f32> = (0..half)
        .map(|i| {
            if i < turns {
                1.0 / (1.0 + i as f32)
            } else {
                0.0
            }
        })
        .collect();
    let frequencies = lab.place_floats(&frequencies);
    let positions = [0, 1, 77, 65_535, 65_536, 1_000_003];
    let (ints, out) = (lab.ints(&positions), lab.poisoned_floats(6 * 2 * half));
    let (device, turned) = (&mut lab.device, (turns, scale));
    let (places, view) = (ints.view(), out.view());
    launch::rope_angles(device, places, frequencies.view(), view, 6, half, turned).unwrap();
    let want = positions.iter().flat_map(|position| {
        let turn = |i: usize| angle(*position, frequencies.numbers[i]);
        let by = |i: usize| if i < turns { f64::from(scale) } else { 1.0 };
        let cosines: Vec<f64> = (0..half).map(|i| by(i) * turn(i).cos()).collect();
        let sines = (0..half).map(|i| by(i) * turn(i).sin());
        cosines.into_iter().chain(sines).collect::<Vec<f64>>()
    });
    let want: Vec<f64> = want.collect();
    close("angles", &lab.read_floats(&out), &want, 2e-6, 4e-6);
}

/// As the reference has it: f32 below position 65,536.
pub(crate) fn angle(position: i32, frequency: f64) -> f64 {
    match position {
        ..65_536 => f64::from(position as f32 * frequency as f32),
        _ => f64::from(position) * frequency,
    }
}

/// A head of one row: RMS norm, then RoPE in the half-split form, of as many pairs as there are frequencies.
pub(crate) fn turned(head: &[f64], weight: &[f64], position: i32, frequencies: &[f64]) -> Vec<f64> {
    let mut head = norm(head, weight);
    let half = head.len() / 2;
    for (i, frequency) in frequencies.iter().enumerate() {
        let (sin, cos) = angle(position, *frequency).sin_cos();
        let (low, high) = (head[i], head[i + half]);
        (head[i], head[i + half]) = (low * cos - high * sin, high * cos + low * sin);
    }
    head
}

/// Pairs of a head that are turned, of `half`: all, or some.
pub(crate) fn some_turned(seed: usize, half: usize) -> usize {
    [half, half / 2, half / 4][seed % 3]
}

#[test]
fn qkv_epilogue() {
    on_a_device!(check_epilogue, Element::ALL);
}

fn check_epilogue<D: Device>(lab: &mut Lab<D>) {
    for (n, heads, kv_heads, d) in [
        (1, 4, 2, 48),
        (3, 8, 1, 64),
        (8, 3, 3, 80),
        (33, 6, 2, 96),
        (3, 5, 1, 128),
        (2, 7, 1, 256),
    ] {
        for with_sink in [false, true] {
            epilogue(lab, n, Heads { heads, kv_heads, d }, with_sink);
        }
    }
}

fn epilogue<D: Device>(lab: &mut Lab<D>, n: usize, sizes: Heads, with_sink: bool) {
    const SINK_POSITION: i32 = 77;
    let Heads { heads, kv_heads, d } = sizes;
    let (half, pages) = (d / 2, n + 3);
    let cols = (heads + 2 * kv_heads) * d;
    let qkv = lab.floats(n * cols, 2.0);
    let (q_norm, k_norm) = (lab.floats(d, 1.5), lab.floats(d, 1.5));
    let turns = some_turned(lab.below(3), half);
    let frequency = |i: usize| 1.0 / 1e4f64.powf(i as f64 / turns as f64) as f32;
    let mut frequencies: Vec<f32> = (0..turns).map(frequency).collect();
    frequencies.resize(half, 0.0);
    let mut frequencies = lab.place_floats(&frequencies);
    frequencies.numbers.truncate(turns);
    let mut positions: Vec<i32> = (0..n).map(|_| lab.below(65_536) as i32).collect();
    positions[0] = [0, 65_535, 65_536, 3_000_017][lab.below(4)];
    // Each row on a page of its own, so that the rest of the cache can be seen to stay as it was.
    let places: Vec<i32> = (0..n)
        .map(|row| ((row + 2) * 16 + lab.below(16)) as i32)
        .collect();
    let angles = lab.poisoned_floats(n * d);
    let sink_angle = lab.poisoned_floats(d);
    let (place_ints, position_ints) = (lab.ints(&places), lab.ints(&positions));
    let sink_ints = lab.ints(&[SINK_POSITION]);
    for (ints, out, n) in [(&position_ints, &angles, n), (&sink_ints, &sink_angle, 1)] {
        let (ints, out) = (ints.view(), out.view());
        let (device, turned) = (&mut lab.device, (turns, 1.0));
        launch::rope_angles(device, ints, frequencies.view(), out, n, half, turned).unwrap();
    }
    let cached = pages * kv_heads * 16 * d;
    let (keys, values) = (lab.poisoned_elements(cached), lab.poisoned_elements(cached));
    let (q, q_sink) = (
        lab.poisoned_elements(n * heads * d),
        lab.poisoned_elements(n * heads * d),
    );
    let of = QkvEpilogue {
        qkv: qkv.view(),
        q_norm: q_norm.view(),
        k_norm: k_norm.view(),
        eps: EPS,
        cos_sin: angles.view(),
        places: place_ints.view(),
        sink: with_sink.then(|| (sink_angle.view(), q_sink.view())),
        q: q.view(),
        keys: keys.view(),
        values: values.view(),
        pages,
    };
    launch::qkv_epilogue(&mut lab.device, &of, n, sizes).unwrap();
    let (mut want_q, mut want_sink) = (Vec::new(), Vec::new());
    let mut want_keys = vec![None; cached];
    let mut want_values = vec![None; cached];
    for (row, numbers) in qkv.numbers.chunks(cols).enumerate() {
        let head = |at: usize| &numbers[at * d..(at + 1) * d];
        for at in 0..heads {
            let turn = |position| turned(head(at), &q_norm.numbers, position, &frequencies.numbers);
            want_q.extend(turn(positions[row]));
            want_sink.extend(turn(SINK_POSITION));
        }
        for at in 0..kv_heads {
            let (page, slot) = (places[row] as usize / 16, places[row] as usize % 16);
            let start = ((page * kv_heads + at) * 16 + slot) * d;
            let key = turned(
                head(heads + at),
                &k_norm.numbers,
                positions[row],
                &frequencies.numbers,
            );
            let value = head(heads + kv_heads + at);
            for i in 0..d {
                want_keys[start + i] = Some(key[i]);
                want_values[start + i] = Some(value[i]);
            }
        }
    }
    let (relative, absolute) = (rounding(lab.element()) + SUM, 4e-6);
    close("q", &lab.read_elements(&q), &want_q, relative, absolute);
    let sink = lab.read_elements(&q_sink);
    match with_sink {
        true => close("q for the sink", &sink, &want_sink, relative, absolute),
        false => assert!(sink.iter().all(|number| number.is_nan())),
    }
    for (name, memory, want) in [("keys", &keys, want_keys), ("values", &values, want_values)] {
        for (got, want) in lab.read_elements(memory).into_iter().zip(want) {
            match want {
                Some(want) => close(name, &[got], &[want], relative, absolute),
                None => assert!(got.is_nan(), "{name}: written elsewhere"),
            }
        }
    }
}

#[test]
fn page_copies() {
    on_a_device!(check_page_copy, Element::ALL);
}

fn check_page_copy<D: Device>(lab: &mut Lab<D>) {
    for (layers, pages, elements) in [(1, 2, 768), (3, 5, 16 * 80), (5, 4, 16 * 512)] {
        let count = layers * pages * elements;
        let (keys, values) = (lab.elements(count, 1.0), lab.elements(count, 1.0));
        let (from, to) = (pages - 1, lab.below(pages - 1));
        let (device, key_view) = (&mut lab.device, keys.view());
        launch::copy_page(
            device,
            key_view,
            values.view(),
            from,
            to,
            layers,
            pages,
            elements,
        )
        .unwrap();
        for placed in [keys, values] {
            let mut want = placed.numbers.clone();
            for layer in want.chunks_mut(pages * elements) {
                layer.copy_within(from * elements..(from + 1) * elements, to * elements);
            }
            let bytes = lab.bytes(&placed.memory);
            close("copy_page", &loaded(lab.element(), &bytes), &want, 0.0, 0.0);
        }
    }
}

#[test]
fn conversions() {
    on_a_device!(check_convert, Element::ALL);
}

fn check_convert<D: Device>(lab: &mut Lab<D>) {
    for from in Element::ALL {
        for count in [1, 255, 4_097] {
            let numbers: Vec<f32> = (0..count).map(|_| lab.number() * 50.0).collect();
            let bytes = stored(from, &numbers);
            let input = lab.place(&bytes);
            let out = lab.poisoned_elements(count);
            let (device, view) = (&mut lab.device, out.view());
            launch::convert(device, input.view(), from, view, count).unwrap();
            let rounded: Vec<f32> = loaded(from, &bytes).iter().map(|x| *x as f32).collect();
            let want = loaded(lab.element(), &stored(lab.element(), &rounded));
            close("convert", &lab.read_elements(&out), &want, 0.0, 0.0);
        }
    }
}

#[test]
fn synthetic_numbers() {
    on_a_device!(check_random, Element::ALL);
}

fn check_random<D: Device>(lab: &mut Lab<D>) {
    const COUNT: usize = 40_000;
    let seed = lab.next();
    let fill = |lab: &mut Lab<D>, count: usize, seed: u64| {
        let out = lab.poisoned_elements(count);
        launch::fill_random(&mut lab.device, out.view(), count, 0.5, seed).unwrap();
        lab.read_elements(&out)
    };
    let all = fill(lab, COUNT, seed);
    let part = fill(lab, 1_001, seed);
    close(
        "the same numbers for any count",
        &part,
        &all[..1_001],
        0.0,
        0.0,
    );
    let mean = all.iter().sum::<f64>() / COUNT as f64;
    let variance = all.iter().map(|x| x * x).sum::<f64>() / COUNT as f64;
    // Six standard errors of each.
    assert!(
        mean.abs() < 6.0 * 0.5 / (COUNT as f64).sqrt(),
        "mean {mean}"
    );
    let spread = 6.0 * 0.25 * (2.0 / COUNT as f64).sqrt() + 0.25 * 2.0 * rounding(lab.element());
    assert!((variance - 0.25).abs() < spread, "variance {variance}");
    let other = fill(lab, 1_001, seed ^ 1);
    let same = part
        .iter()
        .zip(&other)
        .filter(|(a, b)| (*a - *b).abs() < 1e-9)
        .count();
    assert!(same < 50, "{same} of another seed are equal");
    let out = lab.poisoned_floats(1_001);
    launch::fill_vector(&mut lab.device, out.view(), 1_001, 1.25).unwrap();
    close(
        "fill_vector",
        &lab.read_floats(&out),
        &[1.25; 1_001],
        0.0,
        0.0,
    );
}
