//! The load client's own error and cost, against a server that keeps the truth.
//!
//! `cargo bench --bench client` starts the server of `tests/fixture/src/truth/` as a process of its own and runs the
//! client with 1 to 1,000 streams. Options after `--`:
//!
//! - `--quick`: a tenth of the tokens
//! - `--streams N`: this number of streams alone
//! - `--busy N`: N busy loops run beside the client
//! - `--stops MS`: a signal stops the client for MS milliseconds, at random, a tenth of the time
//! - `--tools DIR`: aiperf, guidellm and `vllm-rs` or `vllm` from that folder, by default those in the path, run against
//!   the same server; the table shows what they report (`requirements.txt` says how to get them)
//!
//! A server's write on the loopback device is stamped by the receiver's kernel before it returns, so what
//! is true of the server is true of the wire.

#![expect(clippy::print_stdout, reason = "a benchmark's table is its output")]
#![cfg(target_os = "linux")]

mod cell;
mod child;
mod command;
mod errors;
mod floor;
mod process;
mod table;
mod tools;

use child::Child;
use nix::unistd::Pid;
use std::error::Error;

type Outcome<T> = Result<T, Box<dyn Error>>;

const STREAMS: [u32; 5] = [1, 16, 64, 256, 1000];
/// Measured in each cell at the least.
const TOKENS: u32 = 20_000;

fn main() -> Outcome<()> {
    if child::play()? {
        return Ok(());
    }
    // `cargo test --benches` runs benches too; there is nothing to say there.
    if !has_flag("--bench") {
        return Ok(());
    }
    let busy = option("--busy").map_or(Ok(0), |text| text.parse())?;
    let stops: Option<u64> = option("--stops").map(|text| text.parse()).transpose()?;
    let streams = match option("--streams") {
        Some(text) => vec![text.parse()?],
        None if busy > 0 => vec![64],
        None => STREAMS.to_vec(),
    };
    let tokens = if has_flag("--quick") {
        TOKENS / 10
    } else {
        TOKENS
    };
    let (_server, address) = Child::server()?;
    let _loops = (0..busy)
        .map(|_| Child::busy())
        .collect::<Outcome<Vec<_>>>()?;
    // How fast the host wakes a processor changes within minutes, so the floor stands before and after.
    let before = floor::measure(address)?;
    table::floor(&before);
    table::head();
    for &streams in &streams {
        let own = Pid::this();
        let stopper = stops.map(|ms| Child::stopper(own, ms)).transpose()?;
        let cell = cell::run(address, streams, tokens)?;
        drop(stopper);
        table::cell(streams, busy, &cell);
    }
    if streams.contains(&1) {
        let after = floor::measure(address)?;
        table::floor(&after);
        table::host(&[before, after]);
    }
    let (programs, missing) = tools::found(option("--tools").as_deref())?;
    table::missing(&missing);
    for program in programs {
        for &streams in &streams {
            let run = program.run(address, streams, tokens, stops);
            table::tool(program.name(), streams, &run);
        }
    }
    Ok(())
}

fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

fn option(name: &str) -> Option<String> {
    std::env::args()
        .skip_while(|argument| argument != name)
        .nth(1)
}
