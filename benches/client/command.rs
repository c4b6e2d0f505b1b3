//! How each of the field's tools is asked for the same load, and where it leaves its result.
//!
//! Main type: [`Load`]. Refuses to know: processes, results' contents.

use fixture::truth::{TOKENS, TPOT, TTFT};
use infergate::import::Tool;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Of a synthetic prompt, by the tokenizer below.
pub(crate) const PROMPT_TOKENS: u32 = 32;

/// Prompts are made with it; all answers' tokens are counted by the server's usage.
const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gates/models/tiny-qwen3");

/// So many streamed completions of 64 tokens, so many at once, as fast as they end.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) server: SocketAddr,
    pub(crate) streams: u32,
    pub(crate) requests: u32,
    /// Milliseconds of each stop of the tool; `None`: it is never stopped.
    pub(crate) stops: Option<u64>,
}

impl Load {
    /// What it takes where nobody loses time.
    pub(crate) fn ideal(&self) -> Duration {
        (TTFT + TPOT * (TOKENS - 1)) * self.requests.div_ceil(self.streams)
    }
}

const OWN: &str = "the peers are other tools; our own client runs within the bench";

/// The tool's program, the first that is there. vLLM's client in Rust is a program of its own in its wheel.
pub(crate) fn programs(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::Aiperf => &["aiperf"],
        Tool::Guidellm => &["guidellm"],
        Tool::Vllm => &["vllm-rs", "vllm"],
        Tool::Samples => unreachable!("{OWN}"),
    }
}

/// The program's arguments, and the file below `folder` that will hold every single request.
pub(crate) fn ask(tool: Tool, load: &Load, folder: &Path) -> (Vec<String>, PathBuf) {
    let (text, file) = match tool {
        Tool::Aiperf => aiperf(load),
        Tool::Guidellm => guidellm(load),
        Tool::Vllm => vllm(load),
        Tool::Samples => unreachable!("{OWN}"),
    };
    let arguments = text.split_whitespace().map(|word| {
        let word = word.replace("FOLDER", &folder.display().to_string());
        word.replace("TOKENIZER", TOKENIZER)
    });
    (arguments.collect(), folder.join(file))
}

fn aiperf(load: &Load) -> (String, &'static str) {
    let Load {
        server,
        streams,
        requests,
        ..
    } = load;
    let text = format!(
        "profile --url http://{server} --model none --endpoint-type completions --streaming
         --concurrency {streams} --request-count {requests} --isl {PROMPT_TOKENS} --isl-stddev 0
         --osl {TOKENS} --osl-stddev 0 --tokenizer TOKENIZER --use-server-token-count
         --export-level records --artifact-dir FOLDER --ui none"
    );
    (text, "profile_export.jsonl")
}

fn guidellm(load: &Load) -> (String, &'static str) {
    let Load {
        server,
        streams,
        requests,
        ..
    } = load;
    let text = format!(
        "run --backend kind=openai_http,target=http://{server},model=none,request_format=/v1/completions
         --profile kind=concurrent,streams={streams} --constraint kind=max_requests,count={requests}
         --tokenizer kind=huggingface_auto,model=TOKENIZER
         --data kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={TOKENS}
         --output kind=json,path=FOLDER/benchmarks.json --disable-console"
    );
    (text, "benchmarks.json")
}

fn vllm(load: &Load) -> (String, &'static str) {
    let Load {
        server,
        streams,
        requests,
        ..
    } = load;
    let text = format!(
        "bench serve --backend openai --base-url http://{server} --endpoint /v1/completions --model none
         --tokenizer TOKENIZER --dataset-name random --random-input-len {PROMPT_TOKENS}
         --random-output-len {TOKENS} --num-prompts {requests} --max-concurrency {streams}
         --save-result --save-detailed --result-dir FOLDER --result-filename vllm.json --disable-tqdm"
    );
    (text, "vllm.json")
}
