//! An exchange's bytes, read as a stream of events or as one answer.
//!
//! Main type: [`Transcript`]. Reading never fails: what cannot be read is noted, and everything before
//! it stands.
//!
//! Refuses to know: what was asked for, and so whether the answer is a good one.

use super::answer::{Answer, AnswerError, Choice, Usage, unknown_text};
use super::exchange::{Ending, Exchange};
use super::sanitize::brief;
use super::sse::{Behind, Decoder, SseEvent};
use super::steps::{self, Step};
use super::token_counts::Tally;
use crate::socket::stamps::Arrival;
use sha2::{Digest, Sha256};
use verdict::record::{ServerTimings, TokenLogprob};

/// Most events of one stream.
const MAX_EVENTS: u32 = 1 << 20;

#[derive(Debug, Default)]
pub struct Transcript {
    /// Arrival of each event with output ([`steps`]).
    pub events_ns: Vec<u64>,
    /// Of those, how many arrived together with a later event of any kind: their time is an upper bound.
    pub ambiguous_events: u32,
    /// Events with a choice and without output before the first one with output, where usage counts exactly as many
    /// tokens more than there are events: the first tokens may have no text.
    pub silent_first: u32,
    /// A field that is not known as output, with text in an event without other output.
    pub unknown_field: Option<String>,
    /// `[DONE]`.
    pub done_ns: Option<u64>,
    /// The stream ended within an event.
    pub is_unfinished: bool,
    /// The answer's text, reasoning left out.
    pub content: String,
    pub reasoning: String,
    /// Names and arguments of the functions that it calls.
    pub calls: String,
    /// Hex SHA-256 of everything generated, reasoning included, in the order of arrival.
    pub sha256: String,
    pub finish_reason: Option<String>,
    pub prompt_tokens: Option<u32>,
    pub cached_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    /// Cumulative usage at the first event with output.
    pub at_first_event: Option<u32>,
    /// Characters of the first event with output.
    pub first_event_characters: u32,
    /// Cumulative usage went down.
    pub usage_fell: bool,
    /// Token ids named, if every event with output named its own.
    pub token_ids: Option<u32>,
    /// Tokens of each event with output, where the stream tells; empty otherwise.
    pub per_event: Vec<u32>,
    pub logprobs: Option<Vec<TokenLogprob>>,
    pub timings: Option<ServerTimings>,
    /// The server's message, where it sent an error in the place of an answer.
    pub error: Option<String>,
    /// Why the answer is not what the protocol promises.
    pub malformed: Option<String>,
}

impl Transcript {
    pub fn read(exchange: &Exchange, streamed: bool) -> Self {
        let mut reader = Reader::default();
        if exchange.status == Some(200) {
            let read = if streamed {
                reader.stream(exchange)
            } else {
                reader.whole(exchange)
            };
            reader.transcript.malformed = read.err();
        }
        let mut transcript = reader.transcript;
        transcript.sha256 = hex::encode(reader.generated.finalize());
        transcript.count(&reader.steps);
        transcript
    }

    /// Counts the events that are output. If events with output tell their tokens, no other event is a token.
    fn count(&mut self, steps: &[Step]) {
        let completion = self.completion_tokens;
        let mut counted: Vec<bool> = steps.iter().map(|step| step.has_output).collect();
        let mut told = tally(steps, &counted);
        if told.per_event(completion).is_empty() {
            counted = steps::counted(steps, completion);
            told = tally(steps, &counted);
        }
        self.per_event = told.per_event(completion);
        self.token_ids = told.ids();
        let counted = steps.iter().zip(counted);
        let events: Vec<&Step> = counted
            .filter_map(|(step, is)| is.then_some(step))
            .collect();
        self.events_ns = events.iter().map(|step| step.at_ns).collect();
        let silent = steps::silent_first(steps);
        let untold = completion.map(|all| all.saturating_sub(count(events.len())));
        let is_as_many = self.per_event.is_empty() && Some(silent) == untold;
        self.silent_first = if is_as_many { silent } else { 0 };
        self.ambiguous_events = count(events.iter().filter(|step| step.is_shared).count());
        if let Some(first) = events.first() {
            self.first_event_characters = first.characters;
            // The first of several cannot hold all tokens: then each event gives the final usage.
            let is_final = events.len() > 1 && first.usage == completion;
            self.at_first_event = first.usage.filter(|_| !is_final);
        }
    }

    /// True if the list of log-probabilities lacks tokens that characters of several tokens explain: llama.cpp lists one for
    /// each of these. A character has at most one token a byte, and one at the end may be cut off, without text. An end of
    /// sequence that is counted and not listed is no such token.
    pub fn lists_too_few(&self) -> bool {
        let Some((listed, usage)) = self.logprobs.as_ref().zip(self.completion_tokens) else {
            return false;
        };
        let Some(last) = listed.last() else {
            return false;
        };
        let further = |c: char| c.len_utf8() - 1;
        let wide: usize = self.texts().concat().chars().map(further).sum();
        let lacking = (usage as usize).saturating_sub(listed.len());
        let has_stopped = self.finish_reason.as_deref() == Some("stop");
        let is_end = has_stopped && lacking == 1 && !last.token.is_empty();
        wide > 0 && !is_end && (1..=wide + 3).contains(&lacking)
    }

    /// Everything generated: reasoning, then content. Calls have tokens beside their text, and are left out.
    pub fn texts(&self) -> [&str; 2] {
        [&self.reasoning, &self.content]
    }
}

#[derive(Debug, Default)]
struct Reader {
    transcript: Transcript,
    generated: Sha256,
    events: u32,
    /// Events of a stream that carry a choice.
    steps: Vec<Step>,
}

impl Reader {
    fn stream(&mut self, exchange: &Exchange) -> Result<(), String> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        // Steps with a comment behind them, and whether a comment came by itself.
        let (mut commented, mut comes_alone) = (Vec::new(), false);
        for (part, arrival) in exchange.parts() {
            let pushed = decoder.push(part, |event| found.push(event));
            comes_alone |= found.is_empty() && pushed == Ok(Behind::Comment);
            // The stamp is that of the last bytes: it is exact for the last event, comments behind it left out.
            let last = found.len().saturating_sub(1);
            for (i, event) in found.drain(..).enumerate() {
                let before = self.steps.len();
                self.event(&event, arrival)?;
                for step in &mut self.steps[before..] {
                    step.is_shared = i < last || pushed == Ok(Behind::Event);
                }
                if i == last && pushed == Ok(Behind::Comment) {
                    commented.extend(before..self.steps.len());
                }
            }
            pushed.map_err(|error| error.to_string())?;
        }
        // A server that writes a comment behind each event does so in one write. One whose comments are writes of their own
        // may have written those later than the event that they came with.
        if comes_alone {
            for step in commented {
                self.steps[step].is_shared = true;
            }
        }
        let rest = decoder.finish().map_err(|error| error.to_string())?;
        self.end(rest, exchange)
    }

    fn event(&mut self, event: &SseEvent, arrival: Arrival) -> Result<(), String> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            return Err(format!("more than {MAX_EVENTS} events"));
        }
        if self.transcript.done_ns.is_some() {
            return Err(format!("an event after [DONE]: {}", brief(&event.data)));
        }
        if event.data.trim() == "[DONE]" {
            self.transcript.done_ns = Some(arrival.at_ns);
            return Ok(());
        }
        let parsed = Answer::parse(event.data.as_bytes());
        if event.kind == "error" {
            let message = parsed.ok().and_then(|answer| answer.error_message());
            self.transcript.error = Some(message.unwrap_or_else(|| brief(&event.data)));
            return Ok(());
        }
        let number = self.events;
        let answer =
            parsed.map_err(|error| format!("event {number}: {error}: {}", brief(&event.data)))?;
        if answer.is_silent() && self.transcript.unknown_field.is_none() {
            self.transcript.unknown_field = unknown_text(&event.data);
        }
        self.answer(answer, Some(arrival))
            .map_err(|error| format!("event {number}: {error}"))
    }

    /// The stream is over; `rest` is an event whose blank line never came.
    fn end(&mut self, rest: Option<SseEvent>, exchange: &Exchange) -> Result<(), String> {
        let Some(rest) = rest else {
            let nothing = self.events == 0 && !exchange.body.is_empty();
            return match (nothing, &exchange.ending) {
                (true, Ending::Whole) => self.no_stream(&exchange.body),
                _ => Ok(()),
            };
        };
        match (self.transcript.done_ns, rest.data.trim()) {
            (Some(_), _) => Err(format!("bytes after [DONE]: {}", brief(&rest.data))),
            (None, "[DONE]") => {
                self.transcript.done_ns = exchange.reads.last().map(|read| read.arrival.at_ns);
                Ok(())
            }
            (None, _) => {
                self.transcript.is_unfinished = true;
                Ok(())
            }
        }
    }

    /// A body without a single event where a stream was asked for: an error object, or anything else.
    fn no_stream(&mut self, body: &[u8]) -> Result<(), String> {
        self.transcript.error = Answer::parse(body)
            .ok()
            .and_then(|answer| answer.error_message());
        let only_comments = body
            .split(|byte| matches!(byte, b'\r' | b'\n'))
            .all(|line| line.is_empty() || line.starts_with(b":"));
        if self.transcript.error.is_some() || only_comments {
            return Ok(());
        }
        let head = &body[..body.len().min(1_000)];
        Err(format!(
            "no event stream: {}",
            brief(&String::from_utf8_lossy(head))
        ))
    }

    fn whole(&mut self, exchange: &Exchange) -> Result<(), String> {
        if exchange.ending != Ending::Whole {
            return Ok(());
        }
        let answer = Answer::parse(&exchange.body).map_err(|error| error.to_string())?;
        self.answer(answer, None).map_err(|error| error.to_string())
    }

    /// Takes a chunk of a stream, with its arrival, or a whole answer.
    fn answer(&mut self, mut answer: Answer, arrival: Option<Arrival>) -> Result<(), AnswerError> {
        if let Some(message) = answer.error_message() {
            self.transcript.error = Some(message);
            return Ok(());
        }
        self.transcript.timings = answer.timings().or(self.transcript.timings.take());
        if let Some(usage) = answer.usage {
            self.usage(usage);
        }
        if let Some(mut choice) = answer.choice() {
            let logprobs = choice.take_logprobs();
            if let Some(arrival) = arrival {
                let scored = match &logprobs {
                    Ok(Some(logprobs)) => logprobs.len(),
                    _ => 0,
                };
                self.steps.push(Step {
                    at_ns: arrival.at_ns,
                    is_shared: false,
                    has_output: choice.has_output(),
                    names_role: choice.names_role(),
                    characters: characters(&[choice.reasoning(), choice.content()]),
                    ids: choice.token_ids(),
                    usage: answer.usage.and_then(|usage| usage.completion_tokens),
                    scored,
                });
            }
            self.text(choice, logprobs?);
        }
        Ok(())
    }

    fn usage(&mut self, usage: Usage) {
        let transcript = &mut self.transcript;
        transcript.prompt_tokens = usage.prompt_tokens.or(transcript.prompt_tokens);
        transcript.cached_tokens = usage.cached_tokens().or(transcript.cached_tokens);
        transcript.usage_fell |= usage.completion_tokens.is_some_and(|now| {
            transcript
                .completion_tokens
                .is_some_and(|before| now < before)
        });
        transcript.completion_tokens = usage.completion_tokens.or(transcript.completion_tokens);
    }

    fn text(&mut self, choice: Choice, logprobs: Option<Vec<TokenLogprob>>) {
        self.generated.update(choice.reasoning());
        self.generated.update(choice.content());
        let calls: String = choice.calls().collect();
        self.generated.update(&calls);
        let transcript = &mut self.transcript;
        transcript.calls.push_str(&calls);
        transcript.reasoning.push_str(choice.reasoning());
        transcript.content.push_str(choice.content());
        if let Some(logprobs) = logprobs {
            transcript.logprobs.get_or_insert_default().extend(logprobs);
        }
        if let Some(reason) = choice.finish_reason {
            transcript.finish_reason = Some(reason);
        }
    }
}

/// Tokens of the counted events, by every source.
fn tally(steps: &[Step], counted: &[bool]) -> Tally {
    let mut tally = Tally::default();
    for (step, counts) in steps.iter().zip(counted) {
        tally.scored(step.scored);
        if *counts {
            tally.event(step.ids, step.usage);
        }
    }
    tally
}

/// Characters of all texts together.
pub fn characters(texts: &[&str]) -> u32 {
    texts.iter().map(|text| count(text.chars().count())).sum()
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
