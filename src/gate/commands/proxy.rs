//! `gate dev proxy`: stands between a client and an engine, and plants faults in what passes.

use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::proxy::{self, Door, Engine, Fault, Faults, Recorder};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(Args)]
// Clap leaves out the dashes before a command that is one of a group.
#[command(
    group = clap::ArgGroup::new("engine").required(true).args(["upstream", "command"]),
    override_usage = "gate dev proxy [OPTIONS] --port <PORT> <--upstream <IP:PORT>|-- <COMMAND>...>"
)]
pub struct ProxyArgs {
    /// Port to listen on, on 127.0.0.1; 0 takes a free one and prints it
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// What goes wrong, as decode-delay=10%; may be repeated. Without it everything passes as it is
    #[arg(long = "fault", value_name = "NAME=VALUE")]
    faults: Vec<Fault>,
    /// Record what passes in this new folder: times, counts and statuses of each request in samples.jsonl, their
    /// lengths and moments in trace.jsonl. No headers are recorded, and no texts
    #[arg(long, value_name = "DIR", conflicts_with = "faults")]
    record: Option<PathBuf>,
    /// Record the texts of answers too
    #[arg(long, requires = "record")]
    texts: bool,
    /// A server that runs already, as 127.0.0.1:8000
    #[arg(long, value_name = "IP:PORT")]
    upstream: Option<SocketAddr>,
    /// Command that starts the engine, with {engine_port} where its port belongs; it ends with the proxy
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: ProxyArgs) -> anyhow::Result<Exit> {
    let warn = |why: &str| output::error(&format!("warning: {why}"));
    let recorder = args.record.as_deref();
    let recorder = recorder.map(|folder| Recorder::open(folder, args.texts, warn));
    let recorder = recorder.transpose()?;
    let ended = block_on(async {
        let mut engine = match args.upstream {
            None => Some(Engine::start(&args.command)?),
            Some(_) => None,
        };
        let ended = tokio::select! {
            ended = passing(&args, engine.as_mut(), recorder.as_ref()) => ended,
            () = interrupted() => Ok(Exit::Pass),
        };
        if let Some(engine) = engine {
            engine.stop().await;
        }
        ended
    })?;
    if let Some(recorder) = recorder {
        recorder.finish();
    }
    ended
}

/// Passes requests on until the engine ends.
async fn passing(
    args: &ProxyArgs,
    engine: Option<&mut Engine>,
    recorder: Option<&Arc<Recorder>>,
) -> anyhow::Result<Exit> {
    let recorder = recorder.cloned();
    let faults: Faults = args.faults.iter().cloned().collect();
    let Some(engine) = engine else {
        let upstream = args.upstream.unwrap_or(([127, 0, 0, 1], 0).into());
        return pass(args.port, upstream, faults, recorder).await;
    };
    let begun = Instant::now();
    let upstream = engine.listening().await?;
    tokio::time::sleep(faults.late_start(begun.elapsed())).await;
    tokio::select! {
        ended = pass(args.port, upstream, faults, recorder) => ended,
        error = engine.ended() => Err(error.into()),
    }
}

async fn pass(
    port: u16,
    upstream: SocketAddr,
    faults: Faults,
    recorder: Option<Arc<Recorder>>,
) -> anyhow::Result<Exit> {
    let door = Door::open(port).await?;
    let address = door.address();
    output::note(&format!(
        "proxy on http://{address} before http://{upstream}"
    ));
    proxy::serve(door, upstream, faults, recorder).await;
    Ok(Exit::Pass)
}
