//! Rate at which places become free, for `Retry-After`.
//!
//! [`Pace`] is told when choices begin and leave, and keeps a moving mean of the time between two leavings.
//! Refuses to know: clocks; every moment is handed in.

use std::time::Instant;

/// Weight of the newest interval in the mean.
const WEIGHT: f64 = 1.0 / 8.0;

/// Bounds of the advice, in seconds.
const SOONEST_S: u32 = 1;
const LATEST_S: u32 = 60;

#[derive(Debug, Default)]
pub struct Pace {
    under_way: usize,
    /// When the last one left, or the first came after a time without any.
    since: Option<Instant>,
    mean_s: Option<f64>,
}

impl Pace {
    pub fn begin(&mut self, now: Instant) {
        if self.under_way == 0 {
            self.since = Some(now);
        }
        self.under_way += 1;
    }

    pub fn leave(&mut self, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(since) = self.since.replace(now) {
            let interval_s = now.saturating_duration_since(since).as_secs_f64();
            let mean_s = self.mean_s.unwrap_or(interval_s);
            self.mean_s = Some(mean_s + WEIGHT * (interval_s - mean_s));
        }
    }

    /// Whole seconds until half of the `waiting` are likely to have begun: there is room for many then, not
    /// for one. The soonest while nobody has left yet.
    pub fn retry_after_s(&self, waiting: usize) -> u32 {
        let half = waiting as f64 / 2.0;
        let seconds = self.mean_s.unwrap_or(0.0) * half;
        // A float beyond the integer's range becomes its bound.
        (seconds.ceil() as u32).clamp(SOONEST_S, LATEST_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Begins and leavings, by milliseconds since the start.
    enum At {
        Begin(u64),
        Leave(u64),
    }

    fn check(events: &[At], waiting: usize, expect: u32) {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        for event in events {
            match event {
                At::Begin(ms) => pace.begin(at(*ms)),
                At::Leave(ms) => pace.leave(at(*ms)),
            }
        }
        assert_eq!(pace.retry_after_s(waiting), expect);
    }

    #[test]
    fn advice_follows_the_pace_and_the_queue() {
        use At::{Begin, Leave};
        check(&[], 1000, 1);
        check(&[Begin(0)], 1000, 1);
        check(&[Begin(0), Leave(100)], 0, 1);
        check(&[Begin(0), Leave(100)], 10, 1);
        check(&[Begin(0), Leave(100)], 100, 5);
        check(&[Begin(0), Leave(100)], 101, 6);
        check(&[Begin(0), Leave(100)], 100_000, 60);
        // Two at once, done half a second apart.
        let pairs = [Begin(0), Begin(0), Leave(500), Leave(1000)];
        check(&pairs, 20, 5);
    }

    #[test]
    fn time_without_work_is_no_slowness() {
        use At::{Begin, Leave};
        let events = [Begin(0), Leave(100), Begin(3_600_000), Leave(3_600_100)];
        check(&events, 100, 5);
    }

    #[test]
    fn the_newest_interval_counts_for_an_eighth() {
        use At::{Begin, Leave};
        // 1 s, then 9 s: the mean is 2 s.
        check(&[Begin(0), Leave(1000), Begin(1000), Leave(10_000)], 2, 2);
    }
}
