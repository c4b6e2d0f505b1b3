//! Bytes read from a connection that HTTP has not consumed yet.
//!
//! Main type: [`Ahead`]. Bytes come back read by read, so that each keeps its stamp. Refuses to know:
//! sockets, HTTP.

use super::stamps::Arrival;
use std::collections::VecDeque;
use std::io;

/// Bytes that are read ahead at the most, for one answer.
const MOST: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Ahead {
    /// All of the answer that was read ahead, in one piece: a token that finds cold caches should not pay
    /// for memory of its own.
    bytes: Vec<u8>,
    /// Bytes that were taken.
    taken: usize,
    /// Where each read ended that was not wholly taken.
    reads: VecDeque<(usize, Arrival)>,
    /// How reading failed after those.
    failed: Option<io::Error>,
}

impl Ahead {
    /// Forgets everything, and keeps the memory for the next answer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.reads.clear();
        self.failed = None;
    }

    /// Everything was taken.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// All that was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is room, and something to come.
    pub fn wants_more(&self) -> bool {
        self.bytes.len() < MOST && self.failed.is_none()
    }

    pub fn push(&mut self, bytes: &[u8], arrival: Arrival) {
        self.bytes.extend_from_slice(bytes);
        self.reads.push_back((self.bytes.len(), arrival));
    }

    pub fn fail(&mut self, error: io::Error) {
        self.failed = Some(error);
    }

    /// What is left of the oldest read, up to `room` bytes; after the last, the failure that followed.
    pub fn take(&mut self, room: usize) -> Option<io::Result<(&[u8], Arrival)>> {
        let Some(&(end, arrival)) = self.reads.front() else {
            return self.failed.take().map(Err);
        };
        let begin = self.taken;
        self.taken = end.min(begin + room);
        if self.taken == end {
            self.reads.pop_front();
        }
        Some(Ok((&self.bytes[begin..self.taken], arrival)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, Arrival};
    use std::io;

    #[test]
    fn bytes_come_back_read_by_read_and_a_failure_after_the_last() {
        let arrival = |number| Arrival {
            at_ns: 10 * number,
            kernel: true,
            number,
        };
        let mut ahead = Ahead::default();
        ahead.push(b"abcde", arrival(1));
        ahead.push(b"fg", arrival(2));
        assert!(ahead.wants_more());
        ahead.fail(io::ErrorKind::ConnectionReset.into());
        assert!(!ahead.wants_more());
        for (part, number) in [(&b"abc"[..], 1), (b"de", 1), (b"fg", 2)] {
            assert!(!ahead.is_empty());
            assert_eq!(ahead.take(3).unwrap().unwrap(), (part, arrival(number)));
        }
        assert!(ahead.is_empty());
        let failure = ahead.take(3).unwrap().unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::ConnectionReset);
        assert!(ahead.take(3).is_none());

        ahead.push(b"h", arrival(3));
        ahead.clear();
        assert!(ahead.is_empty() && ahead.take(1).is_none());
    }
}
