//! The choices of one answer as they come from the engine: prompts × `n`, each with its events.
//!
//! [`Choices`] gives the steps of all of them in the order in which they come. The first choice of a prompt
//! is submitted at once; its siblings follow when its prefill is done, so that they find the prompt's keys
//! and values in the cache. Dropping it drops the engine's receivers and so cancels every choice.
//! Refuses to know: chunks, sockets.

use super::admission::Ticket;
use super::answer::{Answer, AnswerStep, Delta, Ending};
use super::app::App;
use super::metrics::Watch;
use super::wire::ApiError;
use super::wire::usage::Usage;
use crate::SubmitError;
use crate::request::{Event, Request};
use futures_util::Stream;
use futures_util::StreamExt as _;
use futures_util::stream::SelectAll;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;

/// One prompt's part of an answer.
pub struct Wanted {
    pub request: Request,
    /// Of the first choice; the siblings' are made from it.
    pub answer: Answer,
    /// Requests of the other choices.
    pub siblings: Vec<Request>,
}

pub struct Choices {
    app: Arc<App>,
    arrival: Instant,
    sources: SelectAll<ChoiceSource>,
    /// By index: prompt × n + choice; `None` before a sibling was submitted.
    choices: Vec<Option<Choice>>,
    /// By prompt: requests of the choices that wait for the first one's prefill.
    siblings: Vec<Vec<Request>>,
    n: usize,
    left: usize,
    usage: Usage,
    ticket: Ticket,
}

struct Choice {
    answer: Answer,
    watch: Watch,
}

impl Choices {
    /// Submits the first choice of every prompt, or none. `n`: choices of each.
    pub fn submit(
        app: &Arc<App>,
        wanted: Vec<Wanted>,
        n: usize,
        arrival: Instant,
        ticket: Ticket,
    ) -> Result<Self, SubmitError> {
        let (requests, rest): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .map(|one| (one.request, (one.answer, one.siblings)))
            .unzip();
        let prompt_tokens: usize = requests.iter().map(|request| request.prompt.len()).sum();
        let receivers = app.engine.submit_all(requests)?;
        let mut all = Self {
            app: Arc::clone(app),
            arrival,
            sources: SelectAll::new(),
            choices: Vec::new(),
            siblings: Vec::new(),
            n,
            left: rest.len() * n,
            usage: Usage::new(prompt_tokens as u32, 0, 0),
            ticket,
        };
        all.choices.resize_with(all.left, || None);
        for (prompt, ((answer, siblings), events)) in rest.into_iter().zip(receivers).enumerate() {
            all.start(prompt * n, answer, events);
            all.siblings.push(siblings);
        }
        Ok(all)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.choices.len()
    }

    /// Counts so far: each prompt once, the tokens of all choices.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Cancels what is left of them. The answer is under way for as long as its bytes are on their way to the client.
    pub fn into_ticket(self) -> Ticket {
        self.ticket
    }

    /// The next step of any choice; `None` when all have ended.
    pub fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, AnswerStep)>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let next = ready!(self.sources.poll_next_unpin(context));
        let step = match next {
            Some((index, Some(event))) => (index, self.step(index, event)),
            Some((index, None)) => (index, lost()),
            None => (0, lost()),
        };
        Poll::Ready(Some(step))
    }

    /// Waits for the end and gives the choices by index.
    pub async fn whole(&mut self) -> Result<Vec<(Delta, Ending)>, ApiError> {
        let mut deltas = vec![Delta::default(); self.count()];
        let mut endings = vec![None; self.count()];
        let next = |all: &mut Self, context: &mut Context<'_>| all.poll_step(context);
        while let Some((index, step)) = std::future::poll_fn(|context| next(self, context)).await {
            match step {
                AnswerStep::Begin(_) => {}
                AnswerStep::Grow(delta) => deltas[index].append(delta),
                AnswerStep::Finish(rest, ending) => {
                    deltas[index].append(rest);
                    endings[index] = Some(ending);
                }
                AnswerStep::Fail(detail) => return Err(ApiError::engine_failed(&detail)),
            }
        }
        Ok(deltas
            .into_iter()
            .zip(endings)
            .filter_map(|(delta, ending)| Some((delta, ending?)))
            .collect())
    }

    fn start(&mut self, index: usize, answer: Answer, events: UnboundedReceiver<Event>) {
        let watch = Watch::new(&self.app.metrics, self.arrival);
        self.choices[index] = Some(Choice { answer, watch });
        let ended = false;
        self.sources.push(ChoiceSource {
            index,
            events,
            ended,
        });
    }

    fn step(&mut self, index: usize, event: Event) -> AnswerStep {
        let Some(choice) = &mut self.choices[index] else {
            return lost();
        };
        choice.watch.see(&event);
        let step = choice.answer.step(event);
        match &step {
            AnswerStep::Begin(cached) if index.is_multiple_of(self.n) => {
                self.usage = self.usage.grown(0, *cached);
                if let Err(error) = self.start_siblings(index) {
                    return AnswerStep::Fail(error.to_string());
                }
            }
            AnswerStep::Begin(_) | AnswerStep::Fail(_) => {}
            AnswerStep::Grow(_) => self.usage = self.usage.grown(1, 0),
            AnswerStep::Finish(..) => {
                self.left -= 1;
                self.choices[index] = None;
            }
        }
        step
    }

    /// Submits the other choices of the prompt whose first is `index`.
    fn start_siblings(&mut self, index: usize) -> Result<(), SubmitError> {
        let requests = std::mem::take(&mut self.siblings[index / self.n]);
        for (place, request) in requests.into_iter().enumerate() {
            let Some(first) = &self.choices[index] else {
                break;
            };
            let answer = first.answer.sibling();
            let events = self.app.engine.submit_beside(request)?;
            self.start(index + 1 + place, answer, events);
        }
        Ok(())
    }
}

/// The worker went away without a last word.
fn lost() -> AnswerStep {
    AnswerStep::Fail("it ended before the answer did".to_owned())
}

/// One choice's events with its index; `None` in place of an event if they end without a last one.
struct ChoiceSource {
    index: usize,
    events: UnboundedReceiver<Event>,
    ended: bool,
}

impl Stream for ChoiceSource {
    type Item = (usize, Option<Event>);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = ready!(self.events.poll_recv(context));
        self.ended = matches!(event, None | Some(Event::Finished(_) | Event::Failed(_)));
        Poll::Ready(Some((self.index, event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{FinishReason, Finished, Timings, Token};
    use tokio::sync::mpsc::unbounded_channel;

    fn token(id: u32) -> Event {
        let logprob = None;
        Event::Token(Token { id, logprob })
    }

    fn finished() -> Event {
        Event::Finished(Finished {
            reason: FinishReason::Length,
            timings: Timings::default(),
        })
    }

    /// What comes from choices whose senders sent these events and went away.
    fn check(sent: &[&[Event]], expect: &[(usize, Option<Event>)]) {
        let mut sources = SelectAll::new();
        for (index, sent) in sent.iter().enumerate() {
            let (sender, events) = unbounded_channel();
            for event in *sent {
                sender.send(event.clone()).unwrap();
            }
            let ended = false;
            sources.push(ChoiceSource {
                index,
                events,
                ended,
            });
        }
        let waker = std::task::Waker::noop();
        let mut context = Context::from_waker(waker);
        let mut seen = Vec::new();
        while let Poll::Ready(Some(next)) = sources.poll_next_unpin(&mut context) {
            seen.push(next);
        }
        seen.sort_by_key(|(index, _)| *index);
        assert_eq!(seen, expect);
    }

    #[test]
    fn a_choice_ends_with_its_last_word_and_tells_its_absence() {
        check(
            &[&[token(1), finished()], &[token(2)]],
            &[
                (0, Some(token(1))),
                (0, Some(finished())),
                (1, Some(token(2))),
                (1, None),
            ],
        );
    }
}
