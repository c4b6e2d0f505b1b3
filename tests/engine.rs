//! The engine through its public handle: caching, cancellation, draining, refusals, faults.

use std::fs;
use std::path::Path;
use std::time::Duration;

use infergate::engine::request::{Event, FinishReason, Finished, Prompt, Request, Token};
use infergate::engine::{
    DecodeDelay, Engine, Faults, Message, ModelSource, Options, Stage, StartError, SubmitError,
};
use tokio::sync::mpsc::UnboundedReceiver;

const PAGE: u32 = 16;

fn start(options: Options) -> Engine {
    Engine::start(options, &mut |_| {}).expect("the engine starts")
}

fn engine() -> Engine {
    start(Options {
        threads: 1,
        ..Options::default()
    })
}

fn request(prompt: &[u32], max_tokens: u32) -> Request {
    Request {
        prompt: prompt.to_vec(),
        max_tokens,
        min_tokens: 0,
        ignore_eos: true,
        logprobs: Some(2),
        prompt_logprobs: false,
        use_cache: true,
    }
}

/// A prompt of ids that are no special tokens, different for each seed.
fn prompt(length: u32, seed: u32) -> Vec<u32> {
    (0..length)
        .map(|at| 3 + (at * 31 + at * at * 7 + seed * 101) % 400)
        .collect()
}

struct Answer {
    prompt: Prompt,
    tokens: Vec<Token>,
    finished: Finished,
}

impl Answer {
    fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }
}

fn collect(mut events: UnboundedReceiver<Event>) -> Result<Answer, String> {
    let (mut prompt, mut tokens) = (None, Vec::new());
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Prompt(done) => assert!(prompt.replace(done).is_none(), "two prompt events"),
            Event::Token(token) => tokens.push(token),
            Event::Failed(why) => return Err(why),
            Event::Finished(finished) => {
                assert!(events.blocking_recv().is_none(), "events after the last");
                let prompt = prompt.expect("a prompt event comes first");
                return Ok(Answer {
                    prompt,
                    tokens,
                    finished,
                });
            }
        }
    }
    panic!("the channel closed without a last event");
}

fn run(engine: &Engine, request: Request) -> Answer {
    collect(engine.submit(request).expect("the request is taken")).expect("it is answered")
}

#[test]
fn a_warm_cache_gives_the_same_answer_to_the_bit() {
    let engine = engine();
    for length in [1, 15, 16, 17, 33, 160, 600] {
        let prompt = prompt(length, length);
        let cold = run(
            &engine,
            Request {
                use_cache: false,
                ..request(&prompt, 20)
            },
        );
        let feeding = run(&engine, request(&prompt, 20));
        let warm = run(&engine, request(&prompt, 20));
        assert_eq!(
            (cold.prompt.cached_tokens, feeding.prompt.cached_tokens),
            (0, 0)
        );
        assert_eq!(warm.prompt.cached_tokens, (length - 1) / PAGE * PAGE);
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
    let mut history = prompt(40, 1);
    for turn in 0..8 {
        let answer = run(&engine, request(&history, 24));
        let whole = run(
            &other,
            Request {
                use_cache: false,
                ..request(&history, 24)
            },
        );
        assert_eq!(answer.tokens, whole.tokens, "turn {turn}");
        if turn > 0 {
            let computed = history.len() as u32 - answer.prompt.cached_tokens;
            assert!(computed <= 30 + 1 + PAGE, "turn {turn} computed {computed}");
        }
        history.extend(answer.ids());
        history.extend(prompt(30, turn + 2));
        run(&engine, request(&prompt(400, turn + 50), 1));
    }
    assert_eq!(engine.stats().kv.pages_used, 0);
}

#[test]
fn generation_follows_the_requests_rules() {
    let engine = engine();
    let info = engine.model_info();
    let chat = engine.chat_template().expect("the embedded model has one");
    let message = Message {
        role: "user".to_owned(),
        content: "copy: abc".to_owned(),
    };
    let text = chat.render(&[message], true).expect("it renders");
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
    if free.finished.reason == FinishReason::Stop {
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
    }
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
    assert_eq!(engine.stats().running, 1);
    assert!(engine.stats().kv.pages_used > 0);
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

#[test]
fn shutdown_answers_what_waits_and_takes_nothing_new() {
    let engine = engine();
    assert!(engine.is_healthy());
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
    assert!(!engine.is_healthy());
}

#[test]
fn what_cannot_be_served_is_refused_at_once() {
    let slow = Faults {
        decode_delay: Some(DecodeDelay::Absolute(Duration::from_millis(1))),
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

    let delay = Some(DecodeDelay::Absolute(Duration::from_millis(3)));
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

/// A copy of the embedded model's directory, to be spoilt.
fn copied() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/models/tiny-qwen3");
    for entry in fs::read_dir(from).expect("the model is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), directory.path().join(entry.file_name())).expect("it is copied");
    }
    directory
}

fn load(directory: &Path) -> Result<Engine, StartError> {
    let model = ModelSource::Directory(directory.to_path_buf());
    Engine::start(
        Options {
            model,
            threads: 1,
            ..Options::default()
        },
        &mut |_| {},
    )
}

#[track_caller]
fn refuses(spoil: impl FnOnce(&Path), parts: &[&str]) {
    let directory = copied();
    spoil(directory.path());
    let message = load(directory.path())
        .err()
        .expect("it was loaded")
        .to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("it is text");
    assert!(text.contains(from), "{} lacks {from}", file.display());
    fs::write(file, text.replace(from, to)).expect("it is written");
}

#[test]
fn a_model_that_cannot_be_served_is_refused_with_cause_and_remedy() {
    refuses(
        |at| fs::remove_dir_all(at).expect("gone"),
        &["does not exist", "config.json"],
    );
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        refuses(
            |at| fs::remove_file(at.join(file)).expect("gone"),
            &[file, "is missing", "download"],
        );
    }
    refuses(
        |at| {
            let weights = at.join("model.safetensors");
            let bytes = fs::read(&weights).expect("it is read");
            fs::write(&weights, &bytes[..bytes.len() / 2]).expect("it is cut");
        },
        &[
            "model.safetensors",
            "truncated or damaged",
            "download it again",
        ],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "Qwen3ForCausalLM",
                "GemmaForCausalLM",
            )
        },
        &["GemmaForCausalLM", "not supported"],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"intermediate_size\": 384",
                "\"intermediate_size\": 400",
            )
        },
        &[
            "gate_proj",
            "[384, 128]",
            "[400, 128]",
            "do not belong together",
        ],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"vocab_size\": 448",
                "\"vocab_size\": 500",
            )
        },
        &["embed_tokens", "[448, 128]", "[500, 128]"],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"tie_word_embeddings\": true",
                "\"tie_word_embeddings\": false",
            )
        },
        &["lm_head.weight", "is missing"],
    );
    refuses(
        |at| fs::write(at.join("config.json"), "{").expect("cut"),
        &["config.json", "JSON"],
    );
}

/// NaN in the weights must never become a token.
#[test]
fn what_is_not_a_number_fails_the_start() {
    let directory = copied();
    let weights = directory.path().join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("it is read");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    fs::write(&weights, bytes).expect("it is written");
    let error = load(directory.path())
        .err()
        .expect("it was loaded")
        .to_string();
    assert!(error.contains("not a number"), "{error}");
}

#[test]
fn a_directory_serves_as_the_embedded_copy_does() {
    let directory = copied();
    let from_files = load(directory.path()).expect("it loads");
    let prompt = prompt(70, 3);
    let (one, two) = (
        run(&from_files, request(&prompt, 8)),
        run(&engine(), request(&prompt, 8)),
    );
    assert_eq!(one.tokens, two.tokens);
    let name = directory
        .path()
        .file_name()
        .expect("it has one")
        .to_string_lossy()
        .into_owned();
    assert_eq!(from_files.model_info().name, name);
}
