//! What a thread and its connections tell each other: how late they are, and for how long a connection
//! may have the thread to itself.
//!
//! A token every ten milliseconds finds cold caches, and then the way through the runtime's poller costs
//! more than the read. Where a thread has one slot alone, nothing but its next look at its own lateness
//! can be due, so until then its connection may wait in the kernel, past the runtime.
//!
//! Main type: [`Gauges`]. Refuses to know: what is sent, what came back.

use super::lags::Lags;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Of one thread.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    /// Its reads, after the kernel's stamp.
    pub(super) reads: Lags,
    /// Its timers, after their moment.
    pub(super) ticks: Lags,
    /// The most slots of its present wave.
    slots: AtomicU32,
    /// When it looks at its own lateness next.
    look_ns: AtomicU64,
}

impl Gauges {
    pub(super) fn begin_wave(&self, slots: u32) {
        self.slots.store(slots, Relaxed);
    }

    pub(super) fn look_at(&self, due_ns: u64) {
        self.look_ns.store(due_ns, Relaxed);
    }

    /// One connection has the thread to itself.
    pub(super) fn is_alone(&self) -> bool {
        self.slots.load(Relaxed) == 1
    }

    /// Until when a connection may keep the thread; `None` where others need it.
    pub(super) fn alone_until_ns(&self) -> Option<u64> {
        self.is_alone().then(|| self.look_ns.load(Relaxed))
    }

    /// Adds what the other's counts say.
    pub(super) fn absorb(&self, other: &Self) {
        self.reads.absorb(&other.reads);
        self.ticks.absorb(&other.ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::Gauges;

    #[test]
    fn only_a_single_slot_is_alone_and_only_until_the_next_look() {
        let gauges = Gauges::default();
        gauges.look_at(7);
        for (slots, expect) in [(0, None), (1, Some(7)), (2, None)] {
            gauges.begin_wave(slots);
            assert_eq!(gauges.alone_until_ns(), expect, "{slots}");
        }
    }
}
