//! The engine through its public handle.

mod batching;
mod emulated;
mod handle;
mod models;
mod sessions;

use engine::request::{Event, Finished, Prompt, Request, Token};
use engine::{Engine, ModelSource, Options};
use tokio::sync::mpsc::UnboundedReceiver;

fn start(options: Options) -> Engine {
    Engine::start(options, &mut |_| {}).expect("the engine starts")
}

/// The model inside the binary, and one most of whose layers keep a recurrent state.
fn both_models() -> [ModelSource; 2] {
    let hybrid = concat!(env!("CARGO_MANIFEST_DIR"), "/gates/models/tiny-qwen3.5");
    [ModelSource::Embedded, ModelSource::Directory(hybrid.into())]
}

/// No page and no state is held by anybody.
fn assert_nothing_held(engine: &Engine) {
    let stats = engine.stats();
    let held = (stats.kv.pages_used, stats.states.used);
    assert_eq!((stats.running, stats.waiting, held), (0, 0, (0, 0)));
}

fn engine() -> Engine {
    start(Options {
        threads: 1,
        ..Options::default()
    })
}

fn request(prompt: &[u32], max_tokens: u32) -> Request {
    Request {
        ignore_eos: true,
        logprobs: Some(2),
        ..Request::new(prompt.to_vec(), max_tokens)
    }
}

/// A prompt of ids that are no special tokens, different for each seed.
fn prompt(length: u32, seed: u32) -> Vec<u32> {
    let start = seed.wrapping_mul(101);
    let id = |at: u32| {
        let quadratic = at.wrapping_mul(31 + 7 * at);
        3 + quadratic.wrapping_add(start) % 400
    };
    (0..length).map(id).collect()
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
