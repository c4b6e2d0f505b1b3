//! Decode and prefill speed of the CPU engine, beside the memory bandwidth of the machine it ran on.
//!
//! `cargo bench --bench decode` builds a random bf16 model of Qwen3-0.6B's shape in a temporary
//! directory, serves it through [`Engine`] as any request would be, and prints one table. Decoding one
//! sequence reads every weight once a token, so that bandwidth is its bound; the bandwidth is measured in
//! the same run, with the same number of threads, each streaming its own contiguous part of memory in
//! large pages, in turns with the decoding. A share is taken within each turn, and its median shown: two
//! virtual processors may get one core of their host for a while, which slows reading and decoding alike.

#![expect(clippy::print_stdout, reason = "a benchmark's table is its output")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use infergate::engine::request::{Event, Finished, Request};
use infergate::engine::{Engine, ModelSource, Options};
use memmap2::MmapMut;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

type Outcome<T> = Result<T, Box<dyn Error>>;

const REPEATS: usize = 5;
const PROMPT: usize = 16;
const ANSWER: u32 = 33;
const PREFILL: usize = 512;

/// Qwen3-0.6B's published configuration.
const LAYERS: usize = 28;
const HIDDEN: usize = 1024;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const INTERMEDIATE: usize = 3072;
const VOCAB: usize = 151_936;

fn main() -> Outcome<()> {
    // `cargo test --benches` runs this file too; a benchmark has nothing to say there.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let threads = threads()?;
    let directory = tempfile::tempdir()?;
    write_model(directory.path())?;
    let mut bandwidth = Bandwidth::new(threads)?;
    let large = ModelSource::Directory(directory.path().to_path_buf());
    let large = measure(large, threads, &mut || bandwidth.pass())?;
    let tiny = measure(ModelSource::Embedded, threads, &mut || {})?;
    report(threads, &bandwidth, &large, &tiny);
    Ok(())
}

/// `cargo bench --bench decode -- --threads N`; by default one for each core.
fn threads() -> Outcome<usize> {
    let mut arguments = std::env::args()
        .skip_while(|argument| argument != "--threads")
        .skip(1);
    match arguments.next() {
        Some(count) => Ok(count.parse()?),
        None => Ok(std::thread::available_parallelism()?.get()),
    }
}

struct Speed {
    kernels: &'static str,
    parameters: u64,
    start: Duration,
    /// Of each repeat.
    decode: Vec<Duration>,
    prefill: Duration,
}

fn measure(model: ModelSource, threads: usize, between: &mut dyn FnMut()) -> Outcome<Speed> {
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
        between();
        let timings = run(&engine, PROMPT, ANSWER)?.timings;
        decode.push(timings.predicted / (timings.predicted_n - 1));
        let timings = run(&engine, PREFILL.min(room), 1)?.timings;
        prefill.push(timings.prompt / timings.prompt_n);
    }
    let info = engine.model_info();
    Ok(Speed {
        kernels: info.kernels,
        parameters: info.parameters,
        start,
        decode,
        prefill: median(&prefill),
    })
}

fn run(engine: &Engine, prompt: usize, max_tokens: u32) -> Outcome<Finished> {
    let vocab = engine.model_info().vocab_size;
    let request = Request {
        prompt: (0..prompt).map(|at| (at * 7919 % vocab) as u32).collect(),
        max_tokens,
        min_tokens: 0,
        ignore_eos: true,
        logprobs: None,
        prompt_logprobs: false,
        use_cache: false,
    };
    let mut events = engine.submit(request)?;
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Finished(finished) => return Ok(finished),
            Event::Failed(why) => return Err(why.into()),
            Event::Prompt(_) | Event::Token(_) => {}
        }
    }
    Err("the engine went away".into())
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

/// A streaming read of a large piece of memory.
struct Bandwidth {
    memory: MmapMut,
    threads: usize,
    /// Bytes a second, the best pass of each turn.
    rates: Vec<f64>,
}

impl Bandwidth {
    const BYTES: usize = 1 << 30;
    const PASSES: usize = 5;

    fn new(threads: usize) -> Outcome<Self> {
        let mut memory = MmapMut::map_anon(Self::BYTES)?;
        #[cfg(target_os = "linux")]
        drop(memory.advise(memmap2::Advice::HugePage));
        memory.fill(1);
        Ok(Self {
            memory,
            threads,
            rates: Vec::new(),
        })
    }

    fn pass(&mut self) {
        let mut best = Duration::MAX;
        let part = Self::BYTES.div_ceil(self.threads).next_multiple_of(128);
        for _ in 0..Self::PASSES {
            let start = Instant::now();
            let total: u64 = std::thread::scope(|scope| {
                let parts = self.memory.chunks(part);
                let readers: Vec<_> = parts
                    .map(|part| scope.spawn(move || checksum(part)))
                    .collect();
                let sums = readers.into_iter().filter_map(|reader| reader.join().ok());
                sums.fold(0, u64::wrapping_add)
            });
            best = best.min(start.elapsed());
            std::hint::black_box(total);
        }
        self.rates.push(Self::BYTES as f64 / best.as_secs_f64());
    }
}

/// Reads everything once; several sums, so that the adds never wait for one another.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 16];
    for block in bytes.as_chunks::<128>().0 {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

fn report(threads: usize, bandwidth: &Bandwidth, large: &Speed, tiny: &Speed) {
    // Every weight is read once a token, two bytes each; the tied embeddings as the output matrix.
    let bytes = large.parameters as f64 * 2.0;
    // Each repeat against the turn of reading just before it: a host that lends two processors one core for
    // a while slows both alike.
    let decoded: Vec<f64> = large
        .decode
        .iter()
        .map(|time| bytes / time.as_secs_f64())
        .collect();
    let shares = decoded.iter().zip(&bandwidth.rates);
    let mut shares: Vec<f64> = shares.map(|(decoded, read)| decoded / read).collect();
    shares.sort_by(f64::total_cmp);
    let spread = |rates: &[f64]| {
        let mut rates = rates.to_vec();
        rates.sort_by(f64::total_cmp);
        let (low, middle, high) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
        format!(
            "{:.1} ({:.1} to {:.1}) GB/s",
            middle / 1e9,
            low / 1e9,
            high / 1e9
        )
    };
    let row = |name: &str, value: String| println!("{name:<44} {value:>24}");
    let rate = |time: Duration| format!("{:.1} tokens/s", 1.0 / time.as_secs_f64());
    row("threads, kernels", format!("{threads}, {}", large.kernels));
    row("memory bandwidth, streaming read", spread(&bandwidth.rates));
    println!(
        "0.6B-shaped random bf16 model ({} parameters)",
        large.parameters
    );
    row(
        "  start (all stages)",
        format!("{:.0} ms", large.start.as_secs_f64() * 1e3),
    );
    row("  bytes read per token", format!("{:.3} GB", bytes / 1e9));
    row(
        "  decode, batch 1, context 16–48",
        rate(median(&large.decode)),
    );
    row("  bandwidth achieved", spread(&decoded));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    row(
        "  share of the machine's, median",
        percent(shares[shares.len() / 2]),
    );
    row("  share of the machine's, least", percent(shares[0]));
    row("  prefill, 512 tokens", rate(large.prefill));
    println!("embedded model ({} parameters)", tiny.parameters);
    row(
        "  start (all stages)",
        format!("{:.0} ms", tiny.start.as_secs_f64() * 1e3),
    );
    row("  decode, batch 1", rate(median(&tiny.decode)));
    row(
        "  time per token",
        format!("{:.1} µs", median(&tiny.decode).as_secs_f64() * 1e6),
    );
    row("  prefill, up to 512 tokens", rate(tiny.prefill));
}

/// A model directory of random bf16 weights, small enough that activations stay finite.
fn write_model(directory: &Path) -> Outcome<()> {
    let mut names: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".into(), vec![HIDDEN]),
    ];
    let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![q, HIDDEN]),
            ("self_attn.k_proj", vec![kv, HIDDEN]),
            ("self_attn.v_proj", vec![kv, HIDDEN]),
            ("self_attn.q_norm", vec![HEAD_DIM]),
            ("self_attn.k_norm", vec![HEAD_DIM]),
            ("self_attn.o_proj", vec![HIDDEN, q]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("mlp.gate_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.up_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INTERMEDIATE]),
        ] {
            names.push((format!("model.layers.{layer}.{part}.weight"), shape));
        }
    }
    let mut state = 42u64;
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = names
        .into_iter()
        .map(|(name, shape)| {
            let count = shape.iter().product::<usize>();
            let bytes = random_bf16(count, &mut state);
            (name, shape, bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::BF16, shape.clone(), bytes)?)))
        .collect::<Outcome<Vec<_>>>()?;
    safetensors::serialize_to_file(views, None, &directory.join("model.safetensors"))?;
    let config = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": 40_960, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": true, "hidden_act": "silu", "dtype": "bfloat16"
    });
    fs::write(directory.join("config.json"), config.to_string())?;
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    });
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string())?;
    Ok(())
}

/// Magnitudes from 2^-7 to 2^-6, either sign.
fn random_bf16(count: usize, state: &mut u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * 2 + 8);
    while bytes.len() < count * 2 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let four = (*state & 0x807f_807f_807f_807f) | 0x3c00_3c00_3c00_3c00;
        bytes.extend_from_slice(&four.to_le_bytes());
    }
    bytes.truncate(count * 2);
    bytes
}
