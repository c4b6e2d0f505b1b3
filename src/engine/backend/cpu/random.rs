//! Synthetic weights: numbers that depend on seed and index alone, however the work was shared.
//!
//! The same formula as in `kernels/random.cu`: normal by Box and Muller from a mixed counter. Refuses to
//! know: what the numbers are for.

use std::f32::consts::TAU;

use half::bf16;

use super::memory::Matrix;
use super::threads::Threads;
use crate::backend::BackendError;
use crate::splitmix::{GAMMA, mix};

/// Numbers that a draw of 24 bits can be.
const STEPS: f32 = 16_777_216.0;

impl Matrix {
    pub fn random(
        rows: usize,
        cols: usize,
        deviation: f32,
        seed: u64,
        threads: &Threads,
    ) -> Result<Self, BackendError> {
        Self::made(rows, cols, threads, &|first, room| {
            for (index, number) in (first as u64..).zip(room) {
                *number = bf16::from_f32(deviation * normal(seed, index));
            }
        })
    }
}

fn normal(seed: u64, index: u64) -> f32 {
    let bits = mix(seed.wrapping_add((index + 1).wrapping_mul(GAMMA)));
    // In (0, 1]: the logarithm is finite.
    let u = ((bits >> 40) as f32 + 1.0) / STEPS;
    let v = (bits as u32 >> 8) as f32 / STEPS;
    (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Elements;

    fn numbers(seed: u64, threads: usize) -> Vec<f32> {
        let matrix = Matrix::random(500, 400, 0.02, seed, &Threads::new(threads).unwrap());
        let matrix = matrix.unwrap();
        let Elements::Bf16(values) = matrix.elements() else {
            panic!("synthetic weights are bf16");
        };
        values.iter().map(|value| value.to_f32()).collect()
    }

    #[test]
    fn numbers_are_normal_and_depend_on_the_seed_alone() {
        let seven = numbers(7, 1);
        assert_eq!(seven, numbers(7, 3));
        assert_ne!(seven, numbers(8, 1));
        let count = seven.len() as f64;
        let mean = seven.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
        let variance = seven.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / count;
        // Ten standard errors: 0.02 / sqrt(200000) = 0.000045, and 0.16 % of the deviation.
        assert!(mean.abs() < 0.000_45, "{mean}");
        assert!((variance.sqrt() / 0.02 - 1.0).abs() < 0.016, "{variance}");
        let beyond_two = seven.iter().filter(|x| x.abs() > 0.04).count() as f64 / count;
        assert!((beyond_two - 0.0455).abs() < 0.005, "{beyond_two}");
    }
}
