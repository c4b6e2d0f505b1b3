//! Gauges shared by a thread and its connections: how late they are, and how long a
//! connection may have the thread to itself.
//!
//! A token every ten milliseconds finds cold caches, and then the way through the runtime's poller costs
//! more than the read. Where a thread has one slot alone, nothing but its next look at its own lateness
//! can be due, so until then its connection may wait in the kernel, past the runtime. (The longest that a whole
//! answer may take is looked at then, too, and so up to a pause late.)
//!
//! Main type: [`Gauges`]. Refuses to know: what is sent, what came back.

use super::lag_histogram::Lags;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use tokio::sync::Notify;

/// Of one thread.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Its reads, after the kernel's stamp.
    pub reads: Lags,
    /// A read had one.
    stamped: AtomicBool,
    /// Its timers, after their moment.
    pub ticks: Lags,
    /// Requests sent again over a new connection.
    resent: AtomicU32,
    /// The most slots of its present wave.
    slots: AtomicU32,
    /// When it looks at its own lateness next.
    look_ns: AtomicU64,
    /// It is to end.
    ending: AtomicBool,
    /// It has become one slot's alone, or is so no longer.
    changed: Notify,
}

impl Gauges {
    pub fn begin_wave(&self, slots: u32) {
        let was_alone = self.is_alone();
        self.slots.store(slots, Relaxed);
        if was_alone != self.is_alone() {
            self.changed.notify_one();
        }
    }

    /// Until one slot has the thread alone, or has it so no longer.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// No connection keeps the thread any longer than until its present read's end.
    pub fn end(&self) {
        self.ending.store(true, Relaxed);
    }

    /// A read came so long after the kernel's stamp.
    pub fn note_stamped_read(&self, lag_ns: u64) {
        self.reads.note(lag_ns);
        self.stamped.store(true, Relaxed);
    }

    pub fn note_resent(&self) {
        self.resent.fetch_add(1, Relaxed);
    }

    pub fn resent(&self) -> u32 {
        self.resent.load(Relaxed)
    }

    pub fn is_stamped(&self) -> bool {
        self.stamped.load(Relaxed)
    }

    pub fn look_at(&self, due_ns: u64) {
        self.look_ns.store(due_ns, Relaxed);
    }

    #[cfg(test)]
    pub fn next_look_ns(&self) -> u64 {
        self.look_ns.load(Relaxed)
    }

    /// One connection has the thread to itself.
    pub fn is_alone(&self) -> bool {
        self.slots.load(Relaxed) == 1
    }

    /// Until when a connection may keep the thread; `None` where others need it.
    pub fn alone_until_ns(&self) -> Option<u64> {
        let may_stay = self.is_alone() && !self.ending.load(Relaxed);
        may_stay.then(|| self.look_ns.load(Relaxed))
    }

    /// Adds what the other's counts say.
    pub fn absorb(&self, other: &Self) {
        self.reads.absorb(&other.reads);
        self.ticks.absorb(&other.ticks);
        self.resent.fetch_add(other.resent(), Relaxed);
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
        gauges.begin_wave(1);
        gauges.end();
        assert_eq!(gauges.alone_until_ns(), None);
    }

    #[tokio::test]
    async fn a_change_between_one_slot_and_several_is_told_once() {
        use std::future::Future;
        use std::task::{Context, Poll, Waker};
        let gauges = Gauges::default();
        let told = || {
            let mut cx = Context::from_waker(Waker::noop());
            std::pin::pin!(gauges.changed()).poll(&mut cx) == Poll::Ready(())
        };
        for (slots, expect) in [
            (0, false),
            (16, false),
            (1, true),
            (1, false),
            (4, true),
            (8, false),
        ] {
            gauges.begin_wave(slots);
            assert_eq!(told(), expect, "{slots}");
        }
    }
}
