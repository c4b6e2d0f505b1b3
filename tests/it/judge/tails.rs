//! A change of few requests: shares of requests beyond a multiple of their launch's median.

use super::*;
use fixture::random::Random;
use fixture::records::*;
use verdict::plan::{Bound, RequestBounds};

/// Head's slow requests: so many of 100, and how slow.
#[derive(Clone, Copy)]
struct Tail {
    share: f64,
    factor: f64,
}

/// Blocks of 100 requests a launch, as the gate `tpot` sends them (quick). Launches vary by 0.9 %, requests by 0.6 %, and one
/// request of a hundred takes 1.5 to 4 times as long, in both arms.
fn session(random: &mut Random, tail: Tail) -> RunRecord {
    let mut session = interleaved(blocks(16, |arm, _| {
        let launch = 20e6 * (0.009 * random.normal()).exp();
        let request = |i| {
            let mut ns = launch * (0.006 * random.normal()).exp();
            if random.uniform() < 0.01 {
                ns *= 1.5 + 2.5 * random.uniform();
            }
            if random.uniform() < tail.share && arm == Arm::Head {
                ns *= tail.factor;
            }
            timed(i, ns.round() as i64)
        };
        (0..100).map(request).collect()
    }));
    session.ending = Ending::LastLook;
    session
}

fn tail_plan() -> Plan {
    let mut tail = check("tail", Metric::Goodput, Statistic::Single, REGRESSION);
    tail.part.slo = Some(RequestBounds {
        tpot: Some(Bound::Medians(1.5)),
        ..RequestBounds::default()
    });
    let mut plan = plan(vec![workload(None, steady())], vec![tail]);
    plan.design.looks = vec![4, 5, 6, 8, 10, 12, 16];
    plan.design.spending = Spending::Pocock;
    plan
}

/// Of 100 sessions: red and green ones.
fn judged(seed: u64, tail: Tail) -> (u32, u32) {
    let plan = tail_plan();
    let (mut red, mut green) = (0, 0);
    for i in 0..100 {
        let got = judge(&plan, &session(&mut Random(seed + i), tail));
        red += u32::from(got.verdict == Verdict::Fail);
        green += u32::from(got.verdict == Verdict::Pass);
    }
    (red, green)
}

#[test]
fn four_slow_requests_of_a_hundred_are_found() {
    let tail = |share, factor| Tail { share, factor };
    let (red, green) = judged(0x7a11_0000, tail(0.04, 1.8));
    assert!(red >= 95 && green <= 2, "{red} red, {green} green");
    let (red, green) = judged(0x7a12_0000, tail(0.0, 1.0));
    assert!(red == 0 && green >= 95, "{red} red, {green} green");
    // The share within the bound falls from 99 % by exactly the margin of 1 %.
    let (red, _) = judged(0x7a13_0000, tail(0.01 / 1.01, 1.8));
    assert!(red <= 2, "{red} red");
}
