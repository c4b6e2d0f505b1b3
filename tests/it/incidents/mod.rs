//! What really went wrong in inference engines and in their benchmarks, once more: an engine that shows the
//! incident's behaviour over HTTP, the `gate` binary that measures it, and the verdict that must come.
//!
//! The engine is this program itself ([`engine`]), which `gate check` starts as a process. What is planted is
//! large, since these tests run beside each other on a busy machine. One small effect is among them: a tenth of a
//! token's time, which is long enough here that no machine hides it.
//!
//! [`INCIDENTS`] says of each incident which tests show it.

#![cfg(target_os = "linux")]

mod accounting;
mod answers;
mod cache;
mod compare;
mod engine;
mod goldens;
mod machine;
mod pretences;
mod rust_engines;
mod session;
mod speed;

use Shown::{Later, Tests};
use std::fs;

/// The test that is none: see [`the_engine_of_these_tests`].
const ENGINE: &str = "incidents::the_engine_of_these_tests";

/// Where an incident is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// Test functions: file in `tests/`, name.
    Tests(&'static [(&'static str, &'static str)]),
    /// By what is yet to come.
    Later(&'static str),
}

const ACCOUNTING: &str = "it/incidents/accounting.rs";
const CACHE: &str = "it/incidents/cache.rs";
const MACHINE: &str = "it/incidents/machine.rs";
const SPEED: &str = "it/incidents/speed.rs";

/// Number, what happened, which tests show that it is caught.
const INCIDENTS: [(u8, &str, Shown); 30] = [
    (
        1,
        "TPOT of 10 or of 14.7 ms, by who measured it",
        Tests(&[
            (ACCOUNTING, "incident_01_chunks_are_not_counted_as_tokens"),
            (SPEED, "incident_01_whole_answers_take_another_path"),
            (SPEED, "incident_01_a_token_costs_more_with_its_context"),
        ]),
    ),
    (
        2,
        "text of two model families",
        Tests(&[("it/check/faults.rs", "a_wrong_token_fails_e2e")]),
    ),
    (
        3,
        "one stage of the cold start grew",
        Tests(&[(SPEED, "incident_03_one_stage_of_the_start_grows")]),
    ),
    (
        4,
        "four engines in one table",
        Tests(&[(
            "it/engines/contest.rs",
            "engines_are_launched_in_turn_and_stand_in_one_table",
        )]),
    ),
    (
        5,
        "max_tokens was not wired through",
        Tests(&[(ACCOUNTING, "incident_05_one_side_makes_four_tokens")]),
    ),
    (
        6,
        "the warm path's mean and its tail",
        Tests(&[(SPEED, "incident_06_a_mean_hides_a_tail")]),
    ),
    (
        7,
        "parity with a reference",
        Tests(&[
            ("it/parity.rs", "the_trained_models_agree_with_transformers"),
            (
                "it/judge/correctness.rs",
                "log_probabilities_are_compared_exactly",
            ),
        ]),
    ),
    (
        8,
        "phases swapped by a plug-in",
        Tests(&[
            (ACCOUNTING, "incident_08_the_servers_phases_are_swapped"),
            (ACCOUNTING, "incident_08_no_machine_is_so_fast"),
            (
                ACCOUNTING,
                "incident_08_no_engine_prefills_so_slowly_and_decodes_so_fast",
            ),
        ]),
    ),
    (
        9,
        "several tokens in a chunk",
        Tests(&[(ACCOUNTING, "incident_09_chunks_of_four_tokens")]),
    ),
    (
        10,
        "45 of 64 tokens",
        Tests(&[
            (ACCOUNTING, "incident_10_an_early_end_is_a_remark"),
            (
                ACCOUNTING,
                "incident_10_an_early_end_is_void_where_the_length_was_forced",
            ),
        ]),
    ),
    (
        11,
        "each turn prefilled the whole history",
        Tests(&[(CACHE, "incident_11_each_turn_prefills_the_history")]),
    ),
    (
        12,
        "a gauge that read 0 for 480 turns",
        Tests(&[(CACHE, "incident_12_a_gauge_that_is_always_zero")]),
    ),
    (
        13,
        "a reboot lost the evidence",
        Tests(&[(
            "it/resume/killed.rs",
            "a_killed_session_goes_on_where_it_was",
        )]),
    ),
    (
        14,
        "a missing model starts a download",
        Later("gate doctor"),
    ),
    (
        15,
        "the label bot's event never fired",
        Later("gate github label"),
    ),
    (
        16,
        "a hot cache that says one space",
        Tests(&[(CACHE, "incident_16_a_hot_cache_that_says_one_space")]),
    ),
    (
        17,
        "a cooldown that waited for ever",
        Tests(&[
            (
                "it/telemetry/cooldown.rs",
                "sustained_speed_is_not_taken_for_heat",
            ),
            (
                "it/telemetry/cooldown.rs",
                "waiting_ends_with_the_sessions_budget",
            ),
        ]),
    ),
    (
        18,
        "interleaving that brought nothing",
        Tests(&[(SPEED, "incident_18_serving_together_brings_nothing")]),
    ),
    (
        19,
        "a benchmark killed at 56 %",
        Tests(&[
            (
                "it/resume/killed.rs",
                "a_killed_session_goes_on_where_it_was",
            ),
            (
                "it/resume/refused.rs",
                "an_interrupted_session_goes_on_only_as_it_was",
            ),
        ]),
    ),
    (
        20,
        "a prefill that no machine can do",
        Tests(&[
            (CACHE, "incident_20_a_prefill_that_is_impossible"),
            (CACHE, "incident_20_a_new_prompt_that_was_cached"),
            (CACHE, "incident_20_an_improvement_is_told"),
        ]),
    ),
    (
        21,
        "a cliff at one context, a dip at one batch",
        Tests(&[
            (SPEED, "incident_21_slow_at_one_context_alone"),
            (SPEED, "incident_21_more_users_bring_less"),
        ]),
    ),
    (
        22,
        "Nagle's 30 ms",
        Tests(&[(SPEED, "incident_22_the_network_holds_answers_back")]),
    ),
    (
        23,
        "usage of four times the tokens",
        Tests(&[(ACCOUNTING, "incident_23_usage_counts_too_many")]),
    ),
    (
        24,
        "a dead worker behind a health of 200",
        Tests(&[(MACHINE, "incident_24_a_dead_worker_in_good_health")]),
    ),
    (
        25,
        "other tenants, throttling, other machines",
        Tests(&[
            (MACHINE, "incident_25_another_tenant"),
            (MACHINE, "incident_25_the_gpu_throttles"),
            (
                "it/judge/stored.rs",
                "a_stored_base_needs_eight_recent_sessions_of_this_machine",
            ),
        ]),
    ),
    (
        26,
        "samples of one launch taken for many",
        Tests(&[(
            "it/judge/latency.rs",
            "launches_after_the_decision_change_nothing",
        )]),
    ),
    (
        27,
        "a regression that passed for want of samples",
        Tests(&[
            ("it/judge/invalid.rs", "too_few_samples"),
            (
                "it/judge/latency.rs",
                "a_runner_too_noisy_for_its_gate_is_told_at_the_first_look",
            ),
        ]),
    ),
    (
        28,
        "one threshold for everything",
        Tests(&[
            ("it/judge/limits.rs", "a_ceiling_on_a_latency"),
            ("it/judge/latency.rs", "a_regression_fails_with_its_numbers"),
        ]),
    ),
    (
        29,
        "no history, so no check",
        Tests(&[(
            "it/check/baseline.rs",
            "a_stored_session_is_listed_and_too_few_of_them_carry_no_verdict",
        )]),
    ),
    (30, "a forged comment", Later("gate github publish")),
];

#[test]
fn every_incident_is_shown_by_a_test_or_says_what_will() {
    let numbers = INCIDENTS.map(|incident| incident.0);
    assert!(numbers.iter().copied().eq(1..=30), "{numbers:?}");
    for (number, _, shown) in INCIDENTS {
        match shown {
            Tests(tests) => tests
                .iter()
                .for_each(|(file, name)| find(number, file, name)),
            Later(what) => assert!(what.starts_with("gate "), "{number}: {what}"),
        }
    }
}

#[track_caller]
fn find(number: u8, file: &str, name: &str) {
    let path = fixture::repository().join("tests").join(file);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{number}: {file}: {error}"));
    let test = format!("fn {name}()");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.contains(&test));
    let at = at.unwrap_or_else(|| panic!("{number}: {file} has no {name}"));
    let above = &lines[at.saturating_sub(2)..at];
    assert!(
        above.iter().any(|line| line.contains("test]")),
        "{number}: {name} is no test"
    );
}

/// No test but the way in for the engine: `gate` starts this program with this name and a port.
#[test]
fn the_engine_of_these_tests() {
    engine::play();
}
