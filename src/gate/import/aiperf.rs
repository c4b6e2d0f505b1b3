//! AIPerf's `profile_export_aiperf.json` (distributions in short) and `profile_export.jsonl` (single requests).
//!
//! Its definitions: TTFT as ours; "inter token latency" = (request latency − TTFT) / (n − 1), our TPOT, with n by
//! AIPerf's own tokenizer unless it was told to trust usage; "request latency" from send to the last response
//! with content, our E2E; "inter chunk latency" our ICL.

use super::request::counted;
use super::{
    ImportError, Imported, NO_LAUNCHES, NO_START, Request, Tool, count, number, text, tokens,
};
use crate::figures::{Distribution, LoadResult, Throughput};
use serde_json::Value;
use verdict::record::VoidRule;

pub fn read(documents: &[Value]) -> Result<Imported, ImportError> {
    let lines: Vec<&Value> = documents
        .iter()
        .filter(|line| line.get("metadata").is_some() && line.get("metrics").is_some())
        .collect();
    let mut missing = vec![
        NO_LAUNCHES.to_owned(),
        NO_START.to_owned(),
        "tokens are counted by AIPerf's tokenizer, unless --use-server-token-count was given"
            .to_owned(),
    ];
    if !lines.is_empty() {
        return Ok(Imported {
            tool: Tool::Aiperf,
            version: None,
            model: text(lines[0], "/metadata/model_name").map(str::to_owned),
            load: None,
            requests: lines
                .iter()
                .filter(|l| is_measured(l))
                .map(|l| single(l))
                .collect(),
            is_sample: false,
            summary: LoadResult::default(),
            missing,
        });
    }
    let file = documents
        .first()
        .filter(|file| file.get("request_latency").is_some() || file.get("request_count").is_some())
        .ok_or_else(|| {
            Tool::Aiperf.wrong("neither `request_latency` nor `request_count` is there")
        })?;
    missing.push(
        "no single requests: quantiles are AIPerf's own, and it cannot be judged; profile_export.jsonl holds them"
            .to_owned(),
    );
    Ok(Imported {
        tool: Tool::Aiperf,
        version: text(file, "/aiperf_version").map(str::to_owned),
        model: text(file, "/input_config/endpoint/model_names/0").map(str::to_owned),
        load: None,
        requests: Vec::new(),
        is_sample: false,
        summary: summary(file),
        missing,
    })
}

/// Which request of its run a line is about: the session, its turn, and the phase.
pub fn request(line: &Value) -> Option<String> {
    let of = |key: &str| {
        line.pointer(&format!("/metadata/{key}"))
            .map(Value::to_string)
    };
    let session = of("session_num")?;
    Some(format!(
        "{session} {:?} {:?}",
        of("turn_index"),
        of("benchmark_phase")
    ))
}

fn summary(file: &Value) -> LoadResult {
    let ok = count(file, "/request_count/avg").unwrap_or(0);
    let failed = count(file, "/error_request_count/avg").unwrap_or(0);
    let of = |name: &str| {
        let at = |key: &str| number(file, &format!("/{name}/{key}"));
        Distribution {
            mean: at("avg"),
            p50: at("p50"),
            p90: at("p90"),
            p99: at("p99"),
            p999: None,
            min: at("min"),
            max: at("max"),
            n: count(file, &format!("/{name}/count")).unwrap_or(if at("avg").is_some() {
                ok
            } else {
                0
            }),
        }
    };
    LoadResult {
        ttft_ms: of("time_to_first_token"),
        tpot_ms: of("inter_token_latency"),
        icl_ms: Distribution {
            n: 0,
            ..of("inter_chunk_latency")
        },
        e2e_ms: of("request_latency"),
        throughput: Throughput {
            output_tokens_per_s: number(file, "/output_token_throughput/avg"),
            output_tokens_per_s_full: None,
        },
        prompt_tokens: of("input_sequence_length"),
        output_tokens: of("output_sequence_length"),
        requests: counted(ok, &[(VoidRule::Status, failed)]),
        ..LoadResult::default()
    }
}

/// Warm-up never enters.
fn is_measured(line: &Value) -> bool {
    text(line, "/metadata/benchmark_phase").is_none_or(|phase| phase == "profiling")
}

fn single(line: &Value) -> Request {
    let metric = |name: &str| {
        let value = number(line, &format!("/metrics/{name}/value"))?;
        Some(match text(line, &format!("/metrics/{name}/unit")) {
            Some("ns") => value / 1e6,
            Some("us") => value / 1e3,
            Some("s" | "sec") => value * 1e3,
            _ => value,
        })
    };
    let gaps = line
        .pointer("/metrics/inter_chunk_latency/value")
        .and_then(Value::as_array);
    let error = line.get("error").filter(|error| !error.is_null());
    Request {
        start_s: number(line, "/metadata/request_start_ns").map(|ns| ns / 1e9),
        ttft_ms: metric("time_to_first_token"),
        last_ms: metric("request_latency"),
        gaps_ms: gaps
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect(),
        prompt: tokens(line, "/metrics/input_sequence_length/value"),
        output: tokens(line, "/metrics/output_sequence_length/value"),
        failed: error
            .map(|error| text(error, "/message").map_or_else(|| error.to_string(), str::to_owned)),
        rule: None,
    }
}
