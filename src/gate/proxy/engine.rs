//! The engine behind the proxy, where the proxy starts it: a child in the proxy's own process group, so that
//! whoever ends the group ends both.
//!
//! Main type: [`Engine`]. Refuses to know: HTTP, and what the engine serves.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Stands for the engine's port in its command.
const PORT: &str = "{engine_port}";

/// How often the engine's port is tried.
const POLL: Duration = Duration::from_millis(1);

/// The signal that ends the proxy mostly reaches the engine too; after this it is sent one of its own.
const ALONE: Duration = Duration::from_secs(1);

/// How long it may take to end after that.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the engine's command never says {PORT}: the proxy picks a port for it")]
    NoPort,
    #[error("no free port on 127.0.0.1")]
    Port(#[source] io::Error),
    #[error("cannot start `{command}`")]
    Spawn { command: String, source: io::Error },
    #[error("the engine behind the proxy ended ({0}); its output is above")]
    Ended(String),
}

/// A running engine; dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    address: SocketAddr,
}

impl Engine {
    /// Starts `command` with a free port in the place of `{engine_port}`.
    pub fn start(command: &[String]) -> Result<Self, EngineError> {
        if !command.iter().any(|word| word.contains(PORT)) {
            return Err(EngineError::NoPort);
        }
        let address = free_address().map_err(EngineError::Port)?;
        let port = address.port().to_string();
        let words: Vec<String> = command
            .iter()
            .map(|word| word.replace(PORT, &port))
            .collect();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| EngineError::Spawn {
                command: words.join(" "),
                source,
            })?;
        Ok(Self { child, address })
    }

    /// Waits until its port is open, as long as it lives.
    pub async fn listening(&mut self) -> Result<SocketAddr, EngineError> {
        while TcpStream::connect(self.address).await.is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ended(Ok(status)));
            }
            sleep(POLL).await;
        }
        Ok(self.address)
    }

    /// Waits for an end that nobody asked for.
    pub async fn ended(&mut self) -> EngineError {
        ended(self.child.wait().await)
    }

    /// Lets it end, asks it to, and at last ends it.
    pub async fn stop(mut self) {
        if timeout(ALONE, self.child.wait()).await.is_ok() {
            return;
        }
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if timeout(GRACE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn ended(status: io::Result<ExitStatus>) -> EngineError {
    EngineError::Ended(status.map_or_else(|error| error.to_string(), |status| status.to_string()))
}

/// A port that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
