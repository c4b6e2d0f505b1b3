//! One connection of the server: requests are read with the kernel's stamps, answers written as their
//! scripts say.
//!
//! Main type: [`Connection`]. Refuses to know: who calls it when.

use super::Timing;
use super::clock::{Real, now_ns};
use super::http::{Call, parse};
use super::record::{Log, Truth, Written};
use super::script::{Script, answer};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};
use std::io::{self, IoSliceMut, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// A socket that takes no more is tried again after this time.
const FULL: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Read, and not answered yet.
    received: Vec<u8>,
    last: Moment,
    playing: Option<Playing>,
}

/// When the latest bytes came, and when they were read.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    arrived_ns: u64,
    read_ns: u64,
}

/// An answer on its way.
#[derive(Debug)]
struct Playing {
    script: Script,
    step: usize,
    /// Bytes of the step that were sent already, and since when.
    sent: usize,
    begun_ns: Option<u64>,
    truth: Truth,
}

/// What a connection wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To be played at this moment.
    At(u64),
    /// To be read when more has come.
    Read,
    Close,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
        setsockopt(&stream, sockopt::Timestamping, &flags)?;
        Ok(Self {
            stream,
            received: Vec::new(),
            last: Moment::default(),
            playing: None,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Takes what has come; begins an answer where that was a whole request.
    pub(super) fn read(&mut self, real: &mut Real, timing: Timing, log: &Log) -> Next {
        loop {
            match self.receive(real) {
                Ok(0) => {
                    self.give_up(log);
                    return Next::Close;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_gone) => {
                    self.give_up(log);
                    return Next::Close;
                }
            }
        }
        if self.playing.is_some() {
            Next::Read
        } else {
            self.begin(timing, log)
        }
    }

    fn receive(&mut self, real: &mut Real) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let mut control = nix::cmsg_space!(Timestamps);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let fd = self.stream.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT)?;
        let read_ns = now_ns();
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => Some(Duration::from(stamps.system)),
            _ => None,
        });
        let stamp = stamp.filter(|stamp| !stamp.is_zero());
        let arrived_ns = stamp.map_or(read_ns, |stamp| {
            real.monotonic(stamp.as_nanos() as u64, read_ns)
        });
        let count = message.bytes;
        self.received.extend_from_slice(&buffer[..count]);
        self.last = Moment {
            arrived_ns,
            read_ns,
        };
        Ok(count)
    }

    /// Begins the answer to the next request, if all of it is there.
    fn begin(&mut self, timing: Timing, log: &Log) -> Next {
        let Some((call, length)) = parse(&self.received) else {
            return Next::Read;
        };
        self.received.drain(..length);
        let script = match call {
            Call::Complete(ask) => answer(&ask, log.number(), timing),
            Call::Truth => Script {
                close: true,
                ..Script::page("200 OK", "connection: close\r\n", &log.lines())
            },
            Call::Forget => {
                log.clear();
                Script {
                    close: true,
                    ..Script::page("200 OK", "connection: close\r\n", "{}")
                }
            }
            Call::Models => {
                let page = r#"{"object":"list","data":[{"id":"none","object":"model"}]}"#;
                Script::page("200 OK", "", page)
            }
            Call::Unknown => Script::page("404 Not Found", "", "{}"),
        };
        let Moment {
            arrived_ns,
            read_ns,
        } = self.last;
        let mut truth = Truth::new(arrived_ns, read_ns);
        truth.text.clone_from(&script.text);
        let playing = Playing {
            script,
            step: 0,
            sent: 0,
            begun_ns: None,
            truth,
        };
        let due = playing.due();
        self.playing = Some(playing);
        Next::At(due)
    }

    /// Writes what is due, each step in a write of its own.
    pub(super) fn play(&mut self, timing: Timing, log: &Log) -> Next {
        let Some(playing) = &mut self.playing else {
            return Next::Read;
        };
        loop {
            match playing.write(&mut self.stream) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Next::At(now_ns() + FULL);
                }
                Err(_gone) => {
                    self.give_up(log);
                    return Next::Close;
                }
            }
            if playing.step == playing.script.steps.len() {
                break;
            }
            let due = playing.due();
            if due > now_ns() {
                return Next::At(due);
            }
        }
        let close = playing.script.close;
        self.give_up(log);
        if close {
            Next::Close
        } else {
            self.begin(timing, log)
        }
    }

    /// The answer ends here, whether all of it was sent or not.
    fn give_up(&mut self, log: &Log) {
        let played = self.playing.take();
        if let Some(playing) = played.filter(|playing| !playing.truth.text.is_empty()) {
            log.add(playing.truth);
        }
    }
}

impl Playing {
    fn due(&self) -> u64 {
        let after = self.script.steps[self.step].due;
        self.truth.arrived_ns + after.as_nanos() as u64
    }

    /// Writes the rest of the step and notes when that was.
    fn write(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let step = &self.script.steps[self.step];
        let bytes = &self.script.bytes[step.bytes.clone()];
        let from_ns = *self.begun_ns.get_or_insert_with(now_ns);
        while self.sent < bytes.len() {
            self.sent += stream.write(&bytes[self.sent..])?;
        }
        let written = Written {
            from_ns,
            until_ns: now_ns(),
            tokens: step.tokens,
        };
        if step.tokens > 0 {
            self.truth.writes.push(written);
        }
        self.step += 1;
        if self.step == self.script.steps.len() {
            self.truth.end = Some(written);
        }
        self.sent = 0;
        self.begun_ns = None;
        Ok(())
    }
}
