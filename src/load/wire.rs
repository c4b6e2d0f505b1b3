//! A TCP connection that knows when its bytes left and arrived.
//!
//! Main type: [`Wire`], which hyper reads from and writes to. Every read goes through `recvmsg` and
//! takes the kernel's own receive stamp (`SO_TIMESTAMPING`, software receive), so that the time at
//! which this process was scheduled does not enter. Where several segments wait, one read takes them
//! together and the stamp is the last one's.
//!
//! An event of a stream can be read ahead of hyper ([`Tap::poll_ahead`]): after ten idle milliseconds
//! the processor's caches are cold, and hyper's code would cost more than the read itself. Hyper reads
//! the same bytes later, read by read, so that stamps stay with what they belong to.
//!
//! Refuses to know: HTTP, but for how long hyper may be left alone ([`Framing`]).

use super::SessionClock;
use super::blocking::{self, Blocking};
use super::framing::Framing;
use super::gauges::Gauges;
use super::stamps;
use hyper::rt::ReadBufCursor;
use nix::sys::socket::{MsgFlags, Shutdown, recv, recvmsg, shutdown};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes taken by one read at the most.
const READ_SIZE: usize = 16 * 1024;

/// Bytes that a read into the rest of a buffer has at the least.
const LEAST_ROOM: usize = 4 * 1024;

/// Reads into one buffer at the most.
const MOST_NOTED: usize = 256;

/// Bytes that are read ahead of hyper at the most, for one answer.
const MOST_AHEAD: usize = 1 << 20;

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
    gauges: Arc<Gauges>,
    state: Mutex<State>,
    reader: Mutex<Reader>,
}

#[derive(Debug, Default)]
struct State {
    /// The next write begins a request.
    armed: bool,
    sent_ns: Option<u64>,
    /// Nothing of the request waits to be written.
    flushed: bool,
    /// The latest read from the socket.
    newest: Arrival,
    /// The latest read that hyper has.
    last: Arrival,
    framing: Framing,
    ahead: Ahead,
}

/// What was read and hyper has not yet.
#[derive(Debug, Default)]
struct Ahead {
    /// All of the answer that was read ahead, in one piece: a token that finds cold caches should not pay
    /// for memory of its own.
    bytes: Vec<u8>,
    /// Bytes that hyper has.
    taken: usize,
    /// Where each read ended that hyper has not wholly.
    reads: VecDeque<(usize, Arrival)>,
    /// How reading failed after those.
    failed: Option<io::Error>,
}

impl Ahead {
    /// Forgets everything, and keeps the memory for the next answer.
    fn empty(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.reads.clear();
        self.failed = None;
    }
}

/// Where a read's bytes and stamp are put.
#[derive(Debug)]
struct Reader {
    buffer: Box<[u8]>,
    control: Vec<u8>,
    noted: Vec<Noted>,
}

/// One of several reads into one buffer.
#[derive(Debug)]
struct Noted {
    /// Bytes in the buffer after it.
    used: usize,
    /// Right after it.
    now_ns: u64,
    /// The kernel's stamp.
    real: Option<Duration>,
}

impl Tap {
    /// From now on the first write counts as the request's.
    pub(super) fn arm(&self) {
        let mut state = self.state();
        state.armed = true;
        state.sent_ns = None;
        state.flushed = false;
        state.framing = Framing::default();
        state.ahead.empty();
    }

    /// Just before the first byte of the armed request was handed to the kernel.
    pub(super) fn sent_ns(&self) -> Option<u64> {
        self.state().sent_ns
    }

    /// The latest read that brought bytes, of those that hyper has.
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
        peeked == Err(nix::errno::Errno::EAGAIN) && self.state().ahead.reads.is_empty()
    }

    /// Whether hyper can be left alone: it has nothing to write, and the body's end is yet to come.
    pub(super) fn can_read_ahead(&self) -> bool {
        let state = self.state();
        let Ahead { bytes, failed, .. } = &state.ahead;
        state.flushed && state.framing.is_open() && bytes.len() < MOST_AHEAD && failed.is_none()
    }

    /// One read or more that hyper is to see later. A failure, and the connection's end, are kept for hyper
    /// too.
    pub(super) fn poll_ahead(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut reader = self.reader();
        if !self.read_alone(&mut reader) {
            let read = ready!(self.poll_socket(cx, &mut reader, READ_SIZE));
            self.keep_ahead(&reader, read);
        }
        Poll::Ready(())
    }

    fn keep_ahead(&self, reader: &Reader, read: io::Result<usize>) {
        let mut state = self.state();
        let newest = state.newest;
        let ahead = &mut state.ahead;
        match read {
            Ok(0) => state.framing = Framing::Unknown,
            Ok(count) => {
                ahead.bytes.extend_from_slice(&reader.buffer[..count]);
                ahead.reads.push_back((ahead.bytes.len(), newest));
            }
            Err(error) => ahead.failed = Some(error),
        }
    }

    /// The oldest read ahead, if there is one, or the failure that followed.
    fn take_ahead(&self, into: &mut ReadBufCursor<'_>) -> Option<io::Result<()>> {
        let mut state = self.state();
        let ahead = &mut state.ahead;
        let Some(&(end, arrival)) = ahead.reads.front() else {
            return ahead.failed.take().map(Err);
        };
        let part = &ahead.bytes[ahead.taken..end];
        let part = &part[..part.len().min(into.remaining())];
        into.put_slice(part);
        ahead.taken += part.len();
        if ahead.taken == end {
            ahead.reads.pop_front();
        }
        state.last = arrival;
        Some(Ok(()))
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp_write(&self) {
        let mut state = self.state();
        state.flushed = false;
        if std::mem::take(&mut state.armed) {
            state.sent_ns = Some(self.clock.now_ns());
        }
    }

    /// Notes a read that ended at `now_ns`. Arrivals on one connection never go backwards, and none
    /// precedes the request that it answers.
    fn note_arrival(&self, state: &mut State, now_ns: u64, real: Option<Duration>) {
        let earliest_ns = state.newest.at_ns.max(state.sent_ns.unwrap_or(0));
        let stamp = real.and_then(|real| self.clock.arrival_ns(real, earliest_ns, now_ns));
        if let Some(stamp) = stamp {
            self.gauges.reads.note(now_ns.saturating_sub(stamp));
        }
        state.newest = Arrival {
            at_ns: stamp.unwrap_or(now_ns),
            kernel: stamp.is_some(),
            read: state.newest.read + 1,
        };
    }

    /// One read, once there is something to read.
    fn poll_socket(
        &self,
        cx: &mut Context<'_>,
        reader: &mut Reader,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            let ready = ready!(self.stream.poll_read_ready(cx));
            match ready.and_then(|()| self.try_read(reader, room)) {
                Err(error) if must_wait(&error) => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Reads ahead past the runtime, event after event, while nothing else of this thread can be due and none
    /// is long in coming. Whether anything came.
    ///
    /// After ten idle milliseconds every line of code and memory that a token touches is fetched anew, so
    /// between two reads stands only what tells whether a further one may wait; the rest is done for all.
    fn read_alone(&self, reader: &mut Reader) -> bool {
        let Some(until_ns) = self.gauges.alone_until_ns() else {
            return false;
        };
        let may_wait = |now_ns: u64| now_ns + blocking::LONGEST_WAIT_NS <= until_ns;
        if !may_wait(self.clock.now_ns()) {
            return false;
        }
        let Some(_blocking) = Blocking::start(&self.stream) else {
            return false;
        };
        let fd = self.stream.as_raw_fd();
        let mut framing = std::mem::take(&mut self.state().framing);
        let mut used = 0;
        let last = loop {
            let (count, real) = match reader.read(fd, used..READ_SIZE) {
                Ok((0, _)) => break Some(Ok(0)),
                Err(error) if must_wait(&error) => break None,
                Err(error) => break Some(Err(error)),
                Ok(some) => some,
            };
            let now_ns = self.clock.now_ns();
            framing.push(&reader.buffer[used..used + count]);
            used += count;
            reader.noted.push(Noted { used, now_ns, real });
            let is_full = used > READ_SIZE - LEAST_ROOM || reader.noted.len() == MOST_NOTED;
            if is_full || !framing.is_open() || !may_wait(now_ns) {
                break None;
            }
        };
        self.state().framing = framing;
        self.keep_noted(reader, used);
        let came = used > 0 || last.is_some();
        if let Some(last) = last {
            self.keep_ahead(reader, last);
        }
        came
    }

    /// What [`Tap::read_alone`] left undone for each of its reads.
    fn keep_noted(&self, reader: &mut Reader, used: usize) {
        let mut state = self.state();
        let before = state.ahead.bytes.len();
        for Noted { used, now_ns, real } in reader.noted.drain(..) {
            self.note_arrival(&mut state, now_ns, real);
            let newest = state.newest;
            state.ahead.reads.push_back((before + used, newest));
        }
        state.ahead.bytes.extend_from_slice(&reader.buffer[..used]);
    }

    /// One read. A short one emptied the socket: it is told to tokio as readiness used up, which saves
    /// the read that would find nothing; what comes meanwhile sets readiness anew.
    fn try_read(&self, reader: &mut Reader, room: usize) -> io::Result<usize> {
        let room = room.min(reader.buffer.len());
        let mut read = None;
        let ready = self.stream.try_io(Interest::READABLE, || {
            let count = self.read(reader, room)?;
            read = Some(count);
            if (1..room).contains(&count) {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        match read {
            Some(count) => Ok(count),
            None => ready.map(|()| 0),
        }
    }

    fn read(&self, reader: &mut Reader, room: usize) -> io::Result<usize> {
        let (count, real) = reader.read(self.stream.as_raw_fd(), 0..room)?;
        if count > 0 {
            let now_ns = self.clock.now_ns();
            let mut state = self.state();
            self.note_arrival(&mut state, now_ns, real);
            state.framing.push(&reader.buffer[..count]);
        }
        Ok(count)
    }
}

impl Reader {
    fn new() -> Self {
        Self {
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            control: stamps::control_buffer(),
            noted: Vec::with_capacity(MOST_NOTED),
        }
    }

    /// One read into this part of the buffer: its bytes, and the kernel's stamp.
    fn read(&mut self, fd: RawFd, part: Range<usize>) -> io::Result<(usize, Option<Duration>)> {
        let mut parts = [IoSliceMut::new(&mut self.buffer[part])];
        let control = Some(self.control.as_mut_slice());
        let message = recvmsg::<()>(fd, &mut parts, control, MsgFlags::empty())?;
        Ok((message.bytes, stamps::of(&message)))
    }
}

/// The connection as hyper sees it.
#[derive(Debug)]
pub(super) struct Wire {
    tap: Arc<Tap>,
}

impl Wire {
    /// Connects without Nagle's delay and asks for stamps; a kernel that has none is no error. How late
    /// this process reads what was stamped is counted in `gauges`.
    pub(super) async fn connect(
        address: SocketAddr,
        clock: &SessionClock,
        gauges: &Arc<Gauges>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        stamps::ask(&stream);
        let tap = Tap {
            stream,
            clock: clock.clone(),
            gauges: Arc::clone(gauges),
            state: Mutex::default(),
            reader: Mutex::new(Reader::new()),
        };
        Ok(Self { tap: Arc::new(tap) })
    }

    pub(super) fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.tap)
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let tap = &self.tap;
        if let Some(taken) = tap.take_ahead(&mut into) {
            return Poll::Ready(taken);
        }
        let mut reader = tap.reader();
        let count = ready!(tap.poll_socket(cx, &mut reader, into.remaining()))?;
        into.put_slice(&reader.buffer[..count]);
        let mut state = tap.state();
        state.last = state.newest;
        Poll::Ready(Ok(()))
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
        let mut state = self.tap.state();
        // Before the request's first byte there is nothing of it to flush.
        state.flushed = !state.armed;
        drop(state);
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
