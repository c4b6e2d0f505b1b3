//! State shared by the worker and its callers.
//!
//! Main type: [`Shared`]. Refuses to know: the network, sequences.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::heartbeat::Pulse;
use super::queue::Queue;
use crate::request::Event;
use crate::stats::Counters;

pub struct Shared {
    pub queue: Queue,
    pub counters: Counters,
    pub pulse: Pulse,
    ended: AtomicBool,
    /// What the worker died of.
    death: OnceLock<String>,
}

impl Shared {
    pub fn new(queue_limit: usize) -> Self {
        Self {
            queue: Queue::new(queue_limit),
            counters: Counters::default(),
            pulse: Pulse::new(),
            ended: AtomicBool::new(false),
            death: OnceLock::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    /// What the worker died of, where it did.
    pub fn death(&self) -> Option<&str> {
        self.death.get().map(String::as_str)
    }

    /// The worker has done all that it was asked to, or never came up.
    pub fn end(&self) {
        self.refuse("the engine has ended");
    }

    /// The worker has died of `why`; gives what callers are told.
    pub fn die(&self, why: String) -> String {
        let said = format!("the engine's worker has died: {why}");
        // There is one worker, which dies once.
        let _ = self.death.set(why);
        self.refuse(&said);
        said
    }

    /// Nothing is taken in any more; what waited is told why.
    fn refuse(&self, why: &str) {
        self.ended.store(true, Ordering::Release);
        for pending in self.queue.end() {
            self.counters.failed.add(1);
            drop(pending.caller.send(Event::Failed(why.to_owned())));
        }
    }
}
