//! From a row of logits to a token and its log-probabilities.
//!
//! Main function: [`rank`]. A row that holds NaN, or whose greatest logit is infinite, gives no token.
//! Refuses to know: why some ids are banned.

use super::{Ask, NotANumber, Pick, SampledToken, math};
use crate::sampling;

pub fn rank(logits: &[f32], ask: &Ask<'_>) -> Result<SampledToken, NotANumber> {
    let greatest = math::max(logits);
    if !greatest.is_finite() || math::has_nan(logits) {
        return Err(NotANumber);
    }
    let id = match ask.pick {
        Pick::Given(id) => id,
        Pick::Best { banned: [] } => position(logits, greatest),
        Pick::Best { banned } => best_but(logits, banned),
        Pick::Drawn(draw) => sampling::choose(logits, &draw)?,
    };
    let logprobs = ask.logprobs.map(|count| {
        let total = math::log_sum_exp(logits, greatest);
        let logprob = |id: u32| (f64::from(logits[id as usize]) - total) as f32;
        let top = top(logits, count)
            .into_iter()
            .map(|id| (id, logprob(id)))
            .collect();
        (logprob(id), top)
    });
    Ok(SampledToken { id, logprobs })
}

/// The first place of the greatest number.
fn position(logits: &[f32], greatest: f32) -> u32 {
    logits
        .iter()
        .position(|logit| *logit >= greatest)
        .unwrap_or(0) as u32
}

fn best_but(logits: &[f32], banned: &[u32]) -> u32 {
    let mut best: Option<(u32, f32)> = None;
    for (id, logit) in (0u32..).zip(logits) {
        if best.is_none_or(|(_, most)| *logit > most) && banned.binary_search(&id).is_err() {
            best = Some((id, *logit));
        }
    }
    best.map_or(0, |(id, _)| id)
}

/// The ids of the `count` greatest, best first; ties by lower id.
fn top(logits: &[f32], count: usize) -> Vec<u32> {
    let mut best = sampling::best(logits, count);
    best.sort_unstable_by(sampling::better(logits));
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(logits: &[f32], banned: &[u32]) -> Result<u32, NotANumber> {
        rank(
            logits,
            &Ask {
                pick: Pick::Best { banned },
                logprobs: None,
            },
        )
        .map(|ranked| ranked.id)
    }

    #[test]
    fn picks_the_greatest_and_the_lower_of_equals() {
        assert_eq!(best(&[1.0, 3.0, 3.0, 2.0], &[]), Ok(1));
        assert_eq!(best(&[1.0, 3.0, 3.0, 2.0], &[1]), Ok(2));
        assert_eq!(best(&[1.0, 3.0, 3.0, 2.0], &[1, 2, 9]), Ok(3));
        assert_eq!(best(&[f32::NEG_INFINITY, -5.0], &[]), Ok(1));
    }

    #[test]
    fn what_is_not_a_number_is_never_a_token() {
        for bad in [
            vec![1.0, f32::NAN],
            vec![f32::NAN; 40],
            vec![f32::NEG_INFINITY; 3],
            vec![f32::INFINITY, 1.0],
        ] {
            assert_eq!(best(&bad, &[]), Err(NotANumber));
            assert_eq!(best(&bad, &[0]), Err(NotANumber));
        }
    }

    #[test]
    fn log_probabilities_and_the_best_few() {
        let logits = [0.5, 2.0, -1.0, 2.0, 1.0];
        let total: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
        let ask = Ask {
            pick: Pick::Given(2),
            logprobs: Some(3),
        };
        let ranked = rank(&logits, &ask).unwrap();
        let (chosen, top) = ranked.logprobs.unwrap();
        assert_eq!(ranked.id, 2);
        assert!((f64::from(chosen) - (-1.0 - total.ln())).abs() < 1e-6);
        assert_eq!(top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3, 4]);
        assert!((f64::from(top[2].1) - (1.0 - total.ln())).abs() < 1e-6);
        let none = rank(
            &logits,
            &Ask {
                pick: Pick::Given(0),
                logprobs: Some(0),
            },
        )
        .unwrap();
        assert!(none.logprobs.unwrap().1.is_empty());
        assert_eq!(super::top(&logits, 9).len(), 5);
    }
}
