//! Lengths of prompts and answers: one, a range, or a normal distribution, drawn from the seed.
//!
//! Main types: [`Lengths`]; [`Draw`], its values. Refuses to know: what has these lengths.

use serde_json::{Value, json};
use std::f64::consts::TAU;

/// Longest prompt or answer.
const LONGEST: u32 = 1_000_000;

/// Tokens of each prompt or answer, at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    One(u32),
    /// Each from the first to the second equally often.
    Uniform(u32, u32),
    /// What is drawn below 1 or above the longest is drawn again.
    Normal {
        mean: u32,
        stddev: f64,
    },
}

impl Lengths {
    /// Of an argument as `128` or `100-200`.
    ///
    /// # Errors
    /// What is neither, or no length.
    pub fn parse(text: &str) -> Result<Self, String> {
        let length = |text: &str| text.parse().ok().filter(|of| (1..=LONGEST).contains(of));
        let lengths = match text.split_once('-') {
            None => length(text).map(Self::One),
            Some((low, high)) => {
                let ends = length(low).zip(length(high));
                ends.filter(|(low, high)| low < high)
                    .map(|(low, high)| Self::Uniform(low, high))
            }
        };
        lengths.ok_or_else(|| {
            format!("must be a number from 1 to {LONGEST}, or two rising ones as in 100-200")
        })
    }

    /// The same with this standard deviation; `None` of a range.
    pub fn spread(self, stddev: Option<f64>) -> Option<Self> {
        match (self, stddev) {
            (_, None) => Some(self),
            (Self::One(mean), Some(stddev)) => Some(Self::Normal { mean, stddev }),
            _ => None,
        }
    }

    /// What the command line says, and the deviation beside it.
    pub fn named(self) -> (Value, Option<f64>) {
        match self {
            Self::One(length) => (json!(length), None),
            Self::Uniform(low, high) => (json!(format!("{low}-{high}")), None),
            Self::Normal { mean, stddev } => (json!(mean), Some(stddev)),
        }
    }
}

/// Lengths drawn from uniform numbers in [0, 1).
#[derive(Debug)]
pub struct Draw<U> {
    pub lengths: Lengths,
    pub uniforms: U,
}

impl<U: Iterator<Item = f64>> Draw<U> {
    fn uniform(&mut self) -> f64 {
        self.uniforms.next().unwrap_or_default()
    }

    /// G. Box and M. Muller, "A note on the generation of random normal deviates" (1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }

    /// The next length.
    pub fn next(&mut self) -> u32 {
        match self.lengths {
            Lengths::One(length) => length,
            Lengths::Uniform(low, high) => {
                let width = f64::from(high - low) + 1.0;
                low + (self.uniform() * width) as u32
            }
            Lengths::Normal { mean, stddev } => loop {
                let drawn = (f64::from(mean) + stddev * self.normal()).round();
                if (1.0..=f64::from(LONGEST)).contains(&drawn) {
                    return drawn as u32;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Draw, Lengths};
    use client::PromptSeed;

    #[test]
    fn one_length_or_a_range_is_read() {
        assert_eq!(Lengths::parse("128"), Ok(Lengths::One(128)));
        assert_eq!(Lengths::parse("100-200"), Ok(Lengths::Uniform(100, 200)));
        for wrong in [
            "0",
            "-1",
            "9-9",
            "9-3",
            "1-",
            "0-4",
            "1..4",
            "1-1000001",
            "x",
            "",
        ] {
            assert!(
                Lengths::parse(wrong).unwrap_err().contains("100-200"),
                "{wrong}"
            );
        }
        assert_eq!(Lengths::Uniform(1, 2).spread(Some(1.0)), None);
    }

    fn drawn(lengths: Lengths, session: u64, count: usize) -> Vec<u32> {
        let seed = PromptSeed { session, block: 0 };
        let uniforms = seed.gaps("lengths");
        let mut draw = Draw { lengths, uniforms };
        std::iter::repeat_with(|| draw.next()).take(count).collect()
    }

    #[test]
    fn equal_seeds_give_equal_lengths() {
        let lengths = Lengths::Normal {
            mean: 100,
            stddev: 20.0,
        };
        assert_eq!(drawn(lengths, 1, 50), drawn(lengths, 1, 50));
        assert_ne!(drawn(lengths, 1, 50), drawn(lengths, 2, 50));
        assert_eq!(drawn(Lengths::One(7), 1, 3), [7, 7, 7]);
    }

    #[test]
    fn a_range_has_each_of_its_lengths_equally_often() {
        let mut counts = [0_u32; 5];
        for length in drawn(Lengths::Uniform(3, 7), 1, 5_000) {
            counts[length as usize - 3] += 1;
        }
        // Five standard deviations (28) around 1,000.
        assert!(
            counts.iter().all(|n| (860..=1_140).contains(n)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_normal_distribution_has_its_mean_and_deviation() {
        let lengths = drawn(
            Lengths::Normal {
                mean: 500,
                stddev: 50.0,
            },
            4,
            20_000,
        );
        let n = lengths.len() as f64;
        let mean = lengths.iter().copied().map(f64::from).sum::<f64>() / n;
        let squares = lengths.iter().map(|&of| (f64::from(of) - mean).powi(2));
        let deviation = (squares.sum::<f64>() / n).sqrt();
        // Five standard errors: 1.8 and 1.25.
        assert!((mean - 500.0).abs() < 1.8, "{mean}");
        assert!((deviation - 50.0).abs() < 1.3, "{deviation}");
        // Cut off below 1.
        let wide = drawn(
            Lengths::Normal {
                mean: 1,
                stddev: 9.0,
            },
            5,
            1_000,
        );
        assert!(wide.iter().all(|length| *length >= 1));
    }
}
