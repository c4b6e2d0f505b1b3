//! One token of the delta rule on a head's state: decay and read, then write and answer.
//!
//! Main functions: [`decay_and_read`] and [`write_and_answer`], the two passes over the state. Refuses to know: which
//! instruction set it is compiled for.

#![expect(unsafe_code, reason = "raw loads and stores, checked by the caller")]

use super::lanes::Lanes;

/// Registers side by side: a sum waits for its last addition, others need not.
const WIDE: usize = 4;

/// `state *= decay`, then `read = stateᵀ key`.
///
/// # Safety
/// `state` must be `[key.len(), read.len()]`, and the processor must have `L`.
#[inline(always)]
pub unsafe fn decay_and_read<L: Lanes>(
    state: &mut [f32],
    decay: f32,
    key: &[f32],
    read: &mut [f32],
) {
    let cols = read.len();
    let mut at = 0;
    // SAFETY: `at` plus what is loaded stays within a row of `cols` elements.
    unsafe {
        while at + WIDE * L::WIDTH <= cols {
            read_columns::<L, WIDE>(state, decay, key, read, at);
            at += WIDE * L::WIDTH;
        }
        while at + L::WIDTH <= cols {
            read_columns::<L, 1>(state, decay, key, read, at);
            at += L::WIDTH;
        }
    }
    for column in at..cols {
        read[column] = 0.0;
        for (row, key) in state.chunks_exact_mut(cols).zip(key) {
            row[column] *= decay;
            read[column] += key * row[column];
        }
    }
}

/// `state += key ⊗ delta`, then `out = stateᵀ query`.
///
/// # Safety
/// `state` must be `[key.len(), out.len()]`, `query` as long as `key`, `delta` as long as `out`, and the processor
/// must have `L`.
#[inline(always)]
pub unsafe fn write_and_answer<L: Lanes>(
    state: &mut [f32],
    (key, query): (&[f32], &[f32]),
    delta: &[f32],
    out: &mut [f32],
) {
    let cols = out.len();
    let mut at = 0;
    // SAFETY: `at` plus what is loaded stays within a row of `cols` elements.
    unsafe {
        while at + WIDE * L::WIDTH <= cols {
            write_columns::<L, WIDE>(state, (key, query), delta, out, at);
            at += WIDE * L::WIDTH;
        }
        while at + L::WIDTH <= cols {
            write_columns::<L, 1>(state, (key, query), delta, out, at);
            at += L::WIDTH;
        }
    }
    for column in at..cols {
        out[column] = 0.0;
        let rows = state.chunks_exact_mut(cols);
        for (row, (key, query)) in rows.zip(key.iter().zip(query)) {
            row[column] += key * delta[column];
            out[column] += query * row[column];
        }
    }
}

/// # Safety
/// As [`decay_and_read`]; `C` registers fit between `at` and the end of a row.
#[inline(always)]
unsafe fn read_columns<L: Lanes, const C: usize>(
    state: &mut [f32],
    decay: f32,
    key: &[f32],
    read: &mut [f32],
    at: usize,
) {
    let cols = read.len();
    // SAFETY: by the caller.
    unsafe {
        let (decay, zero) = (L::splat(decay), L::zero());
        let mut sums = [zero; C];
        for (row, key) in key.iter().enumerate() {
            let key = L::splat(*key);
            for (c, sum) in sums.iter_mut().enumerate() {
                let place = state.as_mut_ptr().add(row * cols + at + c * L::WIDTH);
                let value = decay.fma(L::load(place), zero);
                value.store(place);
                *sum = key.fma(value, *sum);
            }
        }
        for (c, sum) in sums.iter().enumerate() {
            sum.store(read.as_mut_ptr().add(at + c * L::WIDTH));
        }
    }
}

/// # Safety
/// As [`write_and_answer`]; `C` registers fit between `at` and the end of a row.
#[inline(always)]
unsafe fn write_columns<L: Lanes, const C: usize>(
    state: &mut [f32],
    (key, query): (&[f32], &[f32]),
    delta: &[f32],
    out: &mut [f32],
    at: usize,
) {
    let cols = out.len();
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [L::zero(); C];
        let mut deltas = [L::zero(); C];
        for (c, delta_part) in deltas.iter_mut().enumerate() {
            *delta_part = L::load(delta.as_ptr().add(at + c * L::WIDTH));
        }
        for (row, (key, query)) in key.iter().zip(query).enumerate() {
            let (key, query) = (L::splat(*key), L::splat(*query));
            for (sum, (c, delta)) in sums.iter_mut().zip(deltas.iter().enumerate()) {
                let place = state.as_mut_ptr().add(row * cols + at + c * L::WIDTH);
                let value = key.fma(*delta, L::load(place));
                value.store(place);
                *sum = query.fma(value, *sum);
            }
        }
        for (c, sum) in sums.iter().enumerate() {
            sum.store(out.as_mut_ptr().add(at + c * L::WIDTH));
        }
    }
}
