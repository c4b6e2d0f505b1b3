//! Decode and prefill speed of the CPU engine, beside the memory bandwidth of the machine it ran on.
//!
//! `cargo bench --bench decode` builds a random bf16 model of Qwen3-0.6B's shape in a temporary
//! directory, serves it through [`Engine`] as any request would be, and prints one table. Decoding one
//! sequence reads every weight once a token, so that bandwidth is its bound; the bandwidth is measured in
//! the same run, with the same number of threads ([`measure_cpu`]), in turns with the decoding. A share is taken within each turn, and its median shown: two
//! virtual processors may get one core of their host for a while, which slows reading and decoding alike.

#![expect(clippy::print_stdout, reason = "a benchmark's table is its output")]

mod common;

use std::time::Duration;

use common::{Outcome, Spread};
use engine::request::Timings;
use engine::{Engine, ModelSource, Options, measure_cpu};

const REPEATS: usize = 5;
const PROMPT: usize = 16;
const ANSWER: u32 = 33;
const PREFILL: usize = 512;

fn main() -> Outcome<()> {
    if !common::is_bench() {
        return Ok(());
    }
    let threads = common::threads()?;
    let directory = tempfile::tempdir()?;
    common::model::write(directory.path())?;
    let mut bandwidth = Vec::new();
    let large = ModelSource::Directory(directory.path().to_path_buf());
    let large = measure(large, threads, &mut || {
        bandwidth.push(measure_cpu(threads)?.bytes_per_second);
        Ok(())
    })?;
    let tiny = measure(ModelSource::Embedded, threads, &mut || Ok(()))?;
    report(threads, &bandwidth, &large, &tiny);
    Ok(())
}

struct Speed {
    kernels: String,
    parameters: u64,
    start: Duration,
    /// Seconds a token, of each repeat.
    decode: Vec<f64>,
    prefill: Spread,
}

fn measure(
    model: ModelSource,
    threads: usize,
    between: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<Speed> {
    let mut start = Duration::ZERO;
    let options = Options {
        model,
        threads,
        ..Options::default()
    };
    let engine = Engine::start(options, &mut |stage| start += stage.elapsed)?;
    let room = engine.model_info().max_context - 1;
    let mut decode = Vec::new();
    let mut prefill = Vec::new();
    for _ in 0..REPEATS {
        between()?;
        let timings = run(&engine, PROMPT, ANSWER)?;
        decode.push(timings.predicted.as_secs_f64() / f64::from(timings.predicted_n - 1));
        let timings = run(&engine, PREFILL.min(room), 1)?;
        prefill.push(timings.prompt.as_secs_f64() / f64::from(timings.prompt_n));
    }
    let info = engine.model_info();
    Ok(Speed {
        kernels: info.kernels.clone(),
        parameters: info.parameters,
        start,
        decode,
        prefill: Spread::of(prefill),
    })
}

fn run(engine: &Engine, prompt: usize, max_tokens: u32) -> Outcome<Timings> {
    let request = common::request(engine, 0, prompt, max_tokens);
    Ok(common::finish(engine.submit(request)?)?.timings)
}

/// `bandwidth`: bytes a second, of each turn.
fn report(threads: usize, bandwidth: &[f64], large: &Speed, tiny: &Speed) {
    // Every weight is read once a token, two bytes each; the tied embeddings as the output matrix.
    let bytes = large.parameters as f64 * 2.0;
    // Each repeat against the turn of reading just before it: a host that lends two processors one core for
    // a while slows both alike.
    let decoded: Vec<f64> = large.decode.iter().map(|time| bytes / time).collect();
    let shares = decoded.iter().zip(bandwidth);
    let shares = Spread::of(shares.map(|(decoded, read)| decoded / read));
    let spread = |rates: &[f64]| {
        let rates = Spread::of(rates.iter().map(|rate| rate / 1e9));
        format!("{} GB/s", rates.show(1))
    };
    let (large_decode, tiny_decode) = (
        Spread::of(large.decode.iter().copied()),
        Spread::of(tiny.decode.iter().copied()),
    );
    let row = |name: &str, value: String| println!("{name:<44} {value:>24}");
    let rate = |time: Spread| format!("{:.1} tokens/s", 1.0 / time.middle);
    row("threads, kernels", format!("{threads}, {}", large.kernels));
    row("memory bandwidth, streaming read", spread(bandwidth));
    println!(
        "0.6B-shaped random bf16 model ({} parameters)",
        large.parameters
    );
    row(
        "  start (all stages)",
        format!("{:.0} ms", large.start.as_secs_f64() * 1e3),
    );
    row("  bytes read per token", format!("{:.3} GB", bytes / 1e9));
    row("  decode, batch 1, context 16–48", rate(large_decode));
    row("  bandwidth achieved", spread(&decoded));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    row("  share of the machine's, median", percent(shares.middle));
    row("  share of the machine's, least", percent(shares.low));
    row("  prefill, 512 tokens", rate(large.prefill));
    println!("embedded model ({} parameters)", tiny.parameters);
    row(
        "  start (all stages)",
        format!("{:.0} ms", tiny.start.as_secs_f64() * 1e3),
    );
    row("  decode, batch 1", rate(tiny_decode));
    row(
        "  time per token",
        format!("{:.1} µs", tiny_decode.middle * 1e6),
    );
    row("  prefill, up to 512 tokens", rate(tiny.prefill));
}
