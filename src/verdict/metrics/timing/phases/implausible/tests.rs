use super::*;
use crate::metrics::testing::{check as tpot_check, launch, steady, streamed};
use crate::record::{Metric, ServerTimings, Statistic, TokenCounts};

/// The incident: 70 tokens in 1,004 ms, then 7,660 tokens/s.
const FAST_MS: f64 = 1e3 / 7_660.0;

fn request(prompt: u32, ttft_ms: f64, tpot_ms: f64) -> Sample {
    let mut sample = streamed("w", 0, ttft_ms, tpot_ms, 64);
    sample.tokens.prompt = Some(prompt);
    sample
}

fn held() -> Sample {
    request(70, 1_004.0, FAST_MS)
}

fn honest() -> Sample {
    request(70, 30.0, FAST_MS)
}

/// The sample, `ms` later.
fn later(sample: &Sample, ms: u64) -> Sample {
    let mut sample = sample.clone();
    let stamps = &mut sample.stamps;
    stamps.send_ns += ms * 1_000_000;
    let events = stamps.events_ns.iter_mut();
    events.for_each(|at| *at += ms * 1_000_000);
    sample
}

/// The samples one after another, each 10 s after the one before.
fn one_by_one(samples: &[Sample]) -> Vec<Sample> {
    let later = samples.iter().zip(0..).map(|(s, i)| later(s, 10_000 * i));
    later.collect()
}

fn in_turn(sample: &Sample, times: usize) -> Vec<Sample> {
    one_by_one(&vec![sample.clone(); times])
}

/// `h`: held back, any other letter: honest.
fn mix(letters: &str) -> Vec<Sample> {
    let of = |letter| if letter == 'h' { held() } else { honest() };
    one_by_one(&letters.chars().map(of).collect::<Vec<_>>())
}

/// The samples after a warm-up request.
fn warm(samples: &[Sample]) -> Vec<Sample> {
    let warm_up = Sample {
        phase: Phase::Warmup,
        ..honest()
    };
    let samples = samples.iter().map(|sample| later(sample, 10_000));
    [warm_up].into_iter().chain(samples).collect()
}

#[track_caller]
fn check(samples: &[Sample], expect: Option<&str>) {
    let found = implausible(samples);
    match expect {
        None => assert_eq!(found, None),
        Some(part) => assert!(
            found.as_ref().is_some_and(|f| f.contains(part)),
            "{found:?}"
        ),
    }
}

#[test]
fn a_prefill_that_costs_far_more_than_generation_is_implausible() {
    check(&in_turn(&held(), 5), Some("110 times faster"));
    check(&in_turn(&held(), 2), None);
    // All tokens at once, also where a single answer seems to have taken its time.
    let at_once = request(70, 1_004.0, 0.0);
    check(
        &vec![at_once.clone(); 3],
        Some("all others arrived together"),
    );
    check(
        &[held(), at_once.clone(), at_once.clone()],
        Some("in no time"),
    );
    check(&vec![request(70, 240.0, 0.0); 9], None);
    // Few tokens, or one event, may be what a server sends at a time.
    let short = |tokens: u32| Sample {
        tokens: TokenCounts {
            prompt: Some(70),
            ..streamed("w", 0, 1.0, 1.0, tokens).tokens
        },
        ..streamed("w", 0, 1_004.0, 0.0, tokens)
    };
    check(&vec![short(8); 9], None);
    check(&vec![short(9); 9], Some("in no time"));
    let mut one_event = at_once;
    one_event.stamps.events_ns.truncate(1);
    check(&vec![one_event; 9], None);
    let warm_up = Sample {
        phase: Phase::Warmup,
        ..held()
    };
    check(&vec![warm_up; 5], None);
}

#[test]
fn engines_that_exist_are_plausible() {
    // By a GPU, by a CPU, token by token, with drafts, of a prompt of one token, of a long one.
    for (prompt, ttft_ms, tpot_ms) in [
        (128, 25.0, 8.0),
        (512, 9_000.0, 60.0),
        (512, 512.0 * 10.0, 10.0),
        (512, 512.0 * 10.0, 10.0 / 6.0),
        (1, 200.0, 2.0),
        (16_384, 900.0, 0.5),
    ] {
        check(&vec![request(prompt, ttft_ms, tpot_ms); 9], None);
    }
}

/// An engine under test that holds its output back would also report a short prefill.
#[test]
fn the_servers_timings_excuse_nothing() {
    let timed = |prompt_ms: f64| {
        let mut sample = held();
        sample.timings = Some(ServerTimings {
            prompt_n: 70,
            prompt_ms,
            predicted_n: 64,
            predicted_ms: 63.0 * FAST_MS,
        });
        sample
    };
    for prompt_ms in [12.0, 1_004.0] {
        check(&in_turn(&timed(prompt_ms), 5), Some("69.7 tokens/s"));
    }
}

#[test]
fn half_of_the_requests_decide() {
    let check = |letters: &str, is_implausible: bool| {
        let found = implausible(&warm(&mix(letters)));
        assert_eq!(found.is_some(), is_implausible, "{letters}");
    };
    // 3, 9, 10 and 11 honest ones of 20.
    check("hhhhhhhhhhohhhhhhooh", true);
    check("hohohohohohohohohohh", true);
    check("hohohohohohohohohoho", true);
    check("ohohohohohohohohohoo", false);
    // A single one of three or four.
    check("hho", true);
    check("hhho", true);
    check("hoo", false);
    check("hooo", false);
}

#[test]
fn a_launch_without_warm_up_may_load_at_its_first_two_requests() {
    let check = |letters: &str, is_implausible: bool| {
        let found = implausible(&mix(letters));
        assert_eq!(found.is_some(), is_implausible, "{letters}");
    };
    check("hho", false);
    check("hhooo", false);
    // Neither a third one nor a later one.
    check("hhh", true);
    check("hoh", true);
    check("ohh", true);
    check("hhho", true);
    check("hhoh", true);
    check("hhhhhhhhhhohhhhhhooh", true);
    // With warm-up requests all of that was before.
    assert!(implausible(&warm(&mix("hho"))).is_some());
}

/// A mean or a tail is moved by a few requests: the slow ones may be those that are held back.
#[test]
fn one_of_ten_decides_where_a_mean_or_a_tail_is_read() {
    let (tpot, workload) = (tpot_check(Metric::Tpot, Statistic::P95), steady("w"));
    let check = |letters: &str, reads_medians: bool, is_implausible: bool| {
        let launch = launch(0, warm(&mix(letters)));
        let requests = Requests::of(&tpot, &workload, &launch);
        let found = implausible_for(&requests, reads_medians);
        assert_eq!(found.is_some(), is_implausible, "{letters} {reads_medians}");
    };
    check("ohooooohoooooohooooo", false, true);
    check("ohooooohoooooooooooo", false, false);
    check("hhh", false, true);
    check("ohooooohoooooohooooo", true, false);
}

/// 8 prompt tokens sent at `send_ms`, 64 tokens from `first_ms` on, `gap_us` each. By itself it may take 1.05 s where
/// these are 10 ms.
fn at(send_ms: u64, first_ms: u64, gap_us: u64) -> Sample {
    let mut sample = request(8, 1.0, 10.0);
    sample.stamps.send_ns = send_ms * 1_000_000;
    let event = |i: u64| first_ms * 1_000_000 + gap_us * i * 1_000;
    sample.stamps.events_ns = (0..64).map(event).collect();
    sample
}

#[test]
fn waiting_for_others_is_no_slow_prefill() {
    assert!(implausible(&in_turn(&at(0, 2_000, 10_000), 3)).is_some());
    // One at a time, two in flight: each but the first waited for the end of the one before.
    let queued = |i: u64| at(i * 640, i * 640 + 670, 10_000);
    let queued: Vec<Sample> = (0..9).map(queued).collect();
    check(&queued, None);
    // The same with so many in flight that prompts explain little, and prefills between the answers.
    let queued = |i: u64| at((i * 660).saturating_sub(16 * 660), i * 660 + 20, 10_000);
    let queued: Vec<Sample> = (0..60).map(queued).collect();
    check(&queued, None);
    // Four slots, of which each is free at another moment; prompts of one token.
    let slots = |i: u64| {
        let mut sample = at((i * 160).saturating_sub(8 * 160), i * 160 + 20, 10_000);
        sample.tokens.prompt = Some(1);
        sample
    };
    check(&(0..60).map(slots).collect::<Vec<_>>(), None);
    // A batch that is admitted when all of the one before have ended, the last of them long after the others.
    let batches = |i: u64| {
        let begin = (i / 4) * 2_000;
        let mut sample = at(begin.saturating_sub(2_000), begin + 20, 10_000);
        if !i.is_multiple_of(4) {
            sample.stamps.events_ns.truncate(16);
            sample.tokens.completion = Some(16);
        } else {
            sample.stamps.events_ns = (0..190)
                .map(|k| (begin + 20 + 10 * k) * 1_000_000)
                .collect();
            sample.tokens.completion = Some(190);
        }
        sample.tokens.prompt = Some(1);
        sample
    };
    check(&(0..40).map(batches).collect::<Vec<_>>(), None);
    // 64 prompts that are computed together.
    check(&vec![at(0, 2_000, 10_000); 64], None);
}

/// Answers of others end all the time, and explain little of the time for which output was held back.
#[test]
fn a_queue_excuses_no_longer_than_others_are_sent() {
    let jittered = |in_flight: u64, gap_us: u64| {
        let request = |i: u64| {
            let (lane, turn) = (i % in_flight, i / in_flight);
            let begin = turn * 1_100 + lane * 1_100 / in_flight + (i * i) % 7;
            at(begin, begin + 1_000, gap_us)
        };
        (0..40).map(request).collect::<Vec<_>>()
    };
    for in_flight in [1, 2, 4, 8] {
        check(&jittered(in_flight, 5), Some("no engine generates"));
    }
    check(&jittered(2, 100), Some("beside prompts of"));
}

/// One of four answers is sent slowly to hide the others behind it.
#[test]
fn a_slow_answer_is_no_work_for_an_engine_that_is_faster() {
    let request = |i: u64| {
        let begin = (i / 4) * 1_010;
        match i % 4 {
            0 => at(begin, begin + 5, 15_700),
            n => at(begin, begin + 990 + n, 5),
        }
    };
    let samples: Vec<Sample> = (0..40).map(request).collect();
    check(&samples, Some("no engine generates"));
}

/// Tokens in the first event, and after it, 10 ms each.
fn fat(prompt: u32, first_ms: f64, at_first: u32, rest: u32, tpot_ms: f64) -> Sample {
    let mut sample = streamed("w", 0, first_ms, tpot_ms, rest + 1);
    sample.tokens = TokenCounts {
        prompt: Some(prompt),
        completion: Some(at_first + rest),
        at_first_event: Some(at_first),
        ..TokenCounts::default()
    };
    sample
}

#[test]
fn a_first_event_with_most_tokens_is_held_to_the_bound() {
    let check = |sample: Sample, expect: Option<&str>| {
        check(&in_turn(&sample, 5), expect);
    };
    // 60 tokens that took 12 ms each, then four that seem to take 0.1 ms.
    check(fat(8, 720.0, 60, 4, 0.1), Some("no engine generates"));
    check(fat(8, 720.0, 60, 4, 0.0), Some("in no time"));
    // Batches of text: the first event leaves with its last token.
    check(fat(1, 10.0 + 32.0 * 20.0, 32, 32, 20.0), None);
    check(fat(1, 10.0 + 16.0 * 20.0, 16, 8, 20.0), None);
    // A short answer.
    check(fat(70, 1_004.0, 5, 3, 0.0), None);
}

/// Head may report no prompt tokens, or far too many.
#[test]
fn base_counts_the_prompts_of_head() {
    let (tpot, workload) = (tpot_check(Metric::Tpot, Statistic::Median), steady("w"));
    let base = launch(0, in_turn(&honest(), 3));
    // A base that reports none leaves head's own.
    let mut silent = base.clone();
    silent
        .samples
        .iter_mut()
        .for_each(|s| s.tokens.prompt = Some(0));
    let head = launch(1, mix("hhh"));
    let beside = Requests::of(&tpot, &workload, &head).beside(&tpot, Some(&silent));
    assert!(implausible_for(&beside, true).is_some());
    for reported in [None, Some(70_000)] {
        let mut samples = mix("hhh");
        samples.iter_mut().for_each(|s| s.tokens.prompt = reported);
        let head = launch(1, samples);
        let alone = Requests::of(&tpot, &workload, &head);
        assert_eq!(implausible_for(&alone, true), None);
        let beside = alone.beside(&tpot, Some(&base));
        assert!(implausible_for(&beside, true).is_some());
    }
}
