//! One request of a workload: what is sent, what it is called, and what a sound answer looks like.
//!
//! Refuses to know: sockets, answers.

use super::talk::Talk;
use crate::response::exchange::MAX_BODY;
use crate::socket::connection::Ask;
use bytes::Bytes;
use hyper::Method;
use std::time::Duration;
use verdict::record::{Phase, Setting};

/// The route of completions.
pub const COMPLETIONS: &str = "/v1/completions";
/// The route of chat.
pub const CHAT: &str = "/v1/chat/completions";

#[derive(Clone, Debug)]
pub struct Planned {
    pub label: Label,
    pub expect: Expect,
    pub ask: Ask,
}

/// Requests that are sent together; the next wave begins when every one was answered.
#[derive(Clone, Debug)]
pub struct Wave {
    /// In the order of sending.
    pub requests: Vec<Planned>,
    pub pace: Pace,
    /// Time after its start at which slots stop taking requests; `None`: never.
    pub until: Option<Duration>,
    /// Time over which its slots come one after another; what is sent meanwhile is warm-up. Moments rise by themselves.
    pub ramp_up: Option<Duration>,
    /// Where each request begins a conversation.
    pub talks: Option<Talks>,
}

/// Conversations that go on as the server answers. Their requests are numbered as they are sent.
#[derive(Clone, Debug)]
pub struct Talks {
    /// One for each request of the wave, which is its first turn.
    pub talks: Vec<Talk>,
    /// First requests sent, whosever they are, that no metric counts.
    pub warmup: u32,
    /// Turns of all.
    pub requests: u32,
}

impl Wave {
    /// All of these requests.
    pub fn new(requests: Vec<Planned>, pace: Pace) -> Self {
        Self {
            requests,
            pace,
            until: None,
            ramp_up: None,
            talks: None,
        }
    }

    /// Requests that will be sent.
    pub fn len(&self) -> u32 {
        if let Some(talks) = &self.talks {
            return talks.requests;
        }
        let sent = match &self.pace {
            Pace::Slots(_) => self.requests.len(),
            Pace::At(moments) | Pace::InTurn(moments) => self.requests.len().min(moments.len()),
        };
        u32::try_from(sent).unwrap_or(u32::MAX)
    }
}

/// When a wave's requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many in flight; each slot sends its next as soon as its last was answered.
    Slots(u32),
    /// Each at its moment from the wave's start, rising; requests beyond the last moment are not sent.
    At(Vec<Duration>),
    /// Each at its moment or after the one before was answered, whichever comes later: users who arrive by
    /// themselves and are served one after another.
    InTurn(Vec<Duration>),
}

/// Identity of the sample that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub index: u32,
    pub phase: Phase,
    pub case: Option<String>,
    pub turn: Option<u32>,
    pub setting: Option<Setting>,
}

impl Label {
    /// One that belongs to no case, turn or setting.
    pub fn of(index: u32, phase: Phase) -> Self {
        Self {
            index,
            phase,
            case: None,
            turn: None,
            setting: None,
        }
    }
}

/// What must be true of a sound answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    pub streamed: bool,
    /// Exactly so many output tokens.
    pub forced: Option<u32>,
    /// At most so many, where no length is forced.
    pub most: Option<u32>,
    /// Exactly so many prompt tokens, where ids were sent.
    pub prompt: Option<u32>,
    /// Tokens that the prompt's text was to have and those that it has, where no text fits.
    pub unfit: Option<(u32, u32)>,
    /// The prompt is echoed with its log-probabilities; nothing need be generated.
    pub echoed: bool,
    pub logprobs: bool,
    pub keep_text: bool,
}

impl Ask {
    pub fn post(route: &str, json: Bytes) -> Self {
        Self {
            method: Method::POST,
            path: route.to_owned(),
            body: json,
            limit: MAX_BODY,
        }
    }
}
