//! Incidents of time: what is slow, where it is slow, and for whom.

use super::session::Story;

fn matrix(workload: &str, checks: &[&str]) -> String {
    let checks: String = checks
        .iter()
        .map(|check| format!("[[check]]\n{check}\n"))
        .collect();
    format!("kind = \"matrix\"\nwarmup = 1\n{workload}\n{checks}")
}

/// 10 ms a token streamed, 14.7 whole: the decode graph was rebuilt on the other path.
#[test]
fn incident_01_whole_answers_take_another_path() {
    let told = Story {
        knobs: &["tpot=30"],
        head: &["whole=4"],
        gate: &matrix(
            "batches = [1]\ncaches = [\"hot\"]\nstreamed = [true, false]\ncontexts = [16]\n\
             output_tokens = 4\npasses = 1",
            &["name = \"parity\"\nmetric = \"stream_parity\"\nrule = \"ceiling\"\nlimit = \"1.25 ×\""],
        ),
        ..Story::default()
    }
    .check();
    told.says("parity", "fail", "ceiling", &["above the ceiling of 1.25"]);
    told.ends_with(1);
}

/// The rest of those 14.7 ms: attention that grows with the context.
#[test]
fn incident_01_a_token_costs_more_with_its_context() {
    let told = Story {
        knobs: &["attend=30"],
        gate: &matrix(
            "batches = [1]\ncontexts = [16, 2000]\noutput_tokens = 4\npasses = 2",
            &[
                "name = \"slope\"\nmetric = \"tpot_slope\"\nrule = \"ceiling\"\nlimit = \"5 µs/token\"",
                "name = \"base\"\nmetric = \"tpot_base\"\nrule = \"ceiling\"\nlimit = \"30 ms\"",
            ],
        ),
        ..Story::default()
    }
    .check();
    told.says("slope", "fail", "ceiling", &["above the ceiling of 5"]);
    // A token costs 62 ms at the long context, and without any 2.
    assert!(
        told.of("base")["head"].as_f64().unwrap() < 30.0,
        "{:#}",
        told.verdict
    );
    told.ends_with(1);
}

/// A token that takes 55 ms for 50. The embedded engine's tokens are too short for this on a busy machine.
#[test]
fn decoding_that_is_a_tenth_slower_fails() {
    let told = Story {
        base: &["tpot=50"],
        head: &["tpot=55"],
        looks: &[5, 8, 12],
        gate: r#"
kind = "steady"
requests = 4
warmup = 1
prompt_tokens = 8
output_tokens = 6
concurrency = 1
[[check]]
name = "tpot"
metric = "tpot"
statistic = "median"
rule = "regression"
margin = "1 %"
ceiling = "5 %"
min_samples = 4
"#,
        ..Story::default()
    }
    .check();
    told.says("tpot", "fail", "regression", &["beyond the margin of 1 %"]);
    told.ends_with(1);
}

/// An "improvement" made one stage of the start worse, and the sum did not say which.
#[test]
fn incident_03_one_stage_of_the_start_grows() {
    let told = Story {
        base: &["boot=30"],
        head: &["boot=200"],
        engine: "startup_metric = \"startup_seconds\"",
        gate: r#"
kind = "first-request"
prompt_tokens = 8
output_tokens = 2
[[check]]
name = "upload"
metric = "stage"
stage = "upload"
rule = "regression"
margin = "10 %"
ceiling = "100 %"
"#,
        ..Story::default()
    }
    .check();
    told.says(
        "upload",
        "fail",
        "regression",
        &["beyond the margin of 10 %"],
    );
    told.ends_with(1);
}

/// A mean of 80.8 ms looked fine; nobody had a bar for the tail.
#[test]
fn incident_06_a_mean_hides_a_tail() {
    let told = Story {
        knobs: &["tpot=1"],
        head: &["stall_each=20", "stall=300"],
        gate: &matrix(
            "batches = [4]\nrounds = 30\ncontexts = [8]\noutput_tokens = 2\npasses = 1",
            &[
                "name = \"mean\"\nmetric = \"e2e\"\nstatistic = \"mean\"\nrule = \"ceiling\"\nlimit = \"150 ms\"",
                "name = \"tail\"\nmetric = \"e2e\"\nstatistic = \"p99\"\nmin_samples = 120\nrule = \"ceiling\"\nlimit = \"150 ms\"",
            ],
        ),
        ..Story::default()
    }
    .check();
    told.says("tail", "fail", "ceiling", &["above the ceiling of 150 ms"]);
    told.says("mean", "pass", "ceiling", &[]);
    told.ends_with(1);
}

/// User B waited for A in one mode and ran beside A in the other: interleaving brought nothing.
#[test]
fn incident_18_serving_together_brings_nothing() {
    let told = Story {
        knobs: &["tpot=6"],
        head: &["serial=1"],
        gate: r#"
kind = "staggered"
users = 3
offset = "10 ms"
prompt_tokens = 8
output_tokens = 16
passes = 2
warmup = 1
[[check]]
name = "benefit"
metric = "interleaving_benefit"
rule = "floor"
limit = "1.5 ×"
[[check]]
name = "last-user"
metric = "wall_ttft"
statistic = "max"
rule = "ceiling"
limit = "110 ms"
"#,
        ..Story::default()
    }
    .check();
    told.says("benefit", "fail", "floor", &["below the floor of 1.5"]);
    // B's first token counts from the wall's start, so that a mode cannot hide its queue.
    told.says(
        "last-user",
        "fail",
        "ceiling",
        &["above the ceiling of 110 ms"],
    );
    told.ends_with(1);
}

/// A's stream stands still while B's prompt is computed: the system's throughput hides it, A's longest pause does not.
#[test]
fn a_prefill_that_stalls_other_streams() {
    let told = Story {
        knobs: &["ttft=60", "tpot=6"],
        head: &["exclusive=1"],
        gate: r#"
kind = "staggered"
users = 2
offset = "100 ms"
prompt_tokens = 8
output_tokens = 24
passes = 2
warmup = 1
[[check]]
name = "stall"
metric = "generation_stall"
statistic = "max"
rule = "ceiling"
limit = "40 ms"
[[check]]
name = "system"
metric = "throughput"
rule = "floor"
limit = "40 tokens/s"
"#,
        ..Story::default()
    }
    .check();
    told.says("stall", "fail", "ceiling", &["generation stall max", "ms"]);
    told.says("system", "pass", "floor", &["above the floor of 40"]);
    told.notes("system", "one after another: ");
    told.ends_with(1);
}

/// TPOT was worse at a context of 800, and at 1,024 as before.
#[test]
fn incident_21_slow_at_one_context_alone() {
    let check = |context: u32| {
        format!(
            "name = \"at-{context}\"\nmetric = \"tpot\"\ncontext = {context}\nrule = \"regression\"\n\
             margin = \"50 %\"\nceiling = \"150 %\""
        )
    };
    let told = Story {
        knobs: &["tpot=20"],
        head: &["cliff=800", "slower=5"],
        gate: &matrix(
            "batches = [1]\ncontexts = [800, 1024]\noutput_tokens = 8\npasses = 2",
            &[&check(800), &check(1024)],
        ),
        ..Story::default()
    }
    .check();
    told.says(
        "at-800",
        "fail",
        "regression",
        &["beyond the margin of 50 %"],
    );
    told.says("at-1024", "pass", "regression", &[]);
    told.ends_with(1);
}

/// Eight to sixteen users got less out of the engine than twenty did.
#[test]
fn incident_21_more_users_bring_less() {
    let told = Story {
        knobs: &["tpot=10"],
        head: &["crowd=3", "crowded=12"],
        gate: &matrix(
            "batches = [2, 4]\nrounds = 2\ncontexts = [8]\noutput_tokens = 5\npasses = 1",
            &["name = \"ladder\"\nmetric = \"throughput_step\"\nrule = \"floor\"\nlimit = \"0.9 ×\""],
        ),
        ..Story::default()
    }
    .check();
    told.says("ladder", "fail", "floor", &["below the floor of 0.9"]);
    told.ends_with(1);
}

/// Nagle's algorithm held each first token back for 30 ms, and no number of the engine's showed it.
#[test]
fn incident_22_the_network_holds_answers_back() {
    let told = Story {
        knobs: &["ttft=10", "timings=1"],
        head: &["hold=100"],
        gate: &matrix(
            "batches = [1]\ncontexts = [8]\noutput_tokens = 8\npasses = 5",
            &[
                "name = \"overhead\"\nmetric = \"transport_overhead\"\nrule = \"ceiling\"\nlimit = \"2 ×\"",
                "name = \"first-token\"\nmetric = \"ttft_overhead\"\nrule = \"ceiling\"\nlimit = \"60 ms\"",
            ],
        ),
        ..Story::default()
    }
    .check();
    told.says("overhead", "fail", "ceiling", &["above the ceiling of 2"]);
    told.says(
        "first-token",
        "fail",
        "ceiling",
        &["above the ceiling of 60 ms"],
    );
    told.ends_with(1);
}
