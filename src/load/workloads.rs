//! Each kind of workload as requests. Conversations, whose requests depend on the replies, have only
//! their turns' shape here; `conversation` holds them.
//!
//! Refuses to know: sockets, time.

use super::connection::Ask;
use super::planned::{CHAT, COMPLETIONS, Expect, Label, Planned};
use super::request::{Chat, Completion, Length, Message, Mode, Prompt, json};
use super::{Endpoint, PromptSeed};
use crate::plan::{GoldenCase, Goldens, Session, Steady, TaskCase, Tasks};
use crate::record::Phase;

/// All requests of a steady workload, warm-up first.
pub(super) fn steady(
    endpoint: &Endpoint,
    id: &str,
    steady: &Steady,
    seed: PromptSeed,
) -> Vec<Planned> {
    let total = steady.warmup.saturating_add(steady.requests);
    (0..total)
        .map(|index| steady_request(endpoint, id, steady, seed, index))
        .collect()
}

fn steady_request(
    endpoint: &Endpoint,
    id: &str,
    steady: &Steady,
    seed: PromptSeed,
    index: u32,
) -> Planned {
    let (ids, text);
    let prompt = match endpoint.prompt_ids {
        Some(range) => {
            ids = seed.ids(id, index, steady.prompt_tokens, range);
            Prompt::Ids(&ids)
        }
        // About one token a word; usage says how many they were.
        None => {
            text = seed.words(id, index, steady.prompt_tokens);
            Prompt::Text(&text)
        }
    };
    let request = Completion {
        model: &endpoint.model,
        prompt,
        length: Length::exactly(steady.output_tokens),
        mode: Mode::streamed(endpoint.return_token_ids),
        logprobs: None,
        echo: false,
    };
    Planned {
        label: Label {
            index,
            phase: phase(index, steady.warmup),
            case: None,
            turn: None,
        },
        expect: Expect {
            streamed: true,
            forced: Some(steady.output_tokens),
            prompt: endpoint.prompt_ids.map(|_| steady.prompt_tokens),
            ..Expect::default()
        },
        ask: Ask::post(COMPLETIONS, json(&request)),
    }
}

/// One turn of a conversation: the whole history, the new message last.
pub(super) fn turn(
    endpoint: &Endpoint,
    session: &Session,
    turn: u32,
    history: &[Message],
) -> Planned {
    let request = Chat {
        model: &endpoint.model,
        messages: history,
        length: Length::exactly(session.reply_tokens),
        mode: Mode::streamed(endpoint.return_token_ids),
    };
    let phase = phase(turn, session.warmup_turns);
    Planned {
        label: Label {
            index: turn,
            phase,
            case: None,
            turn: Some(turn),
        },
        expect: Expect {
            streamed: true,
            forced: Some(session.reply_tokens),
            ..Expect::default()
        },
        ask: Ask::post(CHAT, json(&request)),
    }
}

fn phase(index: u32, warmup: u32) -> Phase {
    if index < warmup {
        Phase::Warmup
    } else {
        Phase::Measured
    }
}

/// Two requests a case: greedy generation under the case's id, then the reference's own tokens scored
/// under `<id>#forced`.
pub(super) fn goldens(endpoint: &Endpoint, goldens: &Goldens) -> Vec<Planned> {
    let pairs = goldens.cases.iter().flat_map(|case| {
        [
            greedy(endpoint, case, goldens.top_k),
            scored(endpoint, case, goldens.top_k),
        ]
    });
    numbered(pairs)
}

fn greedy(endpoint: &Endpoint, case: &GoldenCase, top_k: u32) -> Planned {
    let tokens = length(case.tokens.len());
    let forced = case.ignore_eos.then_some(tokens);
    let request = Completion {
        model: &endpoint.model,
        prompt: Prompt::Ids(&case.prompt_ids),
        length: forced.map_or(Length::at_most(tokens), Length::through_eos),
        mode: Mode::WHOLE,
        logprobs: Some(top_k),
        echo: false,
    };
    Planned {
        label: case_label(&case.id),
        expect: Expect {
            forced,
            prompt: Some(length(case.prompt_ids.len())),
            logprobs: true,
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(COMPLETIONS, json(&request)),
    }
}

fn scored(endpoint: &Endpoint, case: &GoldenCase, top_k: u32) -> Planned {
    let reference = case.tokens.iter().map(|token| token.id);
    let ids: Vec<u32> = case.prompt_ids.iter().copied().chain(reference).collect();
    let request = Completion {
        model: &endpoint.model,
        prompt: Prompt::Ids(&ids),
        length: Length::at_most(0),
        mode: Mode::WHOLE,
        logprobs: Some(top_k),
        echo: true,
    };
    Planned {
        label: case_label(&format!("{}#forced", case.id)),
        expect: Expect {
            prompt: Some(length(ids.len())),
            echoed: true,
            logprobs: true,
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(COMPLETIONS, json(&request)),
    }
}

/// One request a problem.
pub(super) fn tasks(endpoint: &Endpoint, tasks: &Tasks) -> Vec<Planned> {
    numbered(tasks.cases.iter().map(|case| task(endpoint, case)))
}

fn task(endpoint: &Endpoint, case: &TaskCase) -> Planned {
    let messages: Vec<Message> = case
        .messages
        .iter()
        .map(|(role, content)| Message {
            role: role.clone(),
            content: content.clone(),
        })
        .collect();
    let request = Chat {
        model: &endpoint.model,
        messages: &messages,
        length: Length::at_most(case.max_tokens),
        mode: Mode::WHOLE,
    };
    Planned {
        label: case_label(&case.id),
        expect: Expect {
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(CHAT, json(&request)),
    }
}

fn case_label(id: &str) -> Label {
    Label {
        index: 0,
        phase: Phase::Measured,
        case: Some(id.to_owned()),
        turn: None,
    }
}

fn numbered(requests: impl Iterator<Item = Planned>) -> Vec<Planned> {
    let numbered = requests.zip(0..).map(|(mut planned, index)| {
        planned.label.index = index;
        planned
    });
    numbered.collect()
}

fn length(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
