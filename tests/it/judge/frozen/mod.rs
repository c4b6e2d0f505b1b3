//! Every text that a user reads of a verdict, byte for byte: one session for each rule and each remark, all of them
//! together as one run in every form, and the records of `tests/data`.

mod broken;
mod compared;

use super::ambiguous::with_shared_segments;
use super::correctness::{WORDS, answers, golden_answers, golden_plan, moved_logprobs, tasks_plan};
use super::counters::{
    conversation, counter_plan, goodput_plan, limited_plan, prefilling, shorter, within_slo,
};
use super::growth::{by_chance, gauged};
use super::held_back::{
    connecting, ends_after, in_bursts, in_turn, reading, sent_again, warming_up,
};
use super::invalid::parting_at_once;
use super::repeats::{LOSS, plan_of, wrong_in_head};
use super::stored::{against_stored, stored};
use super::streams::streams;
use super::surroundings::{goodput, health, late_by, narrowly_missed, plan_on, telemetry};
use super::throttled::throttled_in;
use super::waivers::{two_checks, waived};
use super::*;
use fixture::records::*;
use infergate::commands::replay::view::replay_line;
use infergate::report;
use infergate::session::{Form, rendered};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use verdict::plan::{Selection, Suite, from_inputs};
use verdict::record::{
    Build, CacheState, ClientHealth, EngineReading, GateVerdict, GpuReading, PageCache, Reading,
    ServerTimings, Setting, SuiteEnding, SuiteRun, Test, TestOutcome,
};

/// Every rule that a check's reason can name.
const RULES: [&str; 57] = [
    "ambiguous-events",
    "answers-differ",
    "budget",
    "bursts",
    "busy-beside",
    "busy-machine",
    "cap-reached",
    "ceiling",
    "client-late",
    "constant-latency",
    "counter-varies",
    "engine-altered",
    "engine-failed",
    "fewer-turns",
    "fingerprint-changed",
    "floor",
    "gpu-shared",
    "growth-by-chance",
    "head-throttles",
    "held-back",
    "implausible-phases",
    "interrupted",
    "late-end",
    "launch-failed",
    "logprobs-moved",
    "missing-value",
    "no-base",
    "no-paired-cases",
    "no-relative-scale",
    "no-stored-base",
    "no-variance",
    "not-finite",
    "not-interleaved",
    "not-positive",
    "not-steady",
    "one-artifact",
    "page-cache",
    "regression",
    "reliability",
    "resent",
    "server-timings",
    "slow-warm-up",
    "stopped",
    "stored-base",
    "streams-not-reached",
    "throttled",
    "token-parity",
    "too-few-launches",
    "too-few-samples",
    "tree-files",
    "undecided",
    "unkept-connections",
    "unknown-workload",
    "vacuous",
    "void-samples",
    "waiver-expired",
    "wrong-answers",
];

/// A session with a name.
type Case = (&'static str, Plan, RunRecord);

fn tpot(name: &'static str, session: RunRecord) -> Case {
    (name, tpot_plan(), session)
}

fn steady_blocks(n: u32, change: f64, sd: f64) -> RunRecord {
    interleaved(tpot_blocks(n, change, sd))
}

/// Four sound blocks of which one launch was changed.
fn at(position: u32, spoil: impl Fn(&mut Launch)) -> RunRecord {
    spoiled(|launch| {
        if launch.position == position {
            spoil(launch);
        }
    })
}

fn voided(arms: &[Arm], rule: VoidRule) -> RunRecord {
    spoiled(|launch| {
        if arms.contains(&launch.arm) {
            launch.samples[3].void = void(rule);
        }
    })
}

fn gauge(engine: EngineReading, at_s: u64) -> Reading {
    Reading {
        at_ns: at_s * 1_000_000_000,
        engine,
        ..Reading::default()
    }
}

fn limit_on(metric: Metric, rule: Rule) -> Plan {
    let mut plan = plan_on(metric, Statistic::Median);
    plan.gates[0].checks[0].rule = rule;
    plan
}

fn all() -> Vec<Case> {
    [broken::all(), compared::all()].concat()
}

/// The sessions' gates side by side, each named after its session, with the verdict of a run that failed.
fn together() -> (RunRecord, RunVerdict) {
    let mut whole = judge(&tpot_plan(), &steady_blocks(6, 0.06, 0.003));
    whole.gates.clear();
    for (name, plan, session) in all() {
        for gate in judge(&plan, &session).gates {
            whole.gates.push(GateVerdict {
                gate: name.to_owned(),
                title: name.to_owned(),
                ..gate
            });
        }
    }
    (steady_blocks(6, 0.06, 0.003), whole)
}

#[test]
fn every_rule_occurs() {
    let (_, verdict) = together();
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let mut rules: Vec<&str> = checks.map(|check| check.reason.rule.name()).collect();
    rules.sort_unstable();
    rules.dedup();
    assert_eq!(rules, RULES);
}

#[test]
fn every_sessions_summary() {
    let mut text = String::new();
    for (name, plan, session) in all() {
        let line = replay_line(name, &judge(&plan, &session));
        writeln!(text, "{line}").unwrap();
    }
    insta::assert_snapshot!("summaries", text);
}

/// Every check's reason.
const VERBOSE: report::View = report::View {
    width: 80,
    is_verbose: true,
};

/// All forms but the page, which needs the record's files.
const FORMS: [(Form, &str); 5] = [
    (Form::Terminal(VERBOSE), "terminal"),
    (Form::Json, "json"),
    (Form::Markdown, "markdown"),
    (Form::Junit, "junit"),
    (Form::Comment, "comment"),
];

#[test]
fn every_rule_in_every_form() {
    let (record, verdict) = together();
    for (form, name) in FORMS {
        let text = rendered(&record, &verdict, form).unwrap();
        insta::assert_snapshot!(format!("every_rule_{name}"), text);
    }
    let page = bare_page(&record, &verdict);
    insta::assert_snapshot!("every_rule_html", without_scripts(&page));
}

#[test]
fn the_stored_record_in_every_form() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/run-v1.json");
    let record: RunRecord = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let selection = Selection {
        profile: record.profile.clone(),
        gates: record.gates.clone(),
    };
    let plan = from_inputs(&record.inputs, &selection).unwrap();
    let verdict = judge(&plan, &record);
    for (form, name) in FORMS.into_iter().chain([(Form::Html, "html")]) {
        let text = rendered(&record, &verdict, form).unwrap();
        insta::assert_snapshot!(format!("stored_{name}"), without_scripts(&text));
    }
}

/// The page without drawings: the run has no record of its own.
fn bare_page(record: &RunRecord, verdict: &RunVerdict) -> String {
    report::html(&report::Page {
        record,
        verdict,
        figures: &[],
        readings: &[],
        starts: &[],
        explanations: &[],
        cause: None,
        again: Some("gate check"),
        past: None,
        notices: &[],
    })
}

/// A page without its styles and scripts, which have files of their own.
fn without_scripts(page: &str) -> String {
    let mut text = page.to_owned();
    for (begin, end) in [
        ("<style>", "</style>"),
        ("<script>", "</script>"),
        ("script-src ", ";"),
    ] {
        let mut from = 0;
        while let Some(at) = text[from..].find(begin).map(|at| from + at + begin.len()) {
            let until = text[at..].find(end).map_or(text.len(), |until| at + until);
            text.replace_range(at..until, "…");
            from = at;
        }
    }
    text
}

/// One formatter writes every number: of each check the values, the change and the interval are the same text in all forms,
/// and in JSON the numbers that they are made of.
#[test]
fn numbers_are_the_same_in_every_form() {
    let wide = report::View {
        width: 400,
        is_verbose: false,
    };
    let (record, verdict) = together();
    let text = |form| rendered(&record, &verdict, form).unwrap();
    let plain = |text: String| {
        let unescaped = text.replace('\\', "").replace("&#x2f;", "/");
        fixture::unwrapped(&unescaped)
    };
    let page = bare_page(&record, &verdict);
    let forms = [
        ("terminal", plain(text(Form::Terminal(wide)))),
        ("markdown", plain(text(Form::Markdown))),
        ("page", plain(page)),
        ("junit", plain(text(Form::Junit))),
    ];
    let json: serde_json::Value = serde_json::from_str(&text(Form::Json)).unwrap();
    let written = json["gates"].as_array().unwrap().iter();
    let written = written.flat_map(|gate| gate["checks"].as_array().unwrap());
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let mut compared = 0;
    for (check, written) in checks.zip(written) {
        assert_eq!(
            [&written["base"], &written["head"], &written["change"]].map(serde_json::Value::as_f64),
            [check.base, check.head, check.change],
            "{}",
            check.id
        );
        let unit = check.metric.unit();
        let numbers = [check.base, check.head].map(|v| report::numbers::optional(v, unit));
        let change = report::numbers::change(check);
        for (name, form) in &forms {
            let values = match *name {
                // The unit stands once there.
                "terminal" => vec![numbers[1].clone(), change.clone()],
                _ => vec![numbers[0].clone(), numbers[1].clone(), change.clone()],
            };
            for value in values {
                assert!(
                    form.contains(&value),
                    "{}: no {value} in the {name}",
                    check.id
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
}
