//! An answer on its way out as server-sent events.
//!
//! [`EventStream`] is the body of a streamed answer: it turns the choices' steps to chunks as they come.
//! Dropping it, which is what happens when the client goes away, cancels every choice.

use super::answer::AnswerStep;
use super::choices::Choices;
use super::chunks::{Envelope, failure};
use super::wire::ApiError;
use axum::body::Bytes;
use futures_util::Stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub struct EventStream {
    /// `None` once the last step was taken.
    choices: Option<Choices>,
    envelope: Envelope,
    /// Chunks that are ready, in order.
    ready: VecDeque<Bytes>,
}

impl EventStream {
    pub fn new(choices: Choices, envelope: Envelope) -> Self {
        Self {
            choices: Some(choices),
            envelope,
            ready: VecDeque::new(),
        }
    }

    /// Takes steps until there is a chunk, the end, or nothing more for now.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.ready.is_empty() {
            let Some(choices) = &mut self.choices else {
                break;
            };
            let next = ready!(choices.poll_step(context));
            let so_far = choices.usage();
            match next {
                Some((index, AnswerStep::Begin(_))) => {
                    self.ready.extend(self.envelope.role(index, so_far));
                }
                Some((index, AnswerStep::Grow(delta))) => {
                    self.ready.extend(self.envelope.token(index, delta, so_far));
                }
                Some((index, AnswerStep::Finish(rest, ending))) => {
                    let last = self.envelope.finish(index, rest, ending, so_far);
                    self.ready.push_back(last);
                }
                Some((_, AnswerStep::Fail(detail))) => {
                    self.choices = None;
                    let error = ApiError::engine_failed(&detail);
                    self.ready.extend(failure(&error));
                }
                None => {
                    self.ready.extend(self.envelope.close(so_far));
                    let ticket = self.choices.take().map(Choices::into_ticket);
                    if let (Some(ticket), Some(last)) = (ticket, self.ready.pop_back()) {
                        self.ready.push_back(ticket.around(last));
                    }
                }
            }
        }
        Poll::Ready(())
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(self.fill(context));
        Poll::Ready(self.ready.pop_front().map(Ok))
    }
}
