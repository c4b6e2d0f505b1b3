//! One thread of the server: it sleeps until the next deadline or the next byte.
//!
//! Main type: [`Shard`]. Deadlines are absolute moments on a timer of the kernel; all that are due are
//! served before it is set again. Refuses to know: HTTP, answers.

use super::Timing;
use super::clock::{Real, now_ns};
use super::connection::{Connection, Next};
use super::record::Log;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Deadlines served between two looks at the sockets.
const BATCH: usize = 128;

#[derive(Debug)]
pub(super) struct Shard {
    epoll: Epoll,
    timer: TimerFd,
    /// What the timer is set to.
    set_ns: u64,
    listener: TcpListener,
    /// By number; a number is never used twice, so a deadline cannot meet another connection.
    connections: Vec<Option<Connection>>,
    deadlines: BinaryHeap<Reverse<(u64, usize)>>,
    real: Real,
    timing: Timing,
    log: Arc<Log>,
}

impl Shard {
    pub(super) fn new(listener: TcpListener, timing: Timing, log: Arc<Log>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // One shard wakes up for a connection, not all.
        let exclusive = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        epoll.add(&listener, EpollEvent::new(exclusive, LISTENER))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Self {
            epoll,
            timer,
            set_ns: 0,
            listener,
            connections: Vec::new(),
            deadlines: BinaryHeap::new(),
            real: Real::new(),
            timing,
            log,
        })
    }

    /// Serves until the process ends or the system refuses to go on.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 256];
        loop {
            let patience = self.patience()?;
            let count = match self.epoll.wait(&mut events, patience) {
                Err(nix::errno::Errno::EINTR) => 0,
                waited => waited?,
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept()?,
                    // Its count of expirations says nothing: the deadlines do.
                    TIMER => drop(self.timer.wait()),
                    number => self.read(number as usize),
                }
            }
            self.fire();
        }
    }

    /// Nothing to wait for if a deadline has passed; otherwise the timer is set to the next one.
    fn patience(&mut self) -> io::Result<EpollTimeout> {
        let Some(&Reverse((due, _))) = self.deadlines.peek() else {
            return Ok(EpollTimeout::NONE);
        };
        if due <= now_ns() {
            return Ok(EpollTimeout::ZERO);
        }
        if due != self.set_ns {
            let moment = TimeSpec::from(Duration::from_nanos(due));
            self.timer.set(
                Expiration::OneShot(moment),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )?;
            self.set_ns = due;
        }
        Ok(EpollTimeout::NONE)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let connection = Connection::new(stream)?;
            let number = self.connections.len();
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            self.epoll.add(connection.fd(), event)?;
            self.connections.push(Some(connection));
        }
    }

    fn read(&mut self, number: usize) {
        if let Some(connection) = &mut self.connections[number] {
            let next = connection.read(&mut self.real, self.timing, &self.log);
            self.follow(number, next);
        }
    }

    fn fire(&mut self) {
        for _ in 0..BATCH {
            match self.deadlines.peek() {
                Some(&Reverse((due, number))) if due <= now_ns() => {
                    self.deadlines.pop();
                    if let Some(connection) = &mut self.connections[number] {
                        let next = connection.play(self.timing, &self.log);
                        self.follow(number, next);
                    }
                }
                _ => return,
            }
        }
    }

    fn follow(&mut self, number: usize, next: Next) {
        match next {
            Next::At(due) => self.deadlines.push(Reverse((due, number))),
            Next::Read => {}
            // Closing takes it out of epoll too.
            Next::Close => self.connections[number] = None,
        }
    }
}
