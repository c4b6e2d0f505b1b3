//! The ways in which an answer may be odd, by the name that a request asks for as its `model`.
//!
//! Main type: [`Quirk`]. Refuses to know: bytes.

/// One oddity of the answer; everything else stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quirk {
    None,
    /// An event with a role alone, as soon as the request was read.
    RoleFirst,
    /// Four tokens in each event; nothing in it says so.
    FourTokens,
    /// Four tokens in each event, and usage so far in each.
    FourCounted,
    /// Four tokens in each event, and their ids beside them.
    FourIds,
    NoUsage,
    /// Usage in each event, all zeros until the last (Ollama).
    ZeroUsage,
    /// Half of the tokens, then `stop`.
    EarlyEnd,
    /// An empty delta halfway between any two tokens, and before the first.
    EmptyDeltas,
    /// The first half is reasoning, under one of its names.
    ReasoningContent,
    Reasoning,
    /// Finish reason, usage and `[DONE]` 200 ms after the last token.
    LateGoodbye,
    /// A comment halfway between any two tokens, and before the first.
    Comments,
    Crlf,
    /// The connection ends after half of the tokens.
    Cut,
    /// Usage says ten tokens more.
    UsageHigh,
    /// Characters of several bytes, and writes that end anywhere.
    Split,
    TooMany,
    Unavailable,
    /// 503 with `retry-after`, on a connection that the server closes.
    RetryAfter,
    /// An event after `[DONE]`.
    AfterDone,
    /// Bytes after the end of the body that no request asked for.
    AfterBody,
}

const NAMES: [(Quirk, &str); 22] = [
    (Quirk::None, "none"),
    (Quirk::RoleFirst, "role-first"),
    (Quirk::FourTokens, "four-tokens"),
    (Quirk::FourCounted, "four-counted"),
    (Quirk::FourIds, "four-ids"),
    (Quirk::NoUsage, "no-usage"),
    (Quirk::ZeroUsage, "zero-usage"),
    (Quirk::EarlyEnd, "early-end"),
    (Quirk::EmptyDeltas, "empty-deltas"),
    (Quirk::ReasoningContent, "reasoning-content"),
    (Quirk::Reasoning, "reasoning"),
    (Quirk::LateGoodbye, "late-goodbye"),
    (Quirk::Comments, "comments"),
    (Quirk::Crlf, "crlf"),
    (Quirk::Cut, "cut"),
    (Quirk::UsageHigh, "usage-high"),
    (Quirk::Split, "split"),
    (Quirk::TooMany, "too-many"),
    (Quirk::Unavailable, "unavailable"),
    (Quirk::RetryAfter, "retry-after"),
    (Quirk::AfterDone, "after-done"),
    (Quirk::AfterBody, "after-body"),
];

impl Quirk {
    /// The `model` that asks for it.
    pub(crate) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(quirk, _)| *quirk == self);
        found.expect("every quirk has a name").1
    }

    /// Any other model's answers have none.
    pub(super) fn of(model: &str) -> Self {
        let found = NAMES.iter().find(|(_, name)| *name == model);
        found.map_or(Self::None, |(quirk, _)| *quirk)
    }
}
