//! The engine over HTTP: OpenAI's API with vLLM's and llama.cpp's additions.
//!
//! [`Door`] takes the port, [`serve`] answers on it until it is told to stop and every answer is out, or
//! the time for that is over.
//! A request passes `connections` → `routes` → `body` → `wire` (read strictly) → `generate` (to the engine) →
//! `choices` (events of all its choices) → `answer` (events to text) → `chunks` (text to JSON) → `stream` (to
//! the socket).
//!
//! Refuses to know: the command line, signals, how a model is loaded, and that it is being measured.

mod admission;
mod answer;
mod app;
mod body;
mod choices;
mod chunks;
pub mod client_limits;
mod connections;
mod exposition;
pub mod flush_each;
mod generate;
mod metrics;
mod parts;
pub mod retry_after;
mod routes;
mod seeds;
pub mod stop_buffer;
mod stream;
mod tokenize;
mod wire;

pub use client_limits::Limits;

use crate::Engine;
use admission::Admission;
use app::App;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// After the last answer, how long connections may take to be closed: one that holds half a request must
/// not hold the process.
const GOODBYE: Duration = Duration::from_secs(5);

/// The port cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another --port, or 0 for a free one")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Serving ended otherwise than it should.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A client that does not read, an engine that hangs, or more work than the time allowed.
    #[error("running answers were cut off after {} s: {under_way} had not ended", after.as_secs())]
    Drain { under_way: usize, after: Duration },
}

/// A port that is taken but does not accept yet, so that a port in use is known before a model is loaded,
/// and an open port means a model that is. A port counts as in use once its server listens: of two that start at the
/// same time, the later one is refused when it would listen.
#[derive(Debug)]
pub struct Door {
    socket: TcpSocket,
    address: SocketAddr,
}

impl Door {
    /// Port 0 takes a free one.
    pub fn take(address: SocketAddr) -> Result<Self, BindError> {
        let bind = || {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let address = socket.local_addr()?;
            Ok(Self { socket, address })
        };
        bind().map_err(|source| BindError { address, source })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Answers on the port until `stop` comes; then refuses new work, lets running answers end within `drain`,
/// and returns.
///
/// `listening` is told how long it took until connections are accepted. Must be called within a tokio
/// runtime.
pub async fn serve(
    door: Door,
    engine: Arc<Engine>,
    limits: Limits,
    listening: impl FnOnce(SocketAddr, Duration),
    stop: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
) -> Result<(), ServeError> {
    let address = door.address;
    let start = std::time::Instant::now();
    let failed = |source| BindError { address, source };
    let listener = door.socket.listen(BACKLOG).map_err(failed)?;
    let elapsed = start.elapsed();
    let app = Arc::new(App::new(engine, limits, elapsed));
    listening(address, elapsed);
    let admission = Arc::clone(&app.admission);
    let emptied = async move {
        stop.await;
        admission.close();
        admission.emptied().await;
    };
    let router = routes::router(Arc::clone(&app));
    let ended = tokio::select! {
        () = connections::serve(listener, router, limits, emptied) => Ok(()),
        late = late(&app.admission, drain) => late,
    };
    app.engine.shutdown();
    ended
}

/// Waits for the end of the time that running answers have after the door is closed, or, where they all
/// ended, that their connections have.
async fn late(admission: &Admission, drain: Duration) -> Result<(), ServeError> {
    admission.closed().await;
    if tokio::time::timeout(drain, admission.emptied())
        .await
        .is_err()
    {
        return Err(ServeError::Drain {
            under_way: admission.under_way(),
            after: drain,
        });
    }
    tokio::time::sleep(GOODBYE).await;
    Ok(())
}
