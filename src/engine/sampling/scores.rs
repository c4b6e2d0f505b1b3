//! Logits before temperature: masks, bias and penalties of a request.
//!
//! Main function: [`adjusted`]. The order is vLLM's. Refuses to know: temperature, chance.

use super::Sampling;
use crate::backend::Draw;

/// 1. only `allowed` ids, without the banned ones   2. bias   3. penalties
///
/// What is not allowed gets −∞. Where every allowed id is banned, the ban gives way: no token would be
/// left. Ids beyond the row are passed over.
pub fn adjusted(logits: &[f32], draw: &Draw<'_>) -> Vec<f32> {
    let rules = draw.rules;
    let mut scores = mask(logits, &rules.allowed, draw.banned);
    for (id, bias) in &rules.bias {
        if let Some(score) = scores.get_mut(*id as usize) {
            *score += bias;
        }
    }
    repetition(&mut scores, rules, draw.prompt, draw.answer);
    occurrence(&mut scores, rules, draw.answer);
    scores
}

fn mask(logits: &[f32], allowed: &[u32], banned: &[u32]) -> Vec<f32> {
    if allowed.is_empty() {
        let mut scores = logits.to_vec();
        for id in banned {
            if let Some(score) = scores.get_mut(*id as usize) {
                *score = f32::NEG_INFINITY;
            }
        }
        return scores;
    }
    let is_banned = |id: &u32| banned.binary_search(id).is_ok();
    let ban_holds = !allowed.iter().all(is_banned);
    let mut scores = vec![f32::NEG_INFINITY; logits.len()];
    for id in allowed {
        let at = *id as usize;
        if at < logits.len() && !(ban_holds && is_banned(id)) {
            scores[at] = logits[at];
        }
    }
    scores
}

/// Once for each id that stands in prompt or answer.
fn repetition(scores: &mut [f32], rules: &Sampling, prompt: &[u32], answer: &[u32]) {
    let penalty = rules.repetition_penalty;
    if (penalty - 1.0).abs() <= 0.0 {
        return;
    }
    let mut seen = vec![false; scores.len()];
    for id in prompt.iter().chain(answer) {
        let at = *id as usize;
        if at < scores.len() && !std::mem::replace(&mut seen[at], true) {
            let score = &mut scores[at];
            *score = if *score > 0.0 {
                // A penalty next to nothing must not make a number that is none.
                (*score / penalty).min(f32::MAX)
            } else {
                *score * penalty
            };
        }
    }
}

/// Presence and frequency, over the answer alone.
fn occurrence(scores: &mut [f32], rules: &Sampling, answer: &[u32]) {
    let (presence, frequency) = (rules.presence_penalty, rules.frequency_penalty);
    if presence.abs() <= 0.0 && frequency.abs() <= 0.0 {
        return;
    }
    let mut ids: Vec<u32> = answer.to_vec();
    ids.sort_unstable();
    for run in ids.chunk_by(|a, b| a == b) {
        if let Some(score) = scores.get_mut(run[0] as usize) {
            *score -= frequency * run.len() as f32 + presence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: f32 = f32::NEG_INFINITY;

    fn check(rules: Sampling, banned: &[u32], want: [f32; 4]) {
        let draw = Draw {
            rules: &rules,
            banned,
            prompt: &[0, 0, 3, 900],
            answer: &[1, 3, 1, 900],
        };
        let got = adjusted(&[2.0, -1.0, 0.5, -4.0], &draw);
        let near = |(got, want): (&f32, &f32)| {
            (got - want).abs() < 1e-6 || (got.is_infinite() && want.is_infinite())
        };
        assert!(got.iter().zip(&want).all(near), "{rules:?}: {got:?}");
    }

    #[test]
    fn masks_bias_and_penalties_by_table() {
        let rules = Sampling::default;
        check(rules(), &[], [2.0, -1.0, 0.5, -4.0]);
        check(rules(), &[1, 77], [2.0, OUT, 0.5, -4.0]);
        let allowed = |allowed: &[u32]| Sampling {
            allowed: allowed.to_vec(),
            ..rules()
        };
        check(allowed(&[2, 1, 50]), &[], [OUT, -1.0, 0.5, OUT]);
        check(allowed(&[2, 1]), &[1], [OUT, OUT, 0.5, OUT]);
        check(allowed(&[2, 1]), &[1, 2], [OUT, -1.0, 0.5, OUT]);
        check(allowed(&[50]), &[], [OUT; 4]);
        let bias = Sampling {
            bias: vec![(0, 1.5), (3, -100.0), (4, 1.0), (0, 0.5)],
            ..rules()
        };
        check(bias, &[3], [4.0, -1.0, 0.5, OUT]);
        let repetition = Sampling {
            repetition_penalty: 2.0,
            ..rules()
        };
        check(repetition, &[], [1.0, -2.0, 0.5, -8.0]);
        let presence = Sampling {
            presence_penalty: 0.25,
            ..rules()
        };
        check(presence, &[], [2.0, -1.25, 0.5, -4.25]);
        let frequency = Sampling {
            frequency_penalty: 0.25,
            ..rules()
        };
        check(frequency, &[], [2.0, -1.5, 0.5, -4.25]);
        // Bias comes before the penalties: (2 − 3) · 2; then those on the answer.
        let all = Sampling {
            bias: vec![(0, -3.0)],
            repetition_penalty: 2.0,
            presence_penalty: 0.5,
            frequency_penalty: 1.0,
            ..rules()
        };
        check(all, &[], [-2.0, -4.5, 0.5, -9.5]);
    }
}
