//! Caveats of a comparison: launches that failed, throttled, shared their GPU, or were
//! measured by a late client; and what TPOT had to estimate.
//!
//! Main function: [`of_record`]. No caveat drops a launch: a comparison has no verdict to protect.

use crate::commands::load::limits::beyond_limit;
use crate::report;
use verdict::judge::{first_event_estimate, shared_gpu};
use verdict::metrics::{implausible, run_numbers};
use verdict::plan::{Arrivals, Engine, Slo, Workload, WorkloadKind};
use verdict::plural::count;
use verdict::record::{Arm, Ending, Launch, RunRecord, Sample};

/// One line each, of head's launches; what is said of answers and of the client is about this workload. `engine`: the
/// one of the plan, where the record describes none.
pub fn of_record(record: &RunRecord, engine: &Engine, workload: Option<&Workload>) -> Vec<String> {
    let launches = record.launches.iter();
    let launches: Vec<&Launch> = launches.filter(|l| l.arm == Arm::Head).collect();
    let mut lines = Vec::new();
    if record.is_imported() {
        lines.push("imported: its client's own delays are unknown".to_owned());
    } else if let Some(workload) = workload {
        let clean = || launches.iter().filter(|launch| launch.exit.is_clean());
        let sound = || clean().flat_map(|launch| sound(launch, workload));
        let estimated = first_event_estimate(sound());
        lines.extend(estimated.map(|events| report::first_events("answers", events)));
        // A floor that is known decides instead, by request.
        let described = record.described.as_ref();
        let floor = described.map_or(engine.plausible.tpot_floor_ms, |it| it.tpot_floor_ms);
        let of_workload = |launch: &&Launch| {
            let samples = launch.samples.iter();
            implausible(samples.filter(|sample| sample.workload == workload.id))
        };
        let found = clean().find_map(of_workload);
        lines.extend(found.filter(|_| floor.is_none()));
    }
    lines.extend(counted(&launches, "failed", |launch| {
        (!launch.exit.is_clean()).then(String::new)
    }));
    lines.extend(counted(
        &launches,
        "ran on a GPU that throttled",
        |launch| launch.is_throttled().then(String::new),
    ));
    lines.extend(counted(&launches, "shared their GPU", |launch| {
        let (index, others) = shared_gpu(launch)?;
        Some(format!(": {others} other on GPU {index}"))
    }));
    let client = "had a client that was not good enough";
    lines.extend(counted(&launches, client, |launch| {
        let how = client_beyond_limit(launch, workload?)?;
        Some(format!(": {how}"))
    }));
    lines
}

/// Why a session is no measurement as a whole: it was cut short, or nothing was answered.
pub fn unsound(record: &RunRecord, sent: u64, void: u64) -> Vec<String> {
    let ending = match &record.ending {
        Ending::Interrupted => Some("it was interrupted"),
        Ending::Unfinished => Some("it was not finished"),
        Ending::EngineFailed { .. } => Some("it ended early, since an engine failed"),
        Ending::Decided | Ending::LastLook | Ending::Budget { .. } => None,
    };
    let mut heads = record.launches.iter().filter(|l| l.arm == Arm::Head);
    let answers = if !heads.any(|launch| launch.exit.is_clean()) {
        Some("no launch of it ended as it should")
    } else if sent > 0 && void == sent {
        Some("every request failed")
    } else {
        None
    };
    let reasons = ending.into_iter().chain(answers);
    reasons.map(str::to_owned).collect()
}

/// The requests of this workload that enter a number.
fn sound<'a>(launch: &'a Launch, workload: &Workload) -> impl Iterator<Item = &'a Sample> {
    let samples = launch.samples.iter();
    samples.filter(move |sample| sample.workload == workload.id && sample.may_enter())
}

/// `2 of 3 launches WHAT`, with the first one's detail; `None` where none did.
fn counted(
    launches: &[&Launch],
    what: &str,
    detail: impl Fn(&Launch) -> Option<String>,
) -> Option<String> {
    let found: Vec<String> = launches
        .iter()
        .filter_map(|launch| detail(launch))
        .collect();
    let first = found.first()?;
    Some(format!(
        "{} of {} {what}{first}",
        found.len(),
        count(launches.len(), "launch")
    ))
}

/// The first way in which the client could have moved this launch's numbers.
fn client_beyond_limit(launch: &Launch, workload: &Workload) -> Option<String> {
    let health = launch.client(&workload.id)?;
    let samples = launch.samples.iter();
    let samples: Vec<Sample> = samples
        .filter(|sample| sample.workload == workload.id)
        .cloned()
        .collect();
    let streams = streams(&workload.kind);
    let numbers = run_numbers(&samples, streams, &Slo::default());
    beyond_limit(health, streams, &numbers).into_iter().next()
}

/// How many streams a closed loop keeps in flight.
fn streams(kind: &WorkloadKind) -> Option<u32> {
    let (arrivals, requests) = match kind {
        WorkloadKind::Steady(steady) => (&steady.arrivals, steady.requests),
        WorkloadKind::Mixed(mixed) => (&mixed.arrivals, mixed.requests),
        _ => return None,
    };
    match arrivals {
        Arrivals::Closed { concurrency } => Some(requests.min(*concurrency)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::plan::{self, Plan};
    use verdict::record::{
        ClientHealth, Described, Exit, GpuReading, RUN_FORMAT, Reading, Spread, Telemetry,
        UNKNOWN_MACHINE,
    };

    /// The recorded session that all formats are held to, and its plan.
    fn recorded() -> (RunRecord, Plan) {
        let text = include_str!("../../../../tests/data/run-v1.json");
        let record: RunRecord = serde_json::from_str(text).unwrap();
        assert_eq!(record.format, RUN_FORMAT);
        let plan = plan::from_record(&record).unwrap();
        (record, plan)
    }

    #[track_caller]
    fn check(spoil: impl Fn(&mut RunRecord), expect: Option<&str>) {
        let (mut record, plan) = recorded();
        let workload = plan.gates[0].workloads.first();
        let sound = of_record(&record, &plan.engine, workload);
        assert_eq!(sound, [""; 0]);
        spoil(&mut record);
        let lines = of_record(&record, &plan.engine, workload);
        match expect {
            None => assert_eq!(lines, [""; 0]),
            Some(part) => assert!(lines.len() == 1 && lines[0].contains(part), "{lines:?}"),
        }
    }

    fn head(record: &mut RunRecord) -> impl Iterator<Item = &mut Launch> {
        let launches = record.launches.iter_mut();
        launches.filter(|launch| launch.arm == Arm::Head)
    }

    #[test]
    fn what_befell_a_launch_is_told() {
        check(
            |record| {
                let exit = Exit::Hung {
                    detail: String::new(),
                    log_tail: String::new(),
                };
                head(record).next().unwrap().exit = exit;
            },
            Some("1 of 4 launches failed"),
        );
        let throttled = |bits| {
            move |record: &mut RunRecord| {
                for launch in head(record).take(2) {
                    launch.throttle_bits = Some(bits);
                }
            }
        };
        check(
            throttled(0x20),
            Some("2 of 4 launches ran on a GPU that throttled"),
        );
        // The power cap is no heat.
        check(throttled(0x4), None);
        let gpu = |index, engine, others| GpuReading {
            index,
            engine_processes: Some(engine),
            other_processes: Some(others),
            ..GpuReading::default()
        };
        let beside = |gpus: Vec<GpuReading>| {
            move |record: &mut RunRecord| {
                head(record).next().unwrap().telemetry = Some(Telemetry {
                    readings: vec![Reading {
                        gpus: gpus.clone(),
                        ..Reading::default()
                    }],
                    ..Telemetry::default()
                });
            }
        };
        check(
            beside(vec![gpu(0, 1, 2), gpu(1, 0, 5)]),
            Some("1 of 4 launches shared their GPU: 2 other on GPU 0"),
        );
        check(beside(vec![gpu(0, 1, 0), gpu(1, 0, 5)]), None);
        check(
            |record| record.machine.fingerprint = UNKNOWN_MACHINE.to_owned(),
            Some("client's own delays are unknown"),
        );
    }

    #[test]
    fn an_estimate_of_the_first_event_is_reported() {
        check(
            |record| {
                for sample in head(record).flat_map(|launch| &mut launch.samples) {
                    sample.tokens.completion = Some(192);
                }
            },
            Some("answers have 4 tokens an event, and nothing tells how many the first one had"),
        );
    }

    #[test]
    fn impossible_speeds_are_told_where_no_floor_is_known() {
        let held_back = |record: &mut RunRecord| {
            let samples = head(record).flat_map(|launch| &mut launch.samples);
            // One after another: none waits for another's end.
            for (sample, turn) in samples.zip(0..) {
                sample.stamps.send_ns = turn * 10_000_000_000;
                let first = sample.stamps.send_ns + 2_000_000_000;
                sample.stamps.events_ns.fill(first);
                sample.tokens.prompt = Some(8);
                // The server's own word would be that its prefill was short.
                sample.timings = None;
            }
        };
        check(held_back, Some("no engine generates in no time"));
        let known = |record: &mut RunRecord| {
            held_back(record);
            record.described = Some(Described {
                tpot_floor_ms: Some(1e-6),
                ..Described::default()
            });
        };
        check(known, None);
    }

    #[test]
    fn a_client_that_was_not_good_enough_is_told() {
        let (_, plan) = recorded();
        let id = plan.gates[0].workloads[0].id.clone();
        let late = |workload: &str| {
            let client = ClientHealth {
                workload: workload.to_owned(),
                kernel_share: 1.0,
                streams_reached: 1_000,
                send_lag_ms: Spread {
                    p99: 1e6,
                    ..Spread::default()
                },
                ..ClientHealth::default()
            };
            move |record: &mut RunRecord| {
                for launch in head(record).skip(1) {
                    launch.clients = vec![client.clone()];
                }
            }
        };
        let told =
            "3 of 4 launches had a client that was not good enough: one request in a hundred left";
        check(late(&id), Some(told));
        check(late("another/workload"), None);
    }
}
