//! Idle timeout of an answer, and the limit of its whole time.
//!
//! Main type: [`IdleTimeout`].

use crate::response::exchange::Ending;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// An answer that trickles may last this many times the silence that is allowed: an engine that sends
/// only keep-alive comments hangs as well.
const WHOLE_ANSWER: u32 = 10;

/// The end of a stream follows its `[DONE]` within this: a server may compute something else in between.
const END: Duration = Duration::from_secs(30);

/// Watches over silence. The timer is set again only when it fires, so that an event costs none.
pub struct IdleTimeout {
    silence: Duration,
    heard: Instant,
    end: Instant,
    /// `[DONE]` came.
    is_done: bool,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    pub fn new(silence: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + silence));
        Self {
            silence,
            heard: now,
            end: now + silence * WHOLE_ANSWER,
            is_done: false,
            timer,
        }
    }

    /// `[DONE]` came: only the end of the body is expected.
    pub fn expect_end(&mut self) {
        if !self.is_done {
            self.is_done = true;
            self.end = self.end.min(Instant::now() + END.min(self.silence));
            self.timer.as_mut().reset(self.end);
        }
    }

    /// What `future` gives, unless it takes too long; its coming counts as a sign of life.
    pub async fn wait<F: Future>(&mut self, future: F) -> Result<F::Output, Ending> {
        let mut future = pin!(future);
        let output = poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                let due = (self.heard + self.silence).min(self.end);
                let now = Instant::now();
                if due <= now {
                    return Poll::Ready(Err(self.timed_out(now)));
                }
                self.timer.as_mut().reset(due);
            }
            Poll::Pending
        })
        .await?;
        self.heard = Instant::now();
        // The timer alone would never be asked while more is always there already.
        if self.end <= self.heard {
            return Err(self.timed_out(self.heard));
        }
        Ok(output)
    }

    fn timed_out(&self, now: Instant) -> Ending {
        if self.is_done {
            Ending::Silent("the stream did not end after [DONE]".to_owned())
        } else if self.end <= now {
            let whole = self.silence * WHOLE_ANSWER;
            Ending::Silent(format!("no end of the answer within {whole:?}"))
        } else {
            Ending::Silent(format!("nothing came for {:?}", self.silence))
        }
    }
}
