//! A TCP connection that knows when its bytes left and arrived.
//!
//! Main type: [`Tap`], which hyper's side of a connection and who times it share. Every read goes through
//! `recvmsg` and takes the kernel's own receive stamp (`SO_TIMESTAMPING`, software receive), so that the
//! time at which this process was scheduled does not enter. Where several events may wait, a look tells how many do, and
//! each is a read of its own; those that have one stamp, since one segment brought them or the kernel joined theirs, count
//! as one arrival. Where one event can be expected ([`Rhythm`]), and where a single stream's are slow, what waits is read
//! at once.
//!
//! An event of a stream can be read ahead of hyper ([`Tap::poll_ahead`]): after ten idle milliseconds
//! the processor's caches are cold, and hyper's code would cost more than the read itself. Hyper reads
//! the same bytes later, read by read, so that stamps stay with what they belong to.
//!
//! Refuses to know: HTTP, but for how long hyper may be left alone ([`Framing`]).

use super::blocking::{self, Blocking};
use super::chunked::Framing;
use super::read_buffer::Ahead;
use super::reader::{Reader, Taken, Together};
use super::records::Records;
use super::rhythm::Rhythm;
use super::stamps::{self, Arrival};
use crate::SessionClock;
use crate::response::exchange::is_done;
use crate::response::sse;
use crate::threads::gauges::Gauges;
use hyper::rt::ReadBufCursor;
use nix::sys::socket::{MsgFlags, Shutdown, recv, shutdown};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Events that come faster than this may wait together even where a single stream has the thread.
const QUICK_NS: u64 = 5_000_000;

#[derive(Debug)]
pub struct Tap {
    stream: TcpStream,
    clock: SessionClock,
    gauges: Arc<Gauges>,
    state: Mutex<StampState>,
    reader: Mutex<Reader>,
}

#[derive(Debug, Default)]
struct StampState {
    /// The next write begins a request.
    armed: bool,
    sent_ns: Option<u64>,
    /// Nothing of the request waits to be written.
    flushed: bool,
    /// The latest that was read from the socket.
    newest: Arrival,
    together: Together,
    rhythm: Rhythm,
    /// The latest that hyper has.
    last: Arrival,
    framing: Framing,
    ahead: Ahead,
}

/// For who times the connection.
impl Tap {
    /// Asks for stamps; a kernel that has none is no error. How late this process reads what was stamped is
    /// counted in `gauges`.
    pub fn new(stream: TcpStream, clock: &SessionClock, gauges: &Arc<Gauges>) -> Self {
        stamps::ask(&stream);
        Self {
            stream,
            clock: clock.clone(),
            gauges: Arc::clone(gauges),
            state: Mutex::default(),
            reader: Mutex::new(Reader::new()),
        }
    }

    /// From now on a read ends with a TLS record.
    pub fn read_by_record(&self) {
        self.reader().records = Some(Records::default());
    }

    /// From now on the first write counts as the request's.
    pub fn arm(&self) {
        let mut state = self.state();
        state.armed = true;
        state.sent_ns = None;
        state.flushed = false;
        state.framing = Framing::default();
        state.ahead.clear();
        state.rhythm.begin();
    }

    /// Just before the first byte of the armed request was handed to the kernel.
    pub fn sent_ns(&self) -> Option<u64> {
        self.state().sent_ns
    }

    /// The latest read that brought bytes, of those that hyper has.
    pub fn last(&self) -> Arrival {
        self.state().last
    }

    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Whether the peer has neither closed nor said anything unasked, so that the connection can carry
    /// another request.
    pub fn is_quiet(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let peeked = recv(self.stream.as_raw_fd(), &mut [0_u8; 1], flags);
        peeked == Err(nix::errno::Errno::EAGAIN) && self.state().ahead.is_empty()
    }

    /// Whether hyper can be left alone: it has nothing to write, and the body's end is yet to come.
    pub fn can_read_ahead(&self) -> bool {
        let state = self.state();
        state.flushed && state.framing.is_open() && state.ahead.wants_more()
    }

    /// True if what was read ahead ends with `[DONE]`.
    pub fn is_done(&self) -> bool {
        is_done(self.state().ahead.bytes())
    }

    /// One read or more that hyper is to see later. A failure, and the connection's end, are kept for hyper
    /// too.
    pub fn poll_ahead(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut reader = self.reader();
        if !self.read_alone(&mut reader) {
            let read = ready!(self.poll_socket(cx, || self.read_waiting(&mut reader)));
            let mut framing = std::mem::take(&mut self.state().framing);
            if let Ok(taken) = &read {
                framing.push(&reader.buffer[..taken.count]);
            }
            self.state().framing = framing;
            self.keep_noted(&mut reader);
            self.keep_end(read.map(|taken| taken.count));
        }
        Poll::Ready(())
    }
}

/// For hyper.
impl Tap {
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(taken) = self.take_ahead(&mut into) {
            return Poll::Ready(taken);
        }
        let mut reader = self.reader();
        let room = into.remaining().min(reader.buffer.len());
        let count = ready!(self.poll_socket(cx, || self.read_first(&mut reader, room)))?.count;
        into.put_slice(&reader.buffer[..count]);
        let mut state = self.state();
        state.last = state.newest;
        Poll::Ready(Ok(()))
    }

    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            self.stamp_write();
            match self.stream.try_write(bytes) {
                Err(error) if must_wait(&error) => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// What was written so far is on its way.
    pub fn note_flush(&self) {
        let mut state = self.state();
        // Before the request's first byte there is nothing of it to flush.
        state.flushed = !state.armed;
    }

    pub fn end_writing(&self) -> io::Result<()> {
        shutdown(self.stream.as_raw_fd(), Shutdown::Write).map_err(io::Error::from)
    }

    /// The oldest read ahead, if there is one, or the failure that followed.
    fn take_ahead(&self, into: &mut ReadBufCursor<'_>) -> Option<io::Result<()>> {
        let mut state = self.state();
        let StampState { ahead, last, .. } = &mut *state;
        let taken = ahead.take(into.remaining())?;
        Some(taken.map(|(part, arrival)| {
            into.put_slice(part);
            *last = arrival;
        }))
    }

    fn stamp_write(&self) {
        let mut state = self.state();
        state.flushed = false;
        if std::mem::take(&mut state.armed) {
            state.sent_ns = Some(self.clock.now_ns());
        }
    }
}

/// Reading.
impl Tap {
    /// Keeps for hyper that nothing more comes, where so many bytes or this failure say so.
    fn keep_end(&self, read: io::Result<usize>) {
        match read {
            Ok(0) => self.state().framing = Framing::Unknown,
            Ok(_) => {}
            Err(error) => self.state().ahead.fail(error),
        }
    }

    /// Notes a read that ended at `now_ns`. Arrivals on one connection never go backwards, and none
    /// precedes the request that it answers.
    fn note_arrival(&self, state: &mut StampState, now_ns: u64, taken: Taken) {
        let earliest_ns = state.newest.at_ns.max(state.sent_ns.unwrap_or(0));
        let real = taken.real;
        let stamp = real.and_then(|real| self.clock.arrival_ns(real, earliest_ns, now_ns));
        if let Some(stamp) = stamp {
            self.gauges.note_stamped_read(now_ns.saturating_sub(stamp));
        }
        state.newest = Arrival {
            at_ns: stamp.unwrap_or(now_ns),
            kernel: stamp.is_some(),
            number: state.newest.number + u64::from(!state.together.holds(taken)),
        };
        state.rhythm.note(state.newest, taken.emptied);
    }

    /// What `read` takes, once there is something to read.
    fn poll_socket(
        &self,
        cx: &mut Context<'_>,
        mut read: impl FnMut() -> io::Result<Taken>,
    ) -> Poll<io::Result<Taken>> {
        loop {
            let ready = ready!(self.stream.poll_read_ready(cx));
            match ready.and_then(|()| self.try_read(&mut read)) {
                Err(error) if must_wait(&error) => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Reads ahead past the runtime, event after event, while nothing else of this thread can be due and none
    /// is long in coming. Whether anything came.
    ///
    /// After ten idle milliseconds every line of code and memory that a token touches is fetched anew, so
    /// between two reads stands only what tells whether a further one may wait; the rest is done for all. For the same
    /// reason all that waits is read at once, unless events come so fast that two may wait.
    fn read_alone(&self, reader: &mut Reader) -> bool {
        let may_wait = |now_ns: u64| {
            let until_ns = self.gauges.alone_until_ns();
            until_ns.is_some_and(|until_ns| now_ns + blocking::LONGEST_WAIT_NS <= until_ns)
        };
        if !may_wait(self.clock.now_ns()) {
            return false;
        }
        let Some(_blocking) = Blocking::start(&self.stream) else {
            return false;
        };
        let fd = self.stream.as_raw_fd();
        let mut framing = std::mem::take(&mut self.state().framing);
        let mut used = 0;
        let now_ns = || self.clock.now_ns();
        let (mut before_ns, mut is_quick) = (now_ns(), true);
        let last = loop {
            let read = if is_quick {
                reader.read_events(fd, used, now_ns)
            } else {
                reader.read_all(fd, used, now_ns)
            };
            let taken = match read {
                Ok(Taken { count: 0, .. }) => break Some(Ok(0)),
                Err(error) if must_wait(&error) => break None,
                Err(error) => break Some(Err(error)),
                Ok(some) => some,
            };
            let read_ns = reader.noted.last().map_or(before_ns, |noted| noted.now_ns);
            is_quick = !taken.emptied || read_ns - before_ns < QUICK_NS;
            before_ns = read_ns;
            framing.push(&reader.buffer[used..][..taken.count]);
            used += taken.count;
            if !reader.has_room(used) || !framing.is_open() || !may_wait(read_ns) {
                break None;
            }
        };
        self.state().framing = framing;
        self.keep_noted(reader);
        let came = used > 0 || last.is_some();
        if let Some(last) = last {
            self.keep_end(last);
        }
        came
    }

    /// Puts what was read where hyper is to find it, each read with its arrival.
    fn keep_noted(&self, reader: &mut Reader) {
        let mut state = self.state();
        for noted in reader.noted.drain(..) {
            self.note_arrival(&mut state, noted.now_ns, noted.taken);
            let newest = state.newest;
            let bytes = &reader.buffer[noted.from..][..noted.taken.count];
            state.ahead.push(bytes, newest);
        }
    }

    /// Where a read emptied the socket that is told to tokio as readiness used up, which saves
    /// the read that would find nothing; what comes meanwhile sets readiness anew.
    fn try_read(&self, read: &mut impl FnMut() -> io::Result<Taken>) -> io::Result<Taken> {
        let mut taken = None;
        let ready = self.stream.try_io(Interest::READABLE, || {
            let some = *taken.insert(read()?);
            if some.emptied && some.count > 0 {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        match taken {
            Some(taken) => Ok(taken),
            None => ready.map(|()| Taken::default()),
        }
    }

    /// Reads the events that wait, one by one but where a single one is expected.
    fn read_waiting(&self, reader: &mut Reader) -> io::Result<Taken> {
        let (fd, now_ns) = (self.stream.as_raw_fd(), || self.clock.now_ns());
        if !self.state().rhythm.is_single(now_ns()) {
            return reader.read_events(fd, 0, now_ns);
        }
        let taken = reader.read_all(fd, 0, now_ns)?;
        if sse::first_event(&reader.buffer[..taken.count]) < taken.count {
            self.state().rhythm.surprise();
        }
        Ok(taken)
    }

    fn read_first(&self, reader: &mut Reader, room: usize) -> io::Result<Taken> {
        let taken = reader.read_event(self.stream.as_raw_fd(), 0..room)?;
        if taken.count > 0 {
            let now_ns = self.clock.now_ns();
            let mut state = self.state();
            self.note_arrival(&mut state, now_ns, taken);
            state.framing.push(&reader.buffer[..taken.count]);
        }
        Ok(taken)
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, StampState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn must_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::Tap;
    use crate::SessionClock;
    use crate::socket::test_socket::connected;
    use crate::threads::gauges::Gauges;
    use std::future::poll_fn;
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// The peer writes for as long as the thread is kept, so that without its end some 250 reads follow.
    #[tokio::test]
    async fn a_stream_that_never_pauses_lets_go_of_a_thread_that_is_to_end() {
        let (stream, mut peer) = connected().await;
        let gauges = Arc::new(Gauges::default());
        gauges.begin_wave(1);
        gauges.look_at(u64::MAX);
        let tap = Tap::new(stream, &SessionClock::start(), &gauges);
        tap.arm();
        peer.write_all(HEAD.as_bytes()).unwrap();
        let is_free = Arc::new(AtomicBool::new(false));
        let writing = std::thread::spawn({
            let is_free = Arc::clone(&is_free);
            move || {
                peer.write_all(b"1\r\na\r\n").unwrap();
                gauges.end();
                while !is_free.load(Relaxed) {
                    peer.write_all(b"1\r\nb\r\n").unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        poll_fn(|cx| tap.poll_ahead(cx)).await;
        is_free.store(true, Relaxed);
        writing.join().unwrap();
        let arrivals = tap.state().newest.number;
        assert!(arrivals <= 3, "{arrivals} arrivals");
    }
}
