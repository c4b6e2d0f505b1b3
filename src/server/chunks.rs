//! Answer steps → the JSON that is sent: chunks of a stream, or one whole object.
//!
//! [`Envelope`] holds what every object of one answer repeats. Order of a stream: a role chunk (chat
//! alone), one chunk a token that has something to show, the finish chunk, the usage chunk if asked for,
//! `[DONE]`. Refuses to know: the engine's events, sockets.

use super::answer::{Delta, Ending};
use super::wire::chat::{Chat, ChatChoice, ChatPart, ChatText};
use super::wire::completions::{Completion, CompletionChoice};
use super::wire::logprobs::{ChatLogprobs, CompletionLogprobs};
use super::wire::usage::{Timings, Usage};
use super::wire::{ApiError, StreamUsage};
use axum::body::Bytes;
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Completion,
    Chat,
}

/// What all objects of one answer share.
pub(crate) struct Envelope {
    pub(crate) form: Form,
    pub(crate) id: String,
    /// Unix seconds.
    pub(crate) created: u64,
    pub(crate) model: Arc<str>,
    pub(crate) usage: StreamUsage,
    pub(crate) with_logprobs: bool,
    pub(crate) with_ids: bool,
    /// Sent once, in the first object, if ids were asked for.
    pub(crate) prompt_ids: Option<Vec<u32>>,
}

/// What one object says, whichever form it takes.
#[derive(Default)]
struct Content {
    delta: Option<Delta>,
    role: Option<&'static str>,
    reason: Option<&'static str>,
    usage: Option<Option<Usage>>,
    timings: Option<Timings>,
}

impl Envelope {
    /// The event that opens a chat's stream: a role and no text.
    pub(crate) fn role(&mut self, so_far: Usage) -> Option<Bytes> {
        if self.form == Form::Completion {
            return None;
        }
        Some(self.event(Content {
            delta: Some(Delta::default()),
            role: Some("assistant"),
            usage: self.usage_beside(so_far),
            ..Content::default()
        }))
    }

    /// The event of one token; `None` if it has nothing to show.
    pub(crate) fn token(&mut self, delta: Delta, so_far: Usage) -> Option<Bytes> {
        if delta.is_empty() {
            return None;
        }
        Some(self.event(Content {
            delta: Some(delta),
            usage: self.usage_beside(so_far),
            ..Content::default()
        }))
    }

    /// The events that close a stream; timings stand in the last that is an object.
    pub(crate) fn end(&mut self, rest: Delta, ending: Ending) -> Vec<Bytes> {
        let Ending {
            reason,
            usage,
            timings,
        } = ending;
        let mut last = Content {
            delta: Some(rest),
            reason: Some(reason),
            usage: self.usage_beside(usage),
            timings: Some(timings),
            ..Content::default()
        };
        if self.usage == StreamUsage::Never {
            return vec![self.event(last), done()];
        }
        let counts = Content {
            usage: Some(Some(usage)),
            timings: last.timings.take(),
            ..Content::default()
        };
        vec![self.event(last), self.event(counts), done()]
    }

    /// The whole answer as one object.
    pub(crate) fn whole(mut self, delta: Delta, ending: Ending) -> Vec<u8> {
        let content = Content {
            delta: Some(delta),
            role: Some("assistant"),
            reason: Some(ending.reason),
            usage: Some(Some(ending.usage)),
            timings: Some(ending.timings),
        };
        self.json(content, false)
    }

    fn usage_beside(&self, so_far: Usage) -> Option<Option<Usage>> {
        match self.usage {
            StreamUsage::Never => None,
            StreamUsage::Last => Some(None),
            StreamUsage::Each => Some(Some(so_far)),
        }
    }

    fn event(&mut self, content: Content) -> Bytes {
        frame(&self.json(content, true))
    }

    fn json(&mut self, content: Content, streamed: bool) -> Vec<u8> {
        match self.form {
            Form::Completion => self.completion(content),
            Form::Chat => self.chat(content, streamed),
        }
    }

    fn completion(&mut self, content: Content) -> Vec<u8> {
        let prompt_token_ids = content.delta.as_ref().and_then(|_| self.prompt_ids.take());
        let choice = content.delta.map(|delta| CompletionChoice {
            index: 0,
            text: delta.text,
            logprobs: (self.with_logprobs && !delta.scored.is_empty())
                .then(|| CompletionLogprobs::new(delta.scored)),
            finish_reason: content.reason,
            prompt_token_ids,
            token_ids: self.with_ids.then_some(delta.ids),
        });
        serialise(&Completion {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            choices: choice.into_iter().collect(),
            usage: content.usage,
            timings: content.timings,
        })
    }

    fn chat(&mut self, content: Content, streamed: bool) -> Vec<u8> {
        let role = content.role;
        // A finish chunk without text is `delta: {}`; the role chunk and a whole answer always have text.
        let text = |text: String| ChatText {
            content: (role.is_some() || !text.is_empty()).then_some(text),
            role,
        };
        let choice = content.delta.map(|delta| ChatChoice {
            index: 0,
            part: match streamed {
                true => ChatPart::Delta(text(delta.text)),
                false => ChatPart::Message(text(delta.text)),
            },
            logprobs: (self.with_logprobs && !delta.scored.is_empty())
                .then(|| ChatLogprobs::new(delta.scored)),
            finish_reason: content.reason,
            token_ids: self.with_ids.then_some(delta.ids),
        });
        serialise(&Chat {
            id: &self.id,
            object: if streamed {
                "chat.completion.chunk"
            } else {
                "chat.completion"
            },
            created: self.created,
            model: &self.model,
            choices: choice.into_iter().collect(),
            prompt_token_ids: self.prompt_ids.take(),
            usage: content.usage,
            timings: content.timings,
        })
    }
}

/// The events of a stream that fails: the error in its usual shape, then the end.
pub(crate) fn failure(error: &ApiError) -> Vec<Bytes> {
    vec![frame(&serialise(&error.body())), done()]
}

fn done() -> Bytes {
    frame(b"[DONE]")
}

/// One server-sent event.
fn frame(data: &[u8]) -> Bytes {
    [b"data: ".as_slice(), data, b"\n\n"].concat().into()
}

fn serialise(object: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(object).expect("wire types have string keys and cannot fail to serialise")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::request;
    use serde_json::{Value, json};

    fn envelope(form: Form, usage: StreamUsage) -> Envelope {
        Envelope {
            form,
            id: "x-1".to_owned(),
            created: 5,
            model: "tiny".into(),
            usage,
            with_logprobs: false,
            with_ids: false,
            prompt_ids: None,
        }
    }

    fn delta(text: &str) -> Delta {
        Delta {
            text: text.to_owned(),
            ..Delta::default()
        }
    }

    fn ending() -> Ending {
        Ending {
            reason: "stop",
            usage: Usage::new(3, 2, 0),
            timings: Timings::new(0, request::Timings::default()),
        }
    }

    /// The objects of a stream of one token; the last event must be `[DONE]`.
    fn stream(mut envelope: Envelope) -> Vec<Value> {
        let mut events: Vec<Bytes> = envelope.role(Usage::new(3, 0, 0)).into_iter().collect();
        events.extend(envelope.token(delta(""), Usage::new(3, 1, 0)));
        events.extend(envelope.token(delta("a"), Usage::new(3, 2, 0)));
        events.extend(envelope.end(delta(""), ending()));
        let data = |event: &Bytes| {
            let text = std::str::from_utf8(event).unwrap();
            let data = text
                .strip_prefix("data: ")
                .and_then(|text| text.strip_suffix("\n\n"));
            data.unwrap().to_owned()
        };
        let mut events: Vec<String> = events.iter().map(data).collect();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"));
        events
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect()
    }

    fn usages(chunks: &[Value]) -> Vec<Value> {
        chunks
            .iter()
            .map(|chunk| chunk.get("usage").cloned().unwrap_or(json!("absent")))
            .collect()
    }

    #[test]
    fn a_completion_streams_tokens_then_the_finish() {
        let chunks = stream(envelope(Form::Completion, StreamUsage::Never));
        assert_eq!(
            chunks[0],
            json!({
                "id": "x-1", "object": "text_completion", "created": 5, "model": "tiny",
                "choices": [{"index": 0, "text": "a", "logprobs": null, "finish_reason": null}],
            })
        );
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "stop");
        assert_eq!(chunks[1]["choices"][0]["text"], "");
        assert!(chunks[1]["timings"].is_object());
        assert_eq!(chunks.len(), 2);
    }

    #[test]
    fn a_chat_streams_its_role_first_and_an_empty_delta_last() {
        let chunks = stream(envelope(Form::Chat, StreamUsage::Never));
        let deltas: Vec<_> = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"])
            .collect();
        assert_eq!(
            json!(deltas),
            json!([{"role": "assistant", "content": ""}, {"content": "a"}, {}])
        );
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk["object"] == "chat.completion.chunk")
        );
    }

    #[test]
    fn usage_stands_where_it_was_asked_for() {
        let check = |usage: StreamUsage, expect: Value| {
            assert_eq!(
                json!(usages(&stream(envelope(Form::Completion, usage)))),
                expect
            );
        };
        let counts = |completion: u32| json!(Usage::new(3, completion, 0));
        check(StreamUsage::Never, json!(["absent", "absent"]));
        check(StreamUsage::Last, json!([null, null, counts(2)]));
        check(StreamUsage::Each, json!([counts(2), counts(2), counts(2)]));
    }

    #[test]
    fn the_usage_chunk_has_no_choices_and_carries_the_timings() {
        let chunks = stream(envelope(Form::Chat, StreamUsage::Last));
        let last = chunks.last().unwrap();
        assert_eq!(last["choices"], json!([]));
        let with_timings = chunks.iter().filter(|chunk| chunk.get("timings").is_some());
        assert_eq!(with_timings.count(), 1);
        assert!(last["timings"].is_object());
    }

    #[test]
    fn prompt_ids_come_once() {
        for form in [Form::Completion, Form::Chat] {
            let chunks = stream(Envelope {
                with_ids: true,
                prompt_ids: Some(vec![7, 8]),
                ..envelope(form, StreamUsage::Last)
            });
            let place = |chunk: &Value| match form {
                Form::Completion => chunk["choices"][0].get("prompt_token_ids").cloned(),
                Form::Chat => chunk.get("prompt_token_ids").cloned(),
            };
            assert_eq!(place(&chunks[0]), Some(json!([7, 8])));
            assert!(chunks[1..].iter().all(|chunk| place(chunk).is_none()));
        }
    }

    #[test]
    fn a_whole_answer_has_all() {
        let whole = envelope(Form::Chat, StreamUsage::Last).whole(delta("a"), ending());
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(whole["object"], "chat.completion");
        let choice = &whole["choices"][0];
        assert_eq!(
            choice["message"],
            json!({"role": "assistant", "content": "a"})
        );
        assert_eq!(choice["finish_reason"], "stop");
        assert_eq!(whole["usage"]["total_tokens"], 5);
        assert!(whole["timings"].is_object());
    }

    #[test]
    fn a_failure_is_an_error_object_and_the_end() {
        let events = failure(&ApiError::engine_failed("it broke"));
        let text = String::from_utf8(events.concat()).unwrap();
        assert!(text.starts_with("data: {\"error\":{\"message\":"), "{text}");
        assert!(text.ends_with("\n\ndata: [DONE]\n\n"), "{text}");
    }
}
