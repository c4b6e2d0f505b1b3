//! Counters and energy of scripted readings.

use crate::metrics::testing::{check, launch, steady, streamed};
use crate::metrics::{LaunchMeasure, Undefined, Why, measure};
use crate::plan::{Check, EngineSeries, Named};
use crate::record::{
    Edge, GpuReading, Launch, Metric, Phase, Reading, Statistic, Telemetry, Void, VoidRule, Window,
};

const MS: u64 = 1_000_000;

fn series(name: &str) -> EngineSeries {
    EngineSeries {
        name: name.into(),
        labels: vec![],
    }
}

fn counter(metric: Metric) -> Check {
    let mut c = check(metric, Statistic::Single);
    c.part.named = Some(Named {
        series: series("dispatches"),
        over: (metric == Metric::CounterRatio).then(|| series("steps")),
        allow_zero: false,
    });
    c
}

fn edge(at_ms: u64, dispatches: f64, steps: f64) -> Edge {
    Edge {
        at_ns: at_ms * MS,
        counters: [("dispatches".into(), dispatches), ("steps".into(), steps)].into(),
        energy_mj: [(0, at_ms * 300), (1, at_ms * 50)].into(),
    }
}

fn window(first: u32, last: u32, begin: Edge, end: Edge) -> Window {
    Window {
        workload: "w".into(),
        first,
        last,
        begin,
        end,
    }
}

/// A warm-up request and four measured ones of ten tokens, in two windows; GPU 0 is the engine's.
fn counted() -> Launch {
    let mut samples: Vec<_> = (0..5).map(|i| streamed("w", i, 10.0, 10.0, 10)).collect();
    samples[0].phase = Phase::Warmup;
    let mut l = launch(0, samples);
    let gpu = |index, engine_processes| GpuReading {
        index,
        engine_processes: Some(engine_processes),
        ..GpuReading::default()
    };
    l.telemetry = Some(Telemetry {
        windows: vec![
            window(1, 2, edge(0, 100.0, 10.0), edge(2000, 900.0, 30.0)),
            window(3, 4, edge(2500, 950.0, 31.0), edge(4500, 1750.0, 51.0)),
        ],
        readings: vec![Reading {
            gpus: vec![gpu(0, 1), gpu(1, 0)],
            ..Reading::default()
        }],
        ..Telemetry::default()
    });
    l
}

fn of(check: &Check, launch: &Launch) -> Result<LaunchMeasure, Undefined> {
    measure(check, &steady("w"), launch)
}

fn windows(launch: &mut Launch) -> &mut Vec<Window> {
    &mut launch.telemetry.as_mut().unwrap().windows
}

#[test]
fn rises_are_added_over_windows_and_what_lies_between_is_not_counted() {
    for (metric, expect, remark) in [
        (
            Metric::CounterPerToken,
            40.0,
            "`dispatches` rose by 1600; requests 4, output tokens 40",
        ),
        (
            Metric::CounterPerRequest,
            400.0,
            "`dispatches` rose by 1600; requests 4",
        ),
        (
            Metric::CounterIncrease,
            1600.0,
            "`dispatches` rose by 1600; requests 4",
        ),
        (
            Metric::CounterTotal,
            1750.0,
            "`dispatches` rose by 1600; requests 4",
        ),
        (
            Metric::CounterRatio,
            40.0,
            "`dispatches` rose by 1600; requests 4; `steps` by 40",
        ),
    ] {
        let m = of(&counter(metric), &counted()).unwrap();
        assert!((m.value - expect).abs() < 1e-9, "{metric}: {}", m.value);
        assert_eq!((m.samples, m.remarks), (4, vec![remark.to_owned()]));
    }
}

#[test]
fn a_counter_that_says_nothing_has_no_value() {
    let per_token = counter(Metric::CounterPerToken);
    let why = |check: &Check, launch: &Launch| of(check, launch).unwrap_err().why;

    let mut absent = counted();
    windows(&mut absent)[1].end.counters.remove("dispatches");
    let name = || "dispatches".to_owned();
    assert_eq!(why(&per_token, &absent), Why::NoCounter(name()));

    // Within a window, and between two of them.
    for (place, expect) in [(0, ("100", "50")), (1, ("900", "50"))] {
        let mut reset = counted();
        let window = &mut windows(&mut reset)[place];
        let edge = if place == 0 {
            &mut window.end
        } else {
            &mut window.begin
        };
        edge.counters.insert(name(), 50.0);
        let (from, to) = (expect.0.to_owned(), expect.1.to_owned());
        let reset = why(&per_token, &reset);
        assert_eq!(
            reset,
            Why::CounterReset {
                name: name(),
                from,
                to
            }
        );
    }

    let mut dead = counted();
    for window in windows(&mut dead) {
        window.begin.counters.insert(name(), 7.0);
        window.end.counters.insert(name(), 7.0);
    }
    assert_eq!(why(&per_token, &dead), Why::NeverMoved(name()));
    let mut may_rest = per_token.clone();
    may_rest.part.named.as_mut().unwrap().allow_zero = true;
    assert!(of(&may_rest, &dead).unwrap().value.abs() < 1e-12);
    assert!(of(&counter(Metric::CounterTotal), &dead).is_ok());
    let mut steps = counter(Metric::CounterRatio);
    steps.part.named.as_mut().unwrap().over = Some(series("dispatches"));
    steps.part.named.as_mut().unwrap().series = series("steps");
    assert_eq!(why(&steps, &dead), Why::NeverMoved(name()));

    let mut void = counted();
    void.samples[2].void = Some(Void {
        rule: VoidRule::TokenCounts,
        detail: String::new(),
    });
    assert_eq!(why(&per_token, &void), Why::VoidCounted);

    let mut unread = counted();
    windows(&mut unread).pop();
    assert_eq!(why(&per_token, &unread), Why::NoWindow);
    windows(&mut unread).clear();
    assert_eq!(why(&per_token, &unread), Why::NoWindow);
    unread.telemetry = None;
    assert_eq!(why(&per_token, &unread), Why::NoTelemetry);
}

#[test]
fn energy_is_that_of_the_engines_gpus_over_the_tokens() {
    let energy = check(Metric::EnergyPerToken, Statistic::Single);
    // Two windows of 2 s at 300 W: 1,200 J over 40 tokens.
    let m = of(&energy, &counted()).unwrap();
    assert!((m.value - 30.0).abs() < 1e-9, "{}", m.value);
    assert_eq!(m.remarks, ["1200.0 J; GPUs 1, output tokens 40"]);

    let why = |launch: &Launch| of(&energy, launch).unwrap_err().why;
    let mut none = counted();
    windows(&mut none)[1].begin.energy_mj.clear();
    assert_eq!(why(&none), Why::NoEnergy(0));
    let mut backwards = counted();
    windows(&mut backwards)[0].end.energy_mj.insert(0, 0);
    windows(&mut backwards)[0].begin.energy_mj.insert(0, 1);
    assert_eq!(why(&backwards), Why::NoEnergy(0));
    let mut short = counted();
    windows(&mut short)[1].end.at_ns = 3499 * MS;
    assert_eq!(why(&short), Why::TooShortForEnergy { ms: 999 });
    let mut no_gpu = counted();
    no_gpu.telemetry.as_mut().unwrap().readings.clear();
    assert_eq!(why(&no_gpu), Why::NoGpu);
}
