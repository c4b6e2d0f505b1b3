//! A TCP connection as hyper sees it.
//!
//! Main type: [`Wire`]. All that it reads and writes passes through its [`Tap`], which knows when the bytes
//! left and arrived. Refuses to know: HTTP, stamps.

use super::SessionClock;
use super::gauges::Gauges;
use super::tap::Tap;
use hyper::rt::ReadBufCursor;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Wire {
    tap: Arc<Tap>,
}

impl Wire {
    /// Connects without Nagle's delay; how late this process reads is counted in `gauges`.
    pub async fn connect(
        address: SocketAddr,
        clock: &SessionClock,
        gauges: &Arc<Gauges>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            tap: Arc::new(Tap::new(stream, clock, gauges)),
        })
    }

    pub fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.tap)
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.tap.poll_read(cx, into)
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.tap.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tap.note_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.tap.end_writing())
    }
}
