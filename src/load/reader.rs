//! One read from a socket: where its bytes and its stamp are put.
//!
//! Main type: [`Reader`]. Refuses to know: who waits, what the bytes say.

use super::stamps;
use nix::sys::socket::{MsgFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Duration;

/// Bytes taken by one read at the most.
pub(super) const READ_SIZE: usize = 16 * 1024;

/// Bytes that a read into the rest of a buffer has at the least.
const LEAST_ROOM: usize = 4 * 1024;

/// Reads into one buffer at the most.
const MOST_NOTED: usize = 256;

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) buffer: Box<[u8]>,
    control: Vec<u8>,
    /// Reads whose bytes are in the buffer, one after another.
    pub(super) noted: Vec<Noted>,
}

/// One of several reads into one buffer.
#[derive(Debug)]
pub(super) struct Noted {
    /// Its bytes in the buffer.
    pub(super) part: Range<usize>,
    /// Right after it.
    pub(super) now_ns: u64,
    /// The kernel's stamp.
    pub(super) real: Option<Duration>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            control: stamps::control_buffer(),
            noted: Vec::with_capacity(MOST_NOTED),
        }
    }

    /// Whether a further read may follow `used` bytes.
    pub(super) fn has_room(&self, used: usize) -> bool {
        used + LEAST_ROOM <= READ_SIZE && self.noted.len() < MOST_NOTED
    }

    /// One read into this part of the buffer: its bytes, and the kernel's stamp.
    pub(super) fn read(
        &mut self,
        fd: RawFd,
        part: Range<usize>,
    ) -> io::Result<(usize, Option<Duration>)> {
        let mut parts = [IoSliceMut::new(&mut self.buffer[part])];
        let control = Some(self.control.as_mut_slice());
        let message = recvmsg::<()>(fd, &mut parts, control, MsgFlags::empty())?;
        Ok((message.bytes, stamps::of(&message)))
    }
}
