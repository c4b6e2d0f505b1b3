//! Places of values along an axis, and its ticks.
//!
//! Main type: [`Scale`]. Refuses to know: pixels, units.

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    Linear,
    /// Linear, with 0 on the axis.
    FromZero,
    /// Equal ratios are equally far apart; only values above 0 have a place.
    Log,
}

/// Free space beyond the extreme values, as a share of what lies between them.
const PAD: f64 = 0.06;
/// Ticks that an axis should have, about.
const TICKS: f64 = 4.0;
/// … and has at most.
const MOST_TICKS: usize = 7;

/// The part of an axis that is drawn; of a logarithmic one the ends are logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// An axis that holds all values that can have a place; `None` where there are none.
    pub fn over(kind: ScaleKind, values: impl Iterator<Item = f64>) -> Option<Self> {
        let is_log = kind == ScaleKind::Log;
        let values = values.filter_map(|value| placed(value, is_log));
        let zero = (kind == ScaleKind::FromZero).then_some(0.0);
        let (low, high) = values
            .chain(zero)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if low > high {
            return None;
        }
        let least = if is_log { 0.05 } else { high.abs() * 1e-3 };
        let pad = ((high - low) * PAD).max(least).max(1e-9);
        let from_zero = kind == ScaleKind::FromZero && low >= 0.0;
        Some(Self {
            low: if from_zero { low } else { low - pad },
            high: high + pad,
            is_log,
        })
    }

    /// From 0 at the axis's begin to 1 at its end; `None` for what has no place on it.
    pub fn share(&self, value: f64) -> Option<f64> {
        let share = (placed(value, self.is_log)? - self.low) / (self.high - self.low);
        (0.0..=1.0).contains(&share).then_some(share)
    }

    /// Round values, rising.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = match self.is_log {
            true => (self.low.exp(), self.high.exp()),
            false => (self.low, self.high),
        };
        let rounded = match self.is_log {
            true => decades(low, high),
            false => Vec::new(),
        };
        match rounded.len() {
            0..3 => multiples(low, high),
            _ => rounded,
        }
    }
}

fn placed(value: f64, is_log: bool) -> Option<f64> {
    let value = if is_log { value.ln() } else { value };
    value.is_finite().then_some(value)
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn multiples(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= rough);
    let step = factor.unwrap_or(10.0) * power;
    let first = (low / step).ceil();
    let all = (0..MOST_TICKS).map(|n| (first + n as f64) * step);
    all.take_while(|tick| *tick <= high).collect()
}

/// 1, 2 and 5 times powers of ten; where those are too many, every n-th power.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let within = |factors: &[f64]| -> Vec<f64> {
        let powers = powers.clone().map(|power| 10_f64.powi(power));
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= MOST_TICKS {
        return fine;
    }
    let whole = within(&[1.0]);
    let each = whole.len().div_ceil(MOST_TICKS).max(1);
    whole.into_iter().step_by(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: ScaleKind, values: &[f64]) -> Option<Scale> {
        Scale::over(kind, values.iter().copied())
    }

    #[test]
    fn every_value_has_a_place_and_ticks_are_few_and_round() {
        let check = |kind, values: &[f64], expect: &[f64]| {
            let scale = scale(kind, values).unwrap();
            for value in values {
                assert!(scale.share(*value).is_some(), "{value} of {values:?}");
            }
            let ticks = scale.ticks();
            assert_eq!(ticks.len(), expect.len(), "{ticks:?}");
            for (tick, expect) in ticks.iter().zip(expect) {
                assert!((tick - expect).abs() < 1e-9, "{ticks:?}");
            }
        };
        check(ScaleKind::Linear, &[1.0, 3.0], &[1.0, 2.0, 3.0]);
        check(ScaleKind::FromZero, &[10.0, 40.0], &[0.0, 20.0, 40.0]);
        check(ScaleKind::Linear, &[-0.02, 0.03], &[-0.02, 0.0, 0.02]);
        check(ScaleKind::Log, &[0.5, 4.0], &[0.5, 1.0, 2.0]);
        check(ScaleKind::Log, &[1.0, 1e4], &[1.0, 10.0, 100.0, 1e3, 1e4]);
        check(ScaleKind::Log, &[0.9, 1.1], &[0.9, 1.0, 1.1]);
    }

    #[test]
    fn what_has_no_place_gets_none() {
        assert_eq!(scale(ScaleKind::Linear, &[]), None);
        assert_eq!(scale(ScaleKind::Linear, &[f64::NAN, f64::INFINITY]), None);
        assert_eq!(scale(ScaleKind::Log, &[0.0, -1.0]), None);
        let one = scale(ScaleKind::Linear, &[5.0]).unwrap();
        assert!(one.share(5.0).is_some_and(|at| (at - 0.5).abs() < 1e-9));
        assert_eq!((one.share(6.0), one.share(f64::NAN)), (None, None));
        let zero = scale(ScaleKind::FromZero, &[0.0]).unwrap();
        assert!(zero.share(0.0).is_some() && zero.ticks().len() < 9);
    }
}
