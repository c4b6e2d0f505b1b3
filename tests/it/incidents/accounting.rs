//! Incidents of counting: tokens that were not there, were counted wrongly, or had the wrong times.

use super::engine::Engine;
use super::session::Story;
use fixture::gate;
use serde_json::Value;
use std::thread;

/// Three requests of 16 tokens, any of whose rules may void them.
const THREE: &str = r#"
kind = "steady"
requests = 3
warmup = 0
prompt_tokens = 8
output_tokens = 16
concurrency = 1
[[check]]
name = "tpot"
metric = "tpot"
rule = "ceiling"
limit = "60 s"
min_samples = 1
"#;

/// The same against base, by the time of the whole answer.
const AGAINST_BASE: &str = r#"
kind = "steady"
requests = 3
warmup = 0
prompt_tokens = 8
output_tokens = 48
concurrency = 1
[[check]]
name = "e2e"
metric = "e2e"
rule = "regression"
margin = "10 %"
ceiling = "100 %"
min_samples = 1
"#;

/// The client had no usage chunk and counted events for tokens: 10 ms a token here, 14.7 there.
#[test]
fn incident_01_chunks_are_not_counted_as_tokens() {
    let told = Story {
        knobs: &["usage=0", "burst=2"],
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says(
        "tpot",
        "invalid",
        "void-samples",
        &[
            "3 × token-counts",
            "no usage came",
            "stream_usage = false (gate load: --no-stream-usage)",
        ],
    );
    told.ends_with(4);
}

/// `max_tokens` was not wired through: one side made 4 tokens instead of 48, and seemed quick.
#[test]
fn incident_05_one_side_makes_four_tokens() {
    let story = Story {
        head: &["stop_at=4"],
        gate: AGAINST_BASE,
        ..Story::default()
    };
    let told = story.check();
    told.says(
        "e2e",
        "fail",
        "reliability",
        &["break the API", "finish reason stop after 4 of 48 tokens"],
    );
    told.ends_with(1);

    let told = Story {
        engine: "forces_length = false",
        ..story
    }
    .check();
    told.says(
        "e2e",
        "invalid",
        "token-parity",
        &["head answers with 4 tokens", "base with 48"],
    );
    told.ends_with(4);
}

/// A plug-in had the phases swapped: 8,000 tokens/s of generation, 70 of prefill.
#[test]
fn incident_08_the_servers_phases_are_swapped() {
    let told = Story {
        knobs: &["ttft=200", "tpot=1", "timings=2"],
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says(
        "tpot",
        "invalid",
        "server-timings",
        &["ms of decoding, the streams took"],
    );
    told.ends_with(4);
}

/// The same by the clock: tokens that come faster than the machine can make them.
#[test]
fn incident_08_no_machine_is_so_fast() {
    let told = Story {
        knobs: &["tpot=0"],
        engine: "plausible = { tpot_floor = \"20 ms\" }",
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says(
        "tpot",
        "invalid",
        "void-samples",
        &["implausible", "below the floor of 20 ms"],
    );
    told.ends_with(4);
}

/// The same where nobody knows the machine: the engine's own prefill says that no token can come so soon.
#[test]
fn incident_08_no_engine_prefills_so_slowly_and_decodes_so_fast() {
    let gate = format!(
        "{THREE}[[check]]\nname = \"e2e\"\nmetric = \"e2e\"\nrule = \"ceiling\"\nlimit = \"60 s\"\nmin_samples = 1\n"
    );
    let story = Story {
        knobs: &["ttft=704", "tpot=1"],
        gate: &gate,
        ..Story::default()
    };
    let known = Story {
        engine: "plausible = { tpot_floor = \"1 ns\" }",
        ..story
    };
    // Most of a second for each answer: side by side.
    let (told, known) = thread::scope(|scope| {
        let known = scope.spawn(|| known.check());
        (story.check(), known.join().unwrap())
    });
    told.says(
        "tpot",
        "invalid",
        "implausible-phases",
        &[
            "a prompt of 8 tokens waited 7",
            "no engine generates",
            "tpot_floor",
        ],
    );
    // What the client saw stands.
    told.says("e2e", "pass", "ceiling", &[]);
    told.ends_with(4);
    known.says("tpot", "pass", "ceiling", &[]);
}

/// Speculative decoding puts several tokens in a chunk: its gaps are no times per token.
#[test]
fn incident_09_chunks_of_four_tokens() {
    let address = Engine::start(&["burst=4"]);
    let url = format!("http://{address}");
    let output = gate(&[
        "load", "--url", &url, "--model", "scripted", "--format", "json",
    ])
    .args(["--concurrency", "1", "--requests", "6", "--warmup", "1"])
    .args([
        "--prompt-tokens",
        "8",
        "--output-tokens",
        "32",
        "--prompt-ids",
        "3..384",
    ])
    .output()
    .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["requests"]["ok"], 6, "{report:#}");
    assert_eq!(report["burst_factor"], 4.0);
    // Of 8 chunks there are 7 gaps; each holds 4 tokens.
    assert_eq!(
        (&report["icl_ms"]["n"], &report["itl_ms"]["n"]),
        (&42.into(), &168.into())
    );
    let mean = |name: &str| report[name]["mean"].as_f64().unwrap();
    for name in ["tpot_ms", "itl_ms"] {
        let ratio = mean("icl_ms") / mean(name);
        assert!((ratio - 4.0).abs() < 1e-6, "{name}: {ratio}");
    }
}

/// The end of sequence came early, 45 of 64 tokens, and the text was coherent.
#[test]
fn incident_10_an_early_end_is_a_remark() {
    let told = Story {
        knobs: &["stop_at=11", "tpot=2"],
        engine: "forces_length = false",
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says("tpot", "pass", "ceiling", &[]);
    told.notes(
        "tpot",
        "12 of 12 answers of head ended by themselves, after 11 tokens on average",
    );
    told.ends_with(0);
}

/// The same where every answer was to have its length.
#[test]
fn incident_10_an_early_end_is_void_where_the_length_was_forced() {
    let told = Story {
        knobs: &["stop_at=11"],
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says(
        "tpot",
        "invalid",
        "void-samples",
        &["finish reason stop after 11 of 16 tokens"],
    );
    told.ends_with(4);
}

/// Usage in the stream said 5,312 tokens, 1,280 were real.
#[test]
fn incident_23_usage_counts_too_many() {
    let told = Story {
        knobs: &["usage=4"],
        gate: THREE,
        ..Story::default()
    }
    .check();
    told.says(
        "tpot",
        "invalid",
        "void-samples",
        &["16 tokens were asked for, usage says 64"],
    );
    told.ends_with(4);
}
