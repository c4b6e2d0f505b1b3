//! Incidents of what an engine remembers: histories, caches that help, and caches that deceive.

use super::session::Story;

/// A conversation in which each turn adds 44 tokens.
const CONVERSATION: &str = r#"
kind = "session"
turns = 10
warmup_turns = 1
message_words = 40
reply_tokens = 4
"#;

fn conversation(check: &str) -> String {
    format!("{CONVERSATION}[[check]]\n{check}")
}

/// A four-hour session grew by 39.7 s a turn, since each turn prefilled the whole history.
#[test]
fn incident_11_each_turn_prefills_the_history() {
    let leak =
        "name = \"leak\"\nmetric = \"prefill_excess\"\nrule = \"ceiling\"\nlimit = \"16 tokens\"";
    let drift =
        "name = \"drift\"\nmetric = \"prefill_drift\"\nrule = \"ceiling\"\nlimit = \"100 %\"";
    for (name, check, parts) in [
        (
            "leak",
            leak,
            ["above the ceiling of 16 tokens", "(base 0 tokens)"],
        ),
        ("drift", drift, ["above the ceiling of 100 %", "4 launches"]),
    ] {
        let told = Story {
            knobs: &["prefill=200"],
            head: &["cache=0"],
            gate: &conversation(check),
            ..Story::default()
        }
        .check();
        told.says(name, "fail", "ceiling", &parts);
        told.ends_with(1);
    }
}

/// `kv_live_bytes` was 0 in all of 480 turns: that memory was bounded was trivially true.
#[test]
fn incident_12_a_gauge_that_is_always_zero() {
    let check = "name = \"kv\"\nmetric = \"kv_bytes\"\nstatistic = \"max\"\nrule = \"ceiling\"\n\
                 limit = \"1024 MiB\"\nmin_samples = 1";
    let story = Story {
        engine: "metrics = { kv_bytes = \"kv_bytes_live\" }",
        telemetry: "[telemetry]\nevery = \"20 ms\"",
        gate: &conversation(check),
        ..Story::default()
    };
    let told = Story {
        knobs: &["ttft=20", "kv=0"],
        ..story
    }
    .check();
    told.says("kv", "invalid", "vacuous", &["0 in all of"]);
    told.ends_with(4);

    let told = Story {
        knobs: &["ttft=20", "kv=4096"],
        ..story
    }
    .check();
    told.says("kv", "pass", "ceiling", &[]);
    told.ends_with(0);
}

/// Two requests at once, warm or hot, at 1,024 to 2,048 tokens: one space, 0 tokens/s, TTFT 0.
#[test]
fn incident_16_a_hot_cache_that_says_one_space() {
    let told = Story {
        knobs: &["tpot=4"],
        head: &["space=1"],
        gate: r#"
kind = "matrix"
batches = [1, 2]
caches = ["cold", "warm", "hot"]
contexts = [512, 1024, 2048]
output_tokens = 16
passes = 2
warmup = 1
launches = 1
[[check]]
name = "cells"
metric = "failed_cells"
rule = "ceiling"
limit = "0 cases"
"#,
        ..Story::default()
    }
    .check();
    let cells = [
        "FAIL batch 2, hot, context 1024",
        "FAIL batch 2, warm, context 2048",
        "degenerate",
    ];
    told.says("cells", "fail", "ceiling", &cells);
    let reason = told.of("cells")["reason"].as_str().unwrap();
    for sound in ["FAIL batch 1", "cold", "context 512"] {
        assert!(!reason.contains(sound), "`{sound}` in: {reason}");
    }
    told.ends_with(1);
}

/// An engine that is undecided somewhere answers differently in a batch: no failure, and no silence either.
#[test]
fn a_matrix_that_passes_shows_its_cells_and_warnings() {
    let told = Story {
        knobs: &["ttft=1", "tpot=0.5", "tie=1", "logprobs=0"],
        gate: r#"
kind = "matrix"
batches = [1, 4]
caches = ["cold", "hot"]
streamed = [true, false]
contexts = [64]
output_tokens = 16
passes = 4
warmup = 0
launches = 1
[[check]]
name = "cells"
metric = "failed_cells"
rule = "ceiling"
limit = "0 cases"
"#,
        ..Story::default()
    }
    .check();
    told.says("cells", "pass", "ceiling", &[]);
    told.notes("cells", "WARN batch 4, hot, context 64");
    let cells = told.of("cells")["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "{cells:?}");
    let of = |batch: u32, outcome: &str| {
        let cells = cells.iter().filter(|cell| cell["batch"] == batch);
        cells.filter(|cell| cell["outcome"] == outcome).count()
    };
    assert_eq!((of(1, "OK"), of(1, "WARN")), (4, 0), "{cells:?}");
    assert!(of(4, "WARN") >= 1, "{cells:?}");
    told.ends_with(0);
    let text = told.project.run(&["report", "result"]).expect(0).stdout;
    for row in ["cells", "batch 1", "batch 4", "streamed, hot, 64 tokens"] {
        assert!(text.contains(row), "`{row}` is missing in:\n{text}");
    }
}

/// New prompts of 1,000 tokens, a few times.
fn new_prompts(rule: &str) -> String {
    format!(
        "kind = \"matrix\"\nbatches = [1]\ncaches = [\"cold\"]\ncontexts = [1000]\noutput_tokens = 2\n\
         passes = 3\nwarmup = 1\n[[check]]\nname = \"ttft\"\nmetric = \"ttft\"\n{rule}"
    )
}

const NO_SLOWER: &str = "rule = \"regression\"\nmargin = \"10 %\"\nceiling = \"100 %\"";

/// A prefill of 10,000 tokens went from 1,209 to 24.3 ms, which no machine can do.
#[test]
fn incident_20_a_prefill_that_is_impossible() {
    let told = Story {
        base: &["prefill=100"],
        engine: "plausible = { prefill_floor = \"50 µs/token\" }",
        gate: &new_prompts(NO_SLOWER),
        ..Story::default()
    }
    .check();
    let parts = [
        "implausible",
        "1000 prompt tokens computed in",
        "below the floor of 50.000 ms",
    ];
    told.says("ttft", "invalid", "void-samples", &parts);
    told.ends_with(4);
}

/// The same where the engine says why: its prefix cache knew the prompt, which was to be new.
#[test]
fn incident_20_a_new_prompt_that_was_cached() {
    let told = Story {
        base: &["prefill=100"],
        head: &["claim_cached=1"],
        gate: &new_prompts(NO_SLOWER),
        ..Story::default()
    }
    .check();
    let parts = [
        "cache-state",
        "the prompt was new, yet 999 of its 1000 tokens were cached",
    ];
    told.says("ttft", "invalid", "void-samples", &parts);
    told.ends_with(4);
}

/// The same where nothing bounds it: the comparison looks both ways.
#[test]
fn incident_20_an_improvement_is_told() {
    let told = Story {
        base: &["prefill=200"],
        gate: &new_prompts(NO_SLOWER),
        ..Story::default()
    }
    .check();
    told.says("ttft", "pass", "regression", &[]);
    told.notes("ttft", "check that the engine still does all the work");
    told.ends_with(0);
}
