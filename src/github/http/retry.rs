//! Decision to retry a request: pure, by the error, the attempts and the time left.
//!
//! GitHub's rules ("Best practices for using the REST API", "Rate limits for the REST API"): wait as long as
//! `retry-after` says; with `x-ratelimit-remaining: 0` until `x-ratelimit-reset`; after a secondary limit without
//! either at least a minute, and longer each time. Everything else that may pass is tried again after a wait that
//! doubles and is half random, so that many jobs do not come back at one moment.
//!
//! Refuses to know: what was asked for, and how time passes.

use std::time::Duration;

/// The first wait after a failure that may pass, before it is made random.
const FIRST: Duration = Duration::from_secs(1);
/// The longest of such waits.
const LONGEST: Duration = Duration::from_secs(60);
/// The least wait after a secondary limit that says no time.
const SECONDARY: Duration = Duration::from_secs(60);

/// How an attempt failed, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// GitHub was not reached at all: nothing was done.
    NotReached,
    /// The connection broke, or the time for an answer was over: it may have been done.
    Broken,
    /// GitHub asks to come back later; nothing was done.
    Limited {
        /// What `retry-after` said, or what is left until `x-ratelimit-reset`.
        wait: Option<Duration>,
    },
    /// A status above 499: it may have been done.
    Server,
    /// Any other refusal: it will be refused again.
    Final,
}

/// Whether a request may be sent although it may have been done already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it twice comes to the same.
    Freely,
    /// Only after a failure that shows that it was not done.
    IfNotDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send it again after this time.
    Wait(Duration),
    GiveUp,
}

/// What to do after the failure of the attempt with this number (from 0), with so much patience left.
///
/// `random` is drawn evenly from 0 to 1. A wait that GitHub asked for is kept whole or not begun: knocking earlier
/// makes it longer.
pub fn decide(
    failure: Failure,
    repeat: Repeat,
    attempt: u32,
    left: Duration,
    random: f64,
) -> Decision {
    let may_be_done = matches!(failure, Failure::Broken | Failure::Server);
    if may_be_done && repeat == Repeat::IfNotDone {
        return Decision::GiveUp;
    }
    backoff(failure, attempt, left, random)
}

/// The same, without regard to what may have been done.
pub fn backoff(failure: Failure, attempt: u32, left: Duration, random: f64) -> Decision {
    let asked = match failure {
        Failure::Final => return Decision::GiveUp,
        Failure::NotReached | Failure::Broken | Failure::Server => {
            let whole = doubled(FIRST, attempt).min(LONGEST);
            // The last attempt is made at the end of the patience, not long before it.
            let wait = (whole / 2 + (whole / 2).mul_f64(random)).min(left);
            return if wait.is_zero() {
                Decision::GiveUp
            } else {
                Decision::Wait(wait)
            };
        }
        Failure::Limited { wait: Some(wait) } => wait.saturating_add(FIRST.mul_f64(random)),
        Failure::Limited { wait: None } => {
            doubled(SECONDARY, attempt).saturating_add(FIRST.mul_f64(random))
        }
    };
    if asked <= left {
        Decision::Wait(asked)
    } else {
        Decision::GiveUp
    }
}

fn doubled(time: Duration, attempt: u32) -> Duration {
    time.saturating_mul(2_u32.saturating_pow(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: Duration = Duration::from_secs(3_600);

    fn s(seconds: f64) -> Decision {
        Decision::Wait(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn waits_double_up_to_a_minute_and_are_half_random() {
        for (attempt, random, expect) in [
            (0, 0.0, 0.5),
            (0, 1.0, 1.0),
            (1, 0.0, 1.0),
            (3, 0.5, 6.0),
            (5, 0.0, 16.0),
            (6, 1.0, 60.0),
            (40, 1.0, 60.0),
        ] {
            let decided = decide(Failure::Server, Repeat::Freely, attempt, MUCH, random);
            assert_eq!(decided, s(expect), "{attempt} {random}");
        }
    }

    #[test]
    fn what_github_asks_for_is_waited_for_or_not_begun() {
        let limited = |wait| Failure::Limited { wait };
        let asked = limited(Some(Duration::from_secs(30)));
        let left = Duration::from_secs(29);
        for (failure, attempt, left, expect) in [
            (asked, 0, MUCH, s(30.0)),
            (asked, 5, MUCH, s(30.0)),
            (asked, 0, left, Decision::GiveUp),
            (limited(Some(Duration::MAX)), 0, MUCH, Decision::GiveUp),
            (limited(None), 0, MUCH, s(60.0)),
            (limited(None), 2, MUCH, s(240.0)),
        ] {
            let decided = decide(failure, Repeat::IfNotDone, attempt, left, 0.0);
            assert_eq!(decided, expect);
        }
    }

    #[test]
    fn what_may_have_been_done_is_not_repeated_blindly() {
        for (failure, blind) in [
            (Failure::NotReached, s(0.5)),
            (Failure::Broken, Decision::GiveUp),
            (Failure::Server, Decision::GiveUp),
            (Failure::Final, Decision::GiveUp),
        ] {
            assert_eq!(decide(failure, Repeat::IfNotDone, 0, MUCH, 0.0), blind);
        }
        assert_eq!(
            decide(Failure::Broken, Repeat::Freely, 0, MUCH, 0.0),
            s(0.5)
        );
        assert_eq!(
            decide(Failure::Final, Repeat::Freely, 0, MUCH, 0.0),
            Decision::GiveUp
        );
    }

    #[test]
    fn the_last_attempt_is_at_the_end_of_the_patience() {
        let left = Duration::from_secs(7);
        assert_eq!(
            decide(Failure::Server, Repeat::Freely, 9, left, 0.0),
            s(7.0)
        );
        let none = decide(Failure::Server, Repeat::Freely, 9, Duration::ZERO, 0.0);
        assert_eq!(none, Decision::GiveUp);
    }
}
