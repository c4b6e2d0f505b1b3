//! Counters and scores of the embedded engine: the gate's numbers are those that the engine must have.

use fixture::Project;

const GATE: &str = r#"
title = "Own numbers"
[workload.load]
kind = "steady"
requests = 10
warmup = 3
concurrency = 2
prompt_tokens = 16
output_tokens = 8
launches = 1
[workload.cells]
kind = "matrix"
batches = [1, 2]
caches = ["cold", "hot"]
contexts = [32]
output_tokens = 8
passes = 2
warmup = 1
launches = 1
[workload.goldens]
kind = "goldens"
file = "data/tiny-qwen3/goldens.json"
top_k = 5
near_tie = "0.01 nats"
launches = 1
"#;

/// A check whose value must be this, neither more nor less.
fn exactly(name: &str, metric: &str, value: &str) -> String {
    ["ceiling", "floor"]
        .map(|rule| {
            format!("[[check]]\nname = \"{name}-{rule}\"\n{metric}\nrule = \"{rule}\"\nlimit = \"{value}\"\n")
        })
        .concat()
}

/// The perplexity of its own tokens that the reference gives in its file.
fn of_the_reference(project: &Project) -> f64 {
    let file = project.read("gates/data/tiny-qwen3/goldens.json");
    let goldens: serde_json::Value = serde_json::from_str(&file).unwrap();
    let cases = goldens["cases"].as_array().unwrap().iter();
    let tokens = cases.flat_map(|case| case["tokens"].as_array().unwrap());
    let logprobs: Vec<f64> = tokens.map(|t| t["logprob"].as_f64().unwrap()).collect();
    (-logprobs.iter().sum::<f64>() / logprobs.len() as f64).exp()
}

#[test]
fn tokens_are_counted_once_and_scored_as_transformers_does() {
    let project = Project::without_build();
    let counter = |workload, metric, counter| {
        format!("workload = \"{workload}\"\nmetric = \"counter_{metric}\"\ncounter = \"{counter}\"")
    };
    let generated = "vllm:generation_tokens_total";
    let reference = of_the_reference(&project);
    let goldens = |metric: &str, rule: &str, limit: &str| {
        format!(
            "[[check]]\nname = \"{metric}-{rule}\"\nworkload = \"goldens\"\nmetric = \"{metric}\"\nrule = \"{rule}\"\n\
             limit = \"{limit}\"\n"
        )
    };
    let gate = [
        GATE.to_owned(),
        exactly(
            "token",
            &counter("load", "per_token", generated),
            "1 per token",
        ),
        exactly(
            "request",
            &counter("load", "per_request", generated),
            "8 per request",
        ),
        exactly("increase", &counter("load", "increase", generated), "80"),
        exactly(
            "cells",
            &counter("cells", "per_token", generated),
            "1 per token",
        ),
        goldens("perplexity", "ceiling", &(reference * 1.0001).to_string()),
        goldens("kl_divergence", "ceiling", "0.0001 nats"),
        goldens("greedy_agreement", "floor", "100 %"),
    ];
    project.write("gates/own.toml", &gate.concat());
    let arguments = ["check", "--gate", "own", "--same-build", "--format", "json"];
    let ended = project.run(&arguments);
    println!("{}", ended.stdout);
    let verdict = ended.expect(0).json();
    let checks = verdict["gates"][0]["checks"].as_array().unwrap().iter();
    let mut perplexities = checks.filter(|check| check["metric"] == "perplexity");
    let perplexity = perplexities.next().unwrap()["head"].as_f64().unwrap();
    assert!((perplexity / reference - 1.0).abs() < 1e-4, "{perplexity}");
    assert_eq!(project.leftovers(), [0; 0]);
}
