//! Log-probabilities of the same tokens in head and in base: an engine that computes less exactly, or from other weights, moves
//! them before it changes an answer beyond near-ties.
//!
//! Main functions: [`moved`], [`base_moves`].

use super::{Answers, is_answer, is_cut_short};
use crate::metrics::Requests;
use crate::metrics::correctness::near_tie::movement;
use crate::record::{Condition, Sample};
use crate::stats;
use std::collections::BTreeMap;

/// Fewest prompts that show it.
const PROMPTS: usize = 5;
/// Head's distance exceeds base's own by more than this factor …
const FACTOR: f64 = 3.0;
/// … and this share of what makes a near-tie: a logit that is rounded otherwise.
const SHARE: f64 = 0.1;
/// Servers list a token without probability as -9999 or so. No log-probability is as great: so far is head's from base's
/// where it alone has none.
const FARTHEST: f64 = 100.0;

/// Base's movement counts up to this multiple of `near_tie`. A greater one is a fault of base.
const MOST: f64 = 4.0;

/// Base's movement in nats: the second greatest [`movement`] over its prompts, between the answer alone and the others. The
/// greatest may come from a fault in one prompt.
pub fn base_moves(requests: &Requests<'_>) -> f64 {
    let Some(near_tie) = requests.workload.kind.logprobs().near_tie_nats else {
        return 0.0;
    };
    let (base, most) = (Answers::new(&requests.base, &[]), MOST * near_tie);
    let listed = requests.base.iter().copied().filter(|s| is_listed(s));
    let mut greatest: BTreeMap<String, f64> = BTreeMap::new();
    for sample in listed {
        let Some(alone) = base.alone(sample) else {
            continue;
        };
        let of_prompt = greatest
            .entry(super::Prompt::of(sample).to_string())
            .or_default();
        *of_prompt = of_prompt.max(movement(alone, sample, most));
    }
    let mut moves: Vec<f64> = greatest.into_values().collect();
    moves.sort_by(|a, b| b.total_cmp(a));
    moves.get(1).copied().unwrap_or(0.0).min(most)
}

/// True of an answer that lists what the model computed: a sampler's list may be of what is left to choose from.
fn is_listed(sample: &Sample) -> bool {
    let is_sampled = sample.condition() == Some(Condition::Sampled);
    is_answer(sample) && !is_cut_short(sample) && !is_sampled
}

/// Mean distance of two answers' log-probabilities over the tokens that they begin with alike, in nats; the median over
/// prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Head's answers from base's to the same requests.
    pub head_nats: f64,
    /// Base's answers from its own to the same prompt, under other conditions.
    pub base_nats: f64,
}

/// `None` where head's are as near as base's own, or too few are listed.
pub fn moved(requests: &Requests<'_>) -> Option<Moved> {
    let near_tie = requests.workload.kind.logprobs().near_tie_nats?;
    let base = Answers::new(&requests.base, &[]);
    let mut of_head: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut of_base = of_head.clone();
    let pairs = requests.beside_base(&requests.all).into_iter();
    for (head, sample) in pairs.filter(|(head, base)| is_listed(head) && is_listed(base)) {
        let prompt = || super::Prompt::of(sample).to_string();
        if let Some(nats) = distance(head, sample, Some(FARTHEST)) {
            of_head.entry(prompt()).or_default().push(nats);
        }
        let alone = base.alone(sample);
        let own = alone.and_then(|alone| distance(sample, alone, None));
        if let Some(nats) = own {
            of_base.entry(prompt()).or_default().push(nats);
        }
    }
    if of_head.len() < PROMPTS || of_base.len() < PROMPTS {
        return None;
    }
    let middle = |of: BTreeMap<String, Vec<f64>>| {
        let means: Vec<f64> = of.into_values().filter_map(|nats| mean(&nats)).collect();
        stats::median(&means)
    };
    let (head_nats, base_nats) = (middle(of_head)?, middle(of_base)?);
    let is_moved = head_nats > FACTOR * base_nats && head_nats > SHARE * near_tie;
    is_moved.then_some(Moved {
        head_nats,
        base_nats,
    })
}

/// Mean distance of `sample` over the tokens that both begin with; `None` where none of them has a log-probability in `from`.
/// `missing`: how far one is that only `sample` lacks; `None`: it does not count.
fn distance(sample: &Sample, from: &Sample, missing: Option<f64>) -> Option<f64> {
    let alike = sample.logprobs.iter().zip(&from.logprobs);
    let alike = alike.take_while(|(own, from)| own.token == from.token);
    let usable = |nats: &f64| nats.abs() < FARTHEST;
    let distances = alike.filter_map(|(own, from)| {
        let from = from.logprob.filter(usable)?;
        let own = own.logprob.filter(usable);
        own.map(|own| (own - from).abs()).or(missing)
    });
    mean(&distances.collect::<Vec<f64>>())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
