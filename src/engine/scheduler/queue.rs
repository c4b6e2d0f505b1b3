//! The queue between the callers and the worker: first come, first served, bounded.
//!
//! Main type: [`Queue`]. Refuses to know: what a request costs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use crate::request::{Event, Request};
use crate::text::stop::StopText;

/// A request that waits, with the channel of its caller.
pub struct Pending {
    pub request: Request,
    /// Watches for `request.stop`.
    pub stop: Option<StopText>,
    pub caller: UnboundedSender<Event>,
    pub submitted: Instant,
}

/// Why requests were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Full,
    Closed,
}

pub struct Queue {
    state: Mutex<QueueState>,
    bell: Condvar,
    limit: usize,
}

#[derive(Default)]
struct QueueState {
    pending: VecDeque<Pending>,
    closed: bool,
    ended: bool,
    /// Requests whose caller has gone, which made room for others.
    dropped: u64,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            bell: Condvar::new(),
            limit,
        }
    }

    /// Takes all of these or none. Requests whose caller has gone make room first.
    pub fn push(&self, requests: Vec<Pending>) -> Result<(), Refusal> {
        let mut state = self.lock();
        let has_room = |state: &QueueState| state.pending.len() + requests.len() <= self.limit;
        if !has_room(&state) {
            let before = state.pending.len();
            state.pending.retain(|waiting| !waiting.caller.is_closed());
            state.dropped += (before - state.pending.len()) as u64;
        }
        match state.closed {
            true => Err(Refusal::Closed),
            false if !has_room(&state) => Err(Refusal::Full),
            false => {
                state.pending.extend(requests);
                self.bell.notify_one();
                Ok(())
            }
        }
    }

    /// Takes a request that belongs to one which was taken: beyond the limit, and while closing.
    pub fn push_beside(&self, request: Pending) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.ended {
            return Err(Refusal::Closed);
        }
        state.pending.push_back(request);
        self.bell.notify_one();
        Ok(())
    }

    /// Shows the oldest request, and gives it out if `decide` wants it; a younger one never overtakes.
    pub fn offer<T>(&self, decide: impl FnOnce(&Pending) -> Option<T>) -> Option<(Pending, T)> {
        let mut state = self.lock();
        let decision = decide(state.pending.front()?)?;
        let first = state.pending.pop_front()?;
        Some((first, decision))
    }

    /// A planted fault: the oldest request that waits gets the answer to this one, and this one's caller that of the
    /// oldest.
    pub fn swap_callers(&self, with: &mut Pending) {
        if let Some(first) = self.lock().pending.front_mut() {
            std::mem::swap(&mut first.caller, &mut with.caller);
        }
    }

    /// Drops the oldest requests as far as their callers have gone. Gives how many were dropped for that
    /// reason since the last call.
    pub fn drop_gone(&self) -> u64 {
        let mut state = self.lock();
        let is_gone = |first: &mut Pending| first.caller.is_closed();
        while state.pending.pop_front_if(is_gone).is_some() {
            state.dropped += 1;
        }
        std::mem::take(&mut state.dropped)
    }

    /// Blocks until something waits; `false`: the queue is closed and empty.
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        while state.pending.is_empty() && !state.closed {
            state = self
                .bell
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.pending.is_empty()
    }

    /// Nothing more is taken in; what waits is still given out.
    pub fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// Nobody is there any more to take anything. Gives out what waits.
    pub fn end(&self) -> VecDeque<Pending> {
        let mut state = self.lock();
        (state.closed, state.ended) = (true, true);
        std::mem::take(&mut state.pending)
    }

    /// Requests that wait and whose caller is still there.
    pub fn waiting(&self) -> usize {
        let state = self.lock();
        let waiting = state.pending.iter();
        waiting
            .filter(|pending| !pending.caller.is_closed())
            .count()
    }

    /// A panic while the lock was held leaves a whole queue: every change is one call.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn pending(first: u32) -> (Pending, UnboundedReceiver<Event>) {
        let (caller, receiver) = unbounded_channel();
        let pending = Pending {
            request: Request::new(vec![first], 1),
            stop: None,
            caller,
            submitted: Instant::now(),
        };
        (pending, receiver)
    }

    fn first(queue: &Queue) -> Option<u32> {
        let taken = queue.offer(|_| Some(()));
        taken.map(|(pending, ())| pending.request.prompt[0])
    }

    #[test]
    fn first_come_first_served_and_no_overtaking() {
        let queue = Queue::new(2);
        let ((one, _keep_one), (two, _keep_two), (three, _keep_three)) =
            (pending(1), pending(2), pending(3));
        assert_eq!(queue.push(vec![one, two]), Ok(()));
        assert_eq!(queue.push(vec![three]), Err(Refusal::Full));
        let second = |pending: &Pending| (pending.request.prompt[0] == 2).then_some(());
        assert!(queue.offer(second).is_none());
        assert_eq!(first(&queue), Some(1));
        assert_eq!(queue.waiting(), 1);
    }

    #[test]
    fn all_are_taken_or_none_and_what_belongs_to_one_always() {
        let queue = Queue::new(2);
        let ((one, _keep_one), (two, _keep_two), (three, _keep_three)) =
            (pending(1), pending(2), pending(3));
        assert_eq!(queue.push(vec![one]), Ok(()));
        assert_eq!(queue.push(vec![two, three]), Err(Refusal::Full));
        assert_eq!(queue.waiting(), 1);
        for number in 4..7 {
            assert_eq!(queue.push_beside(pending(number).0), Ok(()));
        }
        assert_eq!((first(&queue), first(&queue)), (Some(1), Some(4)));
    }

    #[test]
    fn a_caller_that_went_away_makes_room() {
        let queue = Queue::new(1);
        let (one, gone) = pending(1);
        assert_eq!(queue.push(vec![one]), Ok(()));
        drop(gone);
        assert_eq!(queue.waiting(), 0);
        let (two, _keep) = pending(2);
        assert_eq!(queue.push(vec![two]), Ok(()));
        assert!(queue.wait());
        assert_eq!((queue.drop_gone(), queue.drop_gone()), (1, 0));
        assert_eq!(first(&queue), Some(2));
    }

    #[test]
    fn the_oldest_go_with_their_callers() {
        let queue = Queue::new(4);
        let mut callers = Vec::new();
        for number in 1..5 {
            let (one, caller) = pending(number);
            assert_eq!(queue.push(vec![one]), Ok(()));
            callers.push(caller);
        }
        let kept = callers.remove(2);
        drop(callers);
        assert_eq!((queue.drop_gone(), queue.drop_gone()), (2, 0));
        assert_eq!(first(&queue), Some(3));
        drop(kept);
        assert_eq!((queue.drop_gone(), first(&queue)), (1, None));
    }

    #[test]
    fn closed_gives_out_what_waits_and_takes_nothing() {
        let queue = Queue::new(4);
        let (one, _keep) = pending(1);
        assert_eq!(queue.push(vec![one]), Ok(()));
        queue.close();
        let (two, _keep_two) = pending(2);
        assert_eq!(queue.push(vec![two]), Err(Refusal::Closed));
        assert!(queue.wait());
        assert_eq!(queue.push_beside(pending(3).0), Ok(()));
        assert!(first(&queue).is_some() && queue.wait());
        assert_eq!((queue.end().len(), queue.wait()), (1, false));
        assert_eq!(queue.push_beside(pending(4).0), Err(Refusal::Closed));
    }
}
