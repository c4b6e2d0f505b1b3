//! Creep: small steps, none beyond the margin, whose sum is.

use verdict::record::Direction;
use verdict::stats::{self, Degenerate};

/// Sessions that the test reads: the newest ones.
pub const RATIOS: usize = 10;

/// Chance of an alarm where main stands at the margin.
const ALPHA: f64 = 1e-3;

/// The newest ratios of main to its anchor, held against the margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Creep {
    /// Mean relative loss against the anchor: 0.03 is 3 % worse, below 0 is better.
    pub loss: f64,
    /// 95 % interval of the loss.
    pub interval: (f64, f64),
    /// What the loss may come to.
    pub margin: f64,
    /// One-sided p that the loss is beyond the margin.
    pub p: f64,
    pub is_alarm: bool,
}

impl Creep {
    /// One-sample t of the newest ten logarithms of ratios, more being worse, against the margin. `None`
    /// for fewer than ten. Ratios without any spread are beyond it or not, for certain.
    pub fn of(losses: &[f64], margin: f64, direction: Direction) -> Option<Self> {
        let newest = losses.len().checked_sub(RATIOS)?;
        let newest = &losses[newest..];
        let mean = stats::mean(newest)?;
        let limit = direction.loss(margin);
        let (interval, p) = match stats::one_sample(newest) {
            Ok(e) => (e.interval(0.95), e.p_greater(limit)),
            Err(Degenerate::NoVariance) => ((mean, mean), if mean > limit { 0.0 } else { 1.0 }),
            Err(_) => return None,
        };
        Some(Self {
            loss: direction.change(mean),
            interval: (direction.change(interval.0), direction.change(interval.1)),
            margin,
            p,
            is_alarm: p < ALPHA,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` values about `level`, apart by `spread`.
    fn losses(n: usize, level: f64, spread: f64) -> Vec<f64> {
        let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..n).map(|i| level + spread * sign(i)).collect()
    }

    #[test]
    fn alarms_where_the_margin_is_passed() {
        let check = |values: &[f64], expect: Option<bool>| {
            assert_eq!(
                Creep::of(values, 0.01, Direction::LowerIsBetter).map(|c| c.is_alarm),
                expect
            );
        };
        check(&[], None);
        check(&losses(9, 0.5, 0.0), None);
        check(&losses(10, 0.05, 0.005), Some(true));
        check(&losses(10, 0.012, 0.005), Some(false));
        check(&losses(10, -0.05, 0.005), Some(false));
        check(&losses(10, 0.05, 0.2), Some(false));
        check(&losses(10, 0.02, 0.0), Some(true));
        check(&losses(10, 0.0, 0.0), Some(false));
        // What was lost before the newest ten, and won back, is past.
        let mended = [losses(10, 0.05, 0.005), losses(10, 0.0, 0.005)];
        check(&mended.concat(), Some(false));
    }

    /// By hand: values ± .005, s² = 10/9 · .005², se = .005/3, t = (.02 − ln 1.01)/se = 6.0298; Student's
    /// upper tail with 9 degrees of freedom, closed for an odd number of them, is 9.762166e-5 there.
    #[test]
    fn its_p_is_students() {
        let creep = Creep::of(&losses(10, 0.02, 0.005), 0.01, Direction::LowerIsBetter).unwrap();
        assert!((creep.p / 9.762_166e-5 - 1.0).abs() < 1e-6, "{}", creep.p);
        assert!((creep.loss - 0.02_f64.exp_m1()).abs() < 1e-12);
    }
}
