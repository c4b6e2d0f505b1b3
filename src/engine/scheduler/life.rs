//! What the worker and the callers share.
//!
//! Main type: [`Shared`]. Refuses to know: the network, sequences.

use std::sync::atomic::{AtomicU8, Ordering};

use super::pulse::Pulse;
use super::queue::Queue;
use crate::engine::request::Event;
use crate::engine::stats::Counters;

pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    pub(crate) pulse: Pulse,
    life: AtomicU8,
}

const ALIVE: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;

pub(super) const WORKER_DIED: &str = "the engine's worker has died";

impl Shared {
    pub(crate) fn new(queue_limit: usize) -> Self {
        Self {
            queue: Queue::new(queue_limit),
            counters: Counters::default(),
            pulse: Pulse::new(),
            life: AtomicU8::new(ALIVE),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.life.load(Ordering::Acquire) == ALIVE
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.life.load(Ordering::Acquire) == FAILED
    }

    /// The worker has done all that it was asked to, or never came up.
    pub(super) fn end(&self) {
        self.end_as(ENDED);
    }

    /// The worker has died.
    pub(super) fn fail(&self) {
        self.end_as(FAILED);
    }

    /// Nothing is taken in any more; what waited is told why.
    fn end_as(&self, life: u8) {
        self.life.store(life, Ordering::Release);
        for pending in self.queue.end() {
            self.counters.failed.add(1);
            drop(pending.caller.send(Event::Failed(WORKER_DIED.to_owned())));
        }
    }
}
