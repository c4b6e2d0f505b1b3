//! One row of logits, one request's rules, one token.
//!
//! Main function: [`choose()`]. Refuses to know: log-probabilities; those that are reported belong to the
//! logits as the model gave them.

use super::distribution::Distribution;
use super::random::uniform;
use super::scores::adjusted;
use crate::backend::{Draw, NotANumber, math};

/// The next token: masks, bias and penalties, then the greatest score or a draw. The draw's chance comes
/// from the seed and the count of tokens in the answer.
pub fn choose(logits: &[f32], draw: &Draw<'_>) -> Result<u32, NotANumber> {
    let scores = adjusted(logits, draw);
    let greatest = math::max(&scores);
    if !greatest.is_finite() || math::has_nan(&scores) {
        return Err(NotANumber);
    }
    let rules = draw.rules;
    if !rules.takes_greatest() {
        return Ok(Distribution::new(scores, greatest, rules).at(chance(draw)));
    }
    let first = scores.iter().position(|score| *score >= greatest);
    first.map(|id| id as u32).ok_or(NotANumber)
}

/// The same of the best tokens that may be drawn with their scores, best first, where the rules leave scores as they
/// are. `total`: the weights of all that may be drawn, e^((score − best) / temperature), added up. `None`: these are
/// not enough, since others may be drawn too.
pub fn choose_of_best(best: &[(u32, f32)], total: f64, draw: &Draw<'_>) -> Option<u32> {
    let distribution = Distribution::of_best(best, total, draw.rules)?;
    Some(distribution.at(chance(draw)))
}

/// Where the draw lies, as a share of the whole.
pub fn chance(draw: &Draw<'_>) -> f64 {
    uniform(draw.rules.seed, draw.answer.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::Sampling;
    use super::super::distribution::tests::by_the_book;
    use super::*;

    fn take(logits: &[f32], rules: &Sampling, answer: &[u32]) -> Result<u32, NotANumber> {
        let draw = Draw {
            rules,
            banned: &[],
            prompt: &[],
            answer,
        };
        choose(logits, &draw)
    }

    fn rules(temperature: f32, top_k: u32, top_p: f32, min_p: f32) -> Sampling {
        Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            ..Sampling::default()
        }
    }

    /// Pearson's chi-square of 40,000 draws, by seed and by place in the answer.
    #[test]
    fn draws_have_the_frequencies_of_the_formulas() {
        const DRAWS: usize = 40_000;
        let logits: Vec<f32> = (0..40).map(|at| ((at as f32) * 0.7).sin() * 2.0).collect();
        let answer = vec![0; DRAWS];
        for case in [
            rules(1.0, 0, 1.0, 0.0),
            rules(0.5, 0, 1.0, 0.0),
            rules(1.7, 0, 1.0, 0.0),
            rules(1.0, 7, 1.0, 0.0),
            rules(1.0, 0, 0.61, 0.0),
            rules(1.0, 0, 1.0, 0.21),
            rules(0.8, 20, 0.9, 0.05),
        ] {
            let want = by_the_book(&logits, &case);
            for by_seed in [true, false] {
                let mut counts = [0usize; 40];
                for at in 0..DRAWS {
                    let (seed, length) = if by_seed { (at as u64, 3) } else { (11, at) };
                    let case = Sampling {
                        seed,
                        ..case.clone()
                    };
                    let id = take(&logits, &case, &answer[..length]).unwrap();
                    counts[id as usize] += 1;
                }
                let mut chi = 0.0;
                for (count, p) in counts.iter().zip(&want) {
                    let expected = p * DRAWS as f64;
                    if *p > 0.0 {
                        chi += (*count as f64 - expected).powi(2) / expected;
                    } else {
                        assert_eq!(*count, 0, "{case:?}");
                    }
                }
                let free = want.iter().filter(|p| **p > 0.0).count() as f64 - 1.0;
                // Five standard deviations above the mean of a chi-square of so many degrees.
                let most = free + 5.0 * (2.0 * free).sqrt();
                assert!(chi < most, "{case:?} {by_seed}: {chi} of {free}");
            }
        }
    }

    #[test]
    fn one_token_or_no_heat_is_greedy() {
        for shift in 0..50 {
            let logits: Vec<f32> = (0..300)
                .map(|at| (((at + shift) * 7919 % 61) as f32) / 8.0)
                .collect();
            let greedy = take(&logits, &Sampling::default(), &[]).unwrap();
            let first = logits
                .iter()
                .position(|l| *l >= math::max(&logits))
                .unwrap();
            assert_eq!(greedy, first as u32);
            for mut case in [
                rules(5.0, 1, 1.0, 0.0),
                rules(1.0, 0, 0.0, 0.0),
                rules(1e-6, 0, 1.0, 0.0),
                rules(1e-3, 0, 1e-3, 0.0),
            ] {
                case.seed = shift as u64;
                assert_eq!(take(&logits, &case, &[]), Ok(greedy), "{case:?}");
            }
        }
        // Little heat, no ties.
        let logits: Vec<f32> = (0..300).map(|at| (at * 7919 % 301) as f32 / 8.0).collect();
        let greedy = take(&logits, &Sampling::default(), &[]);
        assert_eq!(take(&logits, &rules(1e-3, 0, 1.0, 0.0), &[]), greedy);
    }

    #[test]
    fn what_is_ruled_out_is_never_drawn() {
        let logits = [9.0, 8.0, f32::NEG_INFINITY, -80.0];
        let case = Sampling {
            allowed: vec![2, 3, 1],
            bias: vec![(2, 100.0)],
            ..rules(1e6, 0, 1.0, 0.0)
        };
        for seed in 0..500 {
            let case = Sampling {
                seed,
                ..case.clone()
            };
            let draw = Draw {
                rules: &case,
                banned: &[1],
                prompt: &[],
                answer: &[],
            };
            assert_eq!(choose(&logits, &draw), Ok(3));
        }
    }

    #[test]
    fn what_is_not_a_number_is_never_a_token() {
        let nowhere = Sampling {
            allowed: vec![7],
            ..Sampling::default()
        };
        for case in [Sampling::default(), rules(1.0, 2, 0.9, 0.1)] {
            assert_eq!(take(&[1.0, f32::NAN], &case, &[]), Err(NotANumber));
            assert_eq!(take(&[f32::NEG_INFINITY; 3], &case, &[]), Err(NotANumber));
            assert_eq!(take(&[1.0, f32::INFINITY], &case, &[]), Err(NotANumber));
            assert_eq!(take(&[], &case, &[]), Err(NotANumber));
        }
        assert_eq!(take(&[1.0, 2.0], &nowhere, &[]), Err(NotANumber));
    }
}
