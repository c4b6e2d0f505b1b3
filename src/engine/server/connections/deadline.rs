//! A socket whose writes have a deadline, so that a client that never reads does not hold its place for ever.
//!
//! [`WriteDeadline`] fails once nothing could be written for so long while there was something to write; each
//! byte that the client takes starts the time anew. It fails too once the client has hung up, whoever reads.
//! Refuses to know: HTTP.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

pub struct WriteDeadline {
    socket: TcpStream,
    /// `None`: writes may take for ever.
    limit: Option<Duration>,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    is_stuck: Arc<AtomicBool>,
}

impl WriteDeadline {
    pub fn new(socket: TcpStream, limit: Option<Duration>) -> Self {
        Self {
            socket,
            limit,
            waiting: None,
            is_stuck: Arc::default(),
        }
    }

    /// True while a write waits for the client.
    pub fn is_stuck(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_stuck)
    }

    /// Writes by `write`, which is asked again each time that the socket or the time has got on.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(Pin::new(&mut self.socket), context);
        self.is_stuck.store(written.is_pending(), Relaxed);
        let (Poll::Pending, Some(limit)) = (&written, self.limit) else {
            self.waiting = None;
            return written;
        };
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// An error once the client has hung up; until then the task is woken when it does.
    fn check_hang_up(&self, context: &mut Context<'_>) -> io::Result<()> {
        let mut byte = [0];
        match self.socket.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
        }
    }
}

impl AsyncWrite for WriteDeadline {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |socket, context| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |socket, context| {
            socket.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// hyper flushes each time that it is woken. It looks for the end of what the client sends by itself, but not
    /// while it holds bytes that came behind the request, and these are there until the answer is out. Bytes that come
    /// later still are read by nobody and hide the end.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_hang_up(context)?;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl AsyncRead for WriteDeadline {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}
