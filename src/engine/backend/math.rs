//! Elementwise arithmetic in a form that the compiler turns into vector instructions.
//!
//! Sums run in 16 lanes in a fixed order, so that a result depends on the numbers alone. The CPU backend
//! computes with it, and every backend's host side may. Refuses to know: rows, threads.

const LANES: usize = 16;

/// What [`exp`] costs, in multiply–adds.
pub const EXP_WORK: usize = 16;

/// e^x within 2 units in the last place for |x| ≤ 87; beyond, the value at ±87. NaN stays NaN.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 in two parts; e^r by the polynomial of Cephes' expf.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// Adding this rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const ONE_BITS: u32 = 0x3f80_0000;
    let x = x.clamp(-87.0, 87.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    for c in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p * r + c;
    }
    let scale = f32::from_bits((rounded.to_bits() << 23).wrapping_add(ONE_BITS));
    (p * r * r + r + 1.0) * scale
}

pub fn sum_of_squares(x: &[f32]) -> f32 {
    lanes(x, 0.0, |sum, value| sum + value * value, |a, b| a + b)
}

/// The greatest number; -∞ for none. NaN is passed over.
pub fn max(x: &[f32]) -> f32 {
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    lanes(x, f32::NEG_INFINITY, greater, greater)
}

pub fn has_nan(x: &[f32]) -> bool {
    x.iter().fold(false, |found, value| found | value.is_nan())
}

/// Turns scores into probabilities that sum to one.
pub fn softmax(x: &mut [f32]) {
    let greatest = max(x);
    for value in x.iter_mut() {
        *value = exp(*value - greatest);
    }
    let scale = 1.0 / lanes(x, 0.0, |sum, value| sum + value, |a, b| a + b);
    for value in x {
        *value *= scale;
    }
}

/// ln Σ e^x, given the greatest x.
pub fn log_sum_exp(x: &[f32], greatest: f32) -> f64 {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut sums = [0.0f64; LANES];
    for block in blocks {
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum += f64::from(exp(value - greatest));
        }
    }
    let rest: f64 = rest
        .iter()
        .map(|value| f64::from(exp(value - greatest)))
        .sum();
    f64::from(greatest) + (sums.iter().sum::<f64>() + rest).ln()
}

/// `out = x / rms(x) · weight`; arXiv:1910.07467.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = rms_scale(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = rms_scale(x, eps);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = *x * scale * weight;
    }
}

/// `out = silu(gate) · up`, silu(x) = x / (1 + e^-x).
pub fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

fn rms_scale(x: &[f32], eps: f32) -> f32 {
    1.0 / (sum_of_squares(x) / x.len() as f32 + eps).sqrt()
}

#[inline(always)]
fn lanes(
    x: &[f32],
    start: f32,
    step: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut totals = [start; LANES];
    for block in blocks {
        for (total, value) in totals.iter_mut().zip(block) {
            *total = step(*total, *value);
        }
    }
    for (total, value) in totals.iter_mut().zip(rest) {
        *total = step(*total, *value);
    }
    totals.into_iter().reduce(join).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let worst = (-87_000..=87_000)
            .map(|step| {
                let x = step as f32 / 1000.0;
                let want = f64::from(x).exp();
                (f64::from(exp(x)) - want).abs() / want
            })
            .fold(0.0, f64::max);
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn sums_take_every_element_once() {
        for count in [0, 1, 15, 16, 17, 100] {
            let x: Vec<f32> = (1..=count).map(|v| v as f32).collect();
            let want: f32 = x.iter().map(|v| v * v).sum();
            assert!((sum_of_squares(&x) - want).abs() < 0.5, "{count}");
            assert!((max(&x) - count as f32).abs() < 0.5 || count == 0);
        }
    }

    #[test]
    fn softmax_and_log_sum_exp_agree_with_f64() {
        let x: Vec<f32> = (0..37).map(|v| (v as f32 * 0.7).sin() * 9.0).collect();
        let total: f64 = x.iter().map(|v| f64::from(*v).exp()).sum();
        assert!((log_sum_exp(&x, max(&x)) - total.ln()).abs() < 1e-6);
        let mut p = x.clone();
        softmax(&mut p);
        for (p, x) in p.iter().zip(&x) {
            assert!((f64::from(*p) - f64::from(*x).exp() / total).abs() < 1e-6);
        }
    }

    #[test]
    fn norm_and_swiglu_by_hand() {
        let mut out = [0.0; 2];
        rms_norm(&[3.0, 4.0], &[1.0, 2.0], 0.0, &mut out);
        let rms = 12.5f32.sqrt();
        assert!((out[0] - 3.0 / rms).abs() < 1e-6 && (out[1] - 8.0 / rms).abs() < 1e-6);
        swiglu(&[0.0, 1.0], &[5.0, 2.0], &mut out);
        assert!(out[0].abs() < 1e-6 && (out[1] - 2.0 / (1.0 + (-1.0f32).exp())).abs() < 1e-6);
    }
}
