//! What the server did, request by request: when it came, when each write with output was made.
//!
//! Main type: [`Truth`], a JSON line of `GET /truth`. Refuses to know: how it came about.

use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One request and its answer; all moments in ns of the machine's monotonic clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Truth {
    /// Everything generated, reasoning included; no two requests have the same.
    pub(crate) text: String,
    /// The request's last byte came: the kernel's stamp.
    pub(crate) arrived_ns: u64,
    /// It was read.
    pub(crate) read_ns: u64,
    /// The writes that completed an event with output, in order.
    pub(crate) writes: Vec<Written>,
    /// The last write of the answer.
    pub(crate) end: Option<Written>,
}

/// One write to the socket. On the loopback device the receiver's kernel stamps it before it returns.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Just before.
    pub(crate) from_ns: u64,
    /// Just after.
    pub(crate) until_ns: u64,
    /// Output tokens that it completed.
    pub(crate) tokens: u32,
}

impl Truth {
    pub(super) fn new(arrived_ns: u64, read_ns: u64) -> Self {
        Self {
            text: String::new(),
            arrived_ns,
            read_ns,
            writes: Vec::new(),
            end: None,
        }
    }

    /// Output tokens that were sent.
    pub(crate) fn tokens(&self) -> u32 {
        self.writes.iter().map(|write| write.tokens).sum()
    }
}

/// All ended requests since the last reset.
#[derive(Debug, Default)]
pub(super) struct Log {
    next: AtomicU64,
    ended: Mutex<Vec<Truth>>,
}

impl Log {
    /// A number that no other request has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add(&self, truth: Truth) {
        self.ended().push(truth);
    }

    pub(super) fn clear(&self) {
        self.ended().clear();
    }

    pub(super) fn lines(&self) -> String {
        let ended = self.ended();
        let lines = ended.iter().map(|truth| {
            let line = serde_json::to_string(truth).expect("strings and numbers always serialise");
            line + "\n"
        });
        lines.collect()
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Truth>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `GET /truth` of the server at `address`: every request that has ended.
pub(crate) fn fetch(address: SocketAddr) -> io::Result<Vec<Truth>> {
    let lines = ask(address, "GET")?;
    let truths = lines.lines().map(serde_json::from_str);
    Ok(truths.collect::<Result<_, _>>()?)
}

/// Forgets them: `DELETE /truth`.
pub(crate) fn reset(address: SocketAddr) -> io::Result<()> {
    ask(address, "DELETE").map(drop)
}

fn ask(address: SocketAddr, method: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("{method} /truth HTTP/1.1\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    body.map(str::to_owned)
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
