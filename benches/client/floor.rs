//! What any client must pay: a thread that only waits for a token and reads it, stamp included.
//!
//! Main function: [`measure`]. Refuses to know: HTTP beyond a request's bytes.

use crate::Outcome;
use fixture::truth::clock::thread_cpu_ns;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt};
use std::io::{self, IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use tokio::io::Interest;

/// Tokens that are waited for at one stream.
const TOKENS: u32 = 500;

/// CPU s per 10⁶ tokens at one stream.
pub(crate) struct Floor {
    /// A blocking `recvmsg` a token.
    pub(crate) blocking: f64,
    /// An `epoll_wait` and a `recvmsg` a token.
    pub(crate) polled: f64,
    /// The same two by a tokio task of a runtime of one thread.
    pub(crate) task: f64,
}

pub(crate) fn measure(server: SocketAddr) -> Outcome<Floor> {
    Ok(Floor {
        blocking: blocking(asked(server, TOKENS)?)?,
        polled: polled(server, 1, TOKENS)?,
        task: task(asked(server, TOKENS)?)?,
    })
}

/// A connection over which so many tokens are to come.
fn asked(server: SocketAddr, tokens: u32) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(server)?;
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    setsockopt(&stream, sockopt::Timestamping, &flags)?;
    let body = format!(r#"{{"model":"none","prompt":"a","stream":true,"max_tokens":{tokens}}}"#);
    let length = body.len();
    write!(
        stream,
        "POST /v1/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    Ok(stream)
}

fn blocking(stream: TcpStream) -> Outcome<f64> {
    let mut reader = Reader::new();
    let start = thread_cpu_ns();
    while reader.read(stream.as_raw_fd())? {}
    Ok(reader.per_million(start))
}

/// CPU s per 10⁶ tokens of one thread that waits for `streams` answers of so many tokens at once: an `epoll_wait` for
/// those that are ready together, and a `recvmsg` each.
pub(crate) fn polled(server: SocketAddr, streams: u32, tokens: u32) -> Outcome<f64> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let edges = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
    let mut asked_for = Vec::new();
    for place in 0..u64::from(streams) {
        let stream = asked(server, tokens)?;
        epoll.add(&stream, EpollEvent::new(edges, place))?;
        asked_for.push(stream);
    }
    let mut events = [EpollEvent::empty(); 1024];
    let mut reader = Reader::new();
    let start = thread_cpu_ns();
    let mut open = streams;
    while open > 0 {
        let ready = match epoll.wait(&mut events, EpollTimeout::NONE) {
            // This process was stopped and goes on.
            Err(Errno::EINTR) => continue,
            ready => ready?,
        };
        for event in &events[..ready] {
            let stream = &asked_for[usize::try_from(event.data())?];
            open -= u32::from(!reader.read(stream.as_raw_fd())?);
        }
    }
    let tokens = f64::from(streams) * f64::from(tokens);
    Ok((thread_cpu_ns() - start) as f64 / 1e9 / tokens * 1e6)
}

fn task(stream: TcpStream) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    stream.set_nonblocking(true)?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let mut reader = Reader::new();
        let start = thread_cpu_ns();
        loop {
            stream.readable().await?;
            if !reader.read(stream.as_raw_fd())? {
                return Ok(reader.per_million(start));
            }
            // Emptied: tokio is to wait for more.
            let emptied = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _told = stream.try_io(Interest::READABLE, emptied);
        }
    })
}

struct Reader {
    buffer: Vec<u8>,
    control: Vec<u8>,
    reads: u32,
}

impl Reader {
    fn new() -> Self {
        Self {
            buffer: vec![0; 16 * 1024],
            control: nix::cmsg_space!(Timestamps),
            reads: 0,
        }
    }

    /// One read; whether more is to come.
    fn read(&mut self, fd: RawFd) -> Outcome<bool> {
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let control = Some(self.control.as_mut_slice());
        let count = recvmsg::<()>(fd, &mut parts, control, MsgFlags::empty())?.bytes;
        if count == 0 {
            return Err("the server closed the connection".into());
        }
        self.reads += 1;
        Ok(!self.buffer[..count].ends_with(b"\r\n0\r\n\r\n"))
    }

    /// CPU time of this thread since `start_ns`, in s per 10⁶ reads.
    fn per_million(&self, start_ns: u64) -> f64 {
        (thread_cpu_ns() - start_ns) as f64 / 1e9 / f64::from(self.reads) * 1e6
    }
}
