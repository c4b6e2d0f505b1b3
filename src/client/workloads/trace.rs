//! Requests of a file as they are sent: prompts drawn to their recorded lengths, or the file's own.
//!
//! Main function: [`wave`]. Refuses to know: sockets, how the file is read.

use super::prompt::SentPrompt;
use super::request::Message;
use super::request_plan::{Label, Planned, Wave};
use super::{Output, arrivals, chat, phase, prompted};
use crate::{Endpoint, PromptSeed};
use verdict::plan::{Trace, TraceEntry, TracePrompt};

/// All of its requests, warm-up first.
pub fn wave(endpoint: &Endpoint, id: &str, trace: &Trace, seed: PromptSeed) -> Wave {
    let total = u32::try_from(trace.entries.len()).unwrap_or(u32::MAX);
    let requests = (0..).zip(&trace.entries).map(|(index, entry)| {
        let label = Label::of(index, phase(index, trace.warmup));
        request(endpoint, (id, seed), entry, label)
    });
    Wave {
        requests: requests.collect(),
        pace: arrivals::pace(&trace.arrivals, id, seed, total, trace.duration),
        until: trace.duration,
    }
}

fn request(
    endpoint: &Endpoint,
    (id, seed): (&str, PromptSeed),
    entry: &TraceEntry,
    label: Label,
) -> Planned {
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
            return chat(endpoint, &messages, label, output);
        }
    };
    prompted(endpoint, prompt, label, output)
}
