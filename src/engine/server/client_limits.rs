//! Bounds on a client's use of time and memory.

use std::time::Duration;

/// Bounds on one client's connections, bodies and waiting.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Greatest body of a request.
    pub body_bytes: usize,
    /// For the head of a request, and again for its body. A connection without a request may stay as long.
    pub read_time: Duration,
    /// Open connections. Beyond, an idle one is closed for a new one; where none is idle the new one waits.
    pub connections: usize,
    /// A connection to which nothing could be written for so long, while there is something to write, is
    /// closed; `None`: never.
    pub write_time: Option<Duration>,
    /// Requests that may wait for the engine: no request may have more prompts.
    pub queue: usize,
}
