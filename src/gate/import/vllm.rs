//! `vllm bench serve --save-result`, with or without `--save-detailed`.
//!
//! Its definitions: TTFT from the client's send to the first chunk; TPOT = (last − first token) / (n − 1), as ours;
//! "ITL" the times between chunks, our ICL; E2EL from send to the last chunk. Lists are in seconds.

use super::request::counted;
use super::{
    ImportError, Imported, NO_LAUNCHES, NO_START, Request, Tool, count, load, number, text,
};
use crate::figures::{Distribution, LoadResult, Throughput};
use serde_json::Value;
use verdict::record::VoidRule;

pub fn read(file: &Value) -> Result<Imported, ImportError> {
    let completed =
        count(file, "/completed").ok_or_else(|| Tool::Vllm.wrong("`completed` is not there"))?;
    let requests = requests(file)?;
    let mut missing = vec![NO_LAUNCHES.to_owned(), NO_START.to_owned()];
    if requests.is_empty() {
        missing.push(
            "no single requests (--save-detailed was not given): quantiles are vLLM's own, and it cannot be \
             judged"
                .to_owned(),
        );
        if number(file, "/median_e2el_ms").is_none() {
            missing.push("no e2el in --percentile-metrics: E2E is unknown".to_owned());
        }
    }
    Ok(Imported {
        tool: Tool::Vllm,
        version: None,
        model: text(file, "/model_id").map(str::to_owned),
        load: load(file, &["max_concurrency", "request_rate"]),
        summary: summary(file, completed),
        requests,
        is_sample: false,
        missing,
    })
}

fn summary(file: &Value, completed: u64) -> LoadResult {
    let distribution = |name: &str| Distribution {
        mean: number(file, &format!("/mean_{name}_ms")),
        p50: number(file, &format!("/median_{name}_ms")),
        p90: number(file, &format!("/p90_{name}_ms")),
        p99: number(file, &format!("/p99_{name}_ms")),
        p999: number(file, &format!("/p99.9_{name}_ms")),
        min: None,
        max: None,
        n: if number(file, &format!("/mean_{name}_ms")).is_some() {
            completed
        } else {
            0
        },
    };
    let failed = count(file, "/failed").unwrap_or_else(|| {
        let asked = count(file, "/num_prompts").unwrap_or(completed);
        asked.saturating_sub(completed)
    });
    let mean = |total: &str| Distribution {
        mean: number(file, total)
            .filter(|_| completed > 0)
            .map(|total| total / completed as f64),
        n: completed,
        ..Distribution::default()
    };
    LoadResult {
        date: text(file, "/date").map(str::to_owned),
        ttft_ms: distribution("ttft"),
        tpot_ms: distribution("tpot"),
        // Between chunks; how many tokens a chunk held is not told.
        icl_ms: Distribution {
            n: 0,
            ..distribution("itl")
        },
        e2e_ms: distribution("e2el"),
        throughput: Throughput {
            output_tokens_per_s: number(file, "/output_throughput"),
            output_tokens_per_s_full: None,
        },
        prompt_tokens: mean("/total_input_tokens"),
        output_tokens: mean("/total_output_tokens"),
        requests: counted(completed, &[(VoidRule::Status, failed)]),
        ..LoadResult::default()
    }
}

/// The lists of `--save-detailed`, which run in parallel.
fn requests(file: &Value) -> Result<Vec<Request>, ImportError> {
    let list = |key: &str| file.get(key).and_then(Value::as_array);
    let (Some(ttfts), Some(itls), Some(outputs)) =
        (list("ttfts"), list("itls"), list("output_lens"))
    else {
        return Ok(Vec::new());
    };
    if ttfts.len() != itls.len() || ttfts.len() != outputs.len() {
        return Err(Tool::Vllm.wrong(format!(
            "its lists differ in length ({} ttfts, {} itls, {} output_lens)",
            ttfts.len(),
            itls.len(),
            outputs.len()
        )));
    }
    let at = |key: &str, index: usize| list(key).and_then(|list| list.get(index));
    let tokens = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let read = (0..ttfts.len()).map(|index| {
        let gaps_ms: Vec<f64> = itls[index]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .map(|s| s * 1e3)
            .collect();
        let ttft_ms = ttfts[index].as_f64().map(|s| s * 1e3);
        let error = at("errors", index)
            .and_then(Value::as_str)
            .filter(|error| !error.is_empty());
        let output = tokens(&outputs[index]);
        let failed = error.map(str::to_owned).or_else(|| {
            // A failed request has zeros in its lists.
            (output == Some(0)).then(|| "no output".to_owned())
        });
        Request {
            start_s: at("start_times", index).and_then(Value::as_f64),
            last_ms: ttft_ms.map(|first| first + gaps_ms.iter().sum::<f64>()),
            ttft_ms,
            gaps_ms,
            prompt: at("input_lens", index).and_then(tokens),
            output,
            failed,
            rule: None,
        }
    });
    Ok(read.collect())
}
