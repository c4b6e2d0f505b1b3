//! A proxy that stands between a client and an engine and plants faults in what passes, so that a gate can be
//! seen to catch them on an engine that nobody can change.
//!
//! [`Door`] takes the port, [`serve`] passes requests on and answers back; without a [`Faults`] every body
//! passes to the byte, one write for each part that came. [`Engine`] is the process behind it, where the proxy
//! starts that too. A request passes `route` (to the engine) → `relay` (its answer's stream) → `script` (which
//! event leaves when, and as what) → `edit` (the JSON). A [`Recorder`] sees what passes, and changes nothing.
//!
//! Refuses to know: what is measured and judged, the command line, and what a fault proves.

mod body;
mod edit;
mod engine;
mod events;
mod fault;
mod gauge;
mod recorder;
mod relay;
mod route;
mod script;

pub use ::engine::fault_value::Delay;
pub use engine::{Engine, EngineError};
pub use fault::{Fault, FaultError, Faults, Stall};
pub use recorder::{RecordError, Recorder};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use route::{Lane, Shared};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// How long to wait after the system refused a connection for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// The proxy's port cannot be taken.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct DoorError {
    address: SocketAddr,
    source: io::Error,
}

/// A port that accepts connections.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    /// On the loopback address; port 0 takes a free one.
    pub async fn open(port: u16) -> Result<Self, DoorError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| DoorError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Passes everything between the door and `upstream`, with these faults, and lets the recorder see it. Never returns: dropping it ends it,
/// and the runtime's end its connections.
pub async fn serve(
    door: Door,
    upstream: SocketAddr,
    faults: Faults,
    recorder: Option<Arc<Recorder>>,
) {
    let shared = Arc::new(Shared::new(upstream, faults, recorder));
    loop {
        match door.listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&shared)));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// One client's connection, with one to the engine for it.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // A socket that refuses the option still works, only later.
    let _ = stream.set_nodelay(true);
    let lane = Lane::new(shared);
    let service = service_fn(|request| lane.answer(request));
    // A connection that breaks is its client's matter: the answer is dropped with it, and the engine's too.
    let _ = http1::Builder::new()
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
