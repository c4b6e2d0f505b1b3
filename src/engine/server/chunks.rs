//! Answer steps → the JSON that is sent: chunks of a stream, or one whole object.
//!
//! [`Envelope`] holds what every object of one answer repeats. Order of a stream: of each choice a role chunk
//! (chat alone), one chunk a token that has something to show, the finish chunk; after all choices the usage
//! chunk if asked for, `[DONE]`. Refuses to know: the engine's events, sockets.

use super::answer::{Delta, Ending};
use super::wire::chat::{Chat, ChatChoice, ChatPart, ChatText};
use super::wire::completions::{Completion, CompletionChoice};
use super::wire::logprobs::{ChatLogprobs, CompletionLogprobs};
use super::wire::usage::{StopReason, Timings, Usage};
use super::wire::{ApiError, StreamUsage};
use axum::body::Bytes;
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Completion,
    Chat,
}

/// What all objects of one answer share.
pub struct Envelope {
    pub form: Form,
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    pub model: Arc<str>,
    pub usage: StreamUsage,
    pub with_logprobs: bool,
    pub with_ids: bool,
    /// Sent once, if ids were asked for: of a completion by choice, in its first object; of a chat the only
    /// prompt's, in the first object.
    pub prompt_ids: Vec<Option<Vec<u32>>>,
    /// The engine's clock is shown: there is one choice.
    pub timed: bool,
    /// Kept for the last object of a stream.
    pub timings: Option<Timings>,
}

/// What one object says of a choice.
#[derive(Default)]
struct ChunkText {
    index: usize,
    delta: Delta,
    role: Option<&'static str>,
    reason: Option<&'static str>,
    stop: Option<StopReason>,
}

/// What one object says, whichever form it takes.
#[derive(Default)]
struct Content {
    choices: Vec<ChunkText>,
    usage: Option<Option<Usage>>,
    timings: Option<Timings>,
}

impl Envelope {
    /// The event that opens a choice of a chat's stream: a role and no text.
    pub fn role(&mut self, index: usize, so_far: Usage) -> Option<Bytes> {
        if self.form == Form::Completion {
            return None;
        }
        let said = ChunkText {
            index,
            role: Some("assistant"),
            ..ChunkText::default()
        };
        Some(self.event_of(said, so_far, None))
    }

    /// The event of one token; `None` if it has nothing to show.
    pub fn token(&mut self, index: usize, delta: Delta, so_far: Usage) -> Option<Bytes> {
        if delta.is_empty() {
            return None;
        }
        let said = ChunkText {
            index,
            delta,
            ..ChunkText::default()
        };
        Some(self.event_of(said, so_far, None))
    }

    /// The event that ends a choice.
    pub fn finish(&mut self, index: usize, rest: Delta, ending: Ending, so_far: Usage) -> Bytes {
        let timings = self.timed.then_some(ending.timings);
        let said = ChunkText {
            index,
            delta: rest,
            role: None,
            reason: Some(ending.reason),
            stop: ending.stop,
        };
        if self.usage == StreamUsage::Never {
            return self.event_of(said, so_far, timings);
        }
        self.timings = timings;
        self.event_of(said, so_far, None)
    }

    /// The events that close a stream; timings stand in the last that is an object.
    pub fn close(&mut self, usage: Usage) -> Vec<Bytes> {
        if self.usage == StreamUsage::Never {
            return vec![done()];
        }
        let counts = Content {
            choices: Vec::new(),
            usage: Some(Some(usage)),
            timings: self.timings.take(),
        };
        vec![self.event(counts), done()]
    }

    /// The whole answer as one object; its choices by index.
    pub fn whole(mut self, choices: Vec<(Delta, Ending)>, usage: Usage) -> Vec<u8> {
        let timings = choices.first().filter(|_| self.timed);
        let timings = timings.map(|(_, ending)| ending.timings.clone());
        let said = |(index, (delta, ending)): (usize, (Delta, Ending))| ChunkText {
            index,
            delta,
            role: Some("assistant"),
            reason: Some(ending.reason),
            stop: ending.stop,
        };
        let content = Content {
            choices: choices.into_iter().enumerate().map(said).collect(),
            usage: Some(Some(usage)),
            timings,
        };
        self.json(content, false)
    }

    fn event_of(&mut self, said: ChunkText, so_far: Usage, timings: Option<Timings>) -> Bytes {
        let usage = self.usage_beside(so_far);
        self.event(Content {
            choices: vec![said],
            usage,
            timings,
        })
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
        let choice = |said: ChunkText| CompletionChoice {
            index: said.index as u32,
            text: said.delta.text,
            logprobs: (self.with_logprobs && !said.delta.scored.is_empty())
                .then(|| CompletionLogprobs::new(&said.delta.scored)),
            finish_reason: said.reason,
            stop_reason: said.stop,
            prompt_token_ids: self.prompt_ids.get_mut(said.index).and_then(Option::take),
            token_ids: self.with_ids.then_some(said.delta.ids),
        };
        let choices = content.choices.into_iter().map(choice).collect();
        serialise(&Completion {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            choices,
            usage: content.usage,
            timings: content.timings,
        })
    }

    fn chat(&mut self, content: Content, streamed: bool) -> Vec<u8> {
        let choice = |said: ChunkText| {
            // A finish chunk without text is `delta: {}`; the role chunk and a whole answer always have text, but for
            // a whole one of calls alone, where it is null.
            let (role, text, mut calls) = (said.role, said.delta.text, said.delta.calls);
            for call in calls.iter_mut().filter(|_| !streamed) {
                call.index = None;
            }
            let has_content = role.is_some() || !text.is_empty();
            let is_null = text.is_empty() && !calls.is_empty();
            let reasoning = said.delta.reasoning;
            let text = ChatText {
                role,
                content: has_content.then(|| (!is_null).then_some(text)),
                reasoning_content: (!reasoning.is_empty()).then_some(reasoning),
                tool_calls: calls,
            };
            ChatChoice {
                index: said.index as u32,
                part: match streamed {
                    true => ChatPart::Delta(text),
                    false => ChatPart::Message(text),
                },
                logprobs: (self.with_logprobs && !said.delta.scored.is_empty())
                    .then(|| ChatLogprobs::new(&said.delta.scored)),
                finish_reason: said.reason,
                stop_reason: said.stop,
                token_ids: self.with_ids.then_some(said.delta.ids),
            }
        };
        let choices = content.choices.into_iter().map(choice).collect();
        serialise(&Chat {
            id: &self.id,
            object: if streamed {
                "chat.completion.chunk"
            } else {
                "chat.completion"
            },
            created: self.created,
            model: &self.model,
            choices,
            prompt_token_ids: self.prompt_ids.first_mut().and_then(Option::take),
            usage: content.usage,
            timings: content.timings,
        })
    }
}

/// The events of a stream that fails: the error in its usual shape, then the end.
pub fn failure(error: &ApiError) -> Vec<Bytes> {
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
    use crate::request;
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
            prompt_ids: Vec::new(),
            timed: true,
            timings: None,
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
            stop: None,
            timings: Timings::new(0, request::Timings::default()),
        }
    }

    /// The objects of a stream of one token; the last event must be `[DONE]`.
    fn stream(mut envelope: Envelope) -> Vec<Value> {
        let so_far = |completion| Usage::new(3, completion, 0);
        let mut events: Vec<Bytes> = envelope.role(0, so_far(0)).into_iter().collect();
        events.extend(envelope.token(0, delta(""), so_far(1)));
        events.extend(envelope.token(0, delta("a"), so_far(2)));
        events.push(envelope.finish(0, delta(""), ending(), so_far(2)));
        events.extend(envelope.close(so_far(2)));
        objects(events)
    }

    fn objects(events: Vec<Bytes>) -> Vec<Value> {
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

    #[test]
    fn a_completion_streams_tokens_then_the_finish() {
        let chunks = stream(envelope(Form::Completion, StreamUsage::Never));
        assert_eq!(
            chunks[0],
            json!({
                "id": "x-1", "object": "text_completion", "created": 5, "model": "tiny",
                "choices": [{"index": 0, "text": "a", "logprobs": null, "finish_reason": null,
                    "stop_reason": null}],
            })
        );
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "stop");
        assert_eq!(chunks[1]["choices"][0]["text"], "");
        assert!(chunks[1]["timings"].is_object());
        assert_eq!(chunks.len(), 2);
    }

    #[test]
    fn prompt_ids_come_once() {
        for form in [Form::Completion, Form::Chat] {
            let chunks = stream(Envelope {
                with_ids: true,
                prompt_ids: vec![Some(vec![7, 8])],
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
    fn several_choices_have_their_index_and_no_timings() {
        let several = |form| Envelope {
            with_ids: true,
            prompt_ids: match form {
                Form::Completion => vec![Some(vec![7]), Some(vec![8])],
                Form::Chat => vec![Some(vec![7])],
            },
            timed: false,
            ..envelope(form, StreamUsage::Never)
        };
        let stopped = || Ending {
            stop: Some(StopReason::Text("\n".to_owned())),
            ..ending()
        };
        let prompts = |choices: &Value| {
            let choices = choices.as_array().unwrap().iter();
            let ids = choices.filter_map(|choice| choice.get("prompt_token_ids"));
            ids.cloned().collect::<Vec<_>>()
        };
        for (form, ids) in [
            (Form::Completion, json!([[7], [8]])),
            (Form::Chat, json!([])),
        ] {
            let choices = vec![(delta("a"), ending()), (delta("b"), stopped())];
            let whole = several(form).whole(choices, Usage::new(3, 2, 0));
            let whole: Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(whole["choices"][1]["index"], 1);
            assert_eq!(whole["choices"][0]["stop_reason"], json!(null));
            assert_eq!(whole["choices"][1]["stop_reason"], "\n");
            assert_eq!(json!(prompts(&whole["choices"])), ids);
            assert!(whole.get("timings").is_none());

            let mut envelope = several(form);
            let so_far = Usage::new(3, 1, 0);
            let mut events = Vec::new();
            events.extend(envelope.token(1, delta("b"), so_far));
            events.extend(envelope.token(0, delta("a"), so_far));
            events.push(envelope.finish(1, delta(""), stopped(), so_far));
            events.push(envelope.finish(0, delta(""), ending(), so_far));
            events.extend(envelope.close(so_far));
            let chunks = objects(events);
            let indices: Vec<_> = chunks
                .iter()
                .map(|chunk| &chunk["choices"][0]["index"])
                .collect();
            assert_eq!(json!(indices), json!([1, 0, 1, 0]));
            assert_eq!(chunks[2]["choices"][0]["stop_reason"], "\n");
            assert!(chunks.iter().all(|chunk| chunk.get("timings").is_none()));
        }
    }

    #[test]
    fn a_failure_is_an_error_object_and_the_end() {
        let events = failure(&ApiError::engine_failed("it broke"));
        let text = String::from_utf8(events.concat()).unwrap();
        assert!(text.starts_with("data: {\"error\":{\"message\":"), "{text}");
        assert!(text.ends_with("\n\ndata: [DONE]\n\n"), "{text}");
    }
}
