//! `gate serve`: starts the engine and answers over HTTP until a signal ends it.
//!
//! Entry points: [`run`], and [`exit`] for its errors. Refuses to know: how errors are shown.

use super::Exit;
use super::fault::{self, FaultArg};
use crate::engine::{Engine, ModelSource, Options, Stage, StartError};
use crate::server::{self, Door};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Serve a model over OpenAI's HTTP API
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// Hugging Face model directory; without it, the small model inside this binary
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Name that requests give as `model` [default: the directory's name]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one and prints it
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Worker threads of the CPU backend; 0 takes every core
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    /// Room for keys and values, in tokens; 0 takes what fits 1 GiB
    #[arg(long, default_value_t = 0, value_name = "N")]
    kv_tokens: usize,
    /// Longest prompt and answer together, in tokens [default: the model's own]
    #[arg(long, value_name = "N")]
    max_context: Option<usize>,
    /// Requests that may wait; more are refused with 429
    #[arg(long, default_value_t = 1024, value_name = "N")]
    queue: usize,
    /// After a first signal to end, seconds that running answers have; then they are cut off
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_timeout: u64,
    /// Plant a fault, for tests of the gate itself (repeatable): decode-delay=20us, decode-delay=10%,
    /// wrong-token=50, prefill-leak, die-at-start, hang-after=100
    #[arg(long, value_name = "SPEC", hide_short_help = true)]
    fault: Vec<FaultArg>,
}

/// Serves until a signal. Gives the exit code: 0 after the first signal and the last answer, 130 at once
/// after a second. Answers that are cut off are an error.
pub(super) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let ServeArgs {
        model,
        served_model_name,
        host,
        port,
        threads,
        kv_tokens,
        max_context,
        queue,
        drain_timeout,
        fault,
    } = args;
    let options = Options {
        model: model.map_or(ModelSource::Embedded, ModelSource::Directory),
        served_name: served_model_name,
        threads,
        kv_tokens,
        max_context,
        queue_limit: queue,
        faults: fault::combine(fault),
    };
    let door = Door::take(SocketAddr::new(host, port))?;
    let engine = Engine::start(options, &mut |stage: Stage| {
        report_stage(stage.name, stage.elapsed)
    })?;
    if let Err(error) = engine.chat_template() {
        say(&format!(
            "warning: /v1/chat/completions is refused: {error}"
        ));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(door, engine, Duration::from_secs(drain_timeout)));
    // An engine that hangs must not hold the process.
    runtime.shutdown_background();
    ended
}

/// The exit code for an error of [`run`]: flags that ask for what the model cannot do are usage; a port
/// that is taken, a model that cannot be loaded or answers that did not end in time are infrastructure.
pub(super) fn exit(error: &anyhow::Error) -> Exit {
    match error.downcast_ref() {
        Some(StartError::Options(_)) => Exit::Usage,
        _ => Exit::Infrastructure,
    }
}

async fn serve(door: Door, engine: Engine, drain: Duration) -> anyhow::Result<Exit> {
    let mut signals = Signals::watch()?;
    let mut second = signals.clone();
    let name = engine.model_info().name.clone();
    let listening = move |address, elapsed| {
        report_stage("listening", elapsed);
        say(&format!("listening on http://{address}  model {name}"));
    };
    let served = server::serve(
        door,
        engine,
        listening,
        async move { signals.reach(1).await },
        drain,
    );
    tokio::select! {
        ended = served => Ok(ended.map(|()| Exit::Pass)?),
        () = second.reach(2) => Ok(Exit::Interrupted),
    }
}

/// How many signals to end came so far.
#[derive(Clone)]
struct Signals {
    count: watch::Receiver<u32>,
}

impl Signals {
    /// Begins to catch SIGTERM and SIGINT.
    fn watch() -> io::Result<Self> {
        let (sender, count) = watch::channel(0);
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(count_signals(terminate, interrupt, sender));
        Ok(Self { count })
    }

    async fn reach(&mut self, wanted: u32) {
        if self.count.wait_for(|count| *count >= wanted).await.is_err() {
            // The counting task is gone with the runtime: nothing is to be waited for.
            std::future::pending::<()>().await;
        }
    }
}

async fn count_signals(mut terminate: Signal, mut interrupt: Signal, count: watch::Sender<u32>) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        count.send_modify(|count| *count += 1);
        if *count.borrow() == 1 {
            say("shutting down: running answers end first; a second signal ends at once");
        }
    }
}

fn report_stage(name: &str, elapsed: Duration) {
    say(&format!(
        "{name:<16}{:>10.1} ms",
        elapsed.as_secs_f64() * 1e3
    ));
}

/// One line on stderr. A closed stderr is no reason to stop serving.
fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
