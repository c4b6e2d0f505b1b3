//! Requests of a file as they are sent: prompts drawn to their recorded lengths, or the file's own.
//!
//! Main functions: [`wave`]; [`next_turn`] of a conversation. Refuses to know: sockets, how the file is read.

use super::prompt::SentPrompt;
use super::request::Message;
use super::request_plan::{Label, Planned, Talks, Wave};
use super::talk::Talk;
use super::{Output, arrivals, chat, phase, prompted};
use crate::{Endpoint, PromptSeed};
use std::sync::Arc;
use verdict::plan::{Trace, TraceEntry, TracePrompt};
use verdict::record::Phase;

/// All of its requests, warm-up first.
pub fn wave(endpoint: &Endpoint, id: &str, trace: &Trace, seed: PromptSeed) -> Wave {
    let total = u32::try_from(trace.entries.len()).unwrap_or(u32::MAX);
    let pace = arrivals::pace(&trace.arrivals, id, seed, total, None);
    let pace = arrivals::risen(pace, trace.ramp_up, trace.duration);
    let mut talks = talks(trace);
    let wave = if talks.is_empty() {
        Wave::of(total, requests(endpoint, id, trace, seed), pace)
    } else {
        let first = talks
            .iter_mut()
            .filter_map(|talk| next_turn(endpoint, talk));
        let mut wave = Wave::new(first.collect(), pace);
        let turns = trace.entries.iter().map(|entry| entry.prompt.requests());
        wave.talks = Some(Talks {
            talks,
            warmup: trace.warmup,
            requests: u32::try_from(turns.sum::<usize>()).unwrap_or(u32::MAX),
        });
        wave
    };
    Wave {
        until: trace.duration,
        ramp_up: trace.ramp_up,
        ..wave
    }
}

fn requests(
    endpoint: &Endpoint,
    id: &str,
    trace: &Trace,
    seed: PromptSeed,
) -> impl Iterator<Item = Planned> + use<> {
    let (endpoint, id, warmup) = (endpoint.clone(), id.to_owned(), trace.warmup);
    let entries = Arc::clone(&trace.entries);
    (0..).map_while(move |index: u32| {
        let entry = entries.get(index as usize)?;
        let label = Label::of(index, phase(index, warmup));
        request(&endpoint, (&id, seed), entry, label)
    })
}

/// Its conversations, of which nothing was said yet.
fn talks(trace: &Trace) -> Vec<Talk> {
    let talks = (0..).zip(trace.entries.iter());
    let talks = talks.filter_map(|(index, entry)| match &entry.prompt {
        TracePrompt::Turns(turns) => Some(Talk::new(index, turns.clone())),
        _ => None,
    });
    talks.collect()
}

/// The next turn of a conversation; `None` after the last. Whoever sends it gives it its index and phase.
pub fn next_turn(endpoint: &Endpoint, talk: &mut Talk) -> Option<Planned> {
    let begun = talk.next()?;
    let label = Label {
        turn: Some(begun.turn),
        case: Some(format!("conversation {}", begun.conversation)),
        ..Label::of(0, Phase::Measured)
    };
    let output = Output::streamed(begun.output_tokens);
    Some(chat(endpoint, begun.history, label, output))
}

fn request(
    endpoint: &Endpoint,
    (id, seed): (&str, PromptSeed),
    entry: &TraceEntry,
    label: Label,
) -> Option<Planned> {
    let output = Output::streamed(entry.output_tokens);
    let prompt = match &entry.prompt {
        TracePrompt::Drawn { tokens, blocks } => match blocks {
            None => SentPrompt::new(endpoint, id, seed, label.index, *tokens),
            Some(blocks) => SentPrompt::of_blocks(endpoint, id, seed, blocks, *tokens),
        },
        TracePrompt::Text(text) => SentPrompt::Text {
            text: text.clone(),
            unfit: None,
        },
        TracePrompt::Messages(messages) => {
            let messages = messages.iter().map(|(role, content)| Message {
                role: role.clone(),
                content: content.clone(),
            });
            let messages: Vec<Message> = messages.collect();
            return Some(chat(endpoint, &messages, label, output));
        }
        TracePrompt::Turns(_) => return None,
    };
    Some(prompted(endpoint, prompt, label, output))
}
