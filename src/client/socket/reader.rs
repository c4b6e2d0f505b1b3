//! One read from a socket: where it ends, and where its bytes and its stamp are put.
//!
//! Main types: [`Reader`]; [`Together`], whose reads arrived at once. Refuses to know: who waits, what events say.

use super::records::Records;
use super::stamps;
use crate::response::sse;
use nix::sys::socket::{MsgFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Duration;

/// Bytes taken by one read at the most.
pub const READ_SIZE: usize = 16 * 1024;

/// Bytes among which a read looks for its event's end. A longer event takes several reads.
const WINDOW: usize = 4 * 1024;

/// Reads into one buffer at the most.
const MOST_NOTED: usize = 256;

#[derive(Debug)]
pub struct Reader {
    pub buffer: Box<[u8]>,
    control: Vec<u8>,
    /// Reads whose bytes are in the buffer, one after another.
    pub noted: Vec<Noted>,
    /// Set for TLS, which hides events: each read ends at a record instead.
    pub records: Option<Records>,
    /// The stamp of the latest look that saw bytes which no read has taken yet.
    seen: Option<Duration>,
}

/// What one read took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub count: usize,
    /// The kernel's stamp.
    pub real: Option<Duration>,
    /// Bytes behind it that were seen to wait.
    pub left: usize,
    /// None were.
    pub emptied: bool,
    /// The stamp is later than all that waited when the bytes were seen: the kernel has joined a later segment to theirs
    /// meanwhile.
    pub joined: bool,
    /// The same of bytes that waited together with those of the read before: before that, the kernel may have joined
    /// them to those.
    pub joined_before: bool,
}

/// What arrived together: the bytes of one stamp, or, where no stamp tells, all that waited when the first of them was
/// read.
#[derive(Debug, Default)]
pub struct Together {
    real: Option<Duration>,
    left: usize,
    /// The kernel joined the next bytes to those that were read last.
    joined: bool,
}

/// One of several reads into one buffer.
#[derive(Debug)]
pub struct Noted {
    /// Where its bytes begin in the buffer.
    pub from: usize,
    pub taken: Taken,
    /// Right after it.
    pub now_ns: u64,
}

impl Together {
    /// Whether this read's bytes arrived with those of the reads before; else they are the first of others.
    pub fn holds(&mut self, taken: Taken) -> bool {
        let holds = match taken.real {
            Some(real) => self.real == Some(real) || self.joined || taken.joined_before,
            None => taken.count <= self.left,
        };
        self.real = taken.real;
        self.joined = taken.joined;
        self.left = match (holds, taken.real) {
            (true, None) => self.left - taken.count,
            _ => taken.left,
        };
        holds
    }
}

impl Reader {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; READ_SIZE].into_boxed_slice(),
            control: stamps::control_buffer(),
            noted: Vec::with_capacity(MOST_NOTED),
            records: None,
            seen: None,
        }
    }

    /// Whether a further read may follow `used` bytes.
    pub fn has_room(&self, used: usize) -> bool {
        used + WINDOW <= READ_SIZE && self.noted.len() < MOST_NOTED
    }

    /// Looks at what waits, once, and reads each of its events by itself, behind `used` bytes of the buffer: every one
    /// has its own segment's stamp then, however late this process is. Notes every read, with `now_ns` right after it,
    /// and gives what they took together; nothing at the connection's end.
    pub fn read_events(
        &mut self,
        fd: RawFd,
        used: usize,
        now_ns: impl Fn() -> u64,
    ) -> io::Result<Taken> {
        let look = self.look(fd, used..READ_SIZE)?;
        let (mut at, mut last) = (used, Taken::default());
        while at < look.end && self.noted.len() < MOST_NOTED {
            last = match self.read_first(fd, at, &look) {
                Ok(taken) => taken,
                // The next read finds it again, or the connection's end.
                Err(_later) if at > used => break,
                Err(error) => return Err(error),
            };
            self.note(at, last, now_ns());
            at += last.count;
        }
        Ok(Taken {
            count: at - used,
            ..last
        })
    }

    /// Reads all that waits, as one, behind `used` bytes of the buffer, and notes it.
    pub fn read_all(
        &mut self,
        fd: RawFd,
        used: usize,
        now_ns: impl Fn() -> u64,
    ) -> io::Result<Taken> {
        let taken = self.read(fd, used..READ_SIZE)?;
        if taken.count > 0 {
            self.note(used, taken, now_ns());
        }
        Ok(taken)
    }

    fn note(&mut self, from: usize, taken: Taken, now_ns: u64) {
        self.noted.push(Noted {
            from,
            taken,
            now_ns,
        });
    }

    /// Reads the first of the events that wait into this part of the buffer.
    pub fn read_event(&mut self, fd: RawFd, part: Range<usize>) -> io::Result<Taken> {
        let look = self.look(fd, part.clone())?;
        if look.end == part.start {
            return Ok(Taken::default());
        }
        self.read_first(fd, part.start, &look)
    }

    /// Copies what waits to this part of the buffer, and leaves it where it is.
    fn look(&mut self, fd: RawFd, part: Range<usize>) -> io::Result<Look> {
        let start = part.start;
        let part = start..part.end.min(start + WINDOW);
        let most = part.len();
        let (waiting, real) = self.receive(fd, part, MsgFlags::MSG_PEEK)?;
        Ok(Look {
            end: start + waiting,
            is_full: waiting == most,
            real,
        })
    }

    /// Reads the first event of those that the look saw from `at` on.
    fn read_first(&mut self, fd: RawFd, at: usize, look: &Look) -> io::Result<Taken> {
        let waiting = &self.buffer[at..look.end];
        let event = match self.records {
            None => sse::first_event(waiting),
            Some(mut records) => records.push(waiting),
        };
        let before = self.seen.take();
        let taken = self.read(fd, at..at + event)?;
        if let Some(records) = &mut self.records {
            records.push(&self.buffer[at..][..taken.count]);
        }
        let left = look.end - at - taken.count;
        if left > 0 || look.is_full {
            self.seen = look.real;
        }
        Ok(Taken {
            left,
            emptied: left == 0 && !look.is_full,
            // A stamp is later than none: bytes that had none are joined to others that have one.
            joined: taken.real > look.real,
            joined_before: before.is_some() && taken.real > before,
            ..taken
        })
    }

    /// Reads what waits into this part of the buffer, under the last segment's stamp.
    fn read(&mut self, fd: RawFd, part: Range<usize>) -> io::Result<Taken> {
        self.seen = None;
        let most = part.len();
        let (count, real) = self.receive(fd, part, MsgFlags::empty())?;
        let emptied = count < most;
        Ok(Taken {
            count,
            real,
            left: 0,
            emptied,
            // The rest of the last event may wait, and be joined to others before it is read.
            joined: !emptied,
            joined_before: false,
        })
    }

    /// Calls `recvmsg` for this part of the buffer: the bytes received, and the stamp of the last segment among them.
    fn receive(
        &mut self,
        fd: RawFd,
        part: Range<usize>,
        flags: MsgFlags,
    ) -> io::Result<(usize, Option<Duration>)> {
        let mut parts = [IoSliceMut::new(&mut self.buffer[part])];
        let control = Some(self.control.as_mut_slice());
        let message = recvmsg::<()>(fd, &mut parts, control, flags)?;
        Ok((message.bytes, stamps::of(&message)))
    }
}

/// Bytes that waited at one moment and are still unread.
struct Look {
    /// Where its bytes end in the buffer.
    end: usize,
    /// More may wait behind them.
    is_full: bool,
    /// The kernel's stamp of the last of them.
    real: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::{READ_SIZE, Reader, Taken, Together};
    use crate::socket::stamps;
    use crate::socket::test_socket::{connected, stamped};
    use nix::sys::socket::{MsgFlags, recv};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::time::Duration;
    use tokio::net::TcpStream;

    const ROUNDS: usize = 64;

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    }

    /// What each of so many reads took, once so many bytes are there.
    async fn reads<const N: usize>(
        stream: &TcpStream,
        reader: &mut Reader,
        bytes: usize,
    ) -> [Taken; N] {
        let fd = stream.as_raw_fd();
        until(|| recv(fd, &mut [0; 64], MsgFlags::MSG_PEEK).is_ok_and(|waiting| waiting == bytes))
            .await;
        [(); N].map(|()| reader.read_event(fd, 0..READ_SIZE).unwrap())
    }

    /// Between the look and the read of the first event the second one's segment was joined to its own; before the second
    /// was read, a third one's was joined to that.
    #[test]
    fn an_event_with_a_later_ones_stamp_counts_as_arrived_with_the_next() {
        let taken = |ms, joined| Taken {
            count: 9,
            real: Some(Duration::from_millis(ms)),
            joined,
            ..Taken::default()
        };
        let mut together = Together::default();
        let reads = [
            taken(2, true),
            taken(3, true),
            taken(3, false),
            taken(4, false),
        ];
        let holds = reads.map(|taken| together.holds(taken));
        assert_eq!(holds, [false, true, true, false]);
    }

    /// The first two were joined before the look; before the second was read, a third one's segment was joined to it.
    #[test]
    fn an_event_that_was_joined_on_both_sides_is_one_with_both() {
        let taken = |ms, later| Taken {
            count: 9,
            real: Some(Duration::from_millis(ms)),
            joined: later,
            joined_before: later,
            ..Taken::default()
        };
        let mut together = Together::default();
        let reads = [taken(2, false), taken(3, true), taken(3, false)];
        let holds = reads.map(|taken| together.holds(taken));
        assert_eq!(holds, [false, true, true]);
    }

    /// The kernel joins segments in its queue now and then, those that were acknowledged at once: then they have one
    /// stamp, and are told as one.
    #[tokio::test]
    async fn events_that_wait_together_have_each_its_own_segments_stamp() {
        let (stream, mut peer) = stamped().await;
        let mut reader = Reader::new();
        let (mut together, mut with_stamp, mut apart) = (Together::default(), 0, 0);
        for _ in 0..ROUNDS {
            peer.write_all(b"9\r\ndata: a\n\n\r\n").unwrap();
            peer.write_all(b"9\r\ndata: b\n\n\r\n").unwrap();
            let [one, other] = reads(&stream, &mut reader, 28).await;
            assert_eq!((one.count, one.left, one.emptied), (14, 14, false));
            assert_eq!((other.count, other.left, other.emptied), (14, 0, true));
            with_stamp += usize::from(one.real.is_some());
            together.holds(one);
            apart += usize::from(!together.holds(other));
        }
        if with_stamp == 0 {
            return crate::skip::skip("this kernel stamps nothing");
        }
        assert!(2 * apart > ROUNDS, "{apart} of {ROUNDS}");
    }

    /// An event that was seen alone can be joined to a later one before it is read. It has the later one's stamp then, and
    /// the reader knows, whatever time has passed since the look.
    #[tokio::test]
    async fn an_event_that_is_joined_behind_the_look_is_known_for_it() {
        // On some connections the kernel joins no segments, on most those whose first was acknowledged.
        for _ in 0..ROUNDS {
            match joins_behind_the_look().await {
                Some(true) => return,
                Some(false) => {}
                None => break,
            }
        }
        crate::skip::skip("this kernel joins no segments, or stamps none");
    }

    /// True once an event of this connection was joined; `None` if the kernel stamps none.
    async fn joins_behind_the_look() -> Option<bool> {
        let (stream, mut peer) = stamped().await;
        let fd = stream.as_raw_fd();
        let mut reader = Reader::new();
        let waits = |bytes| {
            move || recv(fd, &mut [0; 64], MsgFlags::MSG_PEEK).is_ok_and(|waiting| waiting == bytes)
        };
        for _ in 0..ROUNDS {
            stream.set_quickack(true).unwrap();
            peer.write_all(b"data: a\n\n").unwrap();
            until(waits(9)).await;
            let look = reader.look(fd, 0..READ_SIZE).unwrap();
            look.real?;
            peer.write_all(b": b\n\n").unwrap();
            until(waits(14)).await;
            let one = reader.read_first(fd, 0, &look).unwrap();
            assert_eq!(one.count, 9);
            assert_eq!(one.joined, one.real != look.real);
            let other = reader.read_event(fd, 0..READ_SIZE).unwrap();
            assert_eq!(other.count, 5);
            assert_eq!(one.joined, one.real == other.real && one.real.is_some());
            if one.joined {
                return Some(true);
            }
        }
        Some(false)
    }

    #[tokio::test]
    async fn events_of_one_segment_are_one() {
        let (stream, mut peer) = connected().await;
        stamps::ask(&stream);
        let (mut reader, mut together) = (Reader::new(), Together::default());
        for _ in 0..ROUNDS {
            peer.write_all(b"data: a\n\ndata: b\r\n\r\nrest").unwrap();
            let all: [Taken; 3] = reads(&stream, &mut reader, 24).await;
            assert_eq!(all.map(|taken| taken.count), [9, 11, 4]);
            assert_eq!(all.map(|taken| together.holds(taken)), [false, true, true]);
        }
    }

    #[test]
    fn a_stamp_holds_bytes_together() {
        let mut together = Together::default();
        let mut holds = |real: u64, left| {
            together.holds(Taken {
                count: 1,
                real: Some(Duration::from_nanos(real)),
                left,
                emptied: left == 0,
                ..Taken::default()
            })
        };
        let reads = [(5, 0), (5, 9), (6, 8), (6, 7), (7, 0)];
        let held = reads.map(|(real, left)| holds(real, left));
        assert_eq!(held, [false, true, false, true, false]);
    }

    /// Of ten bytes four are read while six wait; what comes meanwhile is not of them, however much it is.
    #[test]
    fn without_stamps_what_waited_at_the_first_read_came_together() {
        let mut together = Together::default();
        let mut holds = |count, left| {
            together.holds(Taken {
                count,
                left,
                ..Taken::default()
            })
        };
        let reads = [(4, 6), (3, 9), (3, 20), (3, 17), (17, 0), (3, 0)];
        let held = reads.map(|(count, left)| holds(count, left));
        assert_eq!(held, [false, true, true, false, true, false]);
    }

    #[tokio::test]
    async fn one_look_serves_all_events_that_wait() {
        let (stream, mut peer) = connected().await;
        stamps::ask(&stream);
        let mut reader = Reader::new();
        peer.write_all(b"data: a\n\ndata: b\n\nrest").unwrap();
        while !recv(stream.as_raw_fd(), &mut [0; 64], MsgFlags::MSG_PEEK).is_ok_and(|n| n == 22) {
            tokio::task::yield_now().await;
        }
        let taken = reader.read_events(stream.as_raw_fd(), 5, || 7).unwrap();
        assert_eq!((taken.count, taken.left, taken.emptied), (22, 0, true));
        assert_eq!(&reader.buffer[5..27], b"data: a\n\ndata: b\n\nrest");
        let noted = reader.noted.iter();
        let noted: Vec<_> = noted
            .map(|noted| {
                (
                    noted.from,
                    noted.taken.count,
                    noted.taken.left,
                    noted.now_ns,
                )
            })
            .collect();
        assert_eq!(noted, [(5, 9, 13, 7), (14, 9, 4, 7), (23, 4, 0, 7)]);
        reader.noted.clear();
        peer.write_all(b"data: a\n\ndata: b\n\n").unwrap();
        while !recv(stream.as_raw_fd(), &mut [0; 64], MsgFlags::MSG_PEEK).is_ok_and(|n| n == 18) {
            tokio::task::yield_now().await;
        }
        let taken = reader.read_all(stream.as_raw_fd(), 0, || 8).unwrap();
        assert_eq!(
            (taken.count, taken.emptied, taken.joined),
            (18, true, false)
        );
        assert_eq!(reader.noted.len(), 1);
    }

    #[tokio::test]
    async fn the_end_is_nothing_and_no_failure() {
        let (stream, peer) = connected().await;
        drop(peer);
        stream.readable().await.unwrap();
        let read = Reader::new().read_event(stream.as_raw_fd(), 0..READ_SIZE);
        assert_eq!(read.unwrap(), Taken::default());
    }
}
