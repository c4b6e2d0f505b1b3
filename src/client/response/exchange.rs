//! One request and its answer as they crossed the wire: bytes and stamps, nothing read into them yet.
//!
//! Main type: [`Exchange`]. While an answer arrives its bytes are only stored; they are read after the
//! end, so that the client's own work neither delays a read nor takes the engine's cores.
//!
//! Refuses to know: JSON, events, what makes a sample.

use crate::socket::stamps::Arrival;

/// Longest answer that is stored; a longer one is garbled.
pub const MAX_BODY: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When it was to be sent, where a moment was set.
    pub due_ns: Option<u64>,
    /// Connection asked for and established, if this exchange opened one.
    pub connect_ns: Option<(u64, u64)>,
    /// Just before the first write; where none was made, when the request was to begin.
    pub send_ns: u64,
    pub headers_ns: Option<u64>,
    pub status: Option<u16>,
    pub body: Vec<u8>,
    /// The arrivals that brought the body, in order.
    pub reads: Vec<BodyRead>,
    /// End of the body, if it came.
    pub end_ns: Option<u64>,
    pub ending: Ending,
    /// By how many nanoseconds the clock that its stamps come from was set, perhaps while it was under way.
    pub clock_set_ns: Option<i64>,
}

/// An arrival that brought a part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRead {
    /// Length of the body after it.
    pub end: usize,
    pub arrival: Arrival,
}

/// How an exchange ended, as far as HTTP can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The whole answer came.
    Whole,
    /// The server's port takes no connections.
    Refused(String),
    /// The connection failed or ended too early.
    Cut(String),
    /// Nothing came for longer than the limit.
    Silent(String),
    /// Not HTTP, or too long.
    Garbled(String),
    /// The client closed the connection, as it was asked to.
    Left,
}

impl Exchange {
    /// One that begins now and has nothing yet.
    pub fn begin(connect_ns: Option<(u64, u64)>, now_ns: u64) -> Self {
        Self {
            due_ns: None,
            connect_ns,
            send_ns: now_ns,
            headers_ns: None,
            status: None,
            body: Vec::new(),
            reads: Vec::new(),
            end_ns: None,
            ending: Ending::Whole,
            clock_set_ns: None,
        }
    }

    /// One that never got a connection.
    pub fn failed(asked_ns: u64, ending: Ending) -> Self {
        Self {
            ending,
            ..Self::begin(None, asked_ns)
        }
    }

    /// Stores a part of the body that `arrival` brought. False: the answer is too long.
    pub fn store(&mut self, part: &[u8], arrival: Arrival, limit: usize) -> bool {
        if self.body.len() + part.len() > limit {
            return false;
        }
        self.body.extend_from_slice(part);
        let end = self.body.len();
        match self.reads.last_mut() {
            Some(last) if last.arrival.number == arrival.number => {
                *last = BodyRead { end, arrival }
            }
            _ => self.reads.push(BodyRead { end, arrival }),
        }
        true
    }

    /// Memory of what came.
    pub fn bytes(&self) -> usize {
        self.body.capacity() + self.reads.capacity() * size_of::<BodyRead>()
    }

    /// When the last of it came.
    pub fn last_ns(&self) -> u64 {
        let read = self.reads.last().map(|read| read.arrival.at_ns);
        let moments = [Some(self.send_ns), self.headers_ns, read, self.end_ns];
        moments.into_iter().flatten().max().unwrap_or(self.send_ns)
    }

    /// True if all that was wanted came: HTTP ended well, the stream sent `[DONE]` before the connection broke, or the client
    /// left. A stream that does not end keeps its client waiting.
    pub fn is_whole(&self) -> bool {
        match self.ending {
            Ending::Whole | Ending::Left => true,
            Ending::Silent(_) => false,
            _ => is_done(&self.body),
        }
    }

    /// True if the server dropped the connection, or wrote nothing sound.
    pub fn is_dropped(&self) -> bool {
        matches!(self.ending, Ending::Cut(_) | Ending::Garbled(_))
    }

    /// True if the body ends with `[DONE]`.
    pub fn is_done(&self) -> bool {
        is_done(&self.body)
    }

    /// The body's parts, one an arrival.
    pub fn parts(&self) -> impl Iterator<Item = (&[u8], Arrival)> {
        let mut begin = 0;
        self.reads.iter().map(move |read| {
            let part = &self.body[begin..read.end];
            begin = read.end;
            (part, read.arrival)
        })
    }
}

/// True if these bytes end with `[DONE]`, chunked framing or not. Little white space follows it: more is not looked through,
/// part by part.
pub fn is_done(bytes: &[u8]) -> bool {
    const END: usize = 64;
    let end = &bytes[bytes.len().saturating_sub(END)..];
    end.trim_ascii_end().ends_with(b"[DONE]")
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Exchange};

    #[test]
    fn parts_are_kept_by_arrival_and_bounded() {
        let arrival = |number| Arrival {
            at_ns: 10 * number,
            kernel: true,
            number,
        };
        let mut exchange = Exchange::begin(None, 0);
        // Two HTTP chunks that arrived together are one part.
        assert!(exchange.store(b"a", arrival(1), 5));
        assert!(exchange.store(b"b", arrival(1), 5));
        assert!(exchange.store(b"cde", arrival(3), 5));
        assert!(!exchange.store(b"f", arrival(4), 5));
        let parts: Vec<(&[u8], u64)> = exchange
            .parts()
            .map(|(part, arrival)| (part, arrival.at_ns))
            .collect();
        assert_eq!(parts, [(&b"ab"[..], 10), (&b"cde"[..], 30)]);
    }
}
