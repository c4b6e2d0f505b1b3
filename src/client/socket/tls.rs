//! TLS over a stamped connection. Each read of the socket ends with a record, so that what a record holds has the stamp
//! of the segment that completed it; what one record or one segment holds arrived together, as without TLS.
//!
//! Main types: [`Tls`], by whom and as whom a server is trusted; [`Secure`], one connection's session. Refuses to know:
//! HTTP, stamps.

use super::stamped::Tap;
use hyper::rt::{ReadBuf, ReadBufCursor};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// Bytes of a read from the socket, and of the plaintext that is handed on at once: a record has no more (RFC 8446, 5.1).
const RECORD: usize = 16 * 1024;

/// How TLS is spoken to a server: its name, and the authorities of the system.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// For the server that its certificate calls `host`. Authorities are the system's, or those of the file that
    /// `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// What is no name of a host, and where no authority is known.
    pub fn new(host: &str) -> Result<Self, String> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|error| format!("`{host}` is no name that a certificate can have: {error}"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(authorities()?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

/// Those of the file that `SSL_CERT_FILE` names, else the system's.
fn authorities() -> Result<RootCertStore, String> {
    let file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let found = match &file {
        Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
        None => rustls_native_certs::load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    let (known, _unreadable) = roots.add_parsable_certificates(found.certs);
    if known > 0 {
        return Ok(roots);
    }
    let place = file.map_or_else(
        || "on this system".to_owned(),
        |file| format!("in {}, which SSL_CERT_FILE names", file.display()),
    );
    let causes: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    Err(format!(
        "no certificate of an authority was found {place} ({}); name a file of them in SSL_CERT_FILE, in PEM",
        causes.join("; ")
    ))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

/// A connection's session, shared by hyper's side and who times it.
#[derive(Debug)]
pub struct Secure {
    session: Mutex<Session>,
}

#[derive(Debug)]
struct Session {
    tls: ClientConnection,
    /// Ciphertext that the socket has not taken yet.
    unsent: Vec<u8>,
    /// The end of the stream, of which TLS was told.
    is_ended: bool,
    /// Times that plaintext was handed on.
    parts: u64,
    buffer: Box<[u8]>,
}

impl Secure {
    /// Shakes hands over a connection that carried nothing yet.
    pub async fn handshake(tls: &Tls, tap: &Tap) -> io::Result<Self> {
        tap.read_by_record();
        let client = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut session = Session {
            tls: client.map_err(io::Error::other)?,
            unsent: Vec::new(),
            is_ended: false,
            parts: 0,
            buffer: vec![0; RECORD].into_boxed_slice(),
        };
        poll_fn(|cx| session.poll_handshake(tap, cx)).await?;
        Ok(Self {
            session: Mutex::new(session),
        })
    }

    /// Times that plaintext came: of a connection that is closed by the rules, an alert comes and no plaintext.
    pub fn parts(&self) -> u64 {
        self.session().parts
    }

    /// Whether the peer has neither closed nor said anything unasked. What TLS itself says between requests, such as
    /// tickets, is taken in.
    pub fn is_quiet(&self, tap: &Tap) -> bool {
        let mut session = self.session();
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match session.tls.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() => {
                    return false;
                }
                Err(_) => return false,
                Ok(_) => {}
            }
            match session.poll_record(tap, &mut cx) {
                Poll::Pending => return true,
                Poll::Ready(Ok(())) if !session.is_ended => {}
                Poll::Ready(_) => return false,
            }
        }
    }

    pub fn poll_read(
        &self,
        tap: &Tap,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut session = self.session();
        let session = &mut *session;
        loop {
            let room = into.remaining().min(RECORD);
            match session.tls.reader().read(&mut session.buffer[..room]) {
                Ok(count) => {
                    session.parts += u64::from(count > 0);
                    into.put_slice(&session.buffer[..count]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(session.poll_record(tap, cx))?;
        }
    }

    pub fn poll_write(
        &self,
        tap: &Tap,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session();
        // No more than one write waits to be sent.
        ready!(session.poll_send(tap, cx))?;
        let count = session.tls.writer().write(bytes)?;
        match session.poll_send(tap, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    pub fn poll_flush(&self, tap: &Tap, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session().poll_send(tap, cx)
    }

    pub fn poll_close(&self, tap: &Tap, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session();
        session.tls.send_close_notify();
        session.poll_send(tap, cx)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn poll_handshake(&mut self, tap: &Tap, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_send(tap, cx))?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if self.is_ended {
                let cut = "the server closed the connection during the TLS handshake";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut)));
            }
            if let Err(error) = ready!(self.poll_record(tap, cx)) {
                // The server learns why, if it still listens.
                let _alert = self.poll_send(tap, cx);
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Reads up to the end of a record, once there is something to read, and decrypts it.
    fn poll_record(&mut self, tap: &Tap, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut read = ReadBuf::new(&mut self.buffer);
        ready!(tap.poll_read(cx, read.unfilled()))?;
        let mut bytes = read.filled();
        self.is_ended |= bytes.is_empty();
        loop {
            self.tls.read_tls(&mut bytes)?;
            self.tls.process_new_packets().map_err(refused)?;
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Sends what is encrypted.
    fn poll_send(&mut self, tap: &Tap, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.unsent)?;
        }
        while !self.unsent.is_empty() {
            let sent = ready!(tap.poll_write(cx, &self.unsent))?;
            self.unsent.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }
}

/// With the remedy, where the certificate is at fault.
fn refused(error: rustls::Error) -> io::Error {
    let remedy = match error {
        rustls::Error::InvalidCertificate(_) => {
            "; an authority of your own goes in a PEM file that SSL_CERT_FILE names"
        }
        _ => "",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}{remedy}"))
}
