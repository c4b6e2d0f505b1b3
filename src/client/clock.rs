//! The session's clock: one monotonic clock, and the kernel's receive stamps mapped to it.
//!
//! Main type: [`SessionClock`]. The kernel stamps packets with real time, so the distance between real
//! and monotonic time is measured anew every half second, and at once when a stamp cannot be true. Nothing but setting
//! real time changes that distance: NTP's slewing moves both clocks. Between two measurements that differ, no stamp is
//! known ([`SessionClock::set_within`]).
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
    anchored: Arc<Mutex<Anchored>>,
}

#[derive(Debug)]
struct Anchored {
    now: Anchor,
    /// Stretches of session time in which real time was set, and by how many nanoseconds.
    set: Vec<(u64, u64, i64)>,
}

/// Real time minus session time, and when that was measured.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    offset_ns: i128,
    taken_ns: u64,
    /// Between the two readings of monotonic time around it.
    width_ns: u64,
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
        let anchored = Anchored {
            now: measure(origin),
            set: Vec::new(),
        };
        Self {
            origin,
            anchored: Arc::new(Mutex::new(anchored)),
        }
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
        let mut anchored = self.anchored();
        if now_ns.saturating_sub(anchored.now.taken_ns) > ANCHOR_AGE_NS {
            anchored.renew(self.origin);
        }
        place(anchored.now, real, earliest_ns, now_ns).or_else(|| {
            anchored.renew(self.origin);
            place(anchored.now, real, earliest_ns, now_ns)
        })
    }

    /// Measures the clocks' distance, so that [`Self::set_within`] knows of everything up to now.
    pub fn look(&self) {
        self.anchored().renew(self.origin);
    }

    /// By how many nanoseconds real time was set, perhaps between these moments: a stamp from then may be off by as much.
    pub fn set_within(&self, from_ns: u64, until_ns: u64) -> Option<i64> {
        let anchored = self.anchored();
        let touched = anchored
            .set
            .iter()
            .find(|(begin, end, _)| *begin <= until_ns && from_ns <= *end);
        touched.map(|(_, _, by_ns)| *by_ns)
    }

    /// As if real time had been set by so much since the last look.
    #[cfg(test)]
    pub fn pretend_set(&self, by_ns: i64) {
        self.anchored().now.offset_ns -= i128::from(by_ns);
    }

    fn anchored(&self) -> MutexGuard<'_, Anchored> {
        self.anchored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Anchored {
    fn renew(&mut self, origin: Instant) {
        let next = measure(origin);
        let by_ns = next.offset_ns - self.now.offset_ns;
        let error_ns = SLACK_NS + self.now.width_ns + next.width_ns;
        if by_ns.unsigned_abs() > u128::from(error_ns) {
            let by_ns = i64::try_from(by_ns).unwrap_or(if by_ns > 0 { i64::MAX } else { i64::MIN });
            self.set.push((self.now.taken_ns, next.taken_ns, by_ns));
        }
        self.now = next;
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
        Anchor {
            offset_ns: signed(real) - i128::from(middle),
            taken_ns: middle,
            width_ns: after - before,
        }
    };
    let mut best = pair();
    for _ in 1..TRIES {
        if best.width_ns <= TIGHT_NS {
            break;
        }
        let next = pair();
        if next.width_ns < best.width_ns {
            best = next;
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
            width_ns: 0,
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
        clock.pretend_set(-3_600_000_000_000);
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

    /// Too little for a stamp's bounds to show it.
    #[test]
    fn a_step_of_real_time_is_known_between_two_looks() {
        let clock = SessionClock::start();
        clock.look();
        assert_eq!(clock.set_within(0, u64::MAX), None);
        for by_ns in [-5_000_000, 5_000_000] {
            let before = clock.now_ns();
            clock.pretend_set(by_ns);
            clock.look();
            let after = clock.now_ns();
            let found = clock.set_within(before, before).unwrap();
            assert!(found.abs_diff(by_ns) < SLACK_NS, "{found}");
            assert_eq!(clock.set_within(after, u64::MAX), None);
        }
    }
}
