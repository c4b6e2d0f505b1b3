//! Wrong answers that look well: blanks under load, answers of another user, caches of another prompt. On engines that
//! can be told a length and that cannot, that tell log-probabilities and that do not.

use super::session::{Story, Told};

/// Which of its abilities an engine has.
#[derive(Clone, Copy, Debug)]
struct Able {
    forces_length: bool,
    logprobs: bool,
}

const ENGINES: [Able; 4] = [
    Able {
        forces_length: true,
        logprobs: true,
    },
    Able {
        forces_length: true,
        logprobs: false,
    },
    Able {
        forces_length: false,
        logprobs: true,
    },
    Able {
        forces_length: false,
        logprobs: false,
    },
];

/// The matrix and the load, with their checks.
const OTHERS: &str = r#"[workload.cells]
kind = "matrix"
batches = [1, 2]
caches = ["cold", "warm", "hot"]
streamed = [true, false]
contexts = [64]
output_tokens = 16
passes = 1
warmup = 0
launches = 1
[workload.load]
kind = "mixed"
requests = 40
warmup = 0
concurrency = 4
shapes = [
    { prompt_tokens = 32, output_tokens = 16 },
    { prompt_tokens = 64, output_tokens = 16, streamed = false },
]
launches = 1
[[check]]
name = "cells"
workload = "cells"
metric = "failed_cells"
rule = "ceiling"
limit = "0 cases"
[[check]]
name = "pairs"
workload = "cells"
metric = "answer_mismatches"
rule = "ceiling"
limit = "0 cases"
[[check]]
name = "failures"
workload = "load"
metric = "failed_requests"
rule = "ceiling"
limit = "0 cases"
[[check]]
name = "goodput"
workload = "load"
metric = "goodput"
slo = { e2e = "30 s" }
rule = "floor"
limit = "95 %"
[[check]]
name = "users"
workload = "load"
metric = "answer_mismatches"
rule = "ceiling"
limit = "0 cases"
"#;

/// The workloads of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Prompts under all conditions.
    Prompts,
    /// A matrix too, and load that arrives when it likes.
    All,
}

fn gates(able: Able, extent: Extent) -> String {
    let scored = match able.logprobs {
        true => "top_k = 2\nnear_tie = \"0.01 nats\"",
        false => "",
    };
    let others = match extent {
        Extent::Prompts => String::new(),
        Extent::All => OTHERS.replace("SCORED", scored),
    };
    format!(
        r#"
kind = "answers"
prompts = 6
prompt_tokens = 64
output_tokens = 16
batch = 3
beside_tokens = 128
passes = 1
conditions = ["sampled", "stopped", "left", "ended", "penalised", "refused"]
launches = 1
{scored}
[[check]]
name = "same"
workload = "work"
metric = "answer_mismatches"
rule = "ceiling"
limit = "0 cases"
{others}"#
    )
}

fn story(able: Able, base: &[&str], head: &[&str]) -> Told {
    measured(able, Extent::Prompts, (base, head), 1)
}

fn measured(able: Able, extent: Extent, (base, head): (&[&str], &[&str]), seed: u32) -> Told {
    let engine = match able.forces_length {
        true => "",
        false => "forces_length = false",
    };
    let ends = match able.forces_length {
        true => "stop_at=0",
        false => "stop_at=12",
    };
    Story {
        knobs: &["ttft=1", "tpot=0.5", "eos=6", ends],
        base,
        head,
        engine,
        gate: &gates(able, extent),
        seed,
        ..Story::default()
    }
    .check()
}

/// Each of these is red with these words in its reason, on every engine.
#[track_caller]
fn fails(head: &[&str], checks: &[(&str, &[&str])]) {
    let extent = match checks.iter().all(|(name, _)| *name == "same") {
        true => Extent::Prompts,
        false => Extent::All,
    };
    for able in ENGINES {
        let told = measured(able, extent, (&[], head), 1);
        for (name, parts) in checks {
            let rule = if *name == "goodput" {
                "floor"
            } else {
                "ceiling"
            };
            told.says(name, "fail", rule, parts);
        }
        told.ends_with(1);
    }
}

#[test]
fn blank_answers_under_load_fail_on_every_engine() {
    fails(
        &["blank=1"],
        &[
            ("same", &["in a batch", "nothing but white space"]),
            ("cells", &["FAIL batch 2, cold", "nothing but white space"]),
            ("failures", &["nothing but white space"]),
            ("goodput", &[]),
        ],
    );
}

#[test]
fn the_answer_of_another_user_fails_on_every_engine() {
    fails(
        &["swap=1"],
        &[
            ("same", &["in a batch", "and that is what prompt p"]),
            (
                "cells",
                &["FAIL batch 2", "answers wrong", "and that is what"],
            ),
            ("pairs", &["batch 2", "and that is what"]),
            ("failures", &["wrong-answer", "and that is what request"]),
        ],
    );
}

#[test]
fn one_wrong_text_for_all_in_flight_fails_on_every_engine() {
    fails(
        &["same=1"],
        &[
            ("same", &["in a batch", "and that is what prompt p"]),
            ("cells", &["FAIL batch 2", "answers wrong"]),
            ("failures", &["wrong-answer"]),
        ],
    );
}

#[test]
fn the_cache_of_another_prompt_fails_on_every_engine() {
    fails(&["stranger=1"], &[("same", &["cached", " alone"])]);
}

#[test]
fn a_stop_string_that_leaks_fails_on_every_engine() {
    fails(
        &["leaks_stop=1"],
        &[("same", &["with stop strings", "up to a stop string"])],
    );
}

/// A prefix cache that asks for whole pages alone gives a prompt the answer of one that ends otherwise. Two such prompts may have
/// nearly the same answers: without log-probabilities that may be a near-tie.
#[test]
fn a_cache_that_ignores_the_end_of_a_prompt_is_no_pass() {
    for able in ENGINES {
        let told = story(able, &[], &["pages=1"]);
        let (verdict, rule) = match able.logprobs {
            true => ("fail", "ceiling"),
            false => ("inconclusive", "answers-differ"),
        };
        told.says("same", verdict, rule, &["prompt p4, ending otherwise: "]);
    }
}

#[test]
fn a_chat_answer_that_does_not_end_fails_on_every_engine() {
    fails(&["eos=0"], &[("same", &["a question", "(stop) in base"])]);
}

#[test]
fn a_chat_that_loses_its_beginning_fails_on_every_engine() {
    let lists = "a question";
    fails(&["forgets=1"], &[("same", &[lists, ", system message"])]);
    fails(&["forgets=2"], &[("same", &[lists, ", earlier turns"])]);
}

/// Without log-probabilities two answers may be near-ties, but not where the engine counts another prompt.
#[test]
fn a_chat_of_another_prompt_fails_on_every_engine() {
    fails(
        &["ascii=2"],
        &[("same", &["chat 3", "a prompt of ", " tokens instead of "])],
    );
    let told = story(ENGINES[3], &[], &["ascii=1"]);
    told.says("same", "pass", "ceiling", &[]);
    told.notes("same", "other answers than base's: prompt chat 3");
}

#[test]
fn a_streamed_chat_with_a_broken_character_is_no_pass() {
    for able in ENGINES {
        let told = story(able, &[], &["cuts=1"]);
        told.says("same", "fail", "ceiling", &["a question, streamed"]);
    }
}

#[test]
fn draws_that_are_others_than_bases_are_no_pass() {
    for able in ENGINES {
        let told = |head| story(able, &[], head);
        let (open, rule) = ("inconclusive", "answers-differ");
        let greedy = &["is what it says at temperature 0"];
        told(&["draws=1"]).says("same", "fail", "ceiling", greedy);
        let unseeded = &["with one seed; base's are alike"];
        told(&["draws=2"]).says("same", "fail", "ceiling", unseeded);
        told(&["draws=3"]).says("same", open, rule, &["in base, with one seed"]);
        told(&["draws=4"]).says("same", open, rule, &["prompt chat 8", greedy[0]]);
        // Main ignores the seed.
        let told = story(able, &["draws=2"], &["draws=2"]);
        told.says("same", "pass", "ceiling", &[]);
    }
}

#[test]
fn penalties_that_are_lost_or_reach_others_are_no_pass() {
    for able in [ENGINES[0], ENGINES[3]] {
        let told = |head| story(able, &[], head);
        let lost = &["is what it is without the penalty; base's is another"];
        told(&["penalties=0"]).says("same", "fail", "ceiling", lost);
        told(&["penalties=5"]).says("same", "fail", "ceiling", &[lost[0], "presence penalty"]);
        let quoted = &["penalties in the batch", "prompt repetition"];
        for other in [&["penalties=2"], &["penalties=4"]] {
            told(other).says("same", "fail", "ceiling", quoted);
        }
        // Main has none: its answers say nothing on them.
        let refused = story(able, &["penalties=3"], &["penalties=3"]);
        refused.says("same", "pass", "ceiling", &[]);
        let remark = "base refuses 16 of the requests with penalties (status 400)";
        refused.notes("same", remark);
        let ignored = story(able, &["penalties=0"], &["penalties=0"]);
        ignored.says("same", "pass", "ceiling", &[]);
        ignored.notes("same", "base answers with penalties as without");
    }
}

#[test]
fn a_bad_request_that_is_not_refused_fails_on_every_engine() {
    fails(
        &["refuses=500"],
        &[(
            "same",
            &["a bad request (", "status 500 instead of 400 in base"],
        )],
    );
    // A thread of head's dies at one: its client gets nothing.
    let told = story(ENGINES[0], &[], &["refuses=1"]);
    let parts = &["a dropped connection instead of status 400 in base"];
    told.says("same", "fail", "ceiling", parts);
    // Other words for the same.
    story(ENGINES[0], &[], &["refuses=422"]).ends_with(0);
    let told = story(ENGINES[0], &[], &["refuses=0"]);
    let parts = &["crashed", "(a bad request: "];
    told.says("same", "fail", "reliability", parts);
}

#[test]
fn log_probabilities_that_moved_are_no_pass() {
    let told = story(ENGINES[0], &[], &["moved=0.02"]);
    told.says(
        "same",
        "inconclusive",
        "logprobs-moved",
        &["0.02 nats from base's"],
    );
}

/// A failure with this part in its reason; without log-probabilities a near-tie could have led there.
#[track_caller]
fn says_if_sure(told: &Told, able: Able, part: &str) {
    let (verdict, rule) = match able.logprobs {
        true => ("fail", "ceiling"),
        false => ("inconclusive", "answers-differ"),
    };
    told.says("same", verdict, rule, &[part]);
}

#[test]
fn what_the_sampler_makes_of_one_token_is_the_greedy_answer() {
    for able in ENGINES {
        let told = story(able, &[], &["samples=1"]);
        says_if_sure(&told, able, "in a batch, sampled");
        // An engine that does not know `top_p` tells nothing.
        let free = &["samples=2"];
        let told = measured(able, Extent::All, (free, free), 1);
        told.says("same", "pass", "ceiling", &[]);
    }
}

#[test]
fn a_client_that_leaves_spoils_nothing() {
    for able in ENGINES {
        let told = story(able, &[], &["stale=1"]);
        says_if_sure(&told, able, "prompt left-");
    }
    let told = Story {
        knobs: &["ttft=1", "tpot=0.5"],
        head: &["slots=3"],
        gate: &gates(ENGINES[0], Extent::All),
        ..Story::default()
    }
    .check();
    told.says(
        "same",
        "fail",
        "reliability",
        &["status 503", "no slot is free"],
    );
    told.ends_with(1);
}

/// Main has the fault too: head is wrong all the same.
#[test]
fn wrong_answers_fail_although_main_gives_them_too() {
    for fault in ["blank=1", "swap=1"] {
        let told = story(ENGINES[1], &[fault], &[fault]);
        told.says("same", "fail", "ceiling", &["in a batch"]);
        told.ends_with(1);
    }
    // Prompts that end alike get one answer.
    let stranger = &["stranger=1"];
    for engine in [ENGINES[0], ENGINES[1]] {
        let told = story(engine, stranger, stranger);
        told.says(
            "same",
            "fail",
            "ceiling",
            &["cached", "that is what prompt"],
        );
    }
}

/// An engine that is undecided at one place of some answers decides otherwise in a batch.
#[test]
fn a_near_tie_is_told_from_a_mixed_up_cache_by_log_probabilities() {
    let same = |head: &[&str]| story(ENGINES[0], &["tie=1"], head);
    same(&["tie=1"]).says("same", "pass", "ceiling", &[]);
    let told = same(&["tie=1", "stranger=1"]);
    told.says(
        "same",
        "fail",
        "ceiling",
        &["cached", "that is what prompt"],
    );
    // Without them, an engine of which main never differs from itself is not believed.
    let told = story(ENGINES[1], &[], &["tie=1"]);
    told.says(
        "same",
        "inconclusive",
        "answers-differ",
        &["near-ties", "`top_k`"],
    );
}

/// By day 8 of them.
#[test]
fn sound_engines_pass_in_20_of_20_sessions() {
    for seed in 1..=if fixture::is_nightly() { 20 } else { 8 } {
        let able = ENGINES[seed as usize % ENGINES.len()];
        let told = measured(able, Extent::All, (&[], &[]), seed);
        told.ends_with(0);
    }
}
