//! Rules on what surrounds the engine: the load client, the machine beside it, the server's own word.

use super::*;
use fixture::records::*;
use infergate::report::{View, terminal};
use verdict::record::{
    Beside, ClientHealth, GpuReading, Interleave, PageCache, Reading, Remark, ServerTimings,
    Spread, Telemetry,
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
pub(super) fn verdict_is(got: &RunVerdict, expect: Option<(&str, &str)>) {
    let check = first(got);
    let text = &sentence(check);
    match expect {
        None => assert_eq!(check.verdict, Verdict::Pass, "{text}"),
        Some((rule, part)) => {
            let found = (check.verdict, check.reason.rule.name());
            assert_eq!(found, (Verdict::Invalid, rule), "{text}");
            assert!(
                text.starts_with("launch 3 (") && text.contains(part),
                "{text}"
            );
        }
    }
}

pub(crate) fn health() -> ClientHealth {
    ClientHealth {
        workload: WORKLOAD.into(),
        kernel_share: 1.0,
        streams_asked: 10,
        streams_reached: 10,
        ..ClientHealth::default()
    }
}

pub(crate) fn late_by(ms: f64) -> ClientHealth {
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
pub(crate) fn plan_on(metric: Metric, statistic: Statistic) -> Plan {
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
    // A few requests without a stamp hardly move a median.
    for (unstamped, expect) in [(3, None), (4, Some(("client-late", "late by 5 ms")))] {
        expect_rule(&tpot_plan(), expect, |launch| {
            launch.clients = vec![late_by(5.0)];
            for (sample, n) in launch.samples.iter_mut().zip(0..) {
                sample.stamps.kernel_stamps = n >= unstamped;
            }
        });
    }
}

#[test]
fn a_late_client_is_held_against_rates_too() {
    // Streams of 20 ms and a margin of 1 %, whatever is made of them.
    let check = |metric: Metric, statistic: Statistic| {
        for (ms, expect) in [(0.15, None), (0.3, Some(("client-late", "late by 0.3 ms")))] {
            expect_rule(&plan_on(metric, statistic), expect, |launch| {
                launch.clients = vec![late_by(ms)];
            });
        }
    };
    check(Metric::DecodeRate, Statistic::Median);
    check(Metric::Throughput, Statistic::Single);
    check(Metric::E2e, Statistic::Median);
}

/// Four blocks of 20 requests within their 10 ms; in head two come 0.1 ms too late, and every request left
/// so late.
pub(crate) fn narrowly_missed(sent_late_ns: u64) -> RunRecord {
    interleaved(blocks(8, |arm, _| {
        let missed = |i: u32| arm == Arm::Head && i < 2;
        let late = |i: u32| if missed(i) { 10_100_000 } else { 5_000_000 };
        let mut samples: Vec<Sample> = (0..20).map(|i| timed(i, late(i))).collect();
        for sample in &mut samples {
            sample.stamps.events_ns.remove(0);
            sample.stamps.send_ns = sent_late_ns;
            sample.stamps.kernel_stamps = true;
        }
        samples
    }))
}

/// Goodput by a bound of 10 ms on TTFT.
pub(crate) fn goodput(rule: Rule) -> Plan {
    let mut plan = plan_on(Metric::Goodput, Statistic::Single);
    let check = &mut plan.gates[0].checks[0];
    (check.rule, check.min_samples) = (rule, 20);
    check.part.slo = Some(
        Slo {
            ttft_ms: Some(10.0),
            ..Slo::default()
        }
        .into(),
    );
    plan
}

#[test]
fn requests_that_missed_their_bounds_by_the_clients_delay() {
    let check = |rule: Rule, late_ns: u64, verdict: Verdict, name: &str| {
        let got = judge(&goodput(rule), &narrowly_missed(late_ns));
        let check = first(&got);
        let found = (check.verdict, check.reason.rule.name());
        assert_eq!(found, (verdict, name), "{}", sentence(check));
    };
    check(REGRESSION, 50_000, Verdict::Fail, "regression");
    check(REGRESSION, 150_000, Verdict::Invalid, "client-late");
    let floor = |limit| Rule::Floor { limit };
    check(floor(0.95), 50_000, Verdict::Fail, "floor");
    check(floor(0.95), 150_000, Verdict::Invalid, "client-late");
    // A late client makes no request good.
    check(floor(0.9), 150_000, Verdict::Pass, "floor");
}

#[test]
fn what_disturbs_clocks_disturbs_goodput() {
    let plan = goodput(Rule::Floor { limit: 0.5 });
    let rule = |spoil: &dyn Fn(&mut Launch)| {
        let mut session = narrowly_missed(0);
        session.launches.iter_mut().for_each(spoil);
        first(&judge(&plan, &session)).reason.rule.name()
    };
    assert_eq!(rule(&|_| ()), "floor");
    let shared = rule(&|launch| {
        let gpu = GpuReading {
            other_processes: Some(1),
            ..GpuReading::default()
        };
        launch.telemetry = Some(telemetry(vec![Reading {
            gpus: vec![gpu],
            ..Reading::default()
        }]));
    });
    assert_eq!(shared, "gpu-shared");
    // Hardware thermal slowdown, in every block.
    assert_eq!(
        rule(&|launch| launch.throttle_bits = Some(0x40)),
        "throttled"
    );
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
        let rule = (check.verdict == Verdict::Invalid).then_some(check.reason.rule.name());
        assert_eq!(rule, expect, "{}", sentence(check));
    };
    check(150_000, None);
    check(250_000, Some("client-late"));
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
            "at most 8 of 10 requested streams were in flight",
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

pub(crate) fn telemetry(readings: Vec<Reading>) -> Telemetry {
    Telemetry {
        every_ms: 500,
        readings,
        missing: vec![],
        windows: vec![],
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
fn a_tenant_on_a_gpu_that_the_engine_does_not_use() {
    expect_rule(&tpot_plan(), None, |launch| {
        let gpu = |index, engine, others| GpuReading {
            index,
            engine_processes: Some(engine),
            other_processes: Some(others),
            ..GpuReading::default()
        };
        launch.telemetry = Some(telemetry(vec![Reading {
            gpus: vec![gpu(0, 1, 0), gpu(1, 0, 1)],
            ..Reading::default()
        }]));
    });
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
fn a_missed_limit_names_the_work_beside_it() {
    let is_remarked = |limit: f64, others_s: f64| {
        let mut plan = tpot_plan();
        plan.gates[0].checks[0].rule = Rule::Ceiling { limit };
        let session = spoiled(|launch| {
            let reading = |at_s: u64| Reading {
                at_ns: at_s * 1_000_000_000,
                machine_cpu_s: Some(at_s as f64 * (1.0 + others_s)),
                engine_cpu_s: Some(at_s as f64),
                gate_cpu_s: Some(0.0),
                ..Reading::default()
            };
            launch.telemetry = Some(telemetry(vec![reading(0), reading(10)]));
        });
        let got = judge(&plan, &session);
        let remarks = &first(&got).remarks;
        let is_it = |remark: &Remark| matches!(remark, Remark::OthersCpu { .. });
        remarks.iter().any(is_it)
    };
    assert!(is_remarked(1.0, 1.5));
    assert!(!is_remarked(1.0, 0.4));
    assert!(!is_remarked(1e3, 1.5));
}

/// The host takes seconds of processors' time each second, and others use processors, in some launches of both arms.
fn disturbed(noise: f64, stolen_s: f64, others_s: f64) -> RunRecord {
    let mut session = interleaved(tpot_blocks(4, 0.0, noise));
    session.machine.cores = 2;
    for launch in session.launches.iter_mut().filter(|l| l.position % 3 == 1) {
        let reading = |at_s: u64| Reading {
            at_ns: at_s * 1_000_000_000,
            machine_cpu_s: Some(at_s as f64 * (1.0 + others_s)),
            engine_cpu_s: Some(at_s as f64),
            gate_cpu_s: Some(0.0),
            steal_s: Some(at_s as f64 * stolen_s),
            ..Reading::default()
        };
        launch.telemetry = Some(telemetry(vec![reading(0), reading(10)]));
    }
    session
}

#[test]
fn a_terminal_says_once_what_disturbed_every_check() {
    let session = disturbed(0.05, 0.66, 1.0);
    let mut got = judge(&tpot_plan(), &session);
    let alike = first(&got).clone();
    let mut other = alike.clone();
    // Another sentence, so another paragraph.
    other.head = Some(99.0);
    got.gates[0].checks.extend([alike, other]);
    let text = terminal(&session, &got, View::default());
    let text = fixture::unwrapped(&text);
    assert_eq!(text.matches("shown neither to be").count(), 2, "{text}");
    assert_eq!(text.matches("disturbed: ").count(), 1, "{text}");
}

#[test]
fn a_comparison_that_stays_open_names_what_disturbed_it() {
    let remarked = |noise: f64, stolen_s: f64, others_s: f64| {
        let got = judge(&tpot_plan(), &disturbed(noise, stolen_s, others_s));
        notes(first(&got)).join("; ")
    };
    let text = remarked(0.05, 0.66, 1.0);
    let parts = [
        "disturbed: the host took up to 33 % of the processors' time (launch ",
        "other processes used up to 1 processors (launch ",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert!(!remarked(0.05, 0.02, 0.2).contains("disturbed"));
    // What was decided needs no excuse.
    assert!(!remarked(0.003, 0.66, 1.0).contains("disturbed"));
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
        Some(("page-cache", "should be cold, but 20 %")),
    );
    check(
        PageCache::Warm,
        Some(0.9),
        Some(("page-cache", "should be warm, but 90 %")),
    );
    check(
        PageCache::Cold,
        None,
        Some(("page-cache", "its state was never read")),
    );
}

/// Two engines that run at the same time: what one does in the other's turn slows that.
#[test]
fn an_engine_that_works_while_the_other_answers() {
    let check = |cpu_s: Option<f64>, expect| {
        let mut plan = tpot_plan();
        plan.gates[0].interleave = Interleave::Requests;
        let session = spoiled(|launch| {
            launch.interleave = Interleave::Requests;
            let read = |cpu_s| Beside {
                waited_s: 2.0,
                cpu_s,
            };
            launch.beside = match launch.position {
                3 => cpu_s.map(read),
                _ => Some(read(0.02)),
            };
        });
        verdict_is(&judge(&plan, &session), expect);
    };
    // The margin of 1 % of two seconds, and 20 ms.
    check(Some(0.04), None);
    check(
        Some(0.5),
        Some((
            "busy-beside",
            "while the other arm's answered was 0.25 cores",
        )),
    );
    check(None, Some(("busy-beside", "was not read")));
}

/// Each block has a speed of its own, by up to 20 %, which both of its launches share.
#[test]
fn launches_that_took_turns_are_compared_in_pairs() {
    let check = |interleave: Interleave, change: f64, expect: Verdict| {
        let mut plan = tpot_plan();
        plan.gates[0].interleave = interleave;
        let mut session = interleaved(blocks(8, |arm, block| {
            let shift = if arm == Arm::Head { 1.0 + change } else { 1.0 };
            let own = 1.0 + 0.002 * noise(arm, block);
            around(20.0 * shift * own * (1.0 + 0.1 * noise(Arm::Base, block)))
        }));
        for launch in &mut session.launches {
            launch.interleave = interleave;
            launch.beside = Some(Beside {
                waited_s: 1.0,
                cpu_s: 0.0,
            });
        }
        let got = judge(&plan, &session);
        assert_eq!(got.verdict, expect, "{}", summary(&got));
    };
    check(Interleave::Launches, 0.0, Verdict::Inconclusive);
    check(Interleave::Requests, 0.0, Verdict::Pass);
    check(Interleave::Requests, 0.06, Verdict::Fail);
}

/// Head told ever more prompt tokens, so that a prefill of the whole history looked as if each turn had added much.
#[test]
fn arms_that_count_different_prompt_tokens() {
    let check = |tokens: u32, expect: Verdict| {
        let session = spoiled(|launch| {
            for sample in &mut launch.samples {
                sample.tokens.prompt = Some(match launch.arm {
                    Arm::Head => tokens,
                    Arm::Base => 100,
                });
            }
        });
        let got = judge(&plan_on(Metric::E2e, Statistic::Median), &session);
        let check = first(&got);
        assert_eq!(check.verdict, expect, "{}", sentence(check));
        if expect != Verdict::Pass {
            assert_eq!(check.reason.rule.name(), "token-parity");
            let counts = format!("head counts {tokens} tokens in a prompt, base 100");
            assert!(sentence(check).contains(&counts));
        }
    };
    check(100, Verdict::Pass);
    // One token more at the beginning is hardly more work, and another prompt.
    check(101, Verdict::Inconclusive);
    check(97, Verdict::Invalid);
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
        assert_eq!(check.verdict, expect, "{}", sentence(check));
        if expect == Verdict::Invalid {
            assert_eq!(check.reason.rule.name(), "token-parity");
        }
    };
    check(100, Verdict::Pass);
    check(99, Verdict::Pass);
    check(97, Verdict::Invalid);
    check(8, Verdict::Invalid);
}
