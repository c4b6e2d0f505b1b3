//! A short generation before the first request, so that this one finds every thread and page of memory
//! awake.
//!
//! Main function: [`run`]. It leaves nothing in the counters, and in the cache only numbers that no one
//! reads. Refuses to know: requests.

use crate::backend::{Ask, Batch, Pick, Span, SpanState};
use crate::executor::{Executor, RowAsk};

const PROMPT: [u32; 8] = [0; 8];
const STEPS: usize = 4;

/// Computes in page 0 and state 0, which nobody holds yet, no more than `step_tokens` at once.
pub fn run(executor: &mut impl Executor, step_tokens: usize) -> Result<(), String> {
    let mut at = 0;
    let prompt = &PROMPT[..PROMPT.len().min(step_tokens)];
    for tokens in std::iter::once(prompt).chain(std::iter::repeat_n(&PROMPT[..1], STEPS)) {
        let span = Span {
            positions: (at, at + tokens.len()),
            pages: &[0],
            gap: 0,
            state: SpanState::default(),
        };
        let batch = Batch {
            tokens,
            spans: &[span],
        };
        let ask = RowAsk {
            row: tokens.len() - 1,
            ask: Ask {
                pick: Pick::Best { banned: &[] },
                logprobs: None,
            },
        };
        at += tokens.len();
        let answers = executor
            .forward(&batch, &[ask])
            .map_err(|e| e.to_string())?;
        for answer in answers {
            answer.map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
