//! A TCP connection as hyper sees it, with TLS or without.
//!
//! Main type: [`Wire`]. All that it reads and writes passes through its [`Tap`], which knows when the bytes
//! left and arrived. Refuses to know: HTTP, stamps.

use super::stamped::Tap;
use super::tls::{Secure, Tls};
use crate::SessionClock;
use crate::threads::gauges::Gauges;
use hyper::rt::ReadBufCursor;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

#[derive(Clone, Debug)]
pub struct Wire {
    pub tap: Arc<Tap>,
    tls: Option<Arc<Secure>>,
}

impl Wire {
    /// Connects without Nagle's delay; how late this process reads is counted in `gauges`.
    pub async fn connect(
        address: SocketAddr,
        tls: Option<&Tls>,
        clock: &SessionClock,
        gauges: &Arc<Gauges>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let tap = Arc::new(Tap::new(stream, clock, gauges));
        let tls = match tls {
            None => None,
            Some(tls) => Some(Arc::new(Secure::handshake(tls, &tap).await?)),
        };
        Ok(Self { tap, tls })
    }

    /// True if the connection can carry another request.
    pub fn is_quiet(&self) -> bool {
        match &self.tls {
            None => self.tap.is_quiet(),
            Some(tls) => tls.is_quiet(&self.tap),
        }
    }

    /// True if events can be read without hyper: under TLS they cannot.
    pub fn can_read_ahead(&self) -> bool {
        self.tls.is_none() && self.tap.can_read_ahead()
    }

    /// A number that grows as an answer comes.
    pub fn received(&self) -> u64 {
        match &self.tls {
            None => self.tap.last().number,
            Some(tls) => tls.parts(),
        }
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &self.tls {
            None => self.tap.poll_read(cx, into),
            Some(tls) => tls.poll_read(&self.tap, cx, into),
        }
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &self.tls {
            None => self.tap.poll_write(cx, bytes),
            Some(tls) => tls.poll_write(&self.tap, cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &self.tls {
            ready!(tls.poll_flush(&self.tap, cx))?;
        }
        self.tap.note_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &self.tls {
            ready!(tls.poll_close(&self.tap, cx))?;
        }
        Poll::Ready(self.tap.end_writing())
    }
}
