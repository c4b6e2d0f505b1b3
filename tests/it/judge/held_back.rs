//! Engines that hold output back until it was made, so that its tokens seem to come fast.

use super::counters::{limited_plan, shorter};
use super::surroundings::plan_on;
use super::*;
use fixture::records::*;
use verdict::record::{ClientHealth, Phase, ServerTimings};

/// A stream of 64 tokens to a prompt of 70. Times of a request differ a little from those of the next.
pub(crate) fn stream(index: u32, send_ms: f64, ttft_ms: f64, tpot_ms: f64) -> Sample {
    let mut sample = sample(index);
    let tpot_ms = tpot_ms * (1.0 + 1e-3 * f64::from(index % 7));
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    let event = |k: u32| ns(send_ms + ttft_ms + tpot_ms * f64::from(k));
    sample.stamps.intended_ns = ns(send_ms);
    sample.stamps.send_ns = ns(send_ms);
    sample.stamps.events_ns = (0..64).map(event).collect();
    sample.tokens.prompt = Some(70);
    sample.tokens.completion = Some(64);
    sample.tokens.events = 64;
    sample
}

/// Four blocks of 30 requests one after another after a warm-up request. Base has a TTFT of 20 ms and this TPOT; head
/// answers by `head`.
pub(crate) fn beside(tpot_ms: f64, head: impl Fn(u32, f64) -> Sample) -> RunRecord {
    interleaved(blocks(4, |arm, block| {
        let slower = 1.0 + 0.003 * noise(arm, block);
        let of = |index: u32| {
            let send_ms = 10_000.0 * f64::from(index);
            let mut sample = match arm {
                Arm::Base => stream(index, send_ms, 20.0, tpot_ms * slower),
                Arm::Head => head(index, slower),
            };
            if index == 0 {
                sample.phase = Phase::Warmup;
            }
            sample
        };
        (0..31).map(of).collect()
    }))
}

/// The same where head's requests are sent one after another with this TTFT and TPOT.
pub(crate) fn in_turn(tpot_ms: f64, ttft_ms: f64, head_tpot_ms: f64) -> RunRecord {
    beside(tpot_ms, |index, slower| {
        let send_ms = 10_000.0 * f64::from(index);
        stream(index, send_ms, ttft_ms, head_tpot_ms * slower)
    })
}

#[track_caller]
fn check(session: &RunRecord, verdict: Verdict, rule: &str, part: &str) {
    let got = judge(&tpot_plan(), session);
    let check = first(&got);
    let text = sentence(check);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (verdict, rule),
        "{text}"
    );
    assert!(text.contains(part), "{text}");
}

#[test]
fn timings_of_head_excuse_nothing() {
    let mut session = in_turn(3.0, 1_004.0, 0.13);
    let launches = session.launches.iter_mut();
    for launch in launches.filter(|launch| launch.arm == Arm::Head) {
        for sample in &mut launch.samples {
            sample.timings = Some(ServerTimings {
                prompt_n: 70,
                prompt_ms: 12.0,
                predicted_n: 64,
                predicted_ms: 8.2,
            });
        }
    }
    let part = "a prompt of 70 tokens waited 1004.0 ms for its first token";
    check(&session, Verdict::Invalid, "implausible-phases", part);
}

#[test]
fn answers_that_end_at_any_time_excuse_nothing() {
    for in_flight in [2, 4, 8] {
        let session = beside(3.0, |index, slower| {
            let (lane, turn) = (index % in_flight, index / in_flight);
            let jitter = f64::from(index * index % 7);
            let send_ms = 1_100.0 * (f64::from(turn) + f64::from(lane) / f64::from(in_flight));
            stream(index, send_ms + jitter, 1_000.0, 0.01 * slower)
        });
        let part = "no engine generates";
        check(&session, Verdict::Invalid, "implausible-phases", part);
    }
}

#[test]
fn some_honest_answers_excuse_not_the_others() {
    let honest = |of_seven: u32| {
        beside(3.0, move |index, slower| {
            let (ttft_ms, tpot_ms) = match index % 7 < of_seven {
                true => (20.0, 3.1),
                false => (1_004.0, 0.13),
            };
            stream(
                index,
                10_000.0 * f64::from(index),
                ttft_ms,
                tpot_ms * slower,
            )
        })
    };
    for of_seven in [1, 2, 3] {
        check(
            &honest(of_seven),
            Verdict::Invalid,
            "implausible-phases",
            "",
        );
    }
}

#[test]
fn output_held_back_for_less_than_250_ms_is_no_pass() {
    let part = "first to last token took 3.324 % of base's time, and whole answers took 103.1 %";
    check(
        &in_turn(3.0, 210.0, 0.1),
        Verdict::Inconclusive,
        "held-back",
        part,
    );
}

/// A session of equal arms whose streams end when this says of an arm and a sample, ns.
fn ending(at_ns: impl Fn(Arm, &Sample) -> Option<u64>) -> RunRecord {
    let mut session = in_turn(3.0, 20.0, 3.0);
    for launch in &mut session.launches {
        for sample in &mut launch.samples {
            sample.stamps.done_ns = at_ns(launch.arm, sample);
        }
    }
    session
}

/// Between the last token and the stream's end, base takes 0.1 ms and head so long.
pub(crate) fn ends_after(head_ms: f64) -> RunRecord {
    ending(|arm, sample| {
        let late_ms = if arm == Arm::Head { head_ms } else { 0.1 };
        let last = sample.stamps.events_ns.last()?;
        Some(last + (late_ms * 1e6) as u64)
    })
}

#[test]
fn a_stream_that_ends_late_is_no_pass() {
    // The margin is 1 % of 209 ms.
    let part = "head's streams end 2.4 ms after their last token, base's 0.1 ms";
    check(&ends_after(2.4), Verdict::Inconclusive, "late-end", part);
    check(&ends_after(2.1), Verdict::Pass, "regression", "");
    // `[DONE]` comes in time, and the stream's end does not.
    let mut held = ends_after(2.4);
    let samples = held.launches.iter_mut().flat_map(|l| &mut l.samples);
    for stamps in samples.map(|sample| &mut sample.stamps) {
        stamps.end_ns = stamps.done_ns;
        stamps.done_ns = stamps.events_ns.last().copied();
    }
    check(&held, Verdict::Inconclusive, "late-end", part);
}

/// Head's warm-up request takes this long, base's 0.3 s.
pub(crate) fn warming_up(head_ms: f64) -> RunRecord {
    ending(|arm, sample| match sample.phase {
        Phase::Warmup => {
            let ms = if arm == Arm::Head { head_ms } else { 300.0 };
            Some(sample.stamps.send_ns + (ms * 1e6) as u64)
        }
        Phase::Measured => sample.stamps.events_ns.last().copied(),
    })
}

#[test]
fn a_head_that_compiles_in_the_warm_up_is_no_pass() {
    let part = "head's slowest warm-up request takes 20000 ms, base's 300 ms";
    check(
        &warming_up(20_000.0),
        Verdict::Inconclusive,
        "slow-warm-up",
        part,
    );
    check(&warming_up(1_200.0), Verdict::Pass, "regression", "");
}

/// The engines of this arm's launches read two files of the working tree, but for one of them.
pub(crate) fn reading(arm: Arm) -> RunRecord {
    let mut session = in_turn(3.0, 20.0, 3.0);
    let launches = session.launches.iter_mut().filter(|l| l.arm == arm);
    for (n, launch) in launches.enumerate() {
        let other = format!("kernels/{n}.cu");
        launch.startup.tree_files = vec!["kernels/a.cu".into(), other];
    }
    session
}

#[test]
fn an_arm_that_reads_what_is_not_its_own_is_no_pass() {
    for arm in Arm::BOTH {
        let part = format!(
            "{}'s engine read `kernels/a.cu` of the working tree",
            arm.name()
        );
        let mut session = reading(arm);
        check(&session, Verdict::Inconclusive, "tree-files", &part);
        let mut launches = session.launches.iter_mut();
        let startup = &mut launches.find(|l| l.arm == arm).unwrap().startup;
        startup.tree_files.clear();
        startup.tree_unwatched = true;
        check(&session, Verdict::Inconclusive, "tree-files", &part);
        // No launch of the arm was watched.
        let mut blind = session.clone();
        for launch in blind.launches.iter_mut().filter(|l| l.arm == arm) {
            launch.startup.tree_files.clear();
            launch.startup.tree_unwatched = true;
        }
        let part = format!(
            "whether {}'s engine reads files of the working tree",
            arm.name()
        );
        check(&blind, Verdict::Inconclusive, "tree-files", &part);
        // Watched, and not in all launches: by chance.
        let mut launches = session.launches.iter_mut();
        let startup = &mut launches.find(|l| l.arm == arm).unwrap().startup;
        startup.tree_unwatched = false;
        check(&session, Verdict::Pass, "regression", "");
    }
}

#[test]
fn a_late_end_is_of_answers_in_most_launches_and_over_1_ms() {
    let rule_of =
        |plan: &Plan, session: &RunRecord| first(&judge(plan, session)).reason.rule.name();
    let mut strict = tpot_plan();
    strict.gates[0].checks[0].rule = Rule::Regression {
        margin: 0.0,
        ceiling: 0.03,
    };
    assert_eq!(rule_of(&strict, &ends_after(1.0)), "regression");
    assert_eq!(rule_of(&strict, &ends_after(1.2)), "late-end");
    let mut session = ends_after(2.4);
    for launch in &mut session.launches {
        let ms = 1_000.0 * (1.0 + 0.003 * noise(launch.arm, launch.block));
        launch.startup.ready_ns = Some((ms * 1e6) as u64);
    }
    let mut start = plan_on(Metric::Ready, Statistic::Single);
    start.gates[0].checks[0].min_samples = 1;
    assert_eq!(rule_of(&start, &session), "regression");
    // Two of head's four launches end as base's do.
    let heads = session.launches.iter_mut().filter(|l| l.arm == Arm::Head);
    for sample in heads.take(2).flat_map(|launch| &mut launch.samples) {
        let last = sample.stamps.events_ns.last().copied();
        sample.stamps.done_ns = last.map(|last| last + 100_000);
    }
    assert_eq!(rule_of(&tpot_plan(), &session), "regression");
}

/// So many requests of each of head's launches.
pub(crate) fn sent_again(of_head: [u32; 4]) -> RunRecord {
    let mut session = in_turn(3.0, 20.0, 3.0);
    let workload = tpot_plan().gates[0].workloads[0].id.clone();
    let heads = session.launches.iter_mut();
    for (launch, resent) in heads.filter(|l| l.arm == Arm::Head).zip(of_head) {
        launch.clients.push(ClientHealth {
            workload: workload.clone(),
            resent,
            ..ClientHealth::default()
        });
    }
    session
}

#[test]
fn requests_that_head_alone_made_the_client_send_again_are_no_pass() {
    let part = "head closed 7 kept connections without an answer, base 0";
    check(
        &sent_again([1, 2, 2, 2]),
        Verdict::Inconclusive,
        "resent",
        part,
    );
    check(
        &sent_again([3, 3, 3, 0]),
        Verdict::Inconclusive,
        "resent",
        "",
    );
    // Too few, and those of one event or two.
    for of_head in [[0, 2, 2, 2], [8, 0, 0, 0], [6, 6, 0, 0]] {
        check(&sent_again(of_head), Verdict::Pass, "regression", "");
    }
}

/// `of_base` and `of_head` of ten requests open a connection. Requests begin `apart_ms` apart; each takes 0.2 s.
pub(crate) fn connecting(of_base: usize, of_head: usize, apart_ms: u64) -> RunRecord {
    let mut session = in_turn(3.0, 20.0, 3.0);
    for launch in &mut session.launches {
        let of_ten = match launch.arm {
            Arm::Base => of_base,
            Arm::Head => of_head,
        };
        for (n, sample) in launch.samples.iter_mut().enumerate() {
            let stamps = &mut sample.stamps;
            // They were ten seconds apart.
            let sooner = n as u64 * (10_000 - apart_ms) * 1_000_000;
            stamps.intended_ns -= sooner;
            stamps.send_ns -= sooner;
            stamps
                .events_ns
                .iter_mut()
                .for_each(|event| *event -= sooner);
            stamps.done_ns = stamps.events_ns.last().copied();
            let asked = stamps.send_ns.saturating_sub(2_000);
            stamps.connect_ns = (n % 10 < of_ten).then_some((asked, stamps.send_ns));
        }
    }
    session
}

#[test]
fn a_head_that_keeps_no_connection_is_no_pass() {
    let rule = "unkept-connections";
    let part = "of requests within a second of one, 58.62 % opened a new connection, and 10.34 %";
    check(&connecting(1, 6, 250), Verdict::Inconclusive, rule, part);
    for (of_base, of_head) in [(0, 5), (3, 10)] {
        let session = connecting(of_base, of_head, 250);
        check(
            &session,
            Verdict::Inconclusive,
            rule,
            "of requests within a second",
        );
    }
    for (of_base, of_head) in [(0, 0), (10, 10), (0, 2), (8, 10), (10, 0)] {
        let session = connecting(of_base, of_head, 250);
        check(&session, Verdict::Pass, "regression", "");
    }
    // So long after an answer the server may have closed it as idle.
    check(&connecting(1, 6, 5_000), Verdict::Pass, "regression", "");
}

/// Base sends a token every 10 ms; head as many in the same time, this number at once.
pub(crate) fn in_bursts(of: usize) -> RunRecord {
    beside(10.0, |index, slower| {
        let mut sample = stream(index, 10_000.0 * f64::from(index), 20.0, 10.0 * slower);
        for burst in sample.stamps.events_ns[1..].chunks_mut(of) {
            let last = burst[burst.len() - 1];
            burst.fill(last);
        }
        sample
    })
}

#[test]
fn tokens_that_come_in_bursts_are_no_pass() {
    let part = "head's outputs come 80.34 ms apart, base's 10.03 ms";
    check(&in_bursts(8), Verdict::Inconclusive, "bursts", part);
    check(
        &in_bursts(2),
        Verdict::Inconclusive,
        "bursts",
        "head's outputs come",
    );
    check(&in_bursts(1), Verdict::Pass, "regression", "");
    // Written one after another, and one long pause in each stream.
    let mut session = in_bursts(8);
    for sample in session.launches.iter_mut().flat_map(|l| &mut l.samples) {
        for (event, n) in sample.stamps.events_ns[1..].iter_mut().zip(0..) {
            *event += 20_000 * (n % 8);
        }
    }
    check(
        &session,
        Verdict::Inconclusive,
        "bursts",
        "head's outputs come",
    );
    let mut session = in_bursts(1);
    for launch in session.launches.iter_mut().filter(|l| l.arm == Arm::Head) {
        for sample in &mut launch.samples {
            // Its tokens come sooner before it, so that TPOT is as it was.
            let from = sample.stamps.events_ns[0];
            for event in &mut sample.stamps.events_ns[1..40] {
                *event = from + (*event - from) * 3 / 4;
            }
        }
    }
    check(&session, Verdict::Pass, "regression", "");
    // Gaps of 0.5 ms and more are no matter, where none was.
    let session = beside(0.1, |index, slower| {
        let mut sample = stream(index, 10_000.0 * f64::from(index), 20.0, 0.1 * slower);
        sample.stamps.events_ns[1..]
            .chunks_mut(8)
            .for_each(|burst| {
                let last = burst[burst.len() - 1];
                burst.fill(last);
            });
        sample
    });
    check(&session, Verdict::Pass, "regression", "");
}

/// An anchor is another release, which main is not judged against.
#[test]
fn a_recording_beside_an_anchor_is_held_against_nothing() {
    let mut plan = tpot_plan();
    plan.gates[0].checks[0].rule = Rule::Ceiling { limit: 100.0 };
    for (plan, mut session, rule) in [
        (plan, sent_again([3; 4]), "resent"),
        (limited_plan(), shorter(1), "fewer-turns"),
    ] {
        for (comparison, rule) in [
            (Comparison::Interleaved, rule),
            (Comparison::Anchored, "ceiling"),
        ] {
            session.comparison = comparison;
            assert_eq!(first(&judge(&plan, &session)).reason.rule.name(), rule);
        }
    }
}

#[test]
fn a_first_event_with_most_tokens_is_no_pass() {
    let session = beside(10.0, |index, slower| {
        let mut sample = stream(index, 10_000.0 * f64::from(index), 90.0, 9.9 * slower);
        // 12 ms a token, but for the last ones.
        sample.stamps.events_ns.drain(..60);
        let later = |at: &mut u64| *at += 60 * 2_100_000;
        sample.stamps.events_ns.iter_mut().for_each(later);
        sample.tokens.at_first_event = Some(61);
        sample.tokens.events = 4;
        sample
    });
    check(
        &session,
        Verdict::Inconclusive,
        "held-back",
        "whole answers took 1",
    );
}

#[test]
fn answers_that_end_later_at_the_same_pace_are_told() {
    let told = |ttft_ms, tpot_ms| {
        let got = judge(&tpot_plan(), &in_turn(10.0, ttft_ms, tpot_ms));
        assert_eq!(got.verdict, Verdict::Pass);
        let notes = notes(first(&got));
        notes.into_iter().find(|note| note.contains("end later"))
    };
    let expect = "answers end later although their tokens come as fast: E2E 651.7 → 780 ms, TTFT 20 → 154 ms; a check \
                  of e2e or ttft judges that";
    assert_eq!(told(154.0, 9.9).as_deref(), Some(expect));
    // A slower prefill that hardly matters, an engine that is faster in both, and drafts that cost some TTFT.
    assert_eq!(told(30.0, 10.0), None);
    assert_eq!(told(15.0, 9.0), None);
    assert_eq!(told(60.0, 4.0), None);
}
