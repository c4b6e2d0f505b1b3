//! [`Clock`]: the time that waiting takes, so that a test can have GitHub down for ten minutes.

use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

/// What the client asks of time.
pub trait Clock {
    /// Since some moment that stays the same; never goes back.
    fn elapsed(&self) -> Duration;

    /// Since 1970, as GitHub's servers count.
    fn since_1970(&self) -> Duration;

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

/// The machine's own.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn since_1970(&self) -> Duration {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(tokio::time::sleep(time))
    }
}
