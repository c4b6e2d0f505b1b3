//! `/v1/models`, `/health`, `/metrics`.

use fixture::http;
use fixture::process::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Instant;

#[test]
fn models_lists_the_one_that_is_served() {
    let server = Server::start(&["--max-context", "64"]);
    let list = server.get("/v1/models").json();
    assert_eq!(list["object"], "list");
    let models = list["data"].as_array().unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!(
        (&models[0]["id"], &models[0]["object"]),
        (&json!("tiny-qwen3"), &json!("model"))
    );
    assert_eq!(models[0]["max_model_len"], 64);
}

#[test]
fn a_running_server_is_alive_and_ready() {
    let server = Server::start(&[]);
    for path in ["/health", "/ready"] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json(), json!({"status": "ok"}));
    }
}

/// One family of the exposition.
#[derive(Default)]
struct Family {
    kind: String,
    samples: Vec<(String, f64)>,
}

/// Parses the text format strictly: HELP, then TYPE, then that family's samples alone.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty());
            current = name.to_owned();
            assert!(
                families
                    .insert(current.clone(), Family::default())
                    .is_none(),
                "{name} twice"
            );
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current);
            families.get_mut(name).unwrap().kind = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap();
            assert!(
                labels.starts_with("model_name=\"tiny-qwen3\"") && labels.ends_with('}'),
                "{line}"
            );
            let family = families.get_mut(&current).unwrap();
            let suffix = name.strip_prefix(&current).unwrap();
            let allowed: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                "counter" if name.ends_with("_total") => &[""],
                "gauge" => &[""],
                other => panic!("{name} is a {other}"),
            };
            assert!(allowed.contains(&suffix), "{line}");
            family
                .samples
                .push((series.to_owned(), value.parse().unwrap()));
        }
    }
    families
}

#[test]
fn metrics_are_valid_and_follow_the_work() {
    let server = Server::start(&[]);
    for _ in 0..2 {
        server
            .complete(json!({"prompt": "1+2=3 ".repeat(20), "max_tokens": 5, "ignore_eos": true}));
    }
    server.await_metric("vllm:num_requests_running", 0.0);
    let response = server.get("/metrics");
    assert_eq!(
        response.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let families = parse(&response.text());
    let total = |name: &str| {
        families[name]
            .samples
            .iter()
            .map(|(_, value)| value)
            .sum::<f64>()
    };

    let generated = total("vllm:generation_tokens_total");
    assert_eq!(generated.to_bits(), 10f64.to_bits());
    assert!(total("vllm:prompt_tokens_total") >= total("infergate_prefilled_tokens_total"));
    assert!(total("vllm:prefix_cache_queries_total") >= total("vllm:prefix_cache_hits_total"));
    assert!(total("vllm:prefix_cache_hits_total") > 0.0);
    assert!(total("infergate_kv_bytes_total") > 0.0);
    let invariant = total("infergate_batch_invariant");
    assert_eq!(invariant.to_bits(), 1f64.to_bits());
    for name in [
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:request_success_total",
        "vllm:num_preemptions_total",
    ] {
        assert!(families.contains_key(name), "{name}");
    }
    for (name, count) in [
        ("vllm:time_to_first_token_seconds", 2.0),
        ("vllm:inter_token_latency_seconds", 8.0),
        ("vllm:request_queue_time_seconds", 2.0),
        ("vllm:e2e_request_latency_seconds", 2.0),
    ] {
        check_histogram(name, &families[name], count);
    }
    let ended = &families["vllm:request_success_total"].samples;
    let length = ended
        .iter()
        .find(|(series, _)| series.contains("finished_reason=\"length\""));
    assert_eq!(
        length.map(|(_, value)| value.to_bits()),
        Some(2f64.to_bits())
    );
}

/// Buckets ascend, the last is +Inf and equals the count.
fn check_histogram(name: &str, family: &Family, count: f64) {
    let buckets: Vec<_> = family
        .samples
        .iter()
        .filter(|(series, _)| series.contains("_bucket{"))
        .collect();
    assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{name}");
    let last = buckets.last().unwrap();
    assert!(last.0.contains("le=\"+Inf\""), "{name}");
    let counted = family
        .samples
        .iter()
        .find(|(series, _)| series.contains("_count{"))
        .unwrap()
        .1;
    assert_eq!(last.1.to_bits(), counted.to_bits(), "{name}");
    assert_eq!(counted.to_bits(), count.to_bits(), "{name}");
}

/// The second of two requests waits while the first is answered, and says so in its timings.
#[test]
fn time_in_the_queue_is_told() {
    let server = Server::start(&["--fault", "decode-delay=20ms", "--max-running", "1"]);
    let send = |max_tokens: u32| {
        let body = json!({"prompt": "1+1=", "max_tokens": max_tokens, "ignore_eos": true});
        let bytes = http::post_bytes("/v1/completions", "application/json", &body.to_string());
        http::send(server.address, &bytes)
    };
    // It runs until it is cancelled, and that is after the second was seen to wait.
    let first = send(4000);
    server.await_metric("vllm:num_requests_running", 1.0);
    let mut second = send(1);
    server.await_metric("vllm:num_requests_waiting", 1.0);
    let seen = Instant::now();
    let made = server.metric("vllm:generation_tokens_total", "");
    while server.metric("vllm:generation_tokens_total", "") < made + 2.0 {
        assert!(seen.elapsed() < http::DEADLINE, "the first is not computed");
    }
    let waited_ms = seen.elapsed().as_secs_f64() * 1e3;
    drop(first);
    let mut answer = String::new();
    second.read_to_string(&mut answer).unwrap();
    let (_, answer) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap();
    let queued_ms = answer["timings"]["queue_ms"].as_f64().unwrap();
    assert!(
        queued_ms >= waited_ms,
        "it waited {waited_ms} ms and said {queued_ms} ms"
    );
    let total_s = server.metric("vllm:request_queue_time_seconds_sum", "");
    assert!(total_s * 1e3 >= waited_ms, "{waited_ms} ms, {total_s} s");
}

#[test]
fn each_stage_of_start_up_is_told() {
    let server = Server::start(&[]);
    let families = parse(&server.get("/metrics").text());
    let stages = &families["infergate_startup_seconds"].samples;
    for stage in [
        "config",
        "tokenizer",
        "weights_map",
        "weights_upload",
        "warm_up",
        "listening",
    ] {
        let label = format!("stage=\"{stage}\"");
        assert!(
            stages
                .iter()
                .any(|(series, value)| series.contains(&label) && *value >= 0.0),
            "{stage}"
        );
    }
}

/// Each reason counts what ended by it: by the model, by its length, by the client.
#[test]
fn ends_are_counted_by_their_reason() {
    let server = Server::start(&["--fault", "decode-delay=20ms"]);
    let chat = json!({"messages": [{"role": "user", "content": "What is 12+34?"}]});
    server.ok("/v1/chat/completions", chat);
    server.complete(json!({"prompt": "1+1=", "max_tokens": 1, "ignore_eos": true, "n": 2}));
    let long = json!({"prompt": "1+1=", "max_tokens": 500, "ignore_eos": true});
    let bytes = http::post_bytes("/v1/completions", "application/json", &long.to_string());
    let gone = http::send(server.address, &bytes);
    server.await_metric("vllm:num_requests_running", 1.0);
    drop(gone);
    server.await_metric("vllm:num_requests_running", 0.0);
    for (reason, count) in [
        ("stop", 1.0),
        ("length", 2.0),
        ("abort", 1.0),
        ("error", 0.0),
    ] {
        let part = format!("finished_reason=\"{reason}\"");
        let found = server.metric("vllm:request_success_total", &part);
        assert_eq!(found.to_bits(), f64::to_bits(count), "{reason}");
    }
}
