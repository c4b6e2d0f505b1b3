//! `gate serve`: starts the engine and answers over HTTP until a signal ends it.
//!
//! Entry points: [`run`], and [`exit`] for its errors. Refuses to know: how errors are shown.

mod fault;

use self::fault::FaultArg;
use crate::cli::Exit;
use crate::cli::model::ModelArgs;
use crate::cli::size::Size;
use engine::server::{self, Door, Limits};
use engine::{Engine, FileError, ModelInfo, Options, Stage, StartError, Window};
use nix::sys::resource::{Resource, getrlimit};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use verdict::plural::count;

/// Open files that the server needs before its first connection: for the runtime, the signals and the model.
const OPEN_FILES: u64 = 32;

/// Serve a model over OpenAI's HTTP API
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Name that requests give as `model` [default: the directory's name]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one and prints it
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Room for keys and values, in tokens; 0 takes what fits 1 GiB
    #[arg(long, default_value_t = Options::default().kv_tokens, value_name = "N")]
    kv_tokens: usize,
    /// Longest prompt and answer together, in tokens [default: the model's own]
    #[arg(long, value_name = "N")]
    max_context: Option<usize>,
    /// Requests that may wait; more are refused with 429
    #[arg(long, value_name = "N", value_parser = at_least_one(),
        default_value_t = Options::default().queue_limit as u32)]
    queue: u32,
    /// Requests that are computed together at the most
    #[arg(long, value_name = "N", value_parser = at_least_one(),
        default_value_t = Options::default().running as u32)]
    max_running: u32,
    /// Tokens that one step computes at the most, prompts and answers together [default: 256, on a GPU 2048]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    step_tokens: Option<u32>,
    /// Prompt tokens of one request in a step at the most [default: 128, on a GPU 2048]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    chunk_tokens: Option<u32>,
    /// Attend to the last N positions only, and to the sink [default: to all]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    window: Option<u32>,
    /// First positions that stay in sight beside the window
    #[arg(long, default_value_t = 4, value_name = "N", requires = "window")]
    sink: u32,
    /// Keep no keys and values of ended requests for those that begin alike
    #[arg(long)]
    no_prefix_cache: bool,
    /// Recurrent states of a hybrid model kept to resume from [default: those that fit 1 GiB]
    #[arg(long, value_name = "N")]
    snapshots: Option<u32>,
    /// Bytes for weights, activations, states, keys and values together, as 900M or 2GiB [default: none]
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<Size>,
    /// Seconds after which a step that has not ended is taken for a hang: /health and /ready say so
    #[arg(long, value_name = "SECONDS", value_parser = at_least_one(),
        default_value_t = Options::default().stall_after.as_secs() as u32)]
    stall_after: u32,
    /// Greatest body of a request, as 500K or 8MiB
    #[arg(long, default_value = "8MiB", value_name = "SIZE")]
    max_body: Size,
    /// Seconds that a client has for the head of a request, and again for its body
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = at_least_one())]
    read_timeout: u32,
    /// Seconds after which a connection is closed whose client takes nothing of what there is to write;
    /// 0 waits for ever
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    write_timeout: u32,
    /// Open connections; beyond, an idle one is closed for a new one
    #[arg(long, default_value_t = 4096, value_name = "N", value_parser = at_least_one())]
    max_connections: u32,
    /// After a first signal to end, seconds that running answers have; then they are cut off
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_timeout: u64,
    /// Plant a fault, for tests of the gate itself (repeatable): decode-delay=20us, decode-delay=10%,
    /// prefill-delay=2us, wrong-token=50, prefill-leak, kv-leak=2, empty-beside=1, blank-beside=1,
    /// swap-answers, swap-cache, swap-state, wrong-resume, slow-start=200ms,
    /// die-at-start, hang-after=100
    #[arg(long, value_name = "SPEC", hide_short_help = true)]
    fault: Vec<FaultArg>,
}

/// How long the engine may take to end: a process must not while one of its threads gives back a GPU's memory, since the
/// driver is taken down then; and one that hangs must not hold it.
const GOODBYE: Duration = Duration::from_secs(2);

/// No count of these flags may be 0.
fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Where to listen, and what to start there.
struct Orders {
    address: SocketAddr,
    options: Options,
    limits: Limits,
    drain: Duration,
}

impl ServeArgs {
    fn orders(self) -> Orders {
        let Self {
            model,
            served_model_name,
            host,
            port,
            kv_tokens,
            max_context,
            queue,
            max_running,
            step_tokens,
            chunk_tokens,
            window,
            sink,
            no_prefix_cache,
            snapshots,
            memory_limit,
            stall_after,
            max_body,
            read_timeout,
            write_timeout,
            max_connections,
            drain_timeout,
            fault,
        } = self;
        Orders {
            address: SocketAddr::new(host, port),
            options: Options {
                served_name: served_model_name,
                kv_tokens,
                max_context,
                queue_limit: queue as usize,
                running: max_running as usize,
                step_tokens: step_tokens.map(|tokens| tokens as usize),
                chunk_tokens: chunk_tokens.map(|tokens| tokens as usize),
                window: window.map(|window| Window {
                    sink: sink as usize,
                    window: window as usize,
                }),
                prefix_cache: !no_prefix_cache,
                snapshots: snapshots.map(|count| count as usize),
                memory_limit: memory_limit.map(|Size(bytes)| bytes),
                stall_after: Duration::from_secs(stall_after.into()),
                faults: fault::combine(fault),
                ..model.options()
            },
            limits: Limits {
                body_bytes: usize::try_from(max_body.0).unwrap_or(usize::MAX),
                read_time: Duration::from_secs(read_timeout.into()),
                connections: max_connections as usize,
                write_time: (write_timeout > 0).then(|| Duration::from_secs(write_timeout.into())),
                queue: queue as usize,
            },
            drain: Duration::from_secs(drain_timeout),
        }
    }
}

/// Fails where too few open files are allowed: the runtime would panic.
fn require_open_files() -> anyhow::Result<()> {
    let (allowed, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    anyhow::ensure!(
        allowed >= OPEN_FILES,
        "{allowed} open files are allowed, and the server needs {OPEN_FILES} before it takes a connection: raise `ulimit -n`"
    );
    Ok(())
}

/// Serves until a signal. Gives the exit code: 0 after the first signal and the last answer, 130 at once
/// after a second. Answers that are cut off are an error.
pub fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let Orders {
        address,
        options,
        limits,
        drain,
    } = args.orders();
    require_open_files()?;
    let door = Door::take(address)?;
    let engine = Engine::start(options, &mut |stage: Stage| {
        report_stage(stage.name, stage.elapsed)
    })?;
    if let Err(error) = engine.chat_template() {
        say(&format!(
            "warning: /v1/chat/completions is refused: {error}"
        ));
    }
    if let Some(why) = engine.no_cuda() {
        say(&format!("serving on the CPU: {why}"));
    }
    if let Some(why) = engine.kernels_not_kept() {
        say(&format!(
            "warning: {why}; the next start compiles them again"
        ));
    }
    for line in properties(engine.model_info()) {
        say(&line);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let engine = Arc::new(engine);
    let ended = runtime.block_on(serve(door, Arc::clone(&engine), limits, drain));
    // What still runs is cut off.
    runtime.shutdown_background();
    engine.end(GOODBYE);
    ended
}

/// The exit code for an error of [`run`]: flags that ask for what the model cannot do, or name no model, are usage; a
/// port that is taken, a model that cannot be loaded or answers that did not end in time are infrastructure.
pub fn exit(error: &anyhow::Error) -> Exit {
    use FileError::{IsFile, NoDirectory, NoModel};
    match error.downcast_ref() {
        Some(
            StartError::Options(_)
            | StartError::File(NoDirectory { .. } | IsFile { .. } | NoModel { .. }),
        ) => Exit::Usage,
        _ => Exit::Infrastructure,
    }
}

/// What answers depend on, one line each.
fn properties(model: &ModelInfo) -> Vec<String> {
    let depend = match model.batch_invariant {
        true => "do not depend",
        false => "may depend",
    };
    let (backend, kernels) = (model.backend, &model.kernels);
    let batch = format!("greedy answers {depend} on the batch ({backend}, {kernels})");
    let window = model.window.map(|Window { sink, window }| {
        format!("attention to the first {sink} and the last {window} positions")
    });
    let unread = model.unread.first().map(|first| {
        format!(
            "warning: this engine computes nothing from {} of the model's files, `{first}` first: its answers are not \
             those of an engine that does",
            count(model.unread.len(), "tensor")
        )
    });
    [Some(batch), window, unread]
        .into_iter()
        .flatten()
        .collect()
}

async fn serve(
    door: Door,
    engine: Arc<Engine>,
    limits: Limits,
    drain: Duration,
) -> anyhow::Result<Exit> {
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
        limits,
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
    let _ = io::stderr()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}
