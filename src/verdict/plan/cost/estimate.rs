//! Estimate of the work that a gate asks of an engine, from its file alone.
//!
//! Refuses to know: how fast anything is.

use crate::plan::model::{Gate, QUESTIONS, REPEATED, STORIES, WorkloadKind};
use crate::record::Condition;

/// A prompt's tokens are computed together, an answer's one after another: so many of them take as long as one.
const PROMPT_TOKENS_A_TOKEN: f64 = 16.0;

/// Tokens of output that one launch of the gate asks for, prompts counted in.
pub fn effort(gate: &Gate) -> f64 {
    gate.workloads
        .iter()
        .map(|workload| of(&workload.kind))
        .sum()
}

fn of(kind: &WorkloadKind) -> f64 {
    let each =
        |prompt: u32, output: u32| f64::from(output) + f64::from(prompt) / PROMPT_TOKENS_A_TOKEN;
    match kind {
        WorkloadKind::Steady(w) => {
            f64::from(w.requests + w.warmup) * each(w.prompt_tokens, w.output_tokens)
        }
        WorkloadKind::Mixed(w) => {
            let weights: f64 = w.shapes.iter().map(|s| f64::from(s.weight)).sum();
            let weighed = w
                .shapes
                .iter()
                .map(|s| f64::from(s.weight) * each(s.prompt_tokens, s.output_tokens));
            f64::from(w.requests + w.warmup) * weighed.sum::<f64>() / weights.max(1.0)
        }
        WorkloadKind::Trace(w) => {
            let entries = w.entries.iter();
            entries
                .map(|e| each(e.prompt.tokens(), e.output_tokens))
                .sum()
        }
        WorkloadKind::FirstRequest(w) => each(w.prompt_tokens, w.output_tokens),
        WorkloadKind::Matrix(w) => {
            let requests: u32 = w.batches.iter().sum();
            let cells = w.caches.len() * w.streamed.len();
            let rounds = f64::from(requests * w.passes * w.rounds) * cells as f64;
            let contexts = w.contexts.iter();
            rounds * contexts.map(|&c| each(c, w.output_tokens)).sum::<f64>()
                + f64::from(w.warmup) * each(0, w.output_tokens)
        }
        WorkloadKind::Staggered(w) => {
            // Alone in turn, and together.
            let requests = 2 * w.users * w.passes + w.warmup;
            f64::from(requests) * each(w.prompt_tokens, w.output_tokens)
        }
        WorkloadKind::Answers(w) => {
            let requests = f64::from(w.prompts * w.passes);
            let has = |condition| w.conditions.contains(&condition);
            let added = u8::from(has(Condition::Stopped)) + 3 * u8::from(has(Condition::Sampled));
            // A quarter of what is prefilled is sent again.
            let left = f64::from(u8::from(has(Condition::Left))) / 2.0;
            let ended = f64::from(u8::from(has(Condition::Ended)));
            let penalised = f64::from(u8::from(has(Condition::Penalised)));
            ended * 3.0 * f64::from(QUESTIONS + STORIES) * each(0, 64)
                + penalised * 3.0 * f64::from(REPEATED) * each(0, 32)
                + requests
                    * ((8.0 + f64::from(added)) * each(w.prompt_tokens, w.output_tokens)
                        + (2.0 + left) * each(w.beside_tokens, w.output_tokens))
        }
        WorkloadKind::Session(w) => {
            f64::from(w.turns) * each(w.message_words + w.reply_tokens, w.reply_tokens)
        }
        WorkloadKind::Goldens(w) => {
            let cases = w.cases.iter();
            cases.map(|c| f64::from(c.max_tokens)).sum()
        }
        // Words or ids; a prompt is much quicker than an answer.
        WorkloadKind::Texts(w) => {
            let tokens = |case: &crate::plan::TextCase| match &case.prompt {
                crate::plan::TextPrompt::Text(text) => text.split_whitespace().count(),
                crate::plan::TextPrompt::Ids(ids) => ids.len(),
            };
            w.cases.iter().map(|case| tokens(case) as f64).sum()
        }
        WorkloadKind::Suite(_) => 0.0,
        WorkloadKind::Tasks(w) => w.cases.iter().map(|c| f64::from(c.max_tokens)).sum(),
    }
}
