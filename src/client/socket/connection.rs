//! HTTP/1.1 over a stamped connection: one request at a time, kept alive between them where the engine does. A request
//! is sent again, once, where the server closed a kept connection before it answered anything: a server may close one at
//! any moment (RFC 9112, 9.5).
//!
//! Main type: [`Client`], one a concurrent stream of requests. hyper's connection is driven inside the
//! task that waits for the answer. That keeps one part of the body between the two at the most, so
//! that the latest read's stamp is the stamp of the part just taken; and an event costs no hop between
//! tasks.
//!
//! Refuses to know: JSON, events, workloads.

use super::hyper_io::Wire;
use super::idle_timeout::IdleTimeout;
use super::tls::Tls;
use crate::response::exchange::{Ending, Exchange};
use crate::threads::gauges::Gauges;
use crate::{Endpoint, SessionClock};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Request, Response};
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

/// Longest head of an answer, and hyper's own buffer.
const MAX_HEAD: usize = 128 * 1024;

/// Most headers of an answer. Gateways send dozens.
const MAX_HEADERS: usize = 256;

/// Keeps sums of moments and limits far from overflow.
const LONGEST_SILENCE: Duration = Duration::from_secs(24 * 3_600);

/// What is sent: the route with its method and, for a POST, its JSON.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    pub path: String,
    pub body: Bytes,
    /// Longest answer to store.
    pub limit: usize,
    /// The connection is closed once the answer's body begins, and after this time at the latest.
    pub leaves: Option<Duration>,
}

/// A stream of requests to one endpoint over one connection at a time.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    tls: Option<Tls>,
    authority: String,
    path: String,
    headers: HeaderMap,
    silence: Duration,
    keep_alive: bool,
    clock: SessionClock,
    /// Of the thread that it lives on.
    gauges: Arc<Gauges>,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Driver,
    wire: Wire,
    /// Asked for and established; taken by the first request.
    opened_ns: Option<(u64, u64)>,
}

/// hyper's side of the connection; `None` once it has ended.
type Driver = Option<Pin<Box<http1::Connection<Wire, Full<Bytes>>>>>;

impl Client {
    /// No connection yet. `gauges`: of the thread that will poll it.
    pub fn new(endpoint: &Endpoint, clock: &SessionClock, gauges: &Arc<Gauges>) -> Self {
        Self {
            address: endpoint.address,
            tls: endpoint.tls.clone(),
            authority: endpoint.authority.clone(),
            path: endpoint.path.clone(),
            headers: endpoint.headers.clone(),
            silence: endpoint.request_timeout.min(LONGEST_SILENCE),
            keep_alive: endpoint.keep_alive,
            clock: clock.clone(),
            gauges: Arc::clone(gauges),
            connection: None,
        }
    }

    /// Opens a connection ahead of the next request. Where that fails the request itself will say why.
    pub async fn prepare(&mut self) {
        self.connection = self.connected().await.ok();
    }

    /// Sends one request and stores what comes back, whatever that is.
    pub async fn exchange(&mut self, ask: &Ask) -> Exchange {
        let asked_ns = self.clock.now_ns();
        let connection = match self.connected().await {
            Ok(connection) => connection,
            Err(ending) => return Exchange::failed(asked_ns, ending),
        };
        let is_kept = connection.opened_ns.is_none();
        let (exchange, is_silent) = self.over(connection, ask).await;
        if !is_kept || !is_silent || !matches!(exchange.ending, Ending::Cut(_)) {
            return exchange;
        }
        self.gauges.note_resent();
        let again = match self.open().await {
            Ok(connection) => self.over(connection, ask).await.0,
            Err(ending) => Exchange::failed(asked_ns, ending),
        };
        // What the first attempt took counts; its connection was there.
        Exchange {
            send_ns: exchange.send_ns,
            connect_ns: None,
            ..again
        }
    }

    /// One request over this connection, and whether nothing came back.
    async fn over(&mut self, mut connection: Connection, ask: &Ask) -> (Exchange, bool) {
        let opened_ns = connection.opened_ns.take();
        let before = connection.wire.received();
        let mut exchange = Exchange::begin(opened_ns, self.clock.now_ns());
        let mut idle_timeout = IdleTimeout::new(self.silence);
        let carried = connection.carry(ask, self.request(ask), &mut exchange, &mut idle_timeout);
        let ended = match ask.leaves {
            None => carried.await,
            Some(time) => timeout(time, carried).await.unwrap_or(Err(Ending::Left)),
        };
        let is_silent = connection.wire.received() == before;
        match ended {
            Ok(()) => self.connection = Some(connection).filter(|_| self.keep_alive),
            Err(ending) => exchange.ending = ending,
        }
        (exchange, is_silent)
    }

    /// Takes the connection that is there, where it can carry another request; else opens one.
    async fn connected(&mut self) -> Result<Connection, Ending> {
        match self.connection.take().filter(Connection::is_reusable) {
            Some(connection) => Ok(connection),
            None => self.open().await,
        }
    }

    async fn open(&self) -> Result<Connection, Ending> {
        let opening = Connection::open(self.address, self.tls.as_ref(), &self.clock, &self.gauges);
        match timeout(self.silence, opening).await {
            Ok(opened) => opened,
            Err(_elapsed) => Err(Ending::Silent(format!(
                "no connection within {:?}",
                self.silence
            ))),
        }
    }

    fn request(&self, ask: &Ask) -> Result<Request<Full<Bytes>>, Ending> {
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(format!("{}{}", self.path, ask.path))
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(ask.body.clone()))
            .map_err(|error| Ending::Garbled(format!("the request cannot be made: {error}")))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }
}

impl Connection {
    async fn open(
        address: SocketAddr,
        tls: Option<&Tls>,
        clock: &SessionClock,
        gauges: &Arc<Gauges>,
    ) -> Result<Self, Ending> {
        let asked_ns = clock.now_ns();
        let wire = Wire::connect(address, tls, clock, gauges)
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused => Ending::Refused(error.to_string()),
                _ => Ending::Cut(format!("no connection: {error}")),
            })?;
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .handshake(wire.clone())
            .await
            .map_err(|error| ending_of(&error))?;
        Ok(Self {
            sender,
            driver: Some(Box::pin(driver)),
            wire,
            opened_ns: Some((asked_ns, clock.now_ns())),
        })
    }

    fn is_reusable(&self) -> bool {
        self.driver.is_some() && !self.sender.is_closed() && self.wire.is_quiet()
    }

    async fn carry(
        &mut self,
        ask: &Ask,
        request: Result<Request<Full<Bytes>>, Ending>,
        exchange: &mut Exchange,
        idle_timeout: &mut IdleTimeout,
    ) -> Result<(), Ending> {
        let answer = self.head(request?, exchange, idle_timeout).await?;
        let until_close = ![CONTENT_LENGTH, TRANSFER_ENCODING]
            .iter()
            .any(|name| answer.headers().contains_key(name));
        self.body(answer.into_body(), ask, exchange, idle_timeout)
            .await?;
        exchange.end_ns = Some(if until_close {
            self.wire.tap.now_ns()
        } else {
            self.wire.tap.last().at_ns
        });
        Ok(())
    }

    /// Sends the request and waits for the answer's head. Its stamp is an upper bound: hyper may have read the
    /// body's first bytes with it, where one segment brought both.
    async fn head(
        &mut self,
        request: Request<Full<Bytes>>,
        exchange: &mut Exchange,
        idle_timeout: &mut IdleTimeout,
    ) -> Result<Response<Incoming>, Ending> {
        self.wire.tap.arm();
        let Self {
            sender,
            driver,
            wire: Wire { tap, .. },
            opened_ns: _,
        } = self;
        let sending = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let answer = idle_timeout.wait(drive(driver, sending)).await;
        exchange.send_ns = tap.sent_ns().unwrap_or(exchange.send_ns);
        let answer = answer?.map_err(|error| ending_of(&error))?;
        exchange.headers_ns = Some(tap.last().at_ns);
        exchange.status = Some(answer.status().as_u16());
        Ok(answer)
    }

    async fn body(
        &mut self,
        mut body: Incoming,
        ask: &Ask,
        exchange: &mut Exchange,
        idle_timeout: &mut IdleTimeout,
    ) -> Result<(), Ending> {
        let silent = match ask.leaves {
            Some(_) => None,
            None => self.read_ahead(idle_timeout).await.err(),
        };
        loop {
            let frame = drive(&mut self.driver, body.frame());
            let frame = match &silent {
                None => idle_timeout.wait(frame).await?,
                // What came before the silence counts.
                Some(ending) => at_once(frame).await.ok_or_else(|| ending.clone())?,
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| ending_of(&error))?;
            let Some(part) = frame.data_ref() else {
                continue;
            };
            if !exchange.store(part, self.wire.tap.last(), ask.limit) {
                return Err(Ending::Garbled(format!(
                    "an answer of more than {} bytes",
                    ask.limit
                )));
            }
            if exchange.is_done() {
                idle_timeout.expect_end();
            }
            if ask.leaves.is_some() && exchange.status == Some(200) {
                return Err(Ending::Left);
            }
        }
    }

    /// Takes events from the socket for as long as hyper can be left alone.
    async fn read_ahead(&self, idle_timeout: &mut IdleTimeout) -> Result<(), Ending> {
        while self.wire.can_read_ahead() {
            idle_timeout
                .wait(poll_fn(|cx| self.wire.tap.poll_ahead(cx)))
                .await?;
            if self.wire.tap.is_done() {
                idle_timeout.expect_end();
            }
        }
        Ok(())
    }
}

/// Drives hyper's side of the connection while `future` waits for something that comes over it.
async fn drive<F: Future>(driver: &mut Driver, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        if let Some(connection) = driver
            && connection.as_mut().poll(cx).is_ready()
        {
            // Its error, if any, reaches `future` too.
            *driver = None;
        }
        future.as_mut().poll(cx)
    })
    .await
}

/// What `future` gives without waiting, if anything.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

fn ending_of(error: &hyper::Error) -> Ending {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<io::Error>());
    let detail = match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let framing = cause.is_some_and(|cause| {
        matches!(
            cause.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
        )
    });
    if error.is_parse() || error.is_parse_too_large() || framing {
        Ending::Garbled(detail)
    } else {
        Ending::Cut(detail)
    }
}
