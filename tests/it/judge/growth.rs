//! Growth of a gauge over readings that vary.

use verdict::record::{EngineReading, Reading, Telemetry};

use super::*;
use fixture::random::Random;
use fixture::records::*;
use verdict::stats;

/// Blocks of a request of 1 s, during which head's KV gauge reads what is given, every 50 ms.
pub(crate) fn gauged(count: u32, head: impl Fn(u32, usize) -> f64) -> RunRecord {
    let mut launches = blocks(count, |_, _| vec![timed(0, 1_000_000_000)]);
    let mut of_head = 0;
    for launch in &mut launches {
        let readings = (0..20).map(|i| Reading {
            at_ns: i as u64 * 50_000_000,
            engine: EngineReading {
                kv_bytes: Some(match launch.arm {
                    Arm::Head => head(of_head, i),
                    Arm::Base => 5e5,
                }),
                ..EngineReading::default()
            },
            ..Reading::default()
        });
        launch.telemetry = Some(Telemetry {
            every_ms: 50,
            readings: readings.collect(),
            missing: vec![],
            windows: vec![],
        });
        of_head += u32::from(launch.arm == Arm::Head);
    }
    interleaved(launches)
}

/// Requests of three pages or six, more of the small ones first: by the median of all pairs' slopes 27 % more at
/// the end.
pub(crate) fn by_chance(i: usize) -> f64 {
    const PAGES: [f64; 20] = [
        3.1, 6.0, 3.0, 5.2, 3.2, 5.1, 5.9, 3.3, 5.0, 3.4, 6.2, 5.3, 6.1, 3.6, 6.3, 5.4, 3.5, 6.4,
        5.5, 6.5,
    ];
    PAGES[i] * 1e5
}

#[test]
fn growth_that_chance_alone_can_show_fails_nothing() {
    let rule = Rule::Ceiling { limit: 0.1 };
    let plan = plan(
        vec![workload(None, steady())],
        vec![check("growth", Metric::KvGrowth, Statistic::Single, rule)],
    );
    let expect = |record: &RunRecord, verdict: Verdict, rule: &str, part: &str| {
        let got = judge(&plan, record);
        let text = &sentence(first(&got));
        assert_eq!(
            (got.verdict, first(&got).reason.rule.name()),
            (verdict, rule),
            "{text}"
        );
        assert!(text.contains(part), "{text}");
        got.decision
    };
    let chance = |_, i| by_chance(i);
    let said = "this may be chance";
    let decision = expect(
        &gauged(1, chance),
        Verdict::Inconclusive,
        "too-few-launches",
        said,
    );
    assert_ne!(decision, Decision::Stop, "more launches may tell");
    let all = gauged(20, chance);
    expect(&all, Verdict::Inconclusive, "growth-by-chance", said);
    // As many readings that double, each a tenth beside the line.
    let doubling = |i: usize| 3e5 * 2f64.powf(i as f64 / 19.0) * [0.9, 1.1][i % 2];
    let leak = gauged(1, |_, i| doubling(i));
    let decision = expect(&leak, Verdict::Fail, "ceiling", "above the ceiling");
    assert_eq!(decision, Decision::Stop);
    // What decided stands beside it.
    expect(&leak, Verdict::Fail, "ceiling", " of 10 %: at least ");
    // A launch that shows it is enough, although the worst value is another's.
    let one = gauged(4, |launch, i| match launch {
        1 => doubling(i),
        _ => by_chance(i),
    });
    expect(&one, Verdict::Fail, "ceiling", "above the ceiling");
    // A gauge that reads 0 but once shows nothing, and passes nothing.
    let once = gauged(4, |_, i| if i == 9 { 4096.0 } else { 0.0 });
    expect(
        &once,
        Verdict::Invalid,
        "missing-value",
        "1 readings above 0 where 8 are needed",
    );
    let still = gauged(4, |_, i| 4e5 + by_chance(i % 2));
    expect(&still, Verdict::Pass, "ceiling", "not above the ceiling");
}

/// What the bound promises holds for readings that know nothing of one another.
#[test]
fn neighbours_that_resemble_one_another_show_growth_by_chance() {
    const SERIES: u32 = 2_000;
    let times: Vec<f64> = (0..60).map(f64::from).collect();
    let mut random = Random(0x0009_0157);
    let mut series = |rho: f64| -> Vec<f64> {
        let mut y = random.normal();
        let next = |_: &f64| {
            let now = y;
            y = rho * y + (1.0 - rho * rho).sqrt() * random.normal();
            0.3 * now
        };
        times.iter().map(next).collect()
    };
    let mut shown = |rho: f64| {
        let least = (0..SERIES).map(|_| stats::theil_sen_least(&times, &series(rho), 0.001));
        let growth: Vec<f64> = least
            .map(|slope| (slope.unwrap() * 59.0).exp_m1())
            .collect();
        let beyond = |limit: f64| growth.iter().filter(|&&least| least > limit).count();
        (beyond(0.0), beyond(0.2))
    };
    let [independent, half, alike] = [0.0, 0.5, 0.8].map(|rho| {
        let (growing, beyond) = shown(rho);
        println!("rho {rho}: {growing} of {SERIES} above 0, {beyond} above 20 %");
        growing
    });
    assert!(
        independent <= 8,
        "{independent}: four times what is promised"
    );
    assert!(independent < half && half < alike);
}
