//! `gate proxy`: stands between a client and an engine, and plants faults in what passes.

use super::runtime::{block_on, interrupted};
use super::{Exit, output};
use crate::proxy::{self, Door, Engine, Fault, Faults};
use clap::Args;
use std::net::SocketAddr;
use std::time::Instant;

#[derive(Args)]
// Clap leaves out the dashes before a command that is one of a group.
#[command(
    group = clap::ArgGroup::new("engine").required(true).args(["upstream", "command"]),
    override_usage = "gate proxy [OPTIONS] --port <PORT> <--upstream <IP:PORT>|-- <COMMAND>...>"
)]
pub(super) struct ProxyArgs {
    /// Port to listen on, on 127.0.0.1; 0 takes a free one and prints it
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// What goes wrong, as decode-delay=10%; may be repeated. Without it everything passes as it is
    #[arg(long = "fault", value_name = "NAME=VALUE")]
    faults: Vec<Fault>,
    /// A server that runs already, as 127.0.0.1:8000
    #[arg(long, value_name = "IP:PORT")]
    upstream: Option<SocketAddr>,
    /// Command that starts the engine, with {engine_port} where its port belongs; it ends with the proxy
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(args: ProxyArgs) -> anyhow::Result<Exit> {
    block_on(async {
        let mut engine = match args.upstream {
            None => Some(Engine::start(&args.command)?),
            Some(_) => None,
        };
        let ended = tokio::select! {
            ended = passing(&args, engine.as_mut()) => ended,
            () = interrupted() => Ok(Exit::Pass),
        };
        if let Some(engine) = engine {
            engine.stop().await;
        }
        ended
    })?
}

/// Passes requests on until the engine ends.
async fn passing(args: &ProxyArgs, engine: Option<&mut Engine>) -> anyhow::Result<Exit> {
    let faults: Faults = args.faults.iter().cloned().collect();
    let Some(engine) = engine else {
        let upstream = args.upstream.unwrap_or(([127, 0, 0, 1], 0).into());
        return pass(args.port, upstream, faults).await;
    };
    let begun = Instant::now();
    let upstream = engine.listening().await?;
    tokio::time::sleep(faults.late_start(begun.elapsed())).await;
    tokio::select! {
        ended = pass(args.port, upstream, faults) => ended,
        error = engine.ended() => Err(error.into()),
    }
}

async fn pass(port: u16, upstream: SocketAddr, faults: Faults) -> anyhow::Result<Exit> {
    let door = Door::open(port).await?;
    let address = door.address();
    output::note(&format!(
        "proxy on http://{address} before http://{upstream}"
    ));
    proxy::serve(door, upstream, faults).await;
    Ok(Exit::Pass)
}
