//! A TCP connection that knows when its bytes left and arrived.
//!
//! Main type: [`Wire`], which hyper reads from and writes to. Every read goes through `recvmsg` and
//! takes the kernel's own receive stamp (`SO_TIMESTAMPING`, software receive), so that the time at
//! which this process was scheduled does not enter. Where several segments wait, one read takes them
//! together and the stamp is the last one's.
//!
//! Refuses to know: HTTP.

use super::SessionClock;
use hyper::rt::ReadBufCursor;
use nix::sys::socket::{MsgFlags, Shutdown, recv, recvmsg, shutdown};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes taken by one read at the most.
const READ_SIZE: usize = 16 * 1024;

/// One read that brought bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Arrival of the read's last byte.
    pub(super) at_ns: u64,
    /// The kernel said so; otherwise it is the time right after the read.
    pub(super) kernel: bool,
    /// Ordinal of the read on its connection, from 1; 0: none yet.
    pub(super) read: u64,
}

/// What both ends of a connection's use share: hyper, which owns the [`Wire`], and who times it.
#[derive(Debug)]
pub(super) struct Tap {
    stream: TcpStream,
    clock: SessionClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The next write begins a request.
    armed: bool,
    sent_ns: Option<u64>,
    last: Arrival,
}

impl Tap {
    /// From now on the first write counts as the request's.
    pub(super) fn arm(&self) {
        let mut state = self.state();
        state.armed = true;
        state.sent_ns = None;
    }

    /// Just before the first byte of the armed request was handed to the kernel.
    pub(super) fn sent_ns(&self) -> Option<u64> {
        self.state().sent_ns
    }

    /// The latest read that brought bytes.
    pub(super) fn last(&self) -> Arrival {
        self.state().last
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Whether the peer has neither closed nor said anything unasked, so that the connection can carry
    /// another request.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let peeked = recv(self.stream.as_raw_fd(), &mut [0_u8; 1], flags);
        peeked == Err(nix::errno::Errno::EAGAIN)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp_write(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.armed) {
            state.sent_ns = Some(self.clock.now_ns());
        }
    }

    /// Notes a read of some bytes that ended just now. Arrivals on one connection never go backwards,
    /// and none precedes the request that it answers.
    fn note_read(&self, real: Option<Duration>) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state();
        let earliest_ns = state.last.at_ns.max(state.sent_ns.unwrap_or(0));
        let stamp = real.and_then(|real| self.clock.arrival_ns(real, earliest_ns, now_ns));
        state.last = Arrival {
            at_ns: stamp.unwrap_or(now_ns),
            kernel: stamp.is_some(),
            read: state.last.read + 1,
        };
    }
}

/// The connection as hyper sees it.
#[derive(Debug)]
pub(super) struct Wire {
    tap: Arc<Tap>,
    buffer: Box<[u8]>,
    control: Vec<u8>,
}

impl Wire {
    /// Connects without Nagle's delay and asks for stamps; a kernel that has none is no error.
    pub(super) async fn connect(address: SocketAddr, clock: &SessionClock) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stamps::ask(&stream);
        let tap = Tap {
            stream,
            clock: clock.clone(),
            state: Mutex::default(),
        };
        Ok(Self {
            tap: Arc::new(tap),
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            control: stamps::control_buffer(),
        })
    }

    pub(super) fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.tap)
    }

    /// One read. A short one emptied the socket: it is told to tokio as readiness used up, which saves
    /// the read that would find nothing; what comes meanwhile sets readiness anew.
    fn try_read(&mut self, room: usize) -> io::Result<usize> {
        let Self {
            tap,
            buffer,
            control,
        } = self;
        let room = room.min(buffer.len());
        let fd = tap.stream.as_raw_fd();
        let mut read = None;
        let ready = tap.stream.try_io(Interest::READABLE, || {
            let mut parts = [IoSliceMut::new(&mut buffer[..room])];
            let control = Some(control.as_mut_slice());
            let message = recvmsg::<()>(fd, &mut parts, control, MsgFlags::empty())?;
            read = Some((message.bytes, stamps::of(&message)));
            if (1..room).contains(&message.bytes) {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        let Some((count, real)) = read else {
            return ready.map(|()| 0);
        };
        if count > 0 {
            tap.note_read(real);
        }
        Ok(count)
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.tap.stream.poll_read_ready(cx))?;
            match self.try_read(into.remaining()) {
                Ok(count) => {
                    into.put_slice(&self.buffer[..count]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if must_wait(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tap.stream.poll_write_ready(cx))?;
            self.tap.stamp_write();
            match self.tap.stream.try_write(bytes) {
                Err(error) if must_wait(&error) => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = shutdown(self.tap.stream.as_raw_fd(), Shutdown::Write);
        Poll::Ready(ended.map_err(io::Error::from))
    }
}

fn must_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Receive stamps as Linux gives them.
#[cfg(target_os = "linux")]
mod stamps {
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::{ControlMessageOwned, RecvMsg, TimestampingFlag, Timestamps, sockopt};
    use std::time::Duration;
    use tokio::net::TcpStream;

    pub(super) fn ask(stream: &TcpStream) {
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
        // A kernel or sandbox without them: each sample then says that its stamps are not the kernel's.
        let _refused = setsockopt(stream, sockopt::Timestamping, &flags);
    }

    pub(super) fn control_buffer() -> Vec<u8> {
        nix::cmsg_space!(Timestamps)
    }

    /// Real time, since the epoch, at which the last segment of the message arrived.
    pub(super) fn of(message: &RecvMsg<'_, '_, ()>) -> Option<Duration> {
        message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => {
                Some(Duration::from(stamps.system)).filter(|real| !real.is_zero())
            }
            _ => None,
        })
    }
}

/// Other systems: every arrival is the time right after the read.
#[cfg(not(target_os = "linux"))]
mod stamps {
    use nix::sys::socket::RecvMsg;
    use std::time::Duration;
    use tokio::net::TcpStream;

    pub(super) fn ask(_: &TcpStream) {}

    pub(super) fn control_buffer() -> Vec<u8> {
        Vec::new()
    }

    pub(super) fn of(_: &RecvMsg<'_, '_, ()>) -> Option<Duration> {
        None
    }
}
