//! One request of a workload: what is sent, what it is called, and what a sound answer looks like.
//!
//! Refuses to know: sockets, answers.

use super::connection::Ask;
use super::exchange::MAX_BODY;
use crate::record::Phase;
use bytes::Bytes;
use hyper::Method;

/// The route of completions.
pub(super) const COMPLETIONS: &str = "/v1/completions";
/// The route of chat.
pub(super) const CHAT: &str = "/v1/chat/completions";

#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) label: Label,
    pub(super) expect: Expect,
    pub(super) ask: Ask,
}

/// Identity of the sample that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) index: u32,
    pub(super) phase: Phase,
    pub(super) case: Option<String>,
    pub(super) turn: Option<u32>,
}

/// What must be true of a sound answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expect {
    pub(super) streamed: bool,
    /// Exactly so many output tokens.
    pub(super) forced: Option<u32>,
    /// Exactly so many prompt tokens, where ids were sent.
    pub(super) prompt: Option<u32>,
    /// The prompt is echoed with its log-probabilities; nothing need be generated.
    pub(super) echoed: bool,
    pub(super) logprobs: bool,
    pub(super) keep_text: bool,
}

impl Ask {
    pub(super) fn post(route: &str, json: Bytes) -> Self {
        Self {
            method: Method::POST,
            path: route.to_owned(),
            body: json,
            limit: MAX_BODY,
        }
    }
}
