//! Reading past the runtime: the thread sleeps in `recvmsg` itself.
//!
//! A wait with a timer of its own sets the processor's timer for every token, which in a virtual machine
//! costs more than the read. `SO_RCVTIMEO` is counted in the system's ticks and sets none.
//!
//! Main type: [`Blocking`]. Refuses to know: what is read, for how long it is right to wait.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use tokio::net::TcpStream;

/// Where nothing comes a read gives up after this and one tick of the system, 10 ms at the most. Longer than
/// the first token of a short prompt takes: where an engine sends its answer's head at once, waiting for the token
/// costs no wake-up.
const SILENCE_US: i64 = 60_000;

/// The longest that a read keeps its thread.
pub const LONGEST_WAIT_NS: u64 = SILENCE_US as u64 * 1_000 + 10_000_000;

/// While it lives, reads of the stream wait for bytes. The runtime must not read meanwhile.
pub struct Blocking<'a> {
    stream: &'a TcpStream,
}

impl<'a> Blocking<'a> {
    /// `None` where the system refuses.
    pub fn start(stream: &'a TcpStream) -> Option<Self> {
        setsockopt(stream, ReceiveTimeout, &TimeVal::new(0, SILENCE_US)).ok()?;
        fcntl(stream, FcntlArg::F_SETFL(OFlag::empty())).ok()?;
        Some(Self { stream })
    }
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        fcntl(self.stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .expect("a socket that was made to wait can be made not to");
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocking, SILENCE_US};
    use crate::load::peer::connected;
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::sys::socket::{MsgFlags, recv};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn reads_wait_while_it_lives_and_give_up_after_the_silence() {
        let (stream, mut peer) = connected().await;
        let read = || recv(stream.as_raw_fd(), &mut [0; 8], MsgFlags::empty());
        let waits = || {
            let flags = fcntl(&stream, FcntlArg::F_GETFL).unwrap();
            !OFlag::from_bits_truncate(flags).contains(OFlag::O_NONBLOCK)
        };
        let blocking = Blocking::start(&stream).unwrap();
        assert!(waits());
        let begun = Instant::now();
        assert_eq!(read(), Err(Errno::EAGAIN));
        assert!(begun.elapsed() >= Duration::from_micros(SILENCE_US as u64));
        peer.write_all(b"token").unwrap();
        assert_eq!(read(), Ok(5));
        drop(blocking);
        assert!(!waits());
        assert_eq!(read(), Err(Errno::EAGAIN));
    }
}
