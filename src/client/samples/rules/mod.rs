//! Rules that make a sample void, by name. The first that applies decides.
//!
//! Refuses to know: bytes, clocks; it sees what was expected and what was read.

mod contradictions;
mod counts;

use self::counts::text_in;
use crate::Endpoint;
use crate::response::exchange::{BodyRead, Ending, Exchange};
use crate::response::sanitize::error_text;
use crate::response::transcript::Transcript;
use crate::workloads::request_plan::{Expect, Label};
use verdict::record::{Stamps, TokenCounts, Void, VoidRule};

/// Finish reasons of an answer that its engine gave up.
const GIVEN_UP: [&str; 3] = ["abort", "content_filter", "error"];

/// Why this must not enter any metric; `None` for a sound sample.
pub fn void(seen: &Seen<'_>) -> Option<Void> {
    let Expect {
        refused,
        may_refuse,
        ..
    } = *seen.expect;
    let is_silent = matches!(seen.exchange.ending, Ending::Silent(_));
    match seen.exchange.status {
        // What breaks behind a refusal was not asked for, unless it keeps its client waiting.
        Some(status) if (refused && status < 500 || may_refuse) && status >= 400 => {
            return seen.transport().filter(|_| is_silent);
        }
        // Nor does a server that drops the connection of a bad request do more harm than one that refuses it.
        _ if refused && seen.exchange.is_dropped() => return None,
        Some(_) if refused => return seen.transport(),
        _ => {}
    }
    if may_refuse && seen.transcript.error.is_some() {
        return seen.transport().filter(|_| is_silent);
    }
    let failed = seen.status().or_else(|| seen.transport());
    if failed.is_some() || seen.exchange.ending == Ending::Left {
        // What was left is not the whole answer.
        return failed;
    }
    seen.malformed()
        .or_else(|| seen.cut_stream())
        .or_else(|| seen.no_output())
        .or_else(|| seen.degenerate())
        .or_else(|| seen.finish_reason())
        .or_else(|| seen.token_counts())
        .or_else(|| seen.clock_set())
        .or_else(|| seen.negative_phase())
        .or_else(|| seen.cache_state())
        .or_else(|| seen.implausible())
}

/// All that is known of one request and its answer.
pub struct Seen<'a> {
    pub endpoint: &'a Endpoint,
    pub label: &'a Label,
    pub expect: &'a Expect,
    pub exchange: &'a Exchange,
    pub transcript: &'a Transcript,
    pub stamps: &'a Stamps,
    pub tokens: &'a TokenCounts,
}

fn because(rule: VoidRule, detail: impl Into<String>) -> Option<Void> {
    Some(Void {
        rule,
        detail: detail.into(),
    })
}

impl Seen<'_> {
    fn status(&self) -> Option<Void> {
        if let Some(status) = self.exchange.status.filter(|status| *status != 200) {
            let message = error_text(&self.exchange.body);
            return because(VoidRule::Status, format!("status {status}: {message}"));
        }
        let error = self.transcript.error.as_ref()?;
        because(VoidRule::Status, format!("error in the answer: {error}"))
    }

    /// HTTP failed. After `[DONE]` the answer is whole, unless its stream goes on: clients wait for the end.
    fn transport(&self) -> Option<Void> {
        let ending = &self.exchange.ending;
        if self.transcript.done_ns.is_some() && !matches!(ending, Ending::Silent(_)) {
            return None;
        }
        let so_far = self.transcript.events_ns.len();
        match ending {
            Ending::Whole | Ending::Left => None,
            Ending::Refused(detail) => because(VoidRule::CutStream, detail),
            Ending::Cut(detail) => because(
                VoidRule::CutStream,
                format!("{detail}, after {so_far} output events"),
            ),
            Ending::Silent(detail) => because(
                VoidRule::Timeout,
                format!("{detail}, after {so_far} output events"),
            ),
            Ending::Garbled(detail) => because(VoidRule::Malformed, detail),
        }
    }

    fn malformed(&self) -> Option<Void> {
        if let Some(detail) = &self.transcript.malformed {
            return because(VoidRule::Malformed, detail);
        }
        let missing = self.expect.logprobs && self.transcript.logprobs.is_none();
        missing.then(|| {
            because(
                VoidRule::Malformed,
                "log-probabilities were asked for and not sent",
            )
        })?
    }

    /// HTTP ended well, but the stream did not.
    fn cut_stream(&self) -> Option<Void> {
        let Transcript {
            done_ns,
            finish_reason,
            events_ns,
            is_unfinished,
            ..
        } = self.transcript;
        if !self.expect.streamed || done_ns.is_some() {
            return None;
        }
        let so_far = events_ns.len();
        if *is_unfinished {
            because(
                VoidRule::CutStream,
                format!("the end cut an event, after {so_far} with output"),
            )
        } else if finish_reason.is_none() && so_far > 0 {
            let detail = format!("neither [DONE] nor a finish reason after {so_far} output events");
            because(VoidRule::CutStream, detail)
        } else {
            None
        }
    }

    fn no_output(&self) -> Option<Void> {
        let transcript = self.transcript;
        // A stop string may come first. Engines name that reason differently.
        let reason = transcript.finish_reason.as_deref();
        let has_ended = |reason: &str| reason != "length" && !GIVEN_UP.contains(&reason);
        if self.expect.stopped && reason.is_some_and(has_ended) {
            return None;
        }
        let empty = if self.expect.streamed {
            transcript.events_ns.is_empty()
        } else {
            // An end-of-sequence token alone is output without text: only its count shows it.
            let counted = transcript.completion_tokens.or(self.tokens.by_logprobs);
            let has_text = !transcript.content.is_empty() || !transcript.calls.is_empty();
            !self.expect.echoed && counted.map_or(!has_text, |n| n == 0)
        };
        let counted = transcript
            .completion_tokens
            .map_or("no usage".to_owned(), |n| format!("tokens by usage: {n}"));
        let unknown = transcript.unknown_field.as_deref();
        let unknown = unknown.map_or_else(String::new, |field| format!("; {}", text_in(field)));
        let detail = || format!("no output; {counted}{unknown}");
        empty.then(|| because(VoidRule::NoOutput, detail()))?
    }

    fn finish_reason(&self) -> Option<Void> {
        let reason = self.transcript.finish_reason.as_deref();
        let counted = self.transcript.completion_tokens;
        match (self.expect.forced, reason) {
            (Some(_), Some("length")) => None,
            (Some(forced), _) => {
                let reason = reason.unwrap_or("none");
                let counted = counted.map_or("an unknown number".to_owned(), |n| n.to_string());
                let detail = format!("finish reason {reason} after {counted} of {forced} tokens");
                because(VoidRule::FinishReason, detail)
            }
            (None, Some(reason)) if GIVEN_UP.contains(&reason) => {
                because(VoidRule::FinishReason, format!("finish reason {reason}"))
            }
            (None, _) => None,
        }
    }

    /// The kernel stamps by real time.
    fn clock_set(&self) -> Option<Void> {
        let by_ns = self.exchange.clock_set_ns?;
        let is_stamped = |read: &BodyRead| read.arrival.kernel;
        self.exchange.reads.iter().any(is_stamped).then(|| {
            let detail = format!(
                "the machine's clock was set by {:+.3} ms while this request was under way, and the kernel stamps what \
                 arrives by that clock: have the clock slewed, not stepped, while a load runs",
                by_ns as f64 / 1e6
            );
            because(VoidRule::NegativePhase, detail)
        })?
    }

    fn negative_phase(&self) -> Option<Void> {
        let Stamps {
            connect_ns,
            intended_ns,
            send_ns,
            headers_ns,
            first_byte_ns,
            events_ns,
            done_ns,
            end_ns,
            ..
        } = self.stamps;
        let connect = connect_ns
            .iter()
            .flat_map(|(asked, established)| [asked, established]);
        let moments: Vec<u64> = connect
            .chain([send_ns])
            .chain(headers_ns)
            .chain(first_byte_ns)
            .chain(events_ns)
            .chain(done_ns)
            .chain(end_ns)
            .copied()
            .collect();
        let sending = [[*intended_ns, *send_ns]];
        let pairs = moments.windows(2).map(|pair| [pair[0], pair[1]]);
        let back = pairs.chain(sending).find(|pair| pair[1] < pair[0])?;
        let detail = format!("a stamp of {} ns follows one of {} ns", back[1], back[0]);
        because(VoidRule::NegativePhase, detail)
    }
}
