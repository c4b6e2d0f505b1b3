//! Sessions that are no measurement, and engines that do not answer.

use super::*;
use verdict::record::{Beside, Interleave};

pub fn all() -> Vec<Case> {
    [
        of_the_session(),
        failures(),
        of_a_launch(),
        of_all_launches(),
    ]
    .concat()
}

/// Rules on the session as a whole.
fn of_the_session() -> Vec<Case> {
    let build = |arm, commit: &str| Build {
        arm,
        commit: Some(commit.into()),
        subject: None,
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
    let mut by_turns = tpot_plan();
    by_turns.gates[0].interleave = Interleave::Requests;
    let beside = spoiled(|launch| {
        launch.interleave = Interleave::Requests;
        launch.beside = Some(Beside {
            waited_s: 2.0,
            cpu_s: if launch.position == 3 { 0.5 } else { 0.0 },
        });
    });
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
    let (moved_plan, moved_session) = moved_logprobs(0.05);
    vec![
        ("page cache unread", unread, unread_session),
        ("page cache stray", stray, stray_session),
        tpot("gpu shared", shared),
        ("busy machine", bounded, busy),
        ("busy beside", by_turns, beside),
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
        tpot("too few samples", spoiled(|l| l.samples.truncate(26))),
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
        tpot("held back", in_turn(3.0, 210.0, 0.1)),
        tpot("late end", ends_after(2.4)),
        tpot("slow warm-up", warming_up(20_000.0)),
        ("moved log-probabilities", moved_plan, moved_session),
        tpot("requests sent again", sent_again([1, 2, 2, 2])),
        tpot("connections not kept", connecting(1, 6, 250)),
        tpot("tokens in bursts", in_bursts(8)),
        tpot("passes without throttled", throttled_in(Arm::Head, 24.0)),
        ("fewer turns", limited_plan(), shorter(1)),
        tpot("files of the tree", reading(Arm::Base)),
        tpot("other answers", parting_at_once(30, |_| None, 0.0)),
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
            "vacuous counter of head",
            counter_plan(Metric::PrefilledTokens, REGRESSION),
            prefilling(1000, 0),
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
    cases[6].1.gates[0].checks[0].statistic = Statistic::Max;
    cases
}
