//! An exchange becomes a sample: stamps, counts and text are put in their places, and void rules asked.
//!
//! Refuses to know: how it was sent.

use super::repeats::repeats;
use super::rules::{self, Seen};
use crate::Endpoint;
use crate::response::exchange::{Ending, Exchange};
use crate::response::fields;
use crate::response::transcript::{Transcript, characters};
use crate::threads::streams::Finished;
use crate::workloads::request_plan::Expect;
use std::collections::BTreeSet;
use verdict::record::{Condition, Sample, Stamps, TokenCounts};

/// A sample, and the reply's text for those who go on talking.
#[derive(Debug)]
pub struct Reading {
    pub sample: Sample,
    pub reply: String,
}

/// Reads what came back for one request of `workload`.
pub fn read(workload: &str, finished: Finished, endpoint: &Endpoint) -> Reading {
    let Finished {
        label,
        expect,
        exchange,
        talk: _,
    } = finished;
    let mut transcript = Transcript::read(&exchange, expect.streamed);
    let stamps = stamps(&expect, &exchange, &transcript);
    let tokens = counts(&expect, &transcript, endpoint);
    let void = rules::void(&Seen {
        endpoint,
        label: &label,
        expect: &expect,
        exchange: &exchange,
        transcript: &transcript,
        stamps: &stamps,
        tokens: &tokens,
    });
    // What is not listed at its own place cannot be compared token by token.
    let is_partial = transcript.lists_too_few() && !expect.echoed;
    let logprobs = transcript.logprobs.take().filter(|_| !is_partial);
    let logprobs = logprobs.unwrap_or_default();
    let reply = std::mem::take(&mut transcript.content);
    let mut sample = Sample {
        workload: workload.to_owned(),
        index: label.index,
        phase: label.phase,
        case: label.case,
        turn: label.turn,
        streamed: expect.streamed,
        setting: label.setting,
        tokens,
        stamps,
        finish_reason: transcript.finish_reason,
        status: status(&expect, &exchange, transcript.error.is_some()),
        fields: BTreeSet::new(),
        timings: transcript.timings,
        text: expect
            .keep_text
            .then(|| format!("{reply}{}", transcript.calls)),
        text_sha256: transcript.sha256,
        logprobs,
        void,
    };
    if sample.condition() == Some(Condition::Ended) {
        sample.fields = fields::of(&exchange, expect.streamed);
    }
    Reading { sample, reply }
}

/// Status of a request that the engine may refuse. An error within a stream counts as 400, a dropped connection as 0.
fn status(expect: &Expect, exchange: &Exchange, has_error: bool) -> Option<u16> {
    let begun = exchange.status.filter(|status| *status != 200);
    if expect.refused && exchange.is_dropped() && begun.is_none() {
        return Some(0);
    }
    match exchange.status? {
        200 if (expect.refused || expect.may_refuse) && has_error => Some(400),
        status if expect.refused => Some(status),
        status => (expect.may_refuse && status >= 400).then_some(status),
    }
}

fn stamps(expect: &Expect, exchange: &Exchange, transcript: &Transcript) -> Stamps {
    let reads = &exchange.reads;
    Stamps {
        // A closed loop wants to send when it sends.
        intended_ns: exchange.due_ns.unwrap_or(exchange.send_ns),
        connect_ns: exchange.connect_ns,
        send_ns: exchange.send_ns,
        headers_ns: exchange.headers_ns,
        first_byte_ns: reads.first().map(|read| read.arrival.at_ns),
        events_ns: transcript.events_ns.clone(),
        ambiguous_events: transcript.ambiguous_events,
        done_ns: transcript.done_ns.or(exchange.end_ns),
        end_ns: transcript
            .done_ns
            .and_then(|done_ns| exchange.end_ns.filter(|end_ns| *end_ns > done_ns)),
        no_done: expect.streamed
            && transcript.done_ns.is_none()
            && exchange.ending == Ending::Whole,
        kernel_stamps: !reads.is_empty() && reads.iter().all(|read| read.arrival.kernel),
    }
}

fn counts(expect: &Expect, transcript: &Transcript, endpoint: &Endpoint) -> TokenCounts {
    let length = |items: usize| u32::try_from(items).unwrap_or(u32::MAX);
    let by_logprobs = transcript
        .logprobs
        .as_ref()
        .map(|logprobs| length(logprobs.len()));
    let by_tokenizer = by_tokenizer(expect, transcript, endpoint);
    let own = transcript.token_ids.or(by_logprobs).or(by_tokenizer);
    let texts = transcript.texts();
    TokenCounts {
        requested: expect.forced,
        prompt: transcript.prompt_tokens,
        cached: transcript.cached_tokens,
        completion: transcript
            .completion_tokens
            .or(own.filter(|_| expect.streamed && !endpoint.stream_usage)),
        events: length(transcript.events_ns.len()),
        by_logprobs,
        at_first_event: transcript.at_first_event,
        per_event: transcript.per_event.clone(),
        by_tokenizer,
        text_at_first: is_untold_burst(transcript)
            .then(|| (transcript.first_event_characters, characters(&texts))),
        silent_first: transcript.silent_first,
        repeats: !expect.echoed && repeats(&texts.concat()),
    }
}

/// Fewer events than tokens, and nothing tells whose the tokens are.
fn is_untold_burst(transcript: &Transcript) -> bool {
    let events = transcript.events_ns.len();
    let tokens = transcript.completion_tokens.unwrap_or(0) as usize;
    events > 0 && events < tokens && transcript.per_event.is_empty()
}

/// The generated text's tokens by the client's own count. An echoed prompt is not generated.
fn by_tokenizer(expect: &Expect, transcript: &Transcript, endpoint: &Endpoint) -> Option<u32> {
    let tokenizer = endpoint.tokenizer.as_ref().filter(|_| !expect.echoed)?;
    let counted = transcript
        .texts()
        .map(|text| tokenizer.count(text))
        .iter()
        .sum();
    (counted > 0).then_some(counted)
}

#[cfg(test)]
mod tests;
