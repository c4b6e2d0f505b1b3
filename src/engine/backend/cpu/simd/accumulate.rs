//! Weighted sums of rows, the second half of attention.
//!
//! Main function: [`accumulate`]. Refuses to know: which instruction set it is compiled for.

#![expect(unsafe_code, reason = "raw loads and stores, checked by the caller")]

use super::lanes::Lanes;

/// # Safety
/// `values` must be `[weights.len(), out.len()]`, and the processor must have `L`.
#[inline(always)]
pub unsafe fn accumulate<L: Lanes>(weights: &[f32], values: &[f32], out: &mut [f32]) {
    const WIDE: usize = 4;
    let d = out.len();
    let mut at = 0;
    // SAFETY: `at` plus what is loaded stays within a row of `d` elements.
    unsafe {
        while at + WIDE * L::WIDTH <= d {
            accumulate_columns::<L, WIDE>(weights, values, out, at);
            at += WIDE * L::WIDTH;
        }
        // Side by side too: a sum waits for its last addition, others need not.
        let left = (d - at) / L::WIDTH;
        match left {
            0 => {}
            1 => accumulate_columns::<L, 1>(weights, values, out, at),
            2 => accumulate_columns::<L, 2>(weights, values, out, at),
            _ => accumulate_columns::<L, 3>(weights, values, out, at),
        }
        at += left * L::WIDTH;
    }
    for column in at..d {
        for (weight, row) in weights.iter().zip(values.chunks_exact(d)) {
            out[column] += weight * row[column];
        }
    }
}

/// # Safety
/// As `accumulate`; `C` registers fit between `at` and the end of a row.
#[inline(always)]
unsafe fn accumulate_columns<L: Lanes, const C: usize>(
    weights: &[f32],
    values: &[f32],
    out: &mut [f32],
    at: usize,
) {
    let d = out.len();
    // SAFETY: by the caller.
    unsafe {
        let mut sums = [L::zero(); C];
        for (c, sum) in sums.iter_mut().enumerate() {
            *sum = L::load(out.as_ptr().add(at + c * L::WIDTH));
        }
        for (t, weight) in weights.iter().enumerate() {
            let weight = L::splat(*weight);
            for (c, sum) in sums.iter_mut().enumerate() {
                let row = L::load(values.as_ptr().add(t * d + at + c * L::WIDTH));
                *sum = weight.fma(row, *sum);
            }
        }
        for (c, sum) in sums.iter().enumerate() {
            sum.store(out.as_mut_ptr().add(at + c * L::WIDTH));
        }
    }
}
