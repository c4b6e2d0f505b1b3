//! Monotonic time in nanoseconds, as every process of this machine reads it, and the kernel's receive
//! stamps mapped to it.
//!
//! Main type: [`Real`]. Refuses to know: sockets.

use nix::sys::time::TimeSpec;
use nix::time::ClockId;
use std::time::Duration;

/// Age in ns at which the distance between the clocks is measured again.
const STALE: u64 = 250_000_000;

/// `CLOCK_MONOTONIC`.
pub(crate) fn now_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of this process so far, all threads.
pub(crate) fn cpu_ns() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    let now: TimeSpec = clock.now().expect("Linux has this clock");
    Duration::from(now).as_nanos() as u64
}

/// Reads `inner` between two readings of monotonic time: its distance to that, by the narrowest of
/// some tries.
pub(crate) fn distance(inner: impl Fn() -> u64) -> i64 {
    let pair = || {
        let before = now_ns();
        let other = inner();
        let after = now_ns();
        let middle = before + (after - before) / 2;
        (after - before, other as i64 - middle as i64)
    };
    (0..9).map(|_| pair()).min().expect("nine tries").1
}

/// Real time's distance to monotonic time.
#[derive(Debug)]
pub(super) struct Real {
    offset: i64,
    taken: u64,
}

impl Real {
    pub(super) fn new() -> Self {
        Self {
            offset: distance(|| read(ClockId::CLOCK_REALTIME)),
            taken: now_ns(),
        }
    }

    /// When on the monotonic clock it was `real` ns, not later than `now`.
    pub(super) fn monotonic(&mut self, real: u64, now: u64) -> u64 {
        if now.saturating_sub(self.taken) > STALE {
            *self = Self::new();
        }
        ((real as i64 - self.offset) as u64).min(now)
    }
}
