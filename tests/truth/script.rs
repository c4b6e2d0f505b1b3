//! An answer before it is sent: its bytes, and when which part of them is due.
//!
//! Main type: [`Script`]. Refuses to know: sockets, clocks.

use super::Timing;
use super::http::Ask;
use super::quirk::Quirk;
use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;

/// By how much a late goodbye is late.
const LATE: Duration = Duration::from_millis(200);

/// Bytes of a write where events are split: no divisor of an event's length.
const PIECE: usize = 7;

/// What follows an answer's end, where something does.
const UNASKED: &str = "HTTP/1.1 400 What\r\n\r\n";

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) bytes: Vec<u8>,
    pub(super) steps: Vec<Step>,
    /// What the answer's text is, reasoning included.
    pub(super) text: String,
    /// The server closes the connection behind it.
    pub(super) close: bool,
}

/// One write.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// After the request's arrival.
    pub(super) due: Duration,
    pub(super) bytes: Range<usize>,
    /// Output tokens that it completes.
    pub(super) tokens: u32,
}

impl Script {
    /// Bytes that are sent at once and then end the connection.
    pub(super) fn page(status: &str, headers: &str, body: &str) -> Self {
        let mut script = Self::default();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        script.write(Duration::ZERO, &(head + body), 0);
        script
    }

    fn write(&mut self, due: Duration, text: &str, tokens: u32) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.steps.push(Step {
            due,
            bytes: start..self.bytes.len(),
            tokens,
        });
    }
}

/// The answer number `number` to `ask`.
pub(super) fn answer(ask: &Ask, number: u64, timing: Timing) -> Script {
    let refused = |status, headers| {
        let body = r#"{"error":{"message":"come back later"}}"#;
        Script::page(status, headers, body)
    };
    match ask.quirk {
        Quirk::TooMany => refused("429 Too Many Requests", ""),
        Quirk::Unavailable => refused("503 Service Unavailable", ""),
        Quirk::RetryAfter => Script {
            close: true,
            ..refused(
                "503 Service Unavailable",
                "retry-after: 1\r\nconnection: close\r\n",
            )
        },
        _ if ask.stream => Stream::new(ask, number, timing).write(),
        _ => whole(ask, number, timing),
    }
}

/// The text of token `at` of answer `number`: the first one tells the answers apart.
fn token(ask: &Ask, number: u64, at: u32) -> String {
    match at {
        0 => format!("#{number}"),
        _ if ask.quirk == Quirk::Split => "🦀é".into(),
        _ => format!(" {at}"),
    }
}

fn whole(ask: &Ask, number: u64, timing: Timing) -> Script {
    let text: String = (0..ask.tokens).map(|at| token(ask, number, at)).collect();
    let mut choice = json!({"index": 0, "finish_reason": "length"});
    if ask.chat {
        choice["message"] = json!({"role": "assistant", "content": text});
    } else {
        choice["text"] = json!(text);
    }
    let body = json!({"object": object(ask), "choices": [choice], "usage": usage(ask, ask.tokens)});
    let mut script = Script::page("200 OK", "", &body.to_string());
    if ask.quirk == Quirk::AfterBody {
        script.bytes.extend_from_slice(UNASKED.as_bytes());
    }
    script.steps[0] = Step {
        due: timing.ttft + timing.tpot * ask.tokens.saturating_sub(1),
        bytes: 0..script.bytes.len(),
        tokens: ask.tokens,
    };
    script.text = text;
    script
}

/// What the answer calls itself; some clients read no event that does not say it.
fn object(ask: &Ask) -> &'static str {
    match (ask.chat, ask.stream) {
        (false, _) => "text_completion",
        (true, true) => "chat.completion.chunk",
        (true, false) => "chat.completion",
    }
}

fn usage(ask: &Ask, tokens: u32) -> Value {
    let excess = if ask.quirk == Quirk::UsageHigh { 10 } else { 0 };
    let prompt = ask.prompt_tokens;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": tokens + excess,
        "total_tokens": prompt as u64 + u64::from(tokens + excess),
    })
}

/// A streamed answer as it is written.
struct Stream<'a> {
    ask: &'a Ask,
    number: u64,
    timing: Timing,
    script: Script,
}

impl<'a> Stream<'a> {
    fn new(ask: &'a Ask, number: u64, timing: Timing) -> Self {
        Self {
            ask,
            number,
            timing,
            script: Script::default(),
        }
    }

    fn write(mut self) -> Script {
        let quirk = self.ask.quirk;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.script.write(Duration::ZERO, head, 0);
        if quirk == Quirk::RoleFirst {
            let role = json!({"delta": {"role": "assistant", "content": ""}});
            self.choice(Duration::ZERO, role, 0, None);
        }
        let count = match quirk {
            Quirk::EarlyEnd | Quirk::Cut => self.ask.tokens / 2,
            _ => self.ask.tokens,
        };
        let each = match quirk {
            Quirk::FourTokens | Quirk::FourCounted | Quirk::FourIds => 4,
            _ => 1,
        };
        for first in (0..count).step_by(each) {
            self.tokens(first, count.min(first + each as u32));
        }
        self.script.close = quirk == Quirk::Cut;
        if quirk != Quirk::Cut {
            self.goodbye(count);
        }
        self.script
    }

    /// The event with the tokens from `first` to before `end`: due with its last one.
    fn tokens(&mut self, first: u32, end: u32) {
        let due = self.due(end - 1);
        let between = due.saturating_sub(self.timing.tpot / 2);
        match self.ask.quirk {
            Quirk::EmptyDeltas => {
                let empty = self.delta("content", "");
                self.choice(between, empty, 0, None);
            }
            Quirk::Comments => self.chunk(between, ": keep-alive\n\n", 0),
            _ => {}
        }
        let text: String = (first..end)
            .map(|at| token(self.ask, self.number, at))
            .collect();
        let name = match self.ask.quirk {
            Quirk::ReasoningContent if first < self.ask.tokens / 2 => "reasoning_content",
            Quirk::Reasoning if first < self.ask.tokens / 2 => "reasoning",
            _ => "content",
        };
        let usage = match self.ask.quirk {
            Quirk::FourCounted => Some(usage(self.ask, end)),
            Quirk::ZeroUsage => Some(json!({"prompt_tokens": 0, "completion_tokens": 0})),
            _ => None,
        };
        let mut delta = self.delta(name, &text);
        if self.ask.quirk == Quirk::FourIds {
            delta["token_ids"] = (first..end).collect();
        }
        self.choice(due, delta, end - first, usage);
        self.script.text.push_str(&text);
    }

    /// Finish reason, usage, `[DONE]` and the body's end: one write, unless writes are split.
    fn goodbye(&mut self, count: u32) {
        let quirk = self.ask.quirk;
        let begin = self.script.steps.len();
        let late = if quirk == Quirk::LateGoodbye {
            LATE
        } else {
            Duration::ZERO
        };
        let due = self.due(count.saturating_sub(1)) + late;
        let reason = if quirk == Quirk::EarlyEnd {
            "stop"
        } else {
            "length"
        };
        let mut last = self.delta("content", "");
        last["finish_reason"] = json!(reason);
        self.choice(due, last, 0, None);
        if self.ask.usage && quirk != Quirk::NoUsage {
            let usage = json!({"choices": [], "usage": usage(self.ask, count)});
            self.event(due, usage, 0);
        }
        self.chunk(due, "data: [DONE]\n\n", 0);
        if quirk == Quirk::AfterDone {
            let more = self.delta("content", "more");
            self.choice(due, more, 0, None);
        }
        let rubbish = if quirk == Quirk::AfterBody {
            UNASKED
        } else {
            ""
        };
        self.script.write(due, &format!("0\r\n\r\n{rubbish}"), 0);
        if quirk != Quirk::Split {
            let start = self.script.steps[begin].bytes.start;
            self.script.steps.truncate(begin + 1);
            self.script.steps[begin].bytes = start..self.script.bytes.len();
        }
    }

    fn due(&self, token: u32) -> Duration {
        self.timing.ttft + self.timing.tpot * token
    }

    /// A choice whose one field of output has this name; plain completions know only `text`.
    fn delta(&self, name: &str, text: &str) -> Value {
        if self.ask.chat || name != "content" {
            json!({"index": 0, "delta": {name: text}})
        } else {
            json!({"index": 0, "text": text})
        }
    }

    fn choice(&mut self, due: Duration, choice: Value, tokens: u32, usage: Option<Value>) {
        let mut event = json!({"id": format!("cmpl-{}", self.number), "choices": [choice]});
        if let Some(usage) = usage {
            event["usage"] = usage;
        }
        self.event(due, event, tokens);
    }

    fn event(&mut self, due: Duration, mut data: Value, tokens: u32) {
        data["object"] = json!(object(self.ask));
        self.chunk(due, &format!("data: {data}\n\n"), tokens);
    }

    /// An HTTP chunk in one write, or in many.
    fn chunk(&mut self, due: Duration, text: &str, tokens: u32) {
        let text = match self.ask.quirk {
            Quirk::Crlf => text.replace('\n', "\r\n"),
            _ => text.to_owned(),
        };
        self.script
            .write(due, &format!("{:x}\r\n{text}\r\n", text.len()), tokens);
        if self.ask.quirk == Quirk::Split {
            self.split_last();
        }
    }

    fn split_last(&mut self) {
        let Some(step) = self.script.steps.pop() else {
            return;
        };
        let Range { start, end } = step.bytes;
        // The event is complete before the CR and LF that end the chunk.
        let complete = end - 2;
        for from in (start..end).step_by(PIECE) {
            let to = end.min(from + PIECE);
            let completes = (from..to).contains(&(complete - 1));
            self.script.steps.push(Step {
                due: step.due,
                bytes: from..to,
                tokens: if completes { step.tokens } else { 0 },
            });
        }
    }
}
