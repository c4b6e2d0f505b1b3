//! The vector kernels: products of f32 rows with f32, f16 or bf16 rows, weighted sums, and the delta rule's state.
//!
//! Main type: [`Kernels`], the best instruction set that this processor has, found at run time. One
//! generic body (`product`, `accumulate`, `delta`) is compiled for AVX-512, for AVX2 with FMA and F16C, and without
//! either (`lanes`).
//!
//! **Order of summation.** A dot product has 32 running sums: element e is added to sum e mod 32, in
//! order; at the end l and l + 16 are added, then l and l + 8, then a fixed tree of 8; elements beyond the
//! last whole 16 follow one by one. The order does not depend on how many rows are computed together nor
//! on how they are shared out among threads, and is the same in every instruction set (those with fused
//! multiply–add agree to the bit). That makes the whole CPU backend batch-invariant.
//!
//! Why not a library's matrix product: docs/decisions/0005-own-matrix-products-on-the-cpu.md.
//!
//! Refuses to know: threads, what the numbers mean.

#![expect(
    unsafe_code,
    reason = "calls of kernels that only some processors have"
)]

mod accumulate;
mod delta;
mod lanes;
mod product;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

use half::{bf16, f16};

use super::columns::Columns;
use accumulate::accumulate;
use delta::{decay_and_read, write_and_answer};
use lanes::Stored;
use product::Product;

/// Rows of a matrix in their stored type.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl<'a> Elements<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::Bf16(values) => values.len(),
        }
    }

    pub fn slice(self, start: usize, end: usize) -> Self {
        match self {
            Self::F32(values) => Self::F32(&values[start..end]),
            Self::F16(values) => Self::F16(&values[start..end]),
            Self::Bf16(values) => Self::Bf16(&values[start..end]),
        }
    }

    /// Writes the numbers as f32; lengths must agree.
    pub fn widen(self, out: &mut [f32]) {
        assert_eq!(self.len(), out.len());
        match self {
            Self::F32(values) => out.copy_from_slice(values),
            Self::F16(values) => out
                .iter_mut()
                .zip(values)
                .for_each(|(o, v)| *o = v.to_f32()),
            Self::Bf16(values) => out
                .iter_mut()
                .zip(values)
                .for_each(|(o, v)| *o = v.to_f32()),
        }
    }
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernels(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Kernels {
    pub fn best() -> Self {
        Self::all()[0]
    }

    /// Those of this processor, best first.
    pub fn all() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            let avx512 =
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                sets.push(Self(Set::Avx512));
            }
            if avx2 {
                sets.push(Self(Set::Avx2));
            }
        }
        sets.push(Self(Set::Portable));
        sets
    }

    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            Set::Portable => "portable",
        }
    }

    /// `out[i][j] = x[i] · w[j]`: `x` is `[out.rows(), k]`, `w` is `[out.width(), k]`.
    pub fn product(self, x: &[f32], k: usize, w: Elements<'_>, out: &mut Columns<'_>) {
        assert_eq!(
            w.len(),
            out.width() * k,
            "weights do not fit the output's columns"
        );
        match w {
            Elements::F32(w) => self.product_of(x, k, w, out),
            Elements::F16(w) => self.product_of(x, k, w, out),
            Elements::Bf16(w) => self.product_of(x, k, w, out),
        }
    }

    fn product_of<W: Stored>(self, x: &[f32], k: usize, w: &[W], out: &mut Columns<'_>) {
        assert!(x.len() >= out.rows() * k, "too few rows of x");
        let task = Product {
            x: x.as_ptr(),
            w: w.as_ptr(),
            k,
            n: out.rows(),
            m: out.width(),
            stride: out.stride(),
            out: out.as_mut_ptr(),
        };
        // SAFETY: the lengths were just checked; a `Kernels` exists only where the processor has it.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 if task.is_small(1) => rows_avx2(task),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 if task.is_small(2) => rows_avx2(task),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 if task.n == 1 => row_avx2(task),
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => blocks_avx512(task),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => blocks_avx2(task),
                Set::Portable => task.run_rows::<[f32; 8]>(),
            }
        }
    }

    /// `out += Σ weights[t] · values[t]` in the order of t; `values` is `[weights.len(), out.len()]`.
    pub fn accumulate(self, weights: &[f32], values: &[f32], out: &mut [f32]) {
        assert_eq!(values.len(), weights.len() * out.len());
        // SAFETY: the lengths were just checked; a `Kernels` exists only where the processor has it.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => accumulate_avx512(weights, values, out),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => accumulate_avx2(weights, values, out),
                Set::Portable => accumulate::<[f32; 8]>(weights, values, out),
            }
        }
    }

    /// `state *= decay`, then `read = stateᵀ key`; `state` is `[key.len(), read.len()]`.
    pub fn decay_and_read(self, state: &mut [f32], decay: f32, key: &[f32], read: &mut [f32]) {
        assert_eq!(state.len(), key.len() * read.len());
        // SAFETY: the lengths were just checked; a `Kernels` exists only where the processor has it.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => decay_and_read_avx512(state, decay, key, read),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => decay_and_read_avx2(state, decay, key, read),
                Set::Portable => decay_and_read::<[f32; 8]>(state, decay, key, read),
            }
        }
    }

    /// `state += key ⊗ delta`, then `out = stateᵀ query`; `state` is `[key.len(), out.len()]`.
    pub fn write_and_answer(
        self,
        state: &mut [f32],
        (key, query): (&[f32], &[f32]),
        delta: &[f32],
        out: &mut [f32],
    ) {
        assert_eq!(state.len(), key.len() * out.len());
        assert_eq!((query.len(), delta.len()), (key.len(), out.len()));
        // SAFETY: the lengths were just checked; a `Kernels` exists only where the processor has it.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Set::Avx512 => write_and_answer_avx512(state, (key, query), delta, out),
                #[cfg(target_arch = "x86_64")]
                Set::Avx2 => write_and_answer_avx2(state, (key, query), delta, out),
                Set::Portable => write_and_answer::<[f32; 8]>(state, (key, query), delta, out),
            }
        }
    }
}

// Rows and blocks are compiled apart: in one function, blocks leave rows too few registers.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn rows_avx2<W: Stored>(task: Product<W>) {
    // SAFETY: by the caller, as `Product` asks.
    unsafe { task.run_rows::<__m256>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn row_avx2<W: Stored>(task: Product<W>) {
    // SAFETY: by the caller, as `Product` asks.
    unsafe { task.run_row::<__m256>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma,f16c")]
unsafe fn blocks_avx512<W: Stored>(task: Product<W>) {
    // SAFETY: by the caller, as `Product` asks.
    unsafe { task.run_blocks::<__m512, 4>(6) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn blocks_avx2<W: Stored>(task: Product<W>) {
    // SAFETY: by the caller, as `Product` asks.
    unsafe { task.run_blocks::<__m256, 2>(6) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn accumulate_avx512(weights: &[f32], values: &[f32], out: &mut [f32]) {
    // SAFETY: by the caller, as `accumulate` asks.
    unsafe { accumulate::<__m512>(weights, values, out) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn accumulate_avx2(weights: &[f32], values: &[f32], out: &mut [f32]) {
    // SAFETY: by the caller, as `accumulate` asks.
    unsafe { accumulate::<__m256>(weights, values, out) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn decay_and_read_avx512(state: &mut [f32], decay: f32, key: &[f32], read: &mut [f32]) {
    // SAFETY: by the caller, as `decay_and_read` asks.
    unsafe { decay_and_read::<__m512>(state, decay, key, read) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn decay_and_read_avx2(state: &mut [f32], decay: f32, key: &[f32], read: &mut [f32]) {
    // SAFETY: by the caller, as `decay_and_read` asks.
    unsafe { decay_and_read::<__m256>(state, decay, key, read) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn write_and_answer_avx512(
    state: &mut [f32],
    pair: (&[f32], &[f32]),
    delta: &[f32],
    out: &mut [f32],
) {
    // SAFETY: by the caller, as `write_and_answer` asks.
    unsafe { write_and_answer::<__m512>(state, pair, delta, out) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn write_and_answer_avx2(
    state: &mut [f32],
    pair: (&[f32], &[f32]),
    delta: &[f32],
    out: &mut [f32],
) {
    // SAFETY: by the caller, as `write_and_answer` asks.
    unsafe { write_and_answer::<__m256>(state, pair, delta, out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in -1..1 that bf16 and f16 hold exactly.
    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((state >> 57) as f32 - 64.0) / 64.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn product(
        kernels: Kernels,
        x: &[f32],
        n: usize,
        k: usize,
        w: Elements<'_>,
        m: usize,
    ) -> Vec<f32> {
        let mut out = vec![f32::NAN; n * m];
        kernels.product(x, k, w, &mut Columns::new(&mut out, n, m, m));
        out
    }

    /// Dot products of numbers in -1..1 err by at most k roundings of sums below k.
    fn close(got: f32, want: f64, k: usize) -> bool {
        (f64::from(got) - want).abs() <= f64::from(f32::EPSILON) * (k * k) as f64 / 8.0 + 1e-12
    }

    #[test]
    fn every_path_equals_f64_at_odd_sizes() {
        for kernels in Kernels::all() {
            for (n, m, k) in [
                (1, 1, 1),
                (1, 7, 15),
                (1, 13, 16),
                (2, 6, 17),
                (3, 5, 33),
                (4, 12, 64),
                (5, 19, 100),
                (7, 2, 8),
                (9, 31, 129),
                (1, 3, 1024),
                (16, 11, 600),
                (70, 6, 1025),
                (2, 17, 2500),
                (14, 9, 12_345),
            ] {
                let (x, w) = (numbers(n * k, 1), numbers(m * k, 2));
                let half: Vec<f16> = w.iter().map(|v| f16::from_f32(*v)).collect();
                let brain: Vec<bf16> = w.iter().map(|v| bf16::from_f32(*v)).collect();
                for stored in [
                    Elements::F32(&w),
                    Elements::F16(&half),
                    Elements::Bf16(&brain),
                ] {
                    let out = product(kernels, &x, n, k, stored, m);
                    for (at, got) in out.iter().enumerate() {
                        let (i, j) = (at / m, at % m);
                        let pairs = x[i * k..][..k].iter().zip(&w[j * k..][..k]);
                        let want: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        let name = kernels.name();
                        assert!(
                            close(*got, want, k),
                            "{name} {n}×{m}×{k} at {i},{j}: {got} {want}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_rows_result_does_not_depend_on_its_neighbours() {
        // k below, at and beyond a turn; the last is more than the second-level cache's share.
        for (n, m, k) in [
            (3, 9, 203),
            (23, 23, 203),
            (11, 19, 1024),
            (13, 23, 2083),
            (9, 5, 33_000),
        ] {
            let (x, w) = (numbers(n * k, 3), numbers(m * k, 4));
            for kernels in Kernels::all() {
                let together = product(kernels, &x, n, k, Elements::F32(&w), m);
                for i in 0..n {
                    let alone = product(kernels, &x[i * k..][..k], 1, k, Elements::F32(&w), m);
                    assert_eq!(alone, together[i * m..][..m], "{} {n}", kernels.name());
                }
                for j in 0..m {
                    let alone = product(kernels, &x, n, k, Elements::F32(&w[j * k..][..k]), 1);
                    let column: Vec<f32> = (0..n).map(|i| together[i * m + j]).collect();
                    assert_eq!(alone, column, "{} {n}", kernels.name());
                }
                let first = product(kernels, &x, 2, k, Elements::F32(&w), m);
                assert_eq!(first, together[..2 * m], "{} {n}", kernels.name());
            }
        }
    }

    /// Numbers in -1..1 that use all bits of an f32: another order of summation gives another sum.
    fn long_numbers(count: usize, seed: u64) -> Vec<f32> {
        let small = numbers(count, seed + 1);
        let pairs = numbers(count, seed).into_iter().zip(small);
        pairs.map(|(v, small)| v + small / 8192.0).collect()
    }

    /// A dot product in the order that the module's head states.
    fn in_order(kernels: Kernels, x: &[f32], w: &[f32]) -> f32 {
        let mut sums = [0.0_f32; 32];
        let whole = x.len() - x.len() % 16;
        for e in 0..whole {
            let sum = &mut sums[e % 32];
            *sum = match kernels.0 {
                Set::Portable => x[e] * w[e] + *sum,
                _ => x[e].mul_add(w[e], *sum),
            };
        }
        let [a, b, c, d, e, f, g, h] =
            std::array::from_fn(|l| (sums[l] + sums[l + 16]) + (sums[l + 8] + sums[l + 24]));
        let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
        let tail = (whole..x.len()).fold(0.0, |tail, e| tail + x[e] * w[e]);
        if whole < x.len() { sum + tail } else { sum }
    }

    /// Every way of taking rows together, in every instruction set and type.
    #[test]
    fn sums_are_in_the_stated_order_to_the_bit() {
        let ks = [
            5, 16, 40, 48, 64, 128, 192, 331, 384, 512, 1024, 1040, 1103, 2083,
        ];
        let (most, m) = (14, 11);
        for k in ks {
            let (x, w) = (long_numbers(most * k, 8), numbers(m * k, 9));
            let half: Vec<f16> = w.iter().map(|v| f16::from_f32(*v)).collect();
            let brain: Vec<bf16> = w.iter().map(|v| bf16::from_f32(*v)).collect();
            for kernels in Kernels::all() {
                let rows = x.chunks_exact(k);
                let columns = |x| w.chunks_exact(k).map(move |w| in_order(kernels, x, w));
                let want: Vec<f32> = rows.flat_map(columns).collect();
                for n in 1..=most {
                    for stored in [
                        Elements::F32(&w),
                        Elements::F16(&half),
                        Elements::Bf16(&brain),
                    ] {
                        let got = product(kernels, &x[..n * k], n, k, stored, m);
                        assert_eq!(got, want[..n * m], "{} {n}×{m}×{k}", kernels.name());
                    }
                }
            }
        }
    }

    #[test]
    fn weighted_sums_equal_f64() {
        for kernels in Kernels::all() {
            for (count, d) in [
                (0, 5),
                (1, 1),
                (3, 16),
                (5, 24),
                (16, 80),
                (16, 128),
                (7, 131),
            ] {
                let (weights, values) = (numbers(count, 5), numbers(count * d, 6));
                let mut out = numbers(d, 7);
                let before = out.clone();
                kernels.accumulate(&weights, &values, &mut out);
                for c in 0..d {
                    let terms =
                        (0..count).map(|t| f64::from(weights[t]) * f64::from(values[t * d + c]));
                    let want = f64::from(before[c]) + terms.sum::<f64>();
                    assert!(
                        close(out[c], want, count + 4),
                        "{} {count}×{d}",
                        kernels.name()
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "too few rows")]
    fn lengths_are_checked() {
        product(
            Kernels::best(),
            &[0.0; 3],
            2,
            2,
            Elements::F32(&[0.0; 2]),
            1,
        );
    }
}
