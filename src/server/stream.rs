//! An answer on its way out: as server-sent events, or whole.
//!
//! [`EventStream`] is the body of a streamed answer: it turns events to chunks as they come. Dropping it,
//! which is what happens when the client goes away, drops the engine's receiver and so cancels the request.

use super::admission::Ticket;
use super::answer::{Answer, Delta, Ending, Step};
use super::chunks::{Envelope, failure};
use super::metrics::Watch;
use super::wire::ApiError;
use crate::engine::request::Event;
use axum::body::Bytes;
use futures_util::Stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedReceiver;

/// One answer under way, from the engine's side.
pub(crate) struct Running {
    pub(crate) events: UnboundedReceiver<Event>,
    pub(crate) answer: Answer,
    pub(crate) watch: Watch,
    pub(crate) _ticket: Ticket,
}

impl Running {
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        self.events.poll_recv(context).map(|event| match event {
            Some(event) => {
                self.watch.see(&event);
                self.answer.step(event)
            }
            // The worker went away without a last word.
            None => Step::Fail("it ended before the answer did".to_owned()),
        })
    }

    /// Waits for the end and gives the answer as one.
    pub(crate) async fn whole(mut self) -> Result<(Delta, Ending), ApiError> {
        let mut all = Delta::default();
        loop {
            match std::future::poll_fn(|context| self.poll_step(context)).await {
                Step::Begin => {}
                Step::Grow(delta) => all.append(delta),
                Step::Finish(rest, ending) => {
                    all.append(rest);
                    return Ok((all, ending));
                }
                Step::Fail(detail) => return Err(ApiError::engine_failed(&detail)),
            }
        }
    }
}

pub(crate) struct EventStream {
    /// `None` once the last event was taken.
    running: Option<Running>,
    envelope: Envelope,
    /// Chunks that are ready, in order.
    ready: VecDeque<Bytes>,
}

impl EventStream {
    pub(crate) fn new(running: Running, envelope: Envelope) -> Self {
        Self {
            running: Some(running),
            envelope,
            ready: VecDeque::new(),
        }
    }

    /// Takes events until there is a chunk, the end, or nothing more for now.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.ready.is_empty() {
            let Some(running) = &mut self.running else {
                break;
            };
            let step = ready!(running.poll_step(context));
            let so_far = running.answer.usage();
            match step {
                Step::Begin => self.ready.extend(self.envelope.role(so_far)),
                Step::Grow(delta) => self.ready.extend(self.envelope.token(delta, so_far)),
                Step::Finish(rest, ending) => {
                    self.running = None;
                    self.ready.extend(self.envelope.end(rest, ending));
                }
                Step::Fail(detail) => {
                    self.running = None;
                    self.ready
                        .extend(failure(&ApiError::engine_failed(&detail)));
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
