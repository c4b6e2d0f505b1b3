//! A server of exactly known timing, and its own record of what it did: the truth that a client is
//! measured against.
//!
//! ```text
//! request ── http ──► Ask ── script ──► bytes and deadlines ── shard ──► socket
//!                            (quirk)                             │
//!                                             GET /truth ◄── record
//! ```
//!
//! It speaks `/v1/completions` and `/v1/chat/completions`, streamed and whole: first token after 50 ms,
//! 10 ms each, 64 unless `max_tokens` says otherwise. The request's `model` names the [`Quirk`] of the
//! answer. Deadlines are absolute, from the kernel's stamp of the request's last byte, so nothing drifts;
//! and a deadline that was missed does no harm, since the record says when each write was really made.
//!
//! Main type: [`Server`]. Refuses to know: the code that it tests; nothing of it is used here.

#![allow(
    dead_code,
    unused_imports,
    reason = "each program that includes this module uses a part of it"
)]

pub(crate) mod clock;
mod connection;
mod http;
mod quirk;
mod record;
mod script;
mod shard;

pub(crate) use quirk::Quirk;
pub(crate) use record::{Truth, Written, fetch, reset};

use record::Log;
use shard::Shard;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// From the request's arrival to the first token.
pub(crate) const TTFT: Duration = Duration::from_millis(50);
/// From one token to the next.
pub(crate) const TPOT: Duration = Duration::from_millis(10);
/// Tokens of an answer whose request does not say.
pub(crate) const TOKENS: u32 = 64;

/// The times that answers keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ttft: Duration,
    pub(crate) tpot: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ttft: TTFT,
            tpot: TPOT,
        }
    }
}

/// A server on threads of its own, which end with the process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Listens on a free port of the loopback device. A connection stays on the shard that took it.
    pub(crate) fn start(timing: Timing, shards: usize) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let log = Arc::new(Log::default());
        for _ in 0..shards {
            let shard = Shard::new(listener.try_clone()?, timing, Arc::clone(&log))?;
            std::thread::Builder::new()
                .name("truth".into())
                .spawn(move || shard.run())?;
        }
        Ok(Self { address })
    }
}
