//! guidellm's `benchmarks.json`.
//!
//! Its definitions: TTFT as ours; "inter token latency" = (last − first token) / (n − 1), our TPOT; "time per
//! output token" = (last token − send) / n, which contains TTFT and is nobody's TPOT: it is not read. "Request
//! latency" runs to the end of the answer, in seconds.

use super::request::counted;
use super::{
    ImportError, Imported, NO_LAUNCHES, NO_START, Request, Tool, count, number, text, tokens,
};
use crate::figures::{Distribution, LoadResult, Throughput};
use crate::record::VoidRule;
use serde_json::Value;

pub(super) fn read(file: &Value, chosen: Option<usize>) -> Result<Imported, ImportError> {
    let benchmarks = file
        .get("benchmarks")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .ok_or_else(|| Tool::Guidellm.wrong("`benchmarks` is not there or empty"))?;
    let benchmark = match (chosen, benchmarks.as_slice()) {
        (None, [one]) => one,
        (Some(index), list) if index < list.len() => &list[index],
        (_, list) => return Err(ImportError::Several { count: list.len() }),
    };
    let metrics = benchmark
        .get("metrics")
        .ok_or_else(|| Tool::Guidellm.wrong("the benchmark has no `metrics`"))?;
    let requests = requests(benchmark);
    let mut missing = vec![
        NO_LAUNCHES.to_owned(),
        NO_START.to_owned(),
        "no times of single chunks: ICL and ITL are unknown (its \"ITL\" is TPOT)".to_owned(),
    ];
    if requests.is_empty() {
        missing.push("no single requests: quantiles are guidellm's own, and E2E runs to the end of the answer; it cannot be judged".to_owned());
    }
    Ok(Imported {
        tool: Tool::Guidellm,
        version: text(file, "/metadata/guidellm_version").map(str::to_owned),
        model: text(file, "/args/model")
            .or_else(|| text(file, "/args/backend_kwargs/model"))
            // Since 0.8.
            .or_else(|| text(file, "/config/spec/backend/model"))
            .map(str::to_owned),
        summary: summary(metrics),
        requests,
        missing,
    })
}

fn summary(metrics: &Value) -> LoadResult {
    let of = |name: &str, scale: f64| {
        let at = |key: &str| {
            number(metrics, &format!("/{name}/successful/{key}")).map(|value| value * scale)
        };
        Distribution {
            mean: at("mean"),
            p50: at("median"),
            p90: at("percentiles/p90"),
            p99: at("percentiles/p99"),
            min: at("min"),
            max: at("max"),
            n: count(metrics, &format!("/{name}/successful/count")).unwrap_or(0),
        }
    };
    let total = |kind: &str| count(metrics, &format!("/request_totals/{kind}")).unwrap_or(0);
    let (ok, failed, cut) = (total("successful"), total("errored"), total("incomplete"));
    LoadResult {
        ttft_ms: of("time_to_first_token_ms", 1.0),
        tpot_ms: of("inter_token_latency_ms", 1.0),
        e2e_ms: of("request_latency", 1e3),
        throughput: Throughput {
            output_tokens_per_s: number(metrics, "/output_tokens_per_second/successful/mean"),
            output_tokens_per_s_full: None,
        },
        prompt_tokens: of("prompt_token_count", 1.0),
        output_tokens: of("output_token_count", 1.0),
        requests: counted(
            ok,
            &[(VoidRule::Status, failed), (VoidRule::CutStream, cut)],
        ),
        ..LoadResult::default()
    }
}

/// Single requests; those that guidellm cut at the end of its time are no failures of the engine and left out.
fn requests(benchmark: &Value) -> Vec<Request> {
    let list = |kind: &str| {
        let list = benchmark.pointer(&format!("/requests/{kind}"));
        list.and_then(Value::as_array).into_iter().flatten()
    };
    let failed = list("errored").map(|request| Request {
        failed: Some(text(request, "/info/error").unwrap_or("errored").to_owned()),
        ..single(request)
    });
    list("successful").map(single).chain(failed).collect()
}

fn single(request: &Value) -> Request {
    let timing = |name: &str| number(request, &format!("/info/timings/{name}"));
    let start_s = timing("request_start");
    let since = |moment: Option<f64>| Some((moment? - start_s?) * 1e3);
    Request {
        start_s,
        ttft_ms: since(timing("first_token_iteration")),
        last_ms: since(timing("last_token_iteration")),
        gaps_ms: Vec::new(),
        prompt: tokens(request, "/prompt_tokens"),
        output: tokens(request, "/output_tokens"),
        failed: None,
    }
}
