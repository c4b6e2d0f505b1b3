//! Heartbeat of the worker, as seen from other threads.
//!
//! Main type: [`Pulse`]. Refuses to know: what a step is, and how long one may take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Pulse {
    base: Instant,
    /// Nanoseconds after `base` at which the step in progress began, and 1; 0: none is in progress.
    began: AtomicU64,
}

impl Pulse {
    pub fn new() -> Self {
        Self {
            base: Instant::now(),
            began: AtomicU64::new(0),
        }
    }

    /// A step begins.
    pub fn beat(&self) {
        let since = self.base.elapsed().as_nanos() as u64;
        self.began.store(since + 1, Ordering::Relaxed);
    }

    /// There is nothing to do.
    pub fn rest(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// How long the step in progress has taken.
    pub fn since_beat(&self) -> Option<Duration> {
        let began = self.began.load(Ordering::Relaxed).checked_sub(1)?;
        Some(
            self.base
                .elapsed()
                .saturating_sub(Duration::from_nanos(began)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_from_a_beat_and_not_at_rest() {
        let pulse = Pulse::new();
        assert_eq!(pulse.since_beat(), None);
        pulse.beat();
        let first = pulse.since_beat().unwrap();
        assert!(pulse.since_beat().unwrap() >= first);
        pulse.rest();
        assert_eq!(pulse.since_beat(), None);
    }
}
