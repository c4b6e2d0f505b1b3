//! Events that arrived together, so that only an upper bound of their times is known.

use super::surroundings::{plan_on, verdict_is};
use super::*;
use fixture::records::*;

#[test]
fn times_that_are_upper_bounds_only() {
    let check = |plan: &Plan, shared: usize, expect| {
        verdict_is(&judge(plan, &with_shared_segments(shared)), expect);
    };
    for metric in [Metric::Icl, Metric::Itl] {
        let middle = plan_on(metric, Statistic::Median);
        check(&middle, 0, None);
        check(&middle, 2, None);
        check(
            &middle,
            3,
            Some(("ambiguous-events", "14.29 % of the events arrived together")),
        );
        let tail = plan_on(metric, Statistic::P95);
        check(&tail, 0, None);
        check(&tail, 1, Some(("ambiguous-events", "the limit is 1 %")));
    }
    // TPOT is a mean over the answer: what happens between its ends does not touch it.
    check(&tpot_plan(), 3, None);
    // What comes with the first event is no part of it: 2 of 20 leave enough.
    let with_first = |shared: usize, expect| {
        let mut session = with_shared_segments(0);
        for sample in &mut session.launches[3].samples {
            let last = sample.stamps.events_ns[shared];
            sample.stamps.events_ns[..=shared].fill(last);
        }
        verdict_is(&judge(&tpot_plan(), &session), expect);
    };
    with_first(2, None);
    with_first(
        3,
        Some(("ambiguous-events", "15 % of the events after the first")),
    );
}

/// A median hardly reads one request of thirty, a mean holds all that it is late by.
#[test]
fn first_tokens_that_arrived_with_the_second() {
    let mut session = with_shared_segments(0);
    let launches = session.launches.iter_mut();
    let samples = launches.flat_map(|launch| &mut launch.samples);
    for (sample, place) in samples.zip(0..) {
        let ttft_ns = 50_000_000 + 1_000 * place;
        for at_ns in &mut sample.stamps.events_ns {
            *at_ns += ttft_ns;
        }
    }
    let stamps = &mut session.launches[3].samples[7].stamps;
    stamps.events_ns[0] = stamps.events_ns[1];
    let check = |statistic: Statistic, is_invalid: bool| {
        let got = judge(&plan_on(Metric::Ttft, statistic), &session);
        let is_ambiguous = first(&got).reason.rule.name() == "ambiguous-events";
        assert_eq!(is_ambiguous, is_invalid, "{}", sentence(first(&got)));
    };
    check(Statistic::Median, false);
    check(Statistic::Mean, true);
    check(Statistic::P95, true);
}

/// The client was not scheduled while one answer came: it read all of its events at once.
#[test]
fn answers_that_arrive_at_one_moment_are_left_out() {
    let session = |at_once: usize, short: bool| {
        let mut session = with_shared_segments(0);
        for sample in &mut session.launches[3].samples[..at_once] {
            if short {
                sample.stamps.events_ns.truncate(2);
                sample.tokens.events = 2;
                sample.tokens.completion = Some(2);
            }
            let first = sample.stamps.events_ns[0];
            sample.stamps.events_ns.fill(first);
        }
        session
    };
    let check = |at_once: usize, short: bool, statistic: Statistic| {
        let mut plan = plan_on(Metric::Tpot, statistic);
        plan.gates[0].checks[0].min_samples = 20;
        judge(&plan, &session(at_once, short))
    };
    // Of 30.
    for at_once in [1, 3] {
        let got = check(at_once, false, Statistic::Median);
        assert_ne!(
            first(&got).verdict,
            Verdict::Invalid,
            "{}",
            sentence(first(&got))
        );
    }
    let rule = Some(("ambiguous-events", "13.33 % of the events after the first"));
    verdict_is(&check(4, false, Statistic::Median), rule);
    verdict_is(
        &check(1, false, Statistic::P95),
        Some(("ambiguous-events", "the limit is 1 %")),
    );
    // One of 30 may be what these would show.
    for (statistic, part) in [
        (
            Statistic::Mean,
            "3.333 % of the answers arrived at one moment",
        ),
        (Statistic::P95, "the limit is 1 %"),
        (Statistic::Max, "the limit is 0 %"),
    ] {
        let got = check(1, true, statistic);
        verdict_is(&got, Some(("ambiguous-events", part)));
    }
    // Nor does anybody know whether it kept a bound.
    let mut plan = plan_on(Metric::Goodput, Statistic::Single);
    let bounded = &mut plan.gates[0].checks[0];
    bounded.part.slo = Some(
        Slo {
            tpot_ms: Some(100.0),
            ..Slo::default()
        }
        .into(),
    );
    let rule = Some(("ambiguous-events", "3.333 % of the answers"));
    verdict_is(&judge(&plan, &session(1, true)), rule);
    // Where the others are too few, the cause is told.
    let mut plan = plan_on(Metric::Tpot, Statistic::Median);
    plan.gates[0].checks[0].min_samples = 33;
    let got = judge(&plan, &session(1, false));
    let rule = Some(("too-few-samples", "1 more arrived at one moment"));
    verdict_is(&got, rule);
    // A share of few events that is one of many answers.
    let rule = Some((
        "ambiguous-events",
        "13.33 % of the answers arrived at one moment",
    ));
    verdict_is(&check(4, true, Statistic::Median), rule);
}

#[test]
fn a_gap_of_nothing_in_the_middle_of_all() {
    let plan = plan_on(Metric::Icl, Statistic::Median);
    let got = judge(&plan, &with_shared_segments(11));
    let check = first(&got);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (Verdict::Invalid, "not-positive")
    );
    assert_eq!(
        sentence(check),
        "launch 3: icl of 0 is meaningless: most events arrived together with another"
    );
}

/// Four blocks of 30 streams of 21 tokens, 20 ms each. In each stream of launch 3 so many events share a segment, and
/// its stamp, with the next one; everywhere the last one does with the stream's end.
pub(crate) fn with_shared_segments(shared: usize) -> RunRecord {
    let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
    for launch in &mut session.launches {
        let shared = if launch.position == 3 { shared } else { 0 };
        for sample in &mut launch.samples {
            let gap_ns = sample.stamps.events_ns[1];
            let mut events_ns: Vec<u64> = (0..21).map(|i| i * gap_ns).collect();
            // Eleven and fewer: every second one, and then one after them.
            for i in (0..shared).map(|i| if i < 10 { 2 * i + 1 } else { 0 }) {
                events_ns[i] = events_ns[i + 1];
            }
            sample.stamps.events_ns = events_ns;
            sample.stamps.ambiguous_events = shared as u32 + 1;
            sample.stamps.kernel_stamps = true;
            sample.tokens.completion = Some(21);
            sample.tokens.per_event = vec![1; 21];
        }
    }
    session
}
