//! guidellm's `benchmarks.json`.
//!
//! Its definitions: TTFT as ours; "inter token latency" = (last − first token) / (n − 1), our TPOT; "time per
//! output token" = (last token − send) / n, which contains TTFT and is nobody's TPOT: it is not read. "Request
//! latency" runs to the end of the answer, in seconds. Its metrics are of the requests that were in flight while it
//! measured; its lists hold warm-up and cool-down too, or a sample of all.

use super::request::counted;
use super::{
    ImportError, Imported, NO_LAUNCHES, NO_START, Request, Tool, count, load, number, one, text,
    tokens,
};
use crate::figures::{Distribution, LoadResult, Throughput};
use serde_json::Value;
use verdict::record::VoidRule;

pub fn read(file: &Value, chosen: Option<usize>) -> Result<Imported, ImportError> {
    let benchmarks = file
        .get("benchmarks")
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .ok_or_else(|| Tool::Guidellm.wrong("`benchmarks` is not there or empty"))?;
    let benchmark = one(benchmarks, chosen)?;
    let metrics = benchmark
        .get("metrics")
        .ok_or_else(|| Tool::Guidellm.wrong("the benchmark has no `metrics`"))?;
    let (summary, requests) = (summary(metrics), requests(benchmark));
    let is_sample = is_sample(metrics, &requests);
    let missing = missing(&summary, &requests, is_sample);
    Ok(Imported {
        tool: Tool::Guidellm,
        version: text(file, "/metadata/guidellm_version").map(str::to_owned),
        model: text(file, "/args/model")
            .or_else(|| text(file, "/args/backend_kwargs/model"))
            // Since 0.8.
            .or_else(|| text(file, "/config/spec/backend/model"))
            .map(str::to_owned),
        load: benchmark
            .pointer("/config/strategy")
            .and_then(|strategy| load(strategy, &["type_", "streams", "max_concurrency", "rate"])),
        summary,
        requests,
        is_sample,
        missing,
    })
}

/// What the file lacks.
fn missing(summary: &LoadResult, requests: &[Request], is_sample: bool) -> Vec<String> {
    let mut missing = vec![
        NO_LAUNCHES.to_owned(),
        NO_START.to_owned(),
        "no times of single chunks: ICL and ITL are unknown (its \"ITL\" is TPOT)".to_owned(),
    ];
    let mut sound = requests.iter().filter(|r| r.failed.is_none()).peekable();
    if requests.is_empty() {
        missing.push("no single requests: quantiles are guidellm's own, and E2E runs to the end of the answer; it cannot be judged".to_owned());
    } else if sound.peek().is_some() && sound.all(|r| r.last_ms.is_none()) {
        missing.push("no times of tokens (answers that were not streamed): TTFT and TPOT are unknown, and E2E runs to the end of the answer".to_owned());
    }
    if is_sample {
        let (there, all) = (requests.len(), summary.requests.sent);
        missing.push(format!(
            "{there} of {all} requests are there singly: counts, lengths and throughput are guidellm's own over all, \
             times are of those few; it cannot be judged"
        ));
    }
    missing
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
            p999: at("percentiles/p999"),
            min: at("min"),
            max: at("max"),
            n: count(metrics, &format!("/{name}/successful/count")).unwrap_or(0),
        }
    };
    let total = |kind: &str| count(metrics, &format!("/request_totals/{kind}")).unwrap_or(0);
    let (ok, failed) = (total("successful"), total("errored"));
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
        requests: counted(ok, &[(VoidRule::Status, failed)]),
        ..LoadResult::default()
    }
}

/// Single requests that were measured; those that guidellm cut at the end of its time are no failures of the engine
/// and left out.
fn requests(benchmark: &Value) -> Vec<Request> {
    let list = |kind: &str| {
        let list = benchmark.pointer(&format!("/requests/{kind}"));
        let all = list.and_then(Value::as_array).into_iter().flatten();
        all.filter(|request| is_measured(benchmark, request))
    };
    let failed = list("errored").map(|request| Request {
        failed: Some(text(request, "/info/error").unwrap_or("errored").to_owned()),
        ..single(request)
    });
    list("successful").map(single).chain(failed).collect()
}

/// Whether a request was in flight while guidellm measured: it neither ended in the warm-up nor began in the
/// cool-down. So do guidellm's own metrics choose.
fn is_measured(benchmark: &Value, request: &Value) -> bool {
    let bound = |name: &str| {
        number(
            benchmark,
            &format!("/scheduler_metrics/measure_{name}_time"),
        )
    };
    let moment = |name: &str| {
        let timing = |of: &str| number(request, &format!("/info/timings/{of}_{name}"));
        timing("request").or_else(|| timing("resolve"))
    };
    let measuring = bound("start").zip(moment("end"));
    let is_early = measuring.is_some_and(|(start, ended)| ended < start);
    let measured = bound("end").zip(moment("start"));
    let is_late = measured.is_some_and(|(end, started)| started > end);
    !is_early && !is_late
}

/// Whether other numbers of requests were measured than are there singly (`--sample-requests`).
fn is_sample(metrics: &Value, requests: &[Request]) -> bool {
    let failed = requests.iter().filter(|r| r.failed.is_some()).count();
    let kinds = [("successful", requests.len() - failed), ("errored", failed)];
    let differs = |(kind, there): (&str, usize)| {
        let measured = count(metrics, &format!("/request_totals/{kind}"));
        measured.is_some_and(|measured| measured != there as u64)
    };
    !requests.is_empty() && kinds.into_iter().any(differs)
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
        rule: None,
    }
}
