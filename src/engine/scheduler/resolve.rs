//! From the network's answers to what became of a sequence.
//!
//! Main function: [`resolve`]. Refuses to know: pages, other sequences, counters.

use std::time::Instant;

use super::effects::Effects;
use super::sequence::Sequence;
use crate::backend::SampledToken;
use crate::request::{Event, FinishReason, Logprob, Prompt, Token};

/// What a step did to a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The prompt is now computed, for the first time.
    pub prefilled: bool,
    /// `Err`: why it cannot go on.
    pub finished: Option<Result<FinishReason, String>>,
}

/// Takes the answers to [`Sequence::asks`] in their order. `rows` were computed; `token` may replace the id
/// that was chosen.
pub fn resolve(
    sequence: &mut Sequence,
    rows: usize,
    answers: Vec<SampledToken>,
    eos: &[u32],
    token: impl FnOnce(u32) -> u32,
    effects: &mut Effects,
) -> Outcome {
    let mut answers = answers.into_iter();
    let reaches_end = rows == sequence.pending();
    sequence.computed += rows;
    take_prompt_logprobs(sequence, &mut answers);
    let prefilled = !sequence.prompt_told && sequence.computed >= sequence.prompt_len();
    if prefilled {
        tell_prompt(sequence, effects);
    }
    let finished = match answers.next() {
        Some(answer) => append(sequence, answer, eos, token, effects),
        None if reaches_end => Some(Ok(FinishReason::Length)),
        None => None,
    };
    Outcome {
        prefilled,
        finished,
    }
}

/// One for each prompt token that is now preceded by a computed one, and was not before.
fn take_prompt_logprobs(sequence: &mut Sequence, answers: &mut impl Iterator<Item = SampledToken>) {
    if !sequence.request.prompt_logprobs || sequence.prompt_told {
        return;
    }
    let known = (sequence.computed + 1).min(sequence.prompt_len());
    let new = known.saturating_sub(sequence.prompt_logprobs.len());
    let new = answers.take(new).map(logprob);
    sequence.prompt_logprobs.extend(new);
}

fn tell_prompt(sequence: &mut Sequence, effects: &mut Effects) {
    sequence.prompt_told = true;
    let asked = sequence.request.prompt_logprobs;
    let prompt = Prompt {
        cached_tokens: sequence.cached as u32,
        logprobs: asked.then(|| std::mem::take(&mut sequence.prompt_logprobs)),
    };
    effects.tell(&sequence.caller, Event::Prompt(prompt));
}

fn append(
    sequence: &mut Sequence,
    answer: SampledToken,
    eos: &[u32],
    token: impl FnOnce(u32) -> u32,
    effects: &mut Effects,
) -> Option<Result<FinishReason, String>> {
    let now = Instant::now();
    sequence.first.get_or_insert(now);
    sequence.last = Some(now);
    let id = token(answer.id);
    sequence.tokens.push(id);
    let logprob = logprob(answer);
    effects.tell(&sequence.caller, Event::Token(Token { id, logprob }));
    let ending = ending(sequence, id, eos).map(Ok);
    ending.or_else(|| guide(sequence, id).err().map(Err))
}

/// Where the answer has a form: which tokens may come next.
fn guide(sequence: &mut Sequence, id: u32) -> Result<(), String> {
    let Some(guide) = &mut sequence.request.guide else {
        return Ok(());
    };
    let allowed = guide.take(id).and_then(|()| guide.allowed());
    sequence.request.sampling.allowed = allowed.map_err(|error| error.to_string())?;
    Ok(())
}

/// Whether the answer ends with the token `id`, and why.
fn ending(sequence: &mut Sequence, id: u32, eos: &[u32]) -> Option<FinishReason> {
    // It is fed in any case, so that it knows the text before.
    let stopped = sequence.stop.as_mut().and_then(|stop| stop.push(id));
    let (generated, request) = (sequence.generated(), &sequence.request);
    if generated >= request.min_tokens as usize {
        if !request.ignore_eos && eos.contains(&id) {
            return Some(FinishReason::End);
        }
        if request.stop_ids.binary_search(&id).is_ok() {
            return Some(FinishReason::StopId(id));
        }
        if let Some(at) = stopped {
            return Some(FinishReason::StopText(at));
        }
    }
    (generated >= request.max_tokens as usize).then_some(FinishReason::Length)
}

fn logprob(answer: SampledToken) -> Option<Logprob> {
    let (chosen, top) = answer.logprobs?;
    Some(Logprob { chosen, top })
}
