//! Waiting until a moment of the session's clock, late by some tens of microseconds.
//!
//! tokio's timers count milliseconds, which is as long as a small model's prefill takes. They bring a
//! moment near; the rest is waited for with a timer of the kernel (`timerfd`) that the runtime's own
//! poller sees. Where there is none, tokio's is all there is, and the send lag says so.
//!
//! Main function: [`until`]. Refuses to know: what is waited for.

use super::SessionClock;
use std::time::Duration;

/// The last stretch, for which tokio's timers are too coarse.
const NEAR: Duration = Duration::from_millis(5);

/// Completes at `due_ns`, never before; at once where that is past. Needs a tokio runtime with time and
/// I/O.
pub async fn until(clock: &SessionClock, due_ns: u64) {
    loop {
        let left = Duration::from_nanos(due_ns.saturating_sub(clock.now_ns()));
        if left.is_zero() {
            return;
        }
        if left > 2 * NEAR {
            tokio::time::sleep(left - NEAR).await;
        } else if kernel::wait(left).await.is_err() {
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A timer of its own, which ends with the wait.
    pub async fn wait(left: Duration) -> io::Result<()> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let once = Expiration::OneShot(TimeSpec::from_duration(left));
        timer.set(once, TimerSetTimeFlags::empty())?;
        #[expect(
            deprecated,
            reason = "unsound for types whose descriptor changes; an OwnedFd's never does, and the successor \
                      is an unsafe function"
        )]
        let timer = AsyncFd::with_interest(OwnedFd::from(timer), Interest::READABLE)?;
        timer.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;
    use std::time::Duration;

    pub async fn wait(_: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{SessionClock, until};

    #[tokio::test]
    async fn no_moment_comes_early_and_the_past_is_no_wait() {
        let clock = SessionClock::start();
        // By the kernel's timer alone, and by both.
        for ahead_ns in [300_000, 3_000_000, 15_000_000] {
            let due_ns = clock.now_ns() + ahead_ns;
            until(&clock, due_ns).await;
            assert!(clock.now_ns() >= due_ns);
        }
        until(&clock, 0).await;
    }

    #[tokio::test]
    async fn many_wait_at_once() {
        let clock = SessionClock::start();
        let begun_ns = clock.now_ns();
        let moments = [9_u64, 1, 5, 7, 3].map(|ms| begun_ns + ms * 1_000_000);
        let mut waits = tokio::task::JoinSet::new();
        for due_ns in moments {
            let clock = clock.clone();
            waits.spawn(async move {
                until(&clock, due_ns).await;
                assert!(clock.now_ns() >= due_ns);
                due_ns
            });
        }
        let mut came = waits.join_all().await;
        came.sort_unstable();
        let mut expected = moments.to_vec();
        expected.sort_unstable();
        assert_eq!(came, expected);
    }
}
