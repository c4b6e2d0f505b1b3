//! The queue between the callers and the worker: first come, first served, bounded.
//!
//! Main type: [`Queue`]. Refuses to know: what a request costs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use crate::engine::request::{Event, Request};

/// A request that waits, with the channel of its caller.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) submitted: Instant,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Closed,
}

pub(crate) struct Queue {
    state: Mutex<State>,
    bell: Condvar,
    limit: usize,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            bell: Condvar::new(),
            limit,
        }
    }

    /// Requests whose caller has gone make room first.
    pub(crate) fn push(&self, pending: Pending) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.closed {
            return Err(Refusal::Closed);
        }
        if state.pending.len() >= self.limit {
            state.pending.retain(|waiting| !waiting.events.is_closed());
        }
        if state.pending.len() >= self.limit {
            return Err(Refusal::Full);
        }
        state.pending.push_back(pending);
        self.bell.notify_one();
        Ok(())
    }

    /// The oldest request for which `fits` holds; a younger one never overtakes. With `wait`, blocks until
    /// there is one; `None` then means that the queue is closed and empty.
    pub(crate) fn pop(&self, wait: bool, fits: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let mut state = self.lock();
        loop {
            if let Some(first) = state.pending.front() {
                return if fits(first) {
                    state.pending.pop_front()
                } else {
                    None
                };
            }
            if !wait || state.closed {
                return None;
            }
            state = self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nothing more is taken in; what waits is still given out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// Requests that wait and whose caller is still there.
    pub(crate) fn waiting(&self) -> usize {
        self.lock()
            .pending
            .iter()
            .filter(|pending| !pending.events.is_closed())
            .count()
    }

    /// A panic while the lock was held leaves a whole queue: every change is one call.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn pending(first: u32) -> (Pending, UnboundedReceiver<Event>) {
        let (events, receiver) = unbounded_channel();
        let request = Request {
            prompt: vec![first],
            max_tokens: 1,
            min_tokens: 0,
            ignore_eos: false,
            logprobs: None,
            prompt_logprobs: false,
            use_cache: true,
        };
        (
            Pending {
                request,
                events,
                submitted: Instant::now(),
            },
            receiver,
        )
    }

    #[test]
    fn first_come_first_served_and_no_overtaking() {
        let queue = Queue::new(2);
        let (one, _keep_one) = pending(1);
        let (two, _keep_two) = pending(2);
        let (three, _keep_three) = pending(3);
        assert_eq!(queue.push(one), Ok(()));
        assert_eq!(queue.push(two), Ok(()));
        assert_eq!(queue.push(three), Err(Refusal::Full));
        assert!(
            queue
                .pop(false, |pending| pending.request.prompt[0] == 2)
                .is_none()
        );
        assert_eq!(queue.pop(false, |_| true).unwrap().request.prompt, [1]);
        assert_eq!(queue.waiting(), 1);
    }

    #[test]
    fn a_caller_that_went_away_makes_room() {
        let queue = Queue::new(1);
        let (one, gone) = pending(1);
        assert_eq!(queue.push(one), Ok(()));
        drop(gone);
        assert_eq!(queue.waiting(), 0);
        let (two, _keep) = pending(2);
        assert_eq!(queue.push(two), Ok(()));
        assert_eq!(queue.pop(true, |_| true).unwrap().request.prompt, [2]);
    }

    #[test]
    fn closed_gives_out_what_waits_and_takes_nothing() {
        let queue = Queue::new(4);
        let (one, _keep) = pending(1);
        assert_eq!(queue.push(one), Ok(()));
        queue.close();
        let (two, _keep_two) = pending(2);
        assert_eq!(queue.push(two), Err(Refusal::Closed));
        assert!(queue.pop(true, |_| true).is_some());
        assert!(queue.pop(true, |_| true).is_none());
    }
}
