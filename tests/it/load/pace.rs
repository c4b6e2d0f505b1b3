//! When requests go out: open loops, staggered users, spaced turns; many at once; and how all ends early.

use super::server::{Server, Step, answer, stream};
use super::{SEED, TOKENS, endpoint, plain, run_on, steady, workload};
use client::{LoadOutcome, Progress, SessionClock, run};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Barrier, Notify};
use verdict::plan::{Arrivals, Session, Staggered, Steady, WorkloadKind};
use verdict::record::{Sample, Setting};

fn open_loop(requests: u32, arrivals: Arrivals) -> WorkloadKind {
    WorkloadKind::Steady(Steady {
        requests,
        warmup: 0,
        prompt_tokens: 8,
        output_tokens: TOKENS as u32,
        arrivals,
    })
}

fn check_sound(samples: &[Sample], count: usize) {
    assert_eq!(samples.len(), count);
    for sample in samples {
        assert_eq!(sample.void, None);
        assert!(sample.stamps.intended_ns <= sample.stamps.send_ns);
    }
}

#[tokio::test]
async fn an_open_loop_keeps_its_moments() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let constant = open_loop(20, Arrivals::Constant { rate: 250.0 });
    let outcome = run_on(&endpoint(server.address), &workload(constant)).await;
    check_sound(&outcome.samples, 20);
    for pair in outcome.samples.windows(2) {
        let gap = pair[1].stamps.intended_ns - pair[0].stamps.intended_ns;
        assert_eq!(gap, 4_000_000);
    }
    let health = &outcome.client;
    assert_eq!(
        (
            health.workload.as_str(),
            health.threads,
            health.send_lag_ms.n
        ),
        ("gate/work", 1, 20)
    );
    assert!(health.cpu_s > 0.0 && health.wall_s >= 0.076);
    assert!(health.streams_asked >= 1);
}

#[tokio::test]
async fn an_open_loop_does_not_wait_for_answers() {
    // Nobody is answered before all have asked, although only the first wants to be sent now.
    let all = Arc::new(Barrier::new(32));
    let server = Server::start(move |_, _| {
        let meet = Step::Meet(Arc::clone(&all));
        [meet].into_iter().chain(stream(&plain())).collect()
    })
    .await;
    for arrivals in [
        Arrivals::Constant { rate: 1_000.0 },
        Arrivals::Poisson { rate: 1_000.0 },
        Arrivals::Burst {
            size: 16,
            every: Duration::from_millis(20),
        },
        Arrivals::Recorded {
            at: vec![Duration::ZERO; 32],
        },
    ] {
        let outcome = run_on(
            &endpoint(server.address),
            &workload(open_loop(32, arrivals)),
        )
        .await;
        check_sound(&outcome.samples, 32);
        let health = &outcome.client;
        assert_eq!((health.streams_asked, health.streams_reached), (32, 32));
    }
}

/// Coordinated omission: a closed loop would send one request into the stall and see it once.
#[tokio::test]
async fn a_stall_is_in_the_first_token_of_every_request_that_was_due_in_it() {
    const STALLED: usize = 10;
    // Nobody is answered before the last of these has come; it comes no earlier than it is due.
    let all = Arc::new(Barrier::new(STALLED));
    let server = Server::start(move |number, _| {
        let meet = (number < STALLED).then(|| Step::Meet(Arc::clone(&all)));
        meet.into_iter().chain(stream(&plain())).collect()
    })
    .await;
    let constant = workload(open_loop(15, Arrivals::Constant { rate: 250.0 }));
    let samples = run_on(&endpoint(server.address), &constant).await.samples;
    check_sound(&samples, 15);
    let over_ns = samples[STALLED - 1].stamps.intended_ns;
    for sample in &samples[..STALLED] {
        let stamps = &sample.stamps;
        assert!(stamps.events_ns[0] >= over_ns, "{stamps:?}");
        // What TTFT counts from: 36, 32, … ms before the stall's end.
        let waited = over_ns - stamps.intended_ns;
        assert_eq!(
            waited,
            (STALLED as u64 - 1 - u64::from(sample.index)) * 4_000_000
        );
    }
}

#[tokio::test]
async fn many_streams_are_carried_by_several_threads() {
    let all = Arc::new(Barrier::new(300));
    let server = Server::start(move |_, _| {
        let meet = Step::Meet(Arc::clone(&all));
        [meet].into_iter().chain(stream(&plain())).collect()
    })
    .await;
    let outcome = run_on(&endpoint(server.address), &steady(600, 0, 300)).await;
    check_sound(&outcome.samples, 600);
    let cores = std::thread::available_parallelism().unwrap().get();
    let health = &outcome.client;
    assert_eq!(health.threads as usize, cores.min(2));
    assert_eq!((health.streams_asked, health.streams_reached), (300, 300));
    // No connection was opened but the slots' own.
    let received = server.received();
    let connections = received.iter().map(|request| request.connection).max();
    assert_eq!(connections, Some(299));
}

#[tokio::test]
async fn staggered_users_count_from_their_waves_start() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let offset = Duration::from_millis(3);
    let users = workload(WorkloadKind::Staggered(Staggered {
        users: 3,
        offset,
        prompt_tokens: 8,
        output_tokens: TOKENS as u32,
        passes: 2,
        warmup: 1,
    }));
    let seen = RefCell::new(Vec::new());
    let clock = SessionClock::start();
    let progress = |done, of| seen.borrow_mut().push((done, of));
    let outcome = run(&endpoint(server.address), &users, SEED, &clock, &progress).await;
    check_sound(&outcome.samples, 13);
    let told: Vec<(u32, u32)> = (1..=13).map(|done| (done, 13)).collect();
    assert_eq!(*seen.borrow(), told);
    let mut last_ns = 0;
    for sample in &outcome.samples[1..] {
        let stamps = &sample.stamps;
        match sample.setting.unwrap() {
            Setting::Together {
                user, origin_ns, ..
            } => {
                let due_ns = origin_ns + u64::from(user) * offset.as_nanos() as u64;
                assert_eq!(stamps.intended_ns, due_ns);
                assert!(origin_ns > last_ns);
            }
            Setting::Sequential {
                user, origin_ns, ..
            } => {
                // At its arrival, or after the one before.
                let due_ns = origin_ns + u64::from(user) * offset.as_nanos() as u64;
                let earliest_ns = if user > 0 {
                    due_ns.max(last_ns)
                } else {
                    due_ns
                };
                assert!(origin_ns > 0 && stamps.send_ns >= earliest_ns);
                let waited = stamps.intended_ns == stamps.send_ns;
                assert!(waited || stamps.intended_ns == due_ns);
                assert!(user > 0 || origin_ns >= last_ns);
                last_ns = stamps.done_ns.unwrap();
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }
}

#[tokio::test]
async fn spaced_turns_begin_at_their_moments_and_end_with_the_duration() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let spacing = Duration::from_millis(20);
    let session = |turns, duration| {
        workload(WorkloadKind::Session(Session {
            turns,
            warmup_turns: 0,
            message_words: 3,
            reply_tokens: TOKENS as u32,
            spacing: Some(spacing),
            duration,
        }))
    };
    let clock = SessionClock::start();
    let three = session(3, None);
    let outcome = run(&endpoint(server.address), &three, SEED, &clock, &|_, _| {}).await;
    check_sound(&outcome.samples, 3);
    // The first goes at once, so a little after the start from which the others count.
    let first_ns = outcome.samples[0].stamps.intended_ns;
    for (sample, turn) in outcome.samples.iter().zip(0..) {
        let after_ns = turn * spacing.as_nanos() as u64;
        let stamps = &sample.stamps;
        // The clock begins before the conversation.
        assert!(stamps.intended_ns >= after_ns, "{stamps:?}");
        // Where its moment passed before the last answer was there, it goes at once.
        let was_late = stamps.intended_ns == stamps.send_ns;
        assert!(
            was_late || stamps.intended_ns <= first_ns + after_ns,
            "{stamps:?}"
        );
    }
    assert_eq!(outcome.client.threads, 1);

    let duration = Duration::from_millis(500);
    let long = session(1_000, Some(duration));
    let ended = run_on(&endpoint(server.address), &long).await;
    assert_eq!(ended.stopped, None);
    // Those at 0, 20, … 500 ms at the most.
    assert!(
        (1..=26).contains(&ended.samples.len()),
        "{:?}",
        ended.samples
    );
}

/// Keeps what is handed over, and tells when so many are done.
#[derive(Default)]
struct Kept {
    done: Cell<u32>,
    samples: RefCell<Vec<Sample>>,
    cut_short: RefCell<Option<LoadOutcome>>,
}

impl Progress for Kept {
    fn request_done(&self, done: u32, _: u32) {
        self.done.set(done);
    }

    fn samples(&self, samples: Vec<Sample>) -> Vec<Sample> {
        self.samples.borrow_mut().extend_from_slice(&samples);
        samples
    }

    fn cut_short(&self, outcome: LoadOutcome) {
        assert_eq!(self.cut_short.replace(Some(outcome)), None);
    }
}

#[tokio::test]
async fn dropping_a_run_ends_its_requests_and_hands_over_what_was_answered() {
    let hanging = Arc::new(Notify::new());
    let told = Arc::clone(&hanging);
    let server = Server::start(move |number, _| {
        if number < 4 {
            return stream(&plain());
        }
        if number == 7 {
            told.notify_one();
        }
        vec![Step::Hang]
    })
    .await;
    let (endpoint, workload) = (endpoint(server.address), steady(100, 0, 4));
    let (clock, kept) = (SessionClock::start(), Kept::default());
    {
        let running = run(&endpoint, &workload, SEED, &clock, &kept);
        tokio::select! {
            outcome = running => panic!("{outcome:?}"),
            () = hanging.notified() => {}
        }
    }
    let LoadOutcome {
        samples, client, ..
    } = kept.cut_short.take().unwrap();
    check_sound(&samples, 4);
    assert_eq!((client.threads, client.streams_asked), (1, 4));
    assert_eq!(client.send_lag_ms.n, 4);
    let mut handed_over = kept.samples.borrow().clone();
    handed_over.sort_by_key(|sample| sample.index);
    assert_eq!(handed_over, samples);
    assert!(kept.done.get() <= 4);
    // Its threads are gone, and with them every connection.
    server.all_ended().await;
    assert_eq!(server.received().len(), 8);
}

#[tokio::test]
async fn samples_are_handed_over_once() {
    let server = Server::start(|number, _| match number % 2 {
        0 => stream(&plain()),
        _ => answer("500 Oops", ""),
    })
    .await;
    let (clock, kept) = (SessionClock::start(), Kept::default());
    let workload = steady(10, 2, 3);
    let outcome = run(&endpoint(server.address), &workload, SEED, &clock, &kept).await;
    let mut handed_over = kept.samples.into_inner();
    handed_over.sort_by_key(|sample| sample.index);
    assert_eq!(handed_over, outcome.samples);
    assert_eq!(kept.cut_short.into_inner(), None);
    assert_eq!(kept.done.get(), 12);
}
