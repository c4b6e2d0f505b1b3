//! Every text that a user reads of a verdict, byte for byte: one session for each rule and each remark, all of them
//! together as one run in every form, and the records of `tests/data`.

use super::correctness::{WORDS, answers, golden_answers, golden_plan, tasks_plan};
use super::counters::{conversation, counter_plan, goodput_plan, prefilling, within_slo};
use super::growth::{by_chance, gauged};
use super::repeats::{LOSS, plan_of, wrong_in_head};
use super::stored::{against_stored, stored};
use super::streams::streams;
use super::surroundings::{
    goodput, health, late_by, narrowly_missed, plan_on, telemetry, with_shared_segments,
};
use super::waivers::{two_checks, waived};
use super::*;
use fixture::records::*;
use infergate::pipeline::{Form, rendered};
use infergate::report;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use verdict::plan::{Answers, Matrix, Selection, Suite, from_inputs};
use verdict::record::{
    Build, CacheState, ClientHealth, Condition, EngineReading, GateVerdict, GpuReading, PageCache,
    Reading, ServerTimings, Setting, SuiteEnding, SuiteRun, Test, TestOutcome,
};

/// Every rule that a check's reason can name.
const RULES: [&str; 46] = [
    "ambiguous-events",
    "answers-differ",
    "budget",
    "busy-machine",
    "cap-reached",
    "ceiling",
    "client-late",
    "constant-latency",
    "counter-varies",
    "engine-altered",
    "engine-failed",
    "fingerprint-changed",
    "floor",
    "gpu-shared",
    "growth-by-chance",
    "head-throttles",
    "implausible-phases",
    "interrupted",
    "launch-failed",
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
    "server-timings",
    "stopped",
    "streams-not-reached",
    "throttled",
    "token-parity",
    "too-few-launches",
    "too-few-samples",
    "undecided",
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

/// Rules on the session as a whole.
fn of_the_session() -> Vec<Case> {
    let build = |arm, commit: &str| Build {
        arm,
        commit: Some(commit.into()),
        dirty: false,
        artifact_sha256: Some("abc".into()),
        command: vec!["engine".into()],
        files: vec![],
        build_s: 1.0,
        on_ci: None,
    };
    let mut one_artifact = steady_blocks(4, 0.0, 0.003);
    one_artifact.builds = vec![build(Arm::Base, "b"), build(Arm::Head, "h")];
    let mut in_a_row = tpot_blocks(4, 0.0, 0.003);
    in_a_row[1].arm = Arm::Base;
    in_a_row[2].arm = Arm::Base;
    let mut nowhere = tpot_plan();
    nowhere.gates[0].checks[0].workload = "gate/none".into();
    vec![
        tpot(
            "fingerprint changed",
            at(5, |l| l.fingerprint = "other".into()),
        ),
        tpot(
            "engine altered",
            at(5, |l| {
                l.exit = Exit::Altered {
                    detail: "lib.so was written to".into(),
                };
            }),
        ),
        tpot("one artifact", one_artifact),
        tpot("not interleaved", interleaved(in_a_row)),
        ("unknown workload", nowhere, interleaved(vec![])),
        tpot("nothing measured", interleaved(vec![])),
        tpot("throttled", spoiled(|l| l.throttle_bits = Some(0x20))),
        tpot(
            "head throttles",
            spoiled(|l| {
                if l.arm == Arm::Head && l.block < 3 {
                    l.throttle_bits = Some(0x40);
                }
            }),
        ),
    ]
}

/// Engines that end or do not answer.
fn failures() -> Vec<Case> {
    let hung = || Exit::Hung {
        detail: String::new(),
        log_tail: "last words".into(),
    };
    let head = |spoil: &dyn Fn(&mut Launch)| {
        let mut head = tpot_blocks(1, 0.0, 0.003).remove(1);
        spoil(&mut head);
        interleaved(vec![head])
    };
    let mut mixed = voided(&Arm::BOTH, VoidRule::Status);
    mixed.launches[2].samples[5].void = void(VoidRule::CutStream);
    vec![
        tpot("head crashed", at(1, |l| l.exit = crashed())),
        tpot("base crashed", at(0, |l| l.exit = crashed())),
        tpot("both hung", spoiled(|l| l.exit = hung())),
        tpot(
            "head failed before base ran",
            head(&|l| {
                l.exit = Exit::NeverReady {
                    detail: "no token in 60 s".into(),
                    log_tail: String::new(),
                };
            }),
        ),
        tpot(
            "head left requests before base ran",
            head(&|l| l.samples[3].void = void(VoidRule::Status)),
        ),
        tpot(
            "head left requests",
            voided(&[Arm::Head], VoidRule::CutStream),
        ),
        tpot("base left requests", voided(&[Arm::Base], VoidRule::Status)),
        tpot("both left requests", mixed),
        tpot("void samples", voided(&[Arm::Head], VoidRule::TokenCounts)),
    ]
}

/// Rules on one launch by itself.
fn of_a_launch() -> Vec<Case> {
    let page_cache = |share| {
        let mut plan = tpot_plan();
        plan.gates[0].page_cache = Some(PageCache::Cold);
        let session = spoiled(|launch| {
            launch.page_cache = Some(PageCache::Cold);
            launch.startup.resident_share = if launch.position == 3 {
                share
            } else {
                Some(0.0)
            };
        });
        (plan, session)
    };
    let (unread, unread_session) = page_cache(None);
    let (stray, stray_session) = page_cache(Some(0.2));
    let tenant = GpuReading {
        other_processes: Some(1),
        ..GpuReading::default()
    };
    let shared = at(3, |l| {
        let gpus = vec![tenant.clone()];
        l.telemetry = Some(telemetry(vec![Reading {
            gpus,
            ..Reading::default()
        }]));
    });
    let mut bounded = tpot_plan();
    bounded.telemetry.others_cpu = Some(0.5);
    let worked = |at_s: u64, machine_s: f64| Reading {
        machine_cpu_s: Some(machine_s),
        engine_cpu_s: Some(at_s as f64),
        gate_cpu_s: Some(0.25 * at_s as f64),
        ..gauge(EngineReading::default(), at_s)
    };
    let busy = at(3, |l| {
        l.telemetry = Some(telemetry(vec![worked(0, 100.0), worked(10, 118.5)]));
    });
    let timings = ServerTimings {
        prompt_n: 8,
        prompt_ms: 1.0,
        predicted_n: 2,
        predicted_ms: 70.0,
    };
    let contradicted = at(3, |l| {
        for sample in &mut l.samples {
            sample.timings = Some(timings.clone());
        }
    });
    let swapped = at(3, |l| {
        for sample in &mut l.samples {
            let begin = u64::from(sample.index) * 10_000_000_000;
            sample.stamps.send_ns = begin;
            sample.stamps.events_ns = (0..20)
                .map(|i| begin + 5_000_000_000 + i * (20_000 + u64::from(sample.index)))
                .collect();
            sample.tokens.prompt = Some(8);
            sample.tokens.completion = Some(20);
        }
    });
    let unreached = at(3, |l| {
        l.clients = vec![ClientHealth {
            streams_reached: 8,
            ..health()
        }];
    });
    vec![
        ("page cache unread", unread, unread_session),
        ("page cache stray", stray, stray_session),
        tpot("gpu shared", shared),
        ("busy machine", bounded, busy),
        tpot(
            "missing value",
            at(0, |l| l.samples[7].tokens.completion = None),
        ),
        tpot("negative value", at(0, |l| l.samples[7] = timed(7, -5000))),
        (
            "gaps of nothing",
            plan_on(Metric::Icl, Statistic::Median),
            with_shared_segments(11),
        ),
        (
            "no number",
            golden_plan(Metric::LogprobError, 0.01),
            interleaved(blocks(1, |_, _| golden_answers(WORDS, f64::NAN))),
        ),
        tpot(
            "wrong answers",
            spoiled(|l| {
                for sample in &mut l.samples {
                    let is_blank = l.arm == Arm::Head;
                    let text = if is_blank { " \n" } else { "one two three" };
                    sample.text = Some(text.into());
                    sample.text_sha256 = text.into();
                }
            }),
        ),
        tpot("too few samples", spoiled(|l| l.samples.truncate(29))),
        tpot("client late", at(3, |l| l.clients = vec![late_by(0.3)])),
        (
            "client late for goodput",
            goodput(REGRESSION),
            narrowly_missed(150_000),
        ),
        (
            "ambiguous events",
            plan_on(Metric::Icl, Statistic::Median),
            with_shared_segments(3),
        ),
        (
            "first events shared",
            plan_on(Metric::Ttft, Statistic::Median),
            streams(0, 1),
        ),
        tpot("streams not reached", unreached),
        tpot("server timings", contradicted),
        tpot("implausible phases", swapped),
        tpot(
            "constant latency",
            spoiled(|l| l.samples = (0..30).map(|i| timed(i, 20_000_000)).collect()),
        ),
    ]
}

/// Rules on all launches of a check.
fn of_all_launches() -> Vec<Case> {
    let drifting = interleaved(blocks(4, |arm, block| {
        let wobble = |i: u32| f64::from((i + block) % 3) * 1e-3 + 1e-3 * noise(arm, block);
        (0..30)
            .map(|i| timed(i, (20e6 * (1.0 - 0.003 * f64::from(i) + wobble(i))) as i64))
            .collect()
    }));
    let answered = |head: u32| {
        spoiled(move |l| {
            let tokens = if l.arm == Arm::Head { head } else { 100 };
            for sample in &mut l.samples {
                sample.tokens.completion = Some(tokens);
            }
        })
    };
    let reading = |engine: EngineReading| {
        spoiled(move |l| {
            l.telemetry = Some(telemetry(vec![gauge(engine, 0), gauge(engine, 1)]));
        })
    };
    let nothing_held = reading(EngineReading {
        kv_bytes: Some(0.0),
        ..EngineReading::default()
    });
    let mut cases = vec![
        (
            "token parity",
            plan_on(Metric::E2e, Statistic::Median),
            answered(97),
        ),
        tpot("not steady", drifting),
        (
            "vacuous counter",
            counter_plan(Metric::PrefilledTokens, REGRESSION),
            prefilling(0, 0),
        ),
        (
            "vacuous goodput",
            goodput_plan(REGRESSION),
            within_slo(0, 0),
        ),
        (
            "vacuous accuracy",
            tasks_plan(100, LOSS),
            answers(100, 100, 100),
        ),
        (
            "vacuous gauge",
            limit_on(Metric::KvBytes, REGRESSION),
            nothing_held,
        ),
        tpot("no variance", interleaved(blocks(4, |_, _| around(20.0)))),
    ];
    cases[5].1.gates[0].checks[0].statistic = Statistic::Max;
    cases
}

/// Comparisons that lack a base.
fn without_base() -> Vec<Case> {
    let head = |comparison| {
        let launches = tpot_blocks(4, 0.0, 0.003).into_iter();
        record(
            comparison,
            launches.filter(|l| l.arm == Arm::Head).collect(),
        )
    };
    let mut sessions = stored(5, 1, "machine");
    sessions.extend(stored(2, 1, "another"));
    sessions.extend(stored(3, 19, "machine"));
    let mut few_launches = tpot_plan();
    few_launches.gates[0].workloads[0].launches = Some(2);
    let mut no_cases = answers(100, 0, 0);
    no_cases.comparison = Comparison::Stored;
    no_cases.launches.retain(|l| l.arm == Arm::Head);
    let mut moved = steady_blocks(4, 0.0, 0.003);
    moved.stored = stored(10, 1, "machine");
    for values in moved.stored.iter_mut().flat_map(|s| s.values.values_mut()) {
        values.iter_mut().for_each(|v| *v *= 1.04);
    }
    vec![
        tpot("alone", head(Comparison::Alone)),
        tpot(
            "anchored",
            record(Comparison::Anchored, tpot_blocks(4, 0.0, 0.003)),
        ),
        (
            "tests alone",
            tasks_plan(100, LOSS),
            RunRecord {
                comparison: Comparison::Alone,
                ..no_cases.clone()
            },
        ),
        tpot("no stored base", against_stored(0.0, sessions)),
        tpot(
            "no stored base yet",
            against_stored(0.0, stored(7, 1, "machine")),
        ),
        tpot("stored base", against_stored(0.0, stored(8, 1, "machine"))),
        ("no paired cases", tasks_plan(100, LOSS), no_cases),
        ("few launches", few_launches, steady_blocks(4, 0.0, 0.003)),
        tpot("machine moved", moved),
        tpot(
            "one build",
            record(Comparison::SameBuild, tpot_blocks(4, 0.0, 0.003)),
        ),
    ]
}

/// Tests on values that vary.
fn tested() -> Vec<Case> {
    let ceiling = |limit| limit_on(Metric::Tpot, Rule::Ceiling { limit });
    let floor = |limit| limit_on(Metric::Tpot, Rule::Floor { limit });
    let ended = |blocks, ending| RunRecord {
        ending,
        ..steady_blocks(blocks, 0.0, 0.05)
    };
    let budget = |starting: Option<&str>| Ending::Budget {
        starting: starting.map(str::to_owned),
    };
    let failed = Ending::EngineFailed {
        detail: "no free port".into(),
    };
    let short = |ending| RunRecord {
        ending,
        ..steady_blocks(3, 0.0, 0.003)
    };
    let mut family = two_checks();
    family.gates[0].checks[1].rule = Rule::Ceiling { limit: 20.01 };
    vec![
        tpot("pass", steady_blocks(4, 0.0, 0.003)),
        tpot("regression", steady_blocks(4, 0.06, 0.003)),
        tpot("gain", steady_blocks(4, -0.05, 0.003)),
        tpot("undecided", steady_blocks(4, 0.0, 0.05)),
        tpot("cap reached", steady_blocks(16, 0.02, 0.02)),
        tpot("noisy to the end", ended(16, Ending::LastLook)),
        tpot("budget", ended(4, budget(None))),
        tpot(
            "budget while starting",
            short(budget(Some("launch 6 slept"))),
        ),
        tpot("interrupted", short(Ending::Interrupted)),
        tpot("engine failed", short(failed)),
        (
            "below a ceiling",
            ceiling(21.0),
            steady_blocks(4, 0.0, 0.003),
        ),
        (
            "above a ceiling",
            ceiling(19.0),
            steady_blocks(4, 0.0, 0.003),
        ),
        (
            "near a ceiling",
            ceiling(20.01),
            steady_blocks(4, 0.0, 0.003),
        ),
        ("below a floor", floor(21.0), steady_blocks(4, 0.0, 0.003)),
        ("stopped", two_checks(), steady_blocks(4, 0.0, 0.02)),
        ("family", family, steady_blocks(4, 0.06, 0.003)),
    ]
}

/// Values compared exactly, and counts.
fn counted() -> Vec<Case> {
    let counter = |rule| counter_plan(Metric::PrefilledTokens, rule);
    let excess = |rule| counter_plan(Metric::PrefillExcess, rule);
    let talk = |head: u32| {
        interleaved(blocks(4, move |arm, _| {
            conversation(if arm == Arm::Head { head } else { 0 })
        }))
    };
    let tasks = |rule, wrong| (tasks_plan(100, rule), answers(100, 0, wrong));
    let floor = |limit| Rule::Floor { limit };
    let of = |name, (plan, session): (Plan, RunRecord)| (name, plan, session);
    let growth = plan(
        vec![workload(None, steady())],
        vec![check(
            "growth",
            Metric::KvGrowth,
            Statistic::Single,
            Rule::Ceiling { limit: 0.1 },
        )],
    );
    let chance = |n| gauged(n, |_, i| by_chance(i));
    let varying = interleaved(blocks(4, |_, block| conversation(block)));
    let never_ran = |mut plan: Plan| {
        plan.gates[0].engine_args = vec!["--other".into()];
        plan.design.looks.clear();
        plan
    };
    vec![
        ("no count", never_ran(counter(REGRESSION)), prefilling(1, 1)),
        (
            "no cases",
            never_ran(tasks_plan(10, LOSS)),
            answers(10, 0, 0),
        ),
        ("counter", counter(REGRESSION), prefilling(1000, 1010)),
        ("counter up", counter(REGRESSION), prefilling(1000, 1030)),
        ("counter down", counter(REGRESSION), prefilling(1000, 500)),
        ("counter so far", counter(REGRESSION), {
            let mut session = prefilling(1000, 1000);
            session.launches.truncate(2);
            session
        }),
        ("from nothing", excess(REGRESSION), talk(2)),
        ("counter varies", excess(REGRESSION), varying),
        ("goodput varies", goodput_plan(REGRESSION), {
            let mut session = within_slo(20, 20);
            session.launches[0].samples.iter_mut().for_each(|sample| {
                sample.stamps.events_ns[1] = 50_000_000;
            });
            session
        }),
        ("limit kept", excess(Rule::Ceiling { limit: 4.0 }), talk(0)),
        (
            "limit broken",
            excess(Rule::Ceiling { limit: 4.0 }),
            talk(15),
        ),
        ("growth so far", growth.clone(), chance(1)),
        ("growth by chance", growth, chance(20)),
        of("share kept", tasks(floor(0.9), 0)),
        of("share broken", tasks(floor(0.9), 20)),
        of("share open", tasks(floor(0.9), 8)),
        ("few cases", tasks_plan(10, floor(0.9)), answers(10, 0, 0)),
        ("all right", tasks_plan(10, floor(1.0)), answers(10, 0, 0)),
        (
            "not all right",
            tasks_plan(10, floor(1.0)),
            answers(10, 0, 1),
        ),
        of("none lost", tasks(LOSS, 0)),
        of("many lost", tasks(LOSS, 12)),
        (
            "launches disagree",
            plan_of(2, floor(0.9)),
            wrong_in_head(&[0, 60]),
        ),
        ("losses disagree", plan_of(2, LOSS), wrong_in_head(&[0, 60])),
        ("no cases so far", plan_of(2, LOSS), wrong_in_head(&[0])),
    ]
}

fn a_matrix() -> Case {
    let matrix = Matrix {
        batches: vec![1],
        caches: vec![CacheState::Cold],
        streamed: vec![true],
        contexts: vec![100, 1_100],
        output_tokens: 2,
        passes: 1,
        rounds: 1,
        warmup: 0,
    };
    let cell = |(index, context): (u32, u32), tpot_us: i64| {
        let mut sample = timed(index, tpot_us * 1_000);
        sample.setting = Some(Setting::Cell {
            batch: 1,
            cache: CacheState::Cold,
            context,
            pass: 0,
        });
        sample
    };
    let flat = interleaved(blocks(4, |_, block| {
        let tpot_us = |context| 20_000 - i64::from(block) * i64::from(context > 100);
        (0..)
            .zip([100, 1_100])
            .map(|(i, context)| cell((i, context), tpot_us(context)))
            .collect()
    }));
    let slope = check("line", Metric::TpotSlope, Statistic::Single, REGRESSION);
    let kind = WorkloadKind::Matrix(matrix);
    (
        "no relative scale",
        plan(vec![workload(None, kind)], vec![slope]),
        flat,
    )
}

/// Four prompts, alone and in a batch; head answers one of them otherwise in the batch.
fn texts_that_differ() -> Case {
    let kind = WorkloadKind::Answers(Answers {
        prompts: 2,
        prompt_tokens: 8,
        output_tokens: 10,
        batch: 2,
        beside_tokens: 8,
        passes: 1,
        top_k: None,
        near_tie_nats: None,
    });
    let answer = |index: u32, condition, text: &str| {
        let mut sample = timed(index, 1_000_000);
        sample.case = Some(format!("p{}", index / 2));
        sample.setting = Some(Setting::Answer { condition, pass: 0 });
        sample.text = Some(text.into());
        sample.text_sha256 = text.into();
        sample.tokens.completion = Some(10);
        sample
    };
    let session = interleaved(blocks(1, |arm, _| {
        let last = if arm == Arm::Head {
            "one six"
        } else {
            "one two"
        };
        vec![
            answer(0, Condition::Alone, "three four"),
            answer(1, Condition::Batch, "three four"),
            answer(2, Condition::Alone, "one two"),
            answer(3, Condition::Batch, last),
        ]
    }));
    let limit = Rule::Ceiling { limit: 0.0 };
    let same = check("same", Metric::AnswerMismatches, Statistic::Single, limit);
    (
        "answers differ",
        plan(vec![workload(Some(1), kind)], vec![same]),
        session,
    )
}

/// Goldens: a token that is wrong, and one where nothing tells.
fn goldens() -> Vec<Case> {
    let wrong = || {
        interleaved(blocks(1, |arm, _| {
            let twelve = ["one", "twelve", "three"];
            golden_answers(if arm == Arm::Head { twelve } else { WORDS }, 0.0)
        }))
    };
    let plan = golden_plan(Metric::GoldenMismatches, 0.0);
    let mut without = plan.clone();
    if let WorkloadKind::Goldens(goldens) = &mut without.gates[0].workloads[0].kind {
        for token in goldens.cases.iter_mut().flat_map(|case| &mut case.tokens) {
            token.top.clear();
        }
    }
    let mut by_text = wrong();
    for launch in &mut by_text.launches {
        let word = ["two", "twelve"][usize::from(launch.arm == Arm::Head)];
        let greedy = &mut launch.samples[0];
        greedy.logprobs.clear();
        greedy.text = Some(format!("one {word} three"));
    }
    vec![
        ("golden mismatch", plan, wrong()),
        ("goldens without log-probabilities", without, by_text),
    ]
}

fn old_failures() -> Case {
    let suite = Suite {
        command: vec!["true".into()],
        env: vec![],
        junit: Some("junit.xml".into()),
        timeout: Duration::from_secs(1),
    };
    let test = |id: &str, outcome| Test {
        id: id.into(),
        outcome,
        message: None,
    };
    let mut launches = blocks(1, |_, _| vec![]);
    for launch in &mut launches {
        launch.suites.push(SuiteRun {
            workload: WORKLOAD.into(),
            begun_ns: 0,
            ended_ns: 1,
            ending: SuiteEnding::Succeeded,
            log: String::new(),
            log_tail: String::new(),
            tests: vec![
                test("old", TestOutcome::Failed),
                test("good", TestOutcome::Passed),
            ],
            unread: None,
        });
    }
    let limit = Rule::Ceiling { limit: 0.0 };
    let tests = check("tests", Metric::BrokenTests, Statistic::Single, limit);
    (
        "tests that fail in base too",
        plan(
            vec![workload(Some(1), WorkloadKind::Suite(suite))],
            vec![tests],
        ),
        interleaved(launches),
    )
}

/// Remarks on answers, and waivers.
fn remarked() -> Vec<Case> {
    let spoil = |change: fn(&mut Sample)| {
        spoiled(move |l| {
            if l.arm == Arm::Head {
                l.samples.iter_mut().take(5).for_each(change);
            }
        })
    };
    let limit = || limit_on(Metric::Tpot, Rule::Ceiling { limit: 1e3 });
    let bursts = spoiled(|l| {
        for sample in &mut l.samples {
            sample.tokens.completion = Some(3);
        }
    });
    let given = |until: &str, limit| {
        let mut plan = two_checks();
        plan.gates[0].checks[1].rule = Rule::Ceiling { limit };
        plan.waivers = vec![waived(until, "gate/ceiling")];
        plan
    };
    let eight = || steady_blocks(8, 0.0, 0.002);
    vec![
        (
            "ended early",
            limit(),
            spoil(|s| s.finish_reason = Some("stop".into())),
        ),
        ("blank", limit(), spoil(|s| s.text = Some(" \n".into()))),
        ("repeated", limit(), spoil(|s| s.tokens.repeats = true)),
        ("first events estimated", limit(), bursts),
        ("waived", given("2025-01-20", 10.0), eight()),
        ("waiver not needed", given("2025-01-20", 100.0), eight()),
        ("waiver expired", given("2025-01-19", 100.0), eight()),
        (
            "waiver expired over a failure",
            given("2025-01-19", 10.0),
            eight(),
        ),
    ]
}

fn all() -> Vec<Case> {
    let mut all = [
        of_the_session(),
        failures(),
        of_a_launch(),
        of_all_launches(),
        without_base(),
        tested(),
        counted(),
        goldens(),
        remarked(),
    ]
    .concat();
    all.extend([a_matrix(), texts_that_differ(), old_failures()]);
    all
}

/// The sessions' gates side by side, each named after its session, with the verdict of a run that failed.
fn together() -> (RunRecord, RunVerdict) {
    let mut whole = judge(&tpot_plan(), &steady_blocks(4, 0.06, 0.003));
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
    (steady_blocks(4, 0.06, 0.003), whole)
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
        let line = report::replay_line(name, &judge(&plan, &session));
        writeln!(text, "{line}").unwrap();
    }
    insta::assert_snapshot!("summaries", text);
}

/// All forms but the page, which needs the record's files.
const FORMS: [(Form, &str); 5] = [
    (Form::Terminal, "terminal"),
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
    let page = report::html(&report::Page {
        record: &record,
        verdict: &verdict,
        launches: &[],
        past: None,
        notices: &[],
    });
    insta::assert_snapshot!("every_rule_html", page);
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
        insta::assert_snapshot!(format!("stored_{name}"), text);
    }
}
