//! The session's clock: one monotonic clock, and the kernel's receive stamps mapped to it.
//!
//! Main type: [`SessionClock`]. The kernel stamps packets with real time, so the distance between real
//! and monotonic time is measured anew every half second, and at once when a stamp cannot be true.
//!
//! Refuses to know: sockets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Age at which the distance between the clocks is measured again.
const ANCHOR_AGE_NS: u64 = 500_000_000;

/// By how much a mapped stamp may lie outside its bounds for the mapping's own error; it is then moved
/// to the bound. A pair of clock readings is a few hundred nanoseconds wide unless preempted.
const SLACK_NS: u64 = 100_000;

/// A pair of readings as tight as this says all that one can say.
const TIGHT_NS: u64 = 2_000;

/// Pairs of readings, at the most, of which the tightest is kept: on a busy machine several in a row are preempted.
const TRIES: u32 = 100;

/// Nanoseconds since the session's start. Clones share one clock.
#[derive(Clone, Debug)]
pub struct SessionClock {
    origin: Instant,
    anchor: Arc<Mutex<Anchor>>,
}

/// Real time minus session time, and when that was measured.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    offset_ns: i128,
    taken_ns: u64,
}

impl SessionClock {
    /// Starts the session: its time zero is now.
    pub fn start() -> Self {
        Self::resume(Duration::ZERO)
    }

    /// Goes on with a session of which `before` has passed: time zero lies that far back.
    pub fn resume(before: Duration) -> Self {
        let now = Instant::now();
        let origin = now.checked_sub(before).unwrap_or(now);
        let anchor = Arc::new(Mutex::new(measure(origin)));
        Self { origin, anchor }
    }

    pub fn now_ns(&self) -> u64 {
        since(self.origin)
    }

    /// Time spent measuring, that of the sessions which are continued counted in.
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// `moment` on this clock; 0 for one before the session.
    pub fn ns(&self, moment: Instant) -> u64 {
        let nanos = moment.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// When, on this clock, the kernel stamped `real` (time since the Unix epoch); `None` if that lies
    /// outside `earliest_ns..=now_ns` even after a fresh look at both clocks: real time was set, or the
    /// stamp is not one.
    pub fn arrival_ns(&self, real: Duration, earliest_ns: u64, now_ns: u64) -> Option<u64> {
        let mut anchor = self.anchor();
        let stale = now_ns.saturating_sub(anchor.taken_ns) > ANCHOR_AGE_NS;
        if stale {
            *anchor = measure(self.origin);
        }
        place(*anchor, real, earliest_ns, now_ns).or_else(|| {
            *anchor = measure(self.origin);
            place(*anchor, real, earliest_ns, now_ns)
        })
    }

    fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn place(anchor: Anchor, real: Duration, earliest_ns: u64, now_ns: u64) -> Option<u64> {
    let stamp = signed(real) - anchor.offset_ns;
    let (low, high) = (i128::from(earliest_ns), i128::from(now_ns));
    let slack = i128::from(SLACK_NS);
    if stamp < low - slack || stamp > high + slack {
        return None;
    }
    u64::try_from(stamp.min(high).max(low)).ok()
}

/// Reads real time between two readings of monotonic time; the narrowest of a few tries counts.
fn measure(origin: Instant) -> Anchor {
    let pair = || {
        let before = since(origin);
        let real = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let after = since(origin);
        let middle = before + (after - before) / 2;
        let anchor = Anchor {
            offset_ns: signed(real) - i128::from(middle),
            taken_ns: middle,
        };
        (after - before, anchor)
    };
    let (mut width, mut best) = pair();
    for _ in 1..TRIES {
        if width <= TIGHT_NS {
            break;
        }
        let (next_width, next) = pair();
        if next_width < width {
            (width, best) = (next_width, next);
        }
    }
    best
}

fn signed(real: Duration) -> i128 {
    i128::try_from(real.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Anchor, SLACK_NS, SessionClock, place};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn a_real_stamp_lands_between_the_readings_around_it() {
        let clock = SessionClock::start();
        for _ in 0..100 {
            let before = clock.now_ns();
            let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let after = clock.now_ns();
            let mapped = clock.arrival_ns(real, before, after).expect("a true stamp");
            assert!((before..=after).contains(&mapped));
        }
    }

    #[test]
    fn a_session_that_goes_on_is_as_late_as_it_was() {
        let before = Duration::from_secs(3_600);
        let clock = SessionClock::resume(before);
        assert!(clock.now_ns() >= before.as_nanos() as u64);
    }

    #[test]
    fn stamps_outside_their_bounds_are_moved_a_little_or_refused() {
        let anchor = Anchor {
            offset_ns: 1_000_000_000,
            taken_ns: 0,
        };
        let at = |ns: u64| {
            place(
                anchor,
                Duration::from_nanos(1_000_000_000 + ns),
                500_000,
                900_000,
            )
        };
        assert_eq!(at(700_000), Some(700_000));
        assert_eq!(at(500_000 - SLACK_NS), Some(500_000));
        assert_eq!(at(900_000 + SLACK_NS), Some(900_000));
        assert_eq!(at(500_000 - SLACK_NS - 1), None);
        assert_eq!(at(900_000 + SLACK_NS + 1), None);
    }

    #[test]
    fn a_wrong_anchor_is_measured_again_at_once() {
        let clock = SessionClock::start();
        // As if real time had been set an hour back since the last look.
        clock.anchor().offset_ns += 3_600_000_000_000;
        let before = clock.now_ns();
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let after = clock.now_ns();
        let mapped = clock.arrival_ns(real, before, after).expect("mended");
        assert!((before..=after).contains(&mapped));
        assert_eq!(
            clock.arrival_ns(Duration::from_secs(1), before, after),
            None
        );
    }
}
