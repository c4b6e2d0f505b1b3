//! The body of an answer on its way through: parts come from the engine and leave one by one.
//!
//! Main type: [`Relay`]. Parts that came in one read leave in one write each all the same: two tokens in one
//! write have one time of arrival. Refuses to know: which events are late, and why (see `script`).

use super::events::Splitter;
use super::recorder::Tap;
use super::route::Flight;
use super::script::{Due, Script};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The runtime's timers are as exact as a millisecond: what is left is waited for awake.
const AWAKE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Relay {
    upstream: Incoming,
    /// `None`: every part passes as it came.
    script: Option<(Splitter, Script)>,
    ready: VecDeque<Due>,
    ended: bool,
    /// Told once everything that came before it has left.
    failed: Option<hyper::Error>,
    /// The part that left last is not written yet.
    is_unwritten: bool,
    timer: Option<Pin<Box<Sleep>>>,
    /// The request counts as in flight until its answer has passed.
    _flight: Flight,
    tap: Option<Tap>,
}

impl Relay {
    pub fn new(
        upstream: Incoming,
        script: Option<Script>,
        flight: Flight,
        tap: Option<Tap>,
    ) -> Self {
        Self {
            upstream,
            script: script.map(|script| (Splitter::default(), script)),
            ready: VecDeque::new(),
            ended: false,
            failed: None,
            is_unwritten: false,
            timer: None,
            _flight: flight,
            tap,
        }
    }

    /// Takes all that the engine has sent.
    fn fill(&mut self, context: &mut Context<'_>) {
        if let Some(tap) = &mut self.tap {
            tap.read();
        }
        while !self.ended {
            match Pin::new(&mut self.upstream).poll_frame(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(part) = frame.into_data() {
                        self.take(part);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.ended = true;
                    if let Some(mut tap) = self.tap.take() {
                        tap.cut(error.to_string());
                    }
                    self.failed = Some(error);
                }
                Poll::Ready(None) => {
                    self.ended = true;
                    self.finish();
                }
            }
        }
    }

    fn take(&mut self, part: Bytes) {
        if let Some(tap) = &mut self.tap {
            tap.part(&part);
        }
        let now = Instant::now();
        match &mut self.script {
            None => self.ready.push_back((now, part)),
            Some((splitter, script)) => {
                for event in splitter.push(&part) {
                    self.ready.extend(script.event(now, event));
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Some(mut tap) = self.tap.take() {
            tap.end();
        }
        if let Some((splitter, script)) = &mut self.script {
            let now = Instant::now();
            self.ready.extend(script.end(now));
            self.ready.extend(splitter.rest().map(|rest| (now, rest)));
        }
    }

    /// Arranges to be asked again at this moment.
    fn wait(&mut self, due: Instant, context: &mut Context<'_>) {
        let now = Instant::now();
        if due.saturating_duration_since(now) > AWAKE {
            let until = tokio::time::Instant::from_std(due - AWAKE);
            let mut timer = Box::pin(tokio::time::sleep_until(until));
            if timer.as_mut().poll(context).is_pending() {
                self.timer = Some(timer);
                return;
            }
        }
        self.timer = None;
        context.waker().wake_by_ref();
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.fill(context);
        if std::mem::take(&mut self.is_unwritten) {
            // hyper writes when a body has nothing for now.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.ready.front() {
            Some((due, _)) if *due > Instant::now() => {
                let due = *due;
                self.wait(due, context);
                Poll::Pending
            }
            Some(_) => {
                self.is_unwritten = true;
                let part = self.ready.pop_front();
                Poll::Ready(part.map(|(_, part)| Ok(Frame::data(part))))
            }
            None if self.ended => Poll::Ready(self.failed.take().map(Err)),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.script.is_none() && self.ready.is_empty() && self.upstream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.script {
            None if self.ready.is_empty() => self.upstream.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
