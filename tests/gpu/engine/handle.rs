//! The engine's handle: caching, cancellation, draining, refusals, faults.

use serde_json::json;
use std::time::Duration;

use engine::request::{CacheUse, Event, FinishReason, Request};
use engine::{
    Conversation, Delay, Engine, Faults, Health, Options, Stage, StartError, SubmitError,
};

use super::{collect, engine, prompt, request, run, start};

#[test]
fn a_warm_cache_gives_the_same_answer_to_the_bit() {
    let engine = engine();
    for length in [1, 15, 16, 17, 33, 160, 600] {
        let prompt = prompt(length, length);
        let cold = run(
            &engine,
            Request {
                cache: CacheUse::Off,
                ..request(&prompt, 20)
            },
        );
        let feeding = run(&engine, request(&prompt, 20));
        let warm = run(&engine, request(&prompt, 20));
        assert_eq!(
            (cold.prompt.cached_tokens, feeding.prompt.cached_tokens),
            (0, 0)
        );
        assert_eq!(warm.prompt.cached_tokens, length - 1);
        assert_eq!(cold.tokens, feeding.tokens);
        assert_eq!(cold.tokens, warm.tokens);
        assert_eq!(
            warm.finished.timings.prompt_n,
            length - warm.prompt.cached_tokens
        );
        assert_eq!(warm.finished.timings.predicted_n, 20);
    }
    let stats = engine.stats();
    assert!(stats.cache_hits > 0 && stats.cache_hits < stats.cache_queries);
    assert_eq!(
        stats.prompt_tokens - stats.cache_hits,
        stats.prefilled_tokens
    );
    assert_eq!(
        (stats.running, stats.waiting, stats.kv.pages_used),
        (0, 0, 0)
    );
    assert_eq!(stats.finished_length, 21);
}

/// One history that arrives in one request or turn by turn, on one thread or two, with a pool so small
/// that pages are evicted on the way.
#[test]
fn a_session_of_turns_equals_one_request() {
    let small = Options {
        kv_tokens: 1024,
        threads: 2,
        ..Options::default()
    };
    let (engine, other) = (start(small), engine());
    let (mut history, mut least) = (prompt(40, 1), u32::MAX);
    for turn in 0..8 {
        let answer = run(&engine, request(&history, 24));
        let whole = run(
            &other,
            Request {
                cache: CacheUse::Off,
                ..request(&history, 24)
            },
        );
        assert_eq!(answer.tokens, whole.tokens, "turn {turn}");
        if turn > 0 {
            let computed = history.len() as u32 - answer.prompt.cached_tokens;
            assert!(computed > 30, "turn {turn} computed {computed}");
            least = least.min(computed);
        }
        history.extend(answer.ids());
        history.extend(prompt(30, turn + 2));
        run(&engine, request(&prompt(400, turn + 50), 1));
    }
    assert_eq!(least, 30 + 1);
    assert_eq!(engine.stats().kv.pages_used, 0);
}

#[test]
fn generation_follows_the_requests_rules() {
    let engine = engine();
    let info = engine.model_info();
    let chat = engine.chat_template().expect("the embedded model has one");
    let message = json!({"role": "user", "content": "copy: abc"});
    let conversation = Conversation {
        messages: vec![message.as_object().unwrap().clone()],
        ..Conversation::default()
    };
    let text = chat.render(&conversation).expect("it renders");
    let prompt = engine.tokenizer().encode(&text, false).expect("it encodes");

    let free = run(
        &engine,
        Request {
            ignore_eos: false,
            logprobs: None,
            ..request(&prompt, 64)
        },
    );
    assert!(free.tokens.iter().all(|token| token.logprob.is_none()));
    assert_eq!(free.finished.reason, FinishReason::End);
    let (last, others) = free.tokens.split_last().expect("an end was generated");
    assert!(info.eos.contains(&last.id));
    assert!(others.iter().all(|token| !info.eos.contains(&token.id)));
    let forced = Request {
        ignore_eos: false,
        min_tokens: 40,
        ..request(&prompt, 64)
    };
    let forced = run(&engine, forced);
    assert!(
        forced
            .tokens
            .iter()
            .take(40)
            .all(|token| !info.eos.contains(&token.id))
    );
    assert!(forced.tokens.len() >= 40);
    let none = run(&engine, request(&prompt, 0));
    assert_eq!(
        (none.tokens.len(), none.finished.reason),
        (0, FinishReason::Length)
    );
    let scored = run(
        &engine,
        Request {
            prompt_logprobs: true,
            ..request(&prompt, 3)
        },
    );
    let logprobs = scored.prompt.logprobs.expect("it was asked for");
    assert_eq!(logprobs.len(), prompt.len());
    assert!(logprobs[0].is_none() && logprobs[1..].iter().all(Option::is_some));
    assert_eq!((scored.prompt.cached_tokens, scored.tokens.len()), (0, 3));
}

#[test]
fn a_dropped_receiver_frees_its_place_and_its_pages() {
    let engine = engine();
    // While it decodes, while it is prefilled, while it waits.
    let mut first = engine
        .submit(request(&prompt(100, 1), 30_000))
        .expect("taken");
    let waiting = engine
        .submit(request(&prompt(30_000, 2), 1))
        .expect("taken");
    while !matches!(first.blocking_recv(), Some(Event::Token(_))) {}
    assert!(engine.stats().running >= 1 && engine.stats().kv.pages_used > 0);
    drop(waiting);
    drop(first);
    let long = engine
        .submit(request(&prompt(30_000, 3), 1))
        .expect("taken");
    drop(long);
    let answer = run(&engine, request(&prompt(5, 4), 2));
    assert_eq!(answer.tokens.len(), 2);
    let stats = engine.stats();
    assert_eq!(
        (stats.running, stats.waiting, stats.kv.pages_used),
        (0, 0, 0)
    );
    assert_eq!((stats.cancelled, stats.finished_length), (3, 1));
}

/// A request of known length that stands still: the bytes in use are those of its tokens' pages, by the
/// model's own sizes.
#[test]
fn the_bytes_in_use_are_those_of_the_pages_that_tokens_need() {
    const LAYERS_HEADS_DIM: u64 = 5 * 2 * 48;
    let engine = start(Options {
        threads: 1,
        faults: Faults {
            hang_after: Some(5),
            ..Faults::default()
        },
        ..Options::default()
    });
    assert_eq!(engine.stats().kv.pages_used, 0);
    let mut events = engine.submit(request(&prompt(100, 1), 12)).expect("taken");
    let tokens = std::iter::from_fn(|| events.blocking_recv());
    let tokens = tokens.filter(|event| matches!(event, Event::Token(_)));
    assert_eq!(tokens.take(5).count(), 5);
    let kv = engine.stats().kv;
    // 100 of the prompt and 4 of the answer are computed; keys and values are f32.
    assert_eq!(kv.pages_used, 104u64.div_ceil(16));
    assert_eq!(kv.page_bytes, 16 * 2 * LAYERS_HEADS_DIM * 4);
}

#[test]
fn shutdown_answers_what_waits_and_takes_nothing_new() {
    let engine = engine();
    assert_eq!(engine.health(), Health::Well);
    let waiting: Vec<_> = (0..4)
        .map(|seed| {
            engine
                .submit(request(&prompt(20, seed), 10))
                .expect("taken")
        })
        .collect();
    engine.shutdown();
    let refused = engine.submit(request(&prompt(5, 9), 1)).err();
    assert_eq!(refused, Some(SubmitError::ShuttingDown));
    for events in waiting {
        assert_eq!(collect(events).expect("it is answered").tokens.len(), 10);
    }
    engine.join();
    assert_eq!(engine.health(), Health::Ended);
}

#[test]
fn what_cannot_be_served_is_refused_at_once() {
    let slow = Faults {
        decode_delay: Some(Delay::Time(Duration::from_millis(1))),
        ..Faults::default()
    };
    let limits = Options {
        max_context: Some(200),
        queue_limit: 1,
        threads: 1,
        faults: slow,
        ..Options::default()
    };
    let engine = start(limits);
    let refused = |request: Request| engine.submit(request).expect_err("it was taken");
    assert_eq!(refused(request(&[], 1)), SubmitError::EmptyPrompt);
    assert_eq!(
        refused(request(&prompt(150, 1), 51)),
        SubmitError::TooLong {
            prompt: 150,
            max_tokens: 51,
            max: 200
        }
    );
    let vocab = engine.model_info().vocab_size;
    assert_eq!(
        refused(request(&[3, vocab as u32], 1)),
        SubmitError::TokenOutOfRange {
            id: vocab as u32,
            vocab
        }
    );
    let greedy = Request {
        logprobs: Some(21),
        ..request(&[3], 1)
    };
    assert!(matches!(refused(greedy), SubmitError::Unsupported(_)));

    let mut running = engine.submit(request(&prompt(10, 1), 190)).expect("taken");
    while !matches!(running.blocking_recv(), Some(Event::Token(_))) {}
    let _waiting = engine.submit(request(&prompt(10, 2), 1)).expect("taken");
    assert_eq!(
        refused(request(&prompt(10, 3), 1)),
        SubmitError::QueueFull { waiting: 1 }
    );
}

#[test]
fn faults_do_what_they_say() {
    let sound = run(&engine(), request(&prompt(50, 1), 12)).ids();
    let with = |faults: Faults| {
        start(Options {
            faults,
            threads: 1,
            ..Options::default()
        })
    };

    let wrong = with(Faults {
        wrong_token: Some(7),
        ..Faults::default()
    });
    let ids = run(&wrong, request(&prompt(50, 1), 12)).ids();
    assert_eq!(ids[..6], sound[..6]);
    assert_ne!(ids[6], sound[6]);

    let leaky = with(Faults {
        prefill_leak: true,
        ..Faults::default()
    });
    for _ in 0..2 {
        let answer = run(&leaky, request(&prompt(50, 1), 12));
        assert_eq!(
            (
                answer.prompt.cached_tokens,
                answer.finished.timings.prompt_n
            ),
            (0, 50)
        );
        assert_eq!(answer.ids(), sound);
    }
    let stats = leaky.stats();
    assert_eq!((stats.cache_queries, stats.cache_hits), (0, 0));

    let delay = Some(Delay::Time(Duration::from_millis(3)));
    let slow = with(Faults {
        decode_delay: delay,
        ..Faults::default()
    });
    let timings = run(&slow, request(&prompt(50, 1), 12)).finished.timings;
    assert!(
        timings.predicted >= Duration::from_millis(33),
        "{timings:?}"
    );

    let hanging = with(Faults {
        hang_after: Some(5),
        ..Faults::default()
    });
    let mut events = hanging.submit(request(&prompt(50, 1), 12)).expect("taken");
    let tokens = std::iter::from_fn(|| events.blocking_recv())
        .filter(|event| matches!(event, Event::Token(_)))
        .take(5);
    assert_eq!(tokens.count(), 5);

    let faults = Faults {
        die_at_start: true,
        ..Faults::default()
    };
    let died = Engine::start(
        Options {
            faults,
            ..Options::default()
        },
        &mut |_| {},
    );
    assert!(matches!(died.err(), Some(StartError::PlantedDeath)));
}

#[test]
fn start_up_names_its_stages_and_counts_nothing() {
    let mut stages = Vec::new();
    let options = Options {
        served_name: Some("mine".to_owned()),
        threads: 2,
        ..Options::default()
    };
    let engine =
        Engine::start(options, &mut |stage: Stage| stages.push(stage.name)).expect("starts");
    assert_eq!(
        stages,
        [
            "config",
            "tokenizer",
            "weights_map",
            "weights_upload",
            "warm_up"
        ]
    );
    let stats = engine.stats();
    assert_eq!(stats.startup.len(), 5);
    assert_eq!(
        (
            stats.prompt_tokens,
            stats.generation_tokens,
            stats.kv.pages_cached
        ),
        (0, 0, 0)
    );
    assert!(stats.kv.pages_total > 0 && stats.kv.page_bytes > 0);
    let info = engine.model_info();
    assert_eq!(
        (info.name.as_str(), info.threads, info.dtype.as_str()),
        ("mine", 2, "bf16")
    );
    assert!(info.parameters > 1_000_000 && info.batch_invariant);
}
