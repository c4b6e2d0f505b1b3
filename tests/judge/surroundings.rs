//! Rules on what surrounds the engine: the load client, the machine beside it, the server's own word.

use super::fixture::*;
use super::*;
use infergate::record::{
    ClientHealth, GpuReading, PageCache, Reading, ServerTimings, Spread, Telemetry,
};

/// Four sound blocks of which launch 3 was changed. `None`: a pass.
#[track_caller]
fn expect_rule(plan: &Plan, expect: Option<(&str, &str)>, spoil: impl Fn(&mut Launch)) {
    let session = spoiled(|launch| {
        if launch.position == 3 {
            spoil(launch);
        }
    });
    verdict_is(&judge(plan, &session), expect);
}

#[track_caller]
fn verdict_is(got: &RunVerdict, expect: Option<(&str, &str)>) {
    let check = first(got);
    let text = &check.reason.text;
    match expect {
        None => assert_eq!(check.verdict, Verdict::Pass, "{text}"),
        Some((rule, part)) => {
            let found = (check.verdict, check.reason.rule);
            assert_eq!(found, (Verdict::Invalid, rule), "{text}");
            assert!(
                text.starts_with("launch 3 (") && text.contains(part),
                "{text}"
            );
        }
    }
}

fn health() -> ClientHealth {
    ClientHealth {
        workload: WORKLOAD.into(),
        kernel_share: 1.0,
        streams_asked: 10,
        streams_reached: 10,
        ..ClientHealth::default()
    }
}

fn late_by(ms: f64) -> ClientHealth {
    ClientHealth {
        kernel_share: 0.0,
        loop_delay_ms: Spread {
            p50: ms,
            p99: ms,
            max: ms,
            n: 100,
        },
        ..health()
    }
}

/// The plan on TPOT, its check put on another metric.
fn plan_on(metric: Metric, statistic: Statistic) -> Plan {
    let mut plan = tpot_plan();
    plan.gates[0].checks[0].metric = metric;
    plan.gates[0].checks[0].statistic = statistic;
    plan
}

#[test]
fn a_client_that_reads_late_without_the_kernels_stamps() {
    // One gap of 20 ms a request; the margin is 1 %, so 0.2 ms can be borne.
    let check = |ms: f64, stamped: bool, expect| {
        expect_rule(&tpot_plan(), expect, |launch| {
            launch.clients = vec![late_by(ms)];
            for sample in &mut launch.samples {
                sample.stamps.kernel_stamps = stamped;
            }
        });
    };
    check(0.15, false, None);
    check(0.3, false, Some(("client-late", "late by 0.3 ms")));
    check(5.0, true, None);
}

#[test]
fn a_client_that_sends_late() {
    let plan = plan_on(Metric::Ttft, Statistic::Median);
    // A TTFT of about 20 ms from the intended moment, whatever the client did: 0.2 ms can be borne.
    let check = |late_ns: u64, expect: Option<&str>| {
        let session = spoiled(|launch| {
            for sample in &mut launch.samples {
                sample.stamps.events_ns.remove(0);
                sample.stamps.kernel_stamps = true;
                if launch.position == 3 {
                    sample.stamps.send_ns += late_ns;
                }
            }
        });
        let got = judge(&plan, &session);
        let check = first(&got);
        let rule = (check.verdict == Verdict::Invalid).then_some(check.reason.rule);
        assert_eq!(rule, expect, "{}", check.reason.text);
    };
    check(150_000, None);
    check(250_000, Some("client-late"));
}

#[test]
fn times_that_are_upper_bounds_only() {
    let events: u32 = spoiled(|_| ()).launches[3]
        .samples
        .iter()
        .map(|s| s.stamps.events_ns.len() as u32)
        .sum();
    let check = |plan: &Plan, share: f64, expect| {
        expect_rule(plan, expect, |launch| {
            launch.samples[0].stamps.ambiguous_events = (f64::from(events) * share) as u32;
            for sample in &mut launch.samples {
                sample.stamps.kernel_stamps = true;
            }
        });
    };
    let ambiguous = Some(("ambiguous-events", "arrived together with a later one"));
    let icl = plan_on(Metric::Icl, Statistic::Median);
    check(&icl, 0.09, None);
    check(&icl, 0.2, ambiguous);
    // TPOT is a mean over the answer: what happens between its ends does not touch it.
    check(&tpot_plan(), 0.2, None);
}

#[test]
fn streams_that_were_never_in_flight() {
    let check = |reached: u32, expect| {
        expect_rule(&tpot_plan(), expect, |launch| {
            launch.clients = vec![ClientHealth {
                streams_reached: reached,
                ..health()
            }];
        });
    };
    check(9, None);
    check(
        8,
        Some((
            "streams-not-reached",
            "10 streams were asked for, and at most 8",
        )),
    );
}

#[test]
fn a_server_whose_own_times_contradict_its_streams() {
    // The streams take 20 ms.
    let check = |predicted_ms: f64, requests: usize, expect| {
        expect_rule(&tpot_plan(), expect, |launch| {
            for sample in launch.samples.iter_mut().take(requests) {
                sample.timings = Some(ServerTimings {
                    prompt_n: 8,
                    prompt_ms: 1.0,
                    predicted_n: 2,
                    predicted_ms,
                });
            }
            for sample in launch.samples.iter_mut().skip(requests) {
                sample.timings = Some(ServerTimings {
                    prompt_n: 8,
                    prompt_ms: 1.0,
                    predicted_n: 2,
                    predicted_ms: 20.0,
                });
            }
        });
    };
    let wrong = Some(("server-timings", "the server says 70.0 ms of decoding"));
    check(25.0, 30, None);
    check(70.0, 30, wrong);
    // Some stalls of one clock are none.
    check(70.0, 10, None);
}

fn telemetry(readings: Vec<Reading>) -> Telemetry {
    Telemetry {
        every_ms: 500,
        readings,
        missing: vec![],
    }
}

#[test]
fn another_tenant_on_the_gpu() {
    let check = |others: Option<u32>, expect| {
        expect_rule(&tpot_plan(), expect, |launch| {
            let gpu = GpuReading {
                index: 1,
                other_processes: others,
                ..GpuReading::default()
            };
            launch.telemetry = Some(telemetry(vec![Reading {
                gpus: vec![GpuReading::default(), gpu],
                ..Reading::default()
            }]));
        });
    };
    check(None, None);
    check(Some(0), None);
    check(Some(1), Some(("gpu-shared", "1 other process on GPU 1")));
    check(Some(3), Some(("gpu-shared", "3 other processes on GPU 1")));
}

#[test]
fn other_work_where_the_configuration_bounds_it() {
    let reading = |at_s: u64, machine: f64| Reading {
        at_ns: at_s * 1_000_000_000,
        machine_cpu_s: Some(machine),
        engine_cpu_s: Some(at_s as f64),
        gate_cpu_s: Some(0.25 * at_s as f64),
        ..Reading::default()
    };
    let check = |allowed: Option<f64>, machine: f64, expect| {
        let mut plan = tpot_plan();
        plan.telemetry.others_cpu = allowed;
        expect_rule(&plan, expect, |launch| {
            let readings = vec![reading(0, 100.0), reading(10, 100.0 + machine)];
            launch.telemetry = Some(telemetry(readings));
        });
    };
    // Engine and gate took 12.5 s of the 10 s.
    check(Some(0.5), 17.0, None);
    check(
        Some(0.5),
        18.5,
        Some(("busy-machine", "used 0.6 cores, 0.5 are allowed")),
    );
    check(None, 30.0, None);
}

#[test]
fn a_page_cache_in_another_state_than_asked_for() {
    let check = |wanted: PageCache, share: Option<f64>, expect| {
        let mut plan = tpot_plan();
        plan.gates[0].page_cache = Some(wanted);
        let session = spoiled(|launch| {
            let right = if wanted == PageCache::Cold { 0.0 } else { 1.0 };
            launch.page_cache = Some(wanted);
            launch.startup.resident_share = Some(right);
            if launch.position == 3 {
                launch.startup.resident_share = share;
            }
        });
        verdict_is(&judge(&plan, &session), expect);
    };
    check(PageCache::Cold, Some(0.05), None);
    check(PageCache::Warm, Some(0.95), None);
    check(
        PageCache::Cold,
        Some(0.2),
        Some(("page-cache", "was to be cold, and 20 %")),
    );
    check(
        PageCache::Warm,
        Some(0.9),
        Some(("page-cache", "was to be warm, and 90 %")),
    );
    check(
        PageCache::Cold,
        None,
        Some(("page-cache", "its state was never read")),
    );
}

#[test]
fn arms_that_answer_with_different_numbers_of_tokens() {
    let check = |tokens: u32, expect: Verdict| {
        let session = spoiled(|launch| {
            if launch.arm == Arm::Head {
                for sample in &mut launch.samples {
                    sample.tokens.completion = Some(tokens);
                }
            } else {
                for sample in &mut launch.samples {
                    sample.tokens.completion = Some(100);
                }
            }
        });
        let plan = plan_on(Metric::E2e, Statistic::Median);
        let got = judge(&plan, &session);
        let check = first(&got);
        assert_eq!(check.verdict, expect, "{}", check.reason.text);
        if expect == Verdict::Invalid {
            assert_eq!(check.reason.rule, "token-parity");
        }
    };
    check(100, Verdict::Pass);
    check(99, Verdict::Pass);
    check(97, Verdict::Invalid);
    check(8, Verdict::Invalid);
}
