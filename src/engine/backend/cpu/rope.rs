//! Rotary position embedding (arXiv:2104.09864) in the half-split form of GPT-NeoX and Qwen.
//!
//! Main type: [`Rope`], the angles of one batch's rows. Refuses to know: heads, layers.

use crate::config::rope::RopeSettings;

/// Cosine and sine of every row's position at every frequency.
#[derive(Default)]
pub struct Rope {
    /// Pairs of a head that are turned.
    half: usize,
    /// `[rows, half]` each.
    cos: Vec<f32>,
    sin: Vec<f32>,
    frequencies: Vec<f32>,
    /// Factor of the turned elements.
    scale: f32,
}

impl Rope {
    /// `rotary_dim`: elements of a head that are turned, the leading ones of each half.
    pub fn new(head_dim: usize, rotary_dim: usize, settings: RopeSettings) -> Self {
        Self {
            half: rotary_dim / 2,
            frequencies: settings.frequencies(rotary_dim),
            scale: settings.turned_scale(head_dim, rotary_dim),
            ..Self::default()
        }
    }

    pub fn set_positions(&mut self, positions: impl Iterator<Item = usize>) {
        self.cos.clear();
        self.sin.clear();
        for position in positions {
            for frequency in &self.frequencies {
                let (sin, cos) = angle(position, *frequency).sin_cos();
                self.cos.push(cos as f32 * self.scale);
                self.sin.push(sin as f32 * self.scale);
            }
        }
    }

    /// Turns one head of `row` in place: element i with element i + head_dim / 2.
    pub fn turn(&self, row: usize, head: &mut [f32]) {
        let at = row * self.half..(row + 1) * self.half;
        let (cos, sin) = (&self.cos[at.clone()], &self.sin[at]);
        let (low, high) = head.split_at_mut(head.len() / 2);
        for (((low, high), cos), sin) in low.iter_mut().zip(high).zip(cos).zip(sin) {
            (*low, *high) = (*low * cos - *high * sin, *high * cos + *low * sin);
        }
    }
}

/// From here on angles are kept in f64: as f32 they would be off by a 256th of a radian and more.
const WIDE_FROM: usize = 1 << 16;

/// Below [`WIDE_FROM`] rounded to f32, as the reference does.
fn angle(position: usize, frequency: f32) -> f64 {
    if position < WIDE_FROM {
        f64::from(position as f32 * frequency)
    } else {
        position as f64 * f64::from(frequency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_by_position_times_frequency() {
        let mut rope = Rope::new(4, 4, RopeSettings::plain(100.0));
        rope.set_positions([0, 7].into_iter());
        let mut head = [1.0, 2.0, 3.0, 4.0];
        rope.turn(0, &mut head);
        assert!(
            head.iter()
                .zip([1.0, 2.0, 3.0, 4.0])
                .all(|(a, b)| (a - b).abs() < 1e-7)
        );
        rope.turn(1, &mut head);
        let (a, b) = (7.0f64, 0.7f64);
        let want = [
            a.cos() - 3.0 * a.sin(),
            2.0 * b.cos() - 4.0 * b.sin(),
            3.0 * a.cos() + a.sin(),
            4.0 * b.cos() + 2.0 * b.sin(),
        ];
        for (got, want) in head.iter().zip(want) {
            assert!((f64::from(*got) - want).abs() < 1e-5, "{got} {want}");
        }
    }

    #[test]
    fn products_of_turned_vectors_depend_on_the_distance_alone() {
        let mut rope = Rope::new(8, 8, RopeSettings::plain(10_000.0));
        rope.set_positions([3, 10, 103, 110].into_iter());
        let (q, k): (Vec<f32>, Vec<f32>) =
            (0..8).map(|i| ((i as f32).sin(), (i as f32).cos())).unzip();
        let dot = |at: usize, to: usize| {
            let (mut q, mut k) = (q.clone(), k.clone());
            rope.turn(at, &mut q);
            rope.turn(to, &mut k);
            q.iter().zip(&k).map(|(a, b)| a * b).sum::<f32>()
        };
        assert!((dot(1, 0) - dot(3, 2)).abs() < 1e-4);
    }

    /// As f32 these angles would be off by up to a radian and more.
    #[test]
    fn far_positions_keep_their_angle() {
        let mut rope = Rope::new(4, 4, RopeSettings::plain(100.0));
        let far = [70_001, 1_000_003, 40_000_001];
        rope.set_positions(far.into_iter());
        for (row, position) in far.into_iter().enumerate() {
            let mut head = [1.0, 1.0, 0.0, 0.0];
            rope.turn(row, &mut head);
            for (at, frequency) in [1.0f32, 0.1].into_iter().enumerate() {
                let (sin, cos) = (position as f64 * f64::from(frequency)).sin_cos();
                assert!((f64::from(head[at]) - cos).abs() < 1e-6, "{position} {at}");
                assert!(
                    (f64::from(head[at + 2]) - sin).abs() < 1e-6,
                    "{position} {at}"
                );
            }
        }
    }
}
