//! Cost of the sandbox: TPOT of the embedded engine with and without it, in one session.
//!
//! `cargo bench --bench sandbox` starts `gate serve` three times a block, in an order that rotates: bare, in the
//! sandbox, bare again. It prints the ratio of the second to the mean of the bare ones, and beside it the ratio of the two
//! bare ones, which is the machine's noise. `--blocks N` measures more.

#![expect(clippy::print_stdout, reason = "a benchmark's table is its output")]

use infergate::launch::{Limits, Process, Start, await_ready, free_port};
use infergate::sandbox::{Policy, Rights, SUBCOMMAND, Sandbox};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use verdict::plan::SandboxSetting;
use verdict::stats::one_sample;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const GATE: &str = env!("CARGO_BIN_EXE_gate");
const BLOCKS: usize = 12;

fn main() -> ExitCode {
    // The sandbox starts its child by the running program.
    if std::env::args().nth(1).as_deref() == Some(SUBCOMMAND) {
        return infergate::commands::main();
    }
    // `cargo test --benches` runs benches too.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let tree = folder.path().canonicalize()?;
    let sandbox = Sandbox::choose(&SandboxSetting::Auto, &tree)?;
    let policy = sandbox.policy(Rights {
        own: vec![tree.clone()],
        read: vec![GATE.into()],
        ..Rights::default()
    });
    let policy = policy.ok_or("no sandbox can be had on this machine")?;
    println!("isolation: {}", sandbox.isolation().names());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let arms = [None, Some(&policy), None];
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for block in 0..blocks()? {
        let mut tpot = [0.0; 3];
        for turn in 0..arms.len() {
            let arm = (block + turn) % arms.len();
            tpot[arm] = runtime.block_on(measured(arms[arm], &tree))?;
        }
        let [first, within, again] = tpot;
        ratios[0].push((within / (first * again).sqrt()).ln());
        ratios[1].push((again / first).ln());
        println!("block {block}: bare {first:.4} ms, sandbox {within:.4} ms, bare {again:.4} ms");
    }
    for (name, logs) in ["sandbox / bare", "bare / bare"].iter().zip(&ratios) {
        let estimate = one_sample(logs).map_err(|why| format!("{why:?}"))?;
        let (low, high) = estimate.interval(0.95);
        let percent = |log: f64| 100.0 * log.exp_m1();
        println!(
            "{name:<15} {:+.2} % [{:+.2}, {:+.2}]",
            percent(estimate.est),
            percent(low),
            percent(high)
        );
    }
    Ok(())
}

fn blocks() -> Outcome<usize> {
    let mut arguments = std::env::args()
        .skip_while(|argument| argument != "--blocks")
        .skip(1);
    Ok(arguments.next().map_or(Ok(BLOCKS), |count| count.parse())?)
}

/// TPOT in ms, the median of one launch's requests.
async fn measured(policy: Option<&Policy>, folder: &Path) -> Outcome<f64> {
    let port = free_port()?;
    let port = port.to_string();
    let serve = [GATE, "serve", "--port", &port, "--threads", "1"].map(str::to_owned);
    let mut engine = Process::spawn(&Start {
        command: &serve,
        env: &[("INFERGATE_BACKEND".into(), "cpu".into())],
        folder,
        log: &folder.join("log"),
        policy,
    })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let listens = |_| async { Ok(()) };
    let limits = Limits::of(Duration::from_secs(60), false);
    await_ready(&mut engine, address, limits, listens, |_| ()).await?;
    let url = format!("http://{address}");
    let load = Command::new(GATE)
        .args([
            "load",
            "--url",
            &url,
            "--model",
            "tiny-qwen3",
            "--concurrency",
            "1",
            "--requests",
            "60",
        ])
        .args([
            "--warmup",
            "20",
            "--prompt-tokens",
            "8",
            "--output-tokens",
            "48",
            "--prompt-ids",
            "3..384",
        ])
        .args(["--format", "json"])
        .output()?;
    engine.stop().await?;
    let report: serde_json::Value = serde_json::from_slice(&load.stdout)?;
    let tpot = report["tpot_ms"]["p50"].as_f64();
    tpot.ok_or_else(|| "no TPOT".into())
}
