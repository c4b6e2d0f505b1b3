//! Each kind of workload as waves of requests. The matrix and staggered users have files of their own;
//! conversations, whose requests depend on the replies, have only their turns' shape here.
//!
//! Refuses to know: sockets, time.

pub mod answers;
pub mod arrivals;
mod bad_request;
pub mod conversation;
pub mod matrix;
pub mod prompt;
pub mod prompt_seed;
mod questions;
pub mod request;
pub mod request_plan;
pub mod splitmix;
pub mod staggered;
pub mod talk;
pub mod trace;

use self::prompt::SentPrompt;
use self::request::{
    Chat, ChatLogprobs, Completion, Extras, Length, Message, Mode, Penalty, Prompt, body,
};
use self::request_plan::{CHAT, COMPLETIONS, Expect, Label, Pace, Planned, Wave};
use super::socket::connection::Ask;
use super::{Endpoint, PromptSeed};
use std::time::Duration;
use verdict::plan::{
    FirstRequest, GoldenCase, Goldens, Mixed, Session, Shape, Steady, TaskCase, Tasks, TextPrompt,
    Texts,
};
use verdict::record::{Condition, Phase};

/// All requests of a steady workload, warm-up first.
pub fn steady(endpoint: &Endpoint, id: &str, steady: &Steady, seed: PromptSeed) -> Wave {
    let total = steady.warmup.saturating_add(steady.requests);
    let shape = streamed(steady.prompt_tokens, steady.output_tokens);
    let pace = arrivals::pace(&steady.arrivals, id, seed, total, None);
    let shapes = std::iter::repeat_n(shape, total as usize);
    let requests = completions(endpoint, (id, seed), steady.warmup, shapes);
    Wave::of(total, requests, pace)
}

/// A soak's requests: shapes are drawn by weight from the session's seed.
pub fn mixed(endpoint: &Endpoint, id: &str, mixed: &Mixed, seed: PromptSeed) -> Wave {
    let total = mixed.warmup.saturating_add(mixed.requests);
    let pace = arrivals::pace(&mixed.arrivals, id, seed, total, mixed.duration);
    let shapes = seed.shapes(id, mixed.shapes.clone()).take(total as usize);
    let requests = completions(endpoint, (id, seed), mixed.warmup, shapes);
    Wave {
        until: mixed.duration,
        ..Wave::of(total, requests, pace)
    }
}

/// Independent requests of these shapes, warm-up first.
fn completions<S: Iterator<Item = Shape>>(
    endpoint: &Endpoint,
    (id, seed): (&str, PromptSeed),
    warmup: u32,
    shapes: S,
) -> impl Iterator<Item = Planned> + use<S> {
    let (endpoint, id) = (endpoint.clone(), id.to_owned());
    (0..).zip(shapes).map(move |(index, shape)| {
        let label = Label::of(index, phase(index, warmup));
        completion(&endpoint, &id, seed, shape, label)
    })
}

/// The one request of a cold start.
pub fn first_request(
    endpoint: &Endpoint,
    id: &str,
    first: &FirstRequest,
    seed: PromptSeed,
) -> Wave {
    let shape = streamed(first.prompt_tokens, first.output_tokens);
    let label = Label::of(0, Phase::Measured);
    let request = completion(endpoint, id, seed, shape, label);
    Wave::new(vec![request], Pace::Slots(1))
}

/// The one shape of a workload that streams all its answers.
pub fn streamed(prompt_tokens: u32, output_tokens: u32) -> Shape {
    Shape {
        prompt_tokens,
        output_tokens,
        weight: 1,
        streamed: true,
    }
}

/// An independent request of its label's index: streamed or whole, of forced length where the engine can.
pub fn completion(
    endpoint: &Endpoint,
    id: &str,
    seed: PromptSeed,
    shape: Shape,
    label: Label,
) -> Planned {
    let prompt = SentPrompt::new(endpoint, id, seed, label.index, shape.prompt_tokens);
    let output = Output {
        streamed: shape.streamed,
        ..Output::whole(shape.output_tokens)
    };
    prompted(endpoint, prompt, label, output)
}

/// The answer that is asked for.
#[derive(Clone, Copy)]
pub struct Output {
    pub tokens: u32,
    pub streamed: bool,
    /// Log-probabilities of so many best tokens.
    pub logprobs: Option<u32>,
    /// Requests that are sampled or stopped have further parameters.
    pub condition: Option<Condition>,
    pub penalty: Option<Penalty>,
    /// Its length is not forced: it ends by itself, or at a string.
    pub is_free: bool,
    /// The client disconnects after this time, or as the answer begins; `None`: never.
    pub leaves: Option<Duration>,
}

impl Output {
    pub fn whole(tokens: u32) -> Self {
        Self {
            tokens,
            streamed: false,
            logprobs: None,
            condition: None,
            penalty: None,
            is_free: false,
            leaves: None,
        }
    }

    pub fn streamed(tokens: u32) -> Self {
        Self {
            streamed: true,
            ..Self::whole(tokens)
        }
    }

    /// The same request, which its client may leave.
    fn left(self, ask: Ask) -> Ask {
        Ask {
            leaves: self.leaves,
            ..ask
        }
    }
}

/// A request with this prompt: a completion, or where the endpoint is asked over the chat route, one message.
pub fn prompted(endpoint: &Endpoint, said: SentPrompt, label: Label, output: Output) -> Planned {
    let (prompt, counted, unfit) = match &said {
        SentPrompt::Ids(ids) => (Prompt::Ids(ids), Some(length(ids.len())), None),
        SentPrompt::Text { text, unfit } if endpoint.chat => {
            let mut planned = chat(endpoint, &[Message::of_user(text)], label, output);
            planned.expect.unfit = *unfit;
            return planned;
        }
        SentPrompt::Text { text, unfit } => (Prompt::Text(text), None, *unfit),
    };
    let (asked, expect) = length_of(endpoint, output);
    let request = Completion {
        model: &endpoint.model,
        prompt,
        length: asked,
        mode: mode(endpoint, output),
        logprobs: output.logprobs,
        echo: false,
    };
    Planned {
        expect: Expect {
            streamed: output.streamed,
            prompt: counted,
            unfit,
            logprobs: output.logprobs.is_some(),
            ..expect
        },
        ask: output.left(Ask::post(COMPLETIONS, body(endpoint, &request))),
        label,
    }
}

/// A conversation that is to be answered, over the chat route. An engine may lack log-probabilities there: they are asked for,
/// and not expected.
pub fn chat(endpoint: &Endpoint, messages: &[Message], label: Label, output: Output) -> Planned {
    let (length, expect) = length_of(endpoint, output);
    let request = Chat {
        model: &endpoint.model,
        messages,
        length,
        mode: mode(endpoint, output),
        logprobs: output.logprobs.map(ChatLogprobs::of),
    };
    Planned {
        label,
        expect: Expect {
            streamed: output.streamed,
            ..expect
        },
        ask: output.left(Ask::post(CHAT, body(endpoint, &request))),
    }
}

fn mode(endpoint: &Endpoint, output: Output) -> Mode {
    let mode = match output.streamed {
        true => stream(endpoint),
        false => Mode::WHOLE,
    };
    let mode = match output.penalty {
        Some(penalty) => mode.penalised(penalty),
        None => mode,
    };
    match output.condition {
        Some(Condition::Sampled) => mode.sampled(),
        Some(Condition::Drawn) => mode.drawn(),
        Some(Condition::Stopped) => mode.stopped(),
        _ => mode,
    }
}

/// How an output length is asked for, and what is expected of it: exactly that, or no more.
fn length_of(endpoint: &Endpoint, output: Output) -> (Length, Expect) {
    let tokens = output.tokens;
    let (mut forced, mut most) = (None, None);
    let length = if output.is_free {
        // It may end by itself too. A least length would hold back the stop strings (vLLM).
        most = Some(tokens);
        Length::at_most(tokens)
    } else if endpoint.forces_length {
        forced = Some(tokens);
        Length::exactly(tokens)
    } else {
        most = Some(tokens);
        Length::at_most(tokens)
    };
    let is_drawn = output.condition == Some(Condition::Drawn);
    let may_lack = [Condition::Ended, Condition::Penalised].map(Some);
    let expect = Expect {
        forced,
        most,
        // What is drawn may begin with an end too.
        stopped: output.is_free || is_drawn,
        may_refuse: output.is_free && (is_drawn || may_lack.contains(&output.condition)),
        // How much arrives before the client leaves is random.
        keep_text: output.leaves.is_none(),
        ..Expect::default()
    };
    (length, expect)
}

fn stream(endpoint: &Endpoint) -> Mode {
    Mode::streamed(Extras {
        usage: endpoint.stream_usage,
        token_ids: endpoint.return_token_ids,
    })
}

/// One turn of a conversation: the whole history, the new message last.
pub fn turn(endpoint: &Endpoint, session: &Session, turn: u32, history: &[Message]) -> Planned {
    let label = Label {
        turn: Some(turn),
        ..Label::of(turn, phase(turn, session.warmup_turns))
    };
    let output = Output::streamed(session.reply_tokens);
    chat(endpoint, history, label, output)
}

fn phase(index: u32, warmup: u32) -> Phase {
    if index < warmup {
        Phase::Warmup
    } else {
        Phase::Measured
    }
}

/// Greedy generation under the case's id; where log-probabilities are asked for and the engine takes token ids, the
/// reference's own tokens are then scored under `<id>#forced`.
pub fn goldens(endpoint: &Endpoint, goldens: &Goldens) -> Wave {
    let requests = goldens.cases.iter().flat_map(|case| {
        let top_k = goldens.top_k.filter(|_| case.is_scorable);
        let top_k = top_k.filter(|_| matches!(form(endpoint, case), Form::Ids));
        let scored = top_k.map(|top_k| scored(endpoint, case, top_k));
        [Some(greedy(endpoint, case, goldens.top_k)), scored]
    });
    in_turn(requests.flatten())
}

/// Tokens by which a server may overrun a limit that would cut a character, of four bytes at the most (llama-cpp-python).
const CHARACTER: u32 = 3;

/// How a golden case's prompt is sent.
enum Form<'a> {
    Ids,
    Text(&'a str),
    Chat,
}

/// Token ids where the engine takes them, or where nothing else is known of the prompt.
fn form<'a>(endpoint: &Endpoint, case: &'a GoldenCase) -> Form<'a> {
    let takes_ids = endpoint.prompt_ids.is_some() && !case.prompt_ids.is_empty();
    match &case.prompt_text {
        _ if takes_ids => Form::Ids,
        _ if !case.messages.is_empty() => Form::Chat,
        Some(text) => Form::Text(text),
        None => Form::Ids,
    }
}

fn greedy(endpoint: &Endpoint, case: &GoldenCase, top_k: Option<u32>) -> Planned {
    let tokens = case.max_tokens;
    let forced = (case.ignore_eos && endpoint.forces_length).then_some(tokens);
    let asked = forced.map_or(Length::at_most(tokens), Length::through_eos);
    let (prompt, counted) = match form(endpoint, case) {
        Form::Chat => {
            let most = tokens.saturating_add(CHARACTER);
            return conversed(endpoint, (&case.id, &case.messages), asked, most);
        }
        Form::Text(text) => (Prompt::Text(text), None),
        Form::Ids => (
            Prompt::Ids(&case.prompt_ids),
            Some(length(case.prompt_ids.len())),
        ),
    };
    let request = Completion {
        model: &endpoint.model,
        prompt,
        length: asked,
        mode: Mode::WHOLE,
        logprobs: top_k,
        echo: false,
    };
    Planned {
        label: case_label(&case.id),
        expect: Expect {
            forced,
            most: Some(tokens.saturating_add(CHARACTER)),
            prompt: counted,
            logprobs: top_k.is_some(),
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(COMPLETIONS, body(endpoint, &request)),
    }
}

fn scored(endpoint: &Endpoint, case: &GoldenCase, top_k: u32) -> Planned {
    let reference = case.tokens.iter().map(|token| token.id);
    let ids: Vec<u32> = case.prompt_ids.iter().copied().chain(reference).collect();
    let id = format!("{}#forced", case.id);
    echoed(endpoint, &id, Prompt::Ids(&ids), top_k)
}

/// One request a text.
pub fn texts(endpoint: &Endpoint, texts: &Texts) -> Wave {
    in_turn(texts.cases.iter().map(|case| {
        let prompt = match &case.prompt {
            TextPrompt::Text(text) => Prompt::Text(text),
            TextPrompt::Ids(ids) => Prompt::Ids(ids),
        };
        echoed(endpoint, &case.id, prompt, texts.top_k)
    }))
}

/// The prompt's tokens, scored; nothing is generated.
fn echoed(endpoint: &Endpoint, id: &str, prompt: Prompt<'_>, top_k: u32) -> Planned {
    let counted = match &prompt {
        Prompt::Ids(ids) => Some(length(ids.len())),
        Prompt::Text(_) => None,
    };
    let request = Completion {
        model: &endpoint.model,
        prompt,
        length: Length::at_most(0),
        mode: Mode::WHOLE,
        logprobs: Some(top_k),
        echo: true,
    };
    Planned {
        label: case_label(id),
        expect: Expect {
            prompt: counted,
            echoed: true,
            logprobs: true,
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(COMPLETIONS, body(endpoint, &request)),
    }
}

/// One request a problem.
pub fn tasks(endpoint: &Endpoint, tasks: &Tasks) -> Wave {
    in_turn(tasks.cases.iter().map(|case| task(endpoint, case)))
}

fn task(endpoint: &Endpoint, case: &TaskCase) -> Planned {
    let length = Length::at_most(case.max_tokens);
    conversed(
        endpoint,
        (&case.id, &case.messages),
        length,
        case.max_tokens,
    )
}

/// A case's conversation over the chat route; its answer comes whole.
fn conversed(
    endpoint: &Endpoint,
    (case, messages): (&str, &[(String, String)]),
    length: Length,
    most: u32,
) -> Planned {
    let messages: Vec<Message> = messages
        .iter()
        .map(|(role, content)| Message {
            role: role.clone(),
            content: content.clone(),
        })
        .collect();
    let request = Chat {
        model: &endpoint.model,
        messages: &messages,
        length,
        mode: Mode::WHOLE,
        logprobs: None,
    };
    Planned {
        label: case_label(case),
        expect: Expect {
            most: Some(most),
            keep_text: true,
            ..Expect::default()
        },
        ask: Ask::post(CHAT, body(endpoint, &request)),
    }
}

fn case_label(id: &str) -> Label {
    Label {
        case: Some(id.to_owned()),
        ..Label::of(0, Phase::Measured)
    }
}

/// Numbered, one at a time.
fn in_turn(requests: impl Iterator<Item = Planned>) -> Wave {
    let numbered = requests.zip(0..).map(|(mut planned, index)| {
        planned.label.index = index;
        planned
    });
    Wave::new(numbered.collect(), Pace::Slots(1))
}

fn length(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
