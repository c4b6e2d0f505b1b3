//! Sessions whose values were compared: by a test, exactly, or against a limit.

use super::*;
use crate::judge::correctness::{answers_plan, two_answered};
use crate::judge::limits::two_cells;

pub fn all() -> Vec<Case> {
    let mut all = [without_base(), tested(), counted(), goldens(), remarked()].concat();
    all.extend([a_matrix(), texts_that_differ(), old_failures()]);
    all
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
        tpot("few launches", steady_blocks(4, 0.06, 0.003)),
        tpot("regression", steady_blocks(6, 0.06, 0.003)),
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
        ("family", family, steady_blocks(6, 0.06, 0.003)),
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
    let matrix = two_cells();
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

/// Head answers one of two prompts otherwise in the batch.
fn texts_that_differ() -> Case {
    let session = interleaved(blocks(1, |arm, _| {
        let last = if arm == Arm::Head {
            "one six"
        } else {
            "one two"
        };
        two_answered(["three four", "one two"], ["three four", last])
    }));
    ("answers differ", answers_plan(), session)
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
        tpot("answers end later", in_turn(10.0, 154.0, 9.9)),
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
