//! Long sessions: each turn costs its own tokens, and with a window a session of any length has its bound.

use engine::request::{CacheUse, Event, Request};
use engine::{Engine, ModelSource, Options, StartError, Window};

use super::{both_models, prompt, request, run, start};

/// Many turns of one conversation, at night a thousand. A turn's prompt repeats all that was said; computed are the new
/// message and the last token of the answer before it, which was chosen but never computed.
#[test]
fn each_of_many_turns_prefills_its_new_message_alone() {
    for model in both_models() {
        each_turn_prefills_its_new_message_alone(model);
    }
}

fn each_turn_prefills_its_new_message_alone(model: ModelSource) {
    let turns: u32 = if fixture::is_nightly() { 1_000 } else { 300 };
    let engine = start(Options {
        model,
        threads: 2,
        ..Options::default()
    });
    let mut history: Vec<u32> = Vec::new();
    let mut new = prompt(40, 0);
    for turn in 1..=turns {
        history.extend(&new);
        let before = engine.stats().prefilled_tokens;
        let answer = run(&engine, request(&history, 3));
        let prefilled = engine.stats().prefilled_tokens - before;
        assert_eq!(prefilled, new.len() as u64, "turn {turn}");
        assert_eq!(answer.finished.timings.prompt_n, new.len() as u32);
        let ids = answer.ids();
        history.extend(&ids[..2]);
        new = [&ids[2..], &prompt(1 + turn * 5 % 9, turn)].concat();
    }
    assert!(history.len() > 7 * turns as usize);
}

/// Two thousand turns, at night ten thousand, with a sink and a window: keys and values stay within a page of constant, though
/// the history grows to many times the window, and each turn still prefills its new message alone.
#[test]
fn turns_stay_within_a_page_of_constant() {
    let [embedded, hybrid] = both_models();
    let turns = if fixture::is_nightly() { 10_000 } else { 2_000 };
    turns_stay_within(embedded, turns, 1);
    // A tenth of them: what a turn leaves is seen as well. Of the turns of the last two pages each has a page that is filled
    // in part, to resume from.
    turns_stay_within(hybrid, turns / 10, 8);
}

/// Positions that the sessions below attend to, beside a sink of 4.
const WINDOW: u32 = 256;

fn windowed(model: ModelSource) -> Engine {
    start(Options {
        model,
        threads: 1,
        window: Some(Window {
            sink: 4,
            window: WINDOW as usize,
        }),
        max_context: Some(1 << 17),
        kv_tokens: 1 << 14,
        ..Options::default()
    })
}

/// `spread`: pages between the least and the most that are kept once the window is full.
fn turns_stay_within(model: ModelSource, turns: u32, spread: u64) {
    let engine = windowed(model);
    let mut history: Vec<u32> = Vec::new();
    let mut new = prompt(300, 0);
    let (mut least, mut most, mut in_use, mut snapshots) = (u64::MAX, 0, 0, 0);
    for turn in 1..=turns {
        history.extend(&new);
        let before = engine.stats().prefilled_tokens;
        let mut events = engine.submit(request(&history, 2)).expect("taken");
        let mut ids = Vec::new();
        while let Some(event) = events.blocking_recv() {
            if let Event::Token(token) = event {
                // The whole prompt is computed and, as a rule, still held.
                in_use = in_use.max(engine.stats().kv.pages_used);
                ids.push(token.id);
            }
        }
        let stats = engine.stats();
        assert_eq!(
            stats.prefilled_tokens - before,
            new.len() as u64,
            "turn {turn}"
        );
        assert_eq!(stats.kv.pages_used, 0);
        least = least.min(stats.kv.pages_cached);
        most = most.max(stats.kv.pages_cached);
        snapshots = snapshots.max(stats.states.kept);
        history.push(ids[0]);
        new = [&ids[1..], &prompt(1 + turn % 4, turn)].concat();
    }
    assert!(history.len() > 4 * turns as usize);
    assert!(most - least <= spread, "{least} to {most} pages");
    assert!(snapshots <= spread, "{snapshots} snapshots");
    // Sink, the window of where the prompt's last full page ends, and that page's end.
    assert!(
        most <= 2 + u64::from(WINDOW).div_ceil(16) + spread,
        "{most} pages"
    );
    // While it runs: sink, window, and the piece of the first prompt that the CPU computes in a step.
    let chunk = 128;
    assert!(in_use > 0 && in_use <= 1 + (u64::from(WINDOW) + chunk).div_ceil(16) + 1);
}

/// Over the chat route an answer may come back as other tokens. Such a turn computes the rest of the last prompt's page, the
/// answer and the new message, and leaves nothing behind that the next ones do not drop.
#[test]
fn an_answer_that_comes_back_as_other_tokens_costs_no_history() {
    for model in both_models() {
        an_answer_comes_back_otherwise(model, if fixture::is_nightly() { 1_000 } else { 100 });
    }
}

fn an_answer_comes_back_otherwise(model: ModelSource, turns: u32) {
    const ANSWER: u32 = 20;
    let engine = windowed(model);
    let mut history = prompt(700, 0);
    let mut known = 0;
    let (mut pages, mut snapshots) = (0, 0);
    for turn in 1..=turns {
        let before = engine.stats().prefilled_tokens;
        let mut ids = run(&engine, request(&history, ANSWER)).ids();
        let stats = engine.stats();
        let prefilled = stats.prefilled_tokens - before;
        let most = history.len() - known + 16;
        assert!(prefilled <= most as u64, "turn {turn}: {prefilled} tokens");
        known = history.len();
        pages = pages.max(stats.kv.pages_cached);
        snapshots = snapshots.max(stats.states.kept);
        // Another token: at once, in the middle or at the end; in every third turn none.
        let at = (turn * 7 % ANSWER) as usize;
        ids[at] = if turn.is_multiple_of(3) {
            ids[at]
        } else {
            3 + (ids[at] + turn) % 300
        };
        history.extend(ids);
        history.extend(prompt(1 + turn * 5 % 40, turn));
    }
    // Sink, window, what a turn adds, and of the last turns' ends a page each, to resume from.
    let most = 1 + u64::from(WINDOW + ANSWER + 40).div_ceil(16) + 8;
    assert!(pages <= most, "{pages} pages");
    assert!(snapshots <= 16, "{snapshots} snapshots");
}

/// The same rule, however the tokens came: at once or turn by turn, in large chunks or small, with the
/// pages still there or computed anew.
#[test]
fn a_windowed_session_equals_one_request() {
    for model in both_models() {
        a_session_equals_one_request(&model);
    }
}

fn a_session_equals_one_request(model: &ModelSource) {
    let options = |kv_tokens, chunk_tokens| Options {
        model: model.clone(),
        threads: 2,
        window: Some(Window {
            sink: 20,
            window: 70,
        }),
        kv_tokens,
        chunk_tokens: Some(chunk_tokens),
        ..Options::default()
    };
    let (turns, whole) = (start(options(0, 512)), start(options(400, 33)));
    let mut history = prompt(60, 1);
    for turn in 0..12 {
        let answer = run(&turns, request(&history, 24));
        let expect = Request {
            cache: CacheUse::Off,
            ..request(&history, 24)
        };
        assert_eq!(answer.tokens, run(&whole, expect).tokens, "turn {turn}");
        history.extend(answer.ids());
        history.extend(prompt(17, turn + 2));
    }
}

#[test]
fn a_window_that_sees_everything_changes_nothing() {
    let window = Window {
        sink: 4,
        window: 600,
    };
    let windowed = start(Options {
        window: Some(window),
        ..Options::default()
    });
    let full = start(Options::default());
    for length in [1, 16, 200, 580] {
        let request = request(&prompt(length, length), 20);
        let (one, two) = (run(&windowed, request.clone()), run(&full, request));
        assert_eq!(one.tokens, two.tokens, "{length}");
    }
    let longer = request(&prompt(1_000, 1), 20);
    let (one, two) = (run(&windowed, longer.clone()), run(&full, longer));
    assert_ne!(
        one.tokens, two.tokens,
        "beyond the window something must change"
    );
}

#[test]
fn options_that_cannot_be_are_refused() {
    let check = |options: Options, part: &str| {
        let started = engine::Engine::start(options, &mut |_| {});
        match started.err() {
            Some(StartError::Options(why)) => assert!(why.contains(part), "{why}"),
            other => panic!("{part}: {other:?}"),
        }
    };
    let window = |sink, window| Some(Window { sink, window });
    let default = Options::default;
    check(
        Options {
            window: window(4, 0),
            ..default()
        },
        "window must be 1",
    );
    check(
        Options {
            window: window(9, 40_000),
            ..default()
        },
        "within the model's context",
    );
    check(
        Options {
            window: window(4, 100),
            kv_tokens: 64,
            ..default()
        },
        "sink and window need",
    );
    check(
        Options {
            max_context: Some(40_000),
            ..default()
        },
        "the most is 32768",
    );
    check(
        Options {
            running: 0,
            ..default()
        },
        "at least 1",
    );
    check(
        Options {
            chunk_tokens: Some(0),
            ..default()
        },
        "at least 1",
    );
    check(
        Options {
            running: 8,
            step_tokens: Some(8),
            ..default()
        },
        "8 running",
    );
    check(
        Options {
            memory_limit: Some(1 << 20),
            ..default()
        },
        "leaves no page",
    );
    check(
        Options {
            memory_limit: Some(64 << 20),
            kv_tokens: 1 << 16,
            ..default()
        },
        "the memory limit leaves",
    );
}

/// What a limit leaves goes to keys and values, and never more than it.
#[test]
fn a_memory_limit_bounds_the_pages() {
    const LIMIT: u64 = 64 << 20;
    let engine = start(Options {
        memory_limit: Some(LIMIT),
        ..Options::default()
    });
    let kv = engine.stats().kv;
    let bytes = kv.pages_total * kv.page_bytes;
    assert!(bytes < LIMIT && bytes > LIMIT / 2, "{bytes}");
    let room = engine.model_info().max_context as u64;
    assert!(room <= kv.pages_total * kv.page_tokens);
    assert_eq!(run(&engine, request(&prompt(50, 1), 5)).tokens.len(), 5);
}

/// Without snapshots a hybrid model computes a history anew, and says the same.
#[test]
fn a_hybrid_without_snapshots_resumes_nowhere() {
    let [_, hybrid] = both_models();
    let with = |snapshots| {
        start(Options {
            model: hybrid.clone(),
            snapshots,
            ..Options::default()
        })
    };
    let (some, none) = (with(Some(3)), with(Some(0)));
    let mut history = prompt(70, 1);
    for turn in 0..6 {
        let (one, other) = (
            run(&some, request(&history, 9)),
            run(&none, request(&history, 9)),
        );
        assert_eq!(one.tokens, other.tokens, "turn {turn}");
        history.extend(one.ids());
        history.extend(prompt(5, turn));
    }
    let (some, none) = (some.stats().states, none.stats().states);
    assert_eq!((some.resumed, some.kept), (5, 3));
    assert_eq!((none.resumed, none.kept), (0, 0));
    assert!(none.recomputed_tokens > 5 * 64, "{none:?}");
    let many = Options {
        model: hybrid,
        snapshots: Some(1 << 30),
        ..Options::default()
    };
    let refused = engine::Engine::start(many, &mut |_| {}).err();
    assert!(
        matches!(&refused, Some(StartError::Options(why)) if why.contains("snapshots are more than")),
        "{refused:?}"
    );
}

/// The states of running requests are counted before keys and values; snapshots take a quarter of the rest at the most.
#[test]
fn a_memory_limit_counts_recurrent_states() {
    let [_, hybrid] = both_models();
    let options = |memory_limit, running| Options {
        model: hybrid.clone(),
        memory_limit: Some(memory_limit),
        running,
        step_tokens: Some(running + 16),
        ..Options::default()
    };
    let state = start(options(64 << 20, 2)).stats().states.bytes;
    assert_eq!(state, 4 * 4 * (4 * 32 * 32 + 3 * 256));
    // As many states as fill the limit, and weights besides.
    let limit = 256 * state;
    match engine::Engine::start(options(limit, 256), &mut |_| {}).err() {
        Some(StartError::Options(why)) => {
            let states = format!("{limit} for the states of running requests");
            assert!(
                why.contains(&states) && why.contains("--max-running"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    let engine = start(options(limit, 16));
    for seed in 0..300 {
        run(&engine, request(&prompt(20, seed), 1));
    }
    let stats = engine.stats();
    let kept = stats.states.kept * state;
    assert!(kept > 0 && kept <= limit / 4, "{stats:?}");
    let pages = stats.kv.pages_total * stats.kv.page_bytes;
    assert!(pages + kept + 16 * state < limit, "{stats:?}");
}
