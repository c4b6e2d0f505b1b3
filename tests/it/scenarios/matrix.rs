//! Batch × cache × mode × context: every cell's answers are those of the same request alone and cold.
//!
//! After an incident elsewhere: two requests at once with a warm cache at 1,024 to 2,048 tokens gave one
//! space, and nothing else was wrong. So an empty answer, one of another length and a different one fail
//! with the name of their cell. Answers are forced to their length.

use super::answer::{self, Answer, Mode};
use super::random;
use fixture::process::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The last two at night only: they take most of the time.
const CONTEXTS: [usize; 5] = [128, 1024, 2048, 1536, 4096];
const TOKENS: u32 = 24;
/// The end of a prompt that it shares with no other one of its context; the rest is theirs in common.
const TAIL: usize = 40;
/// Prompts of a context. The first makes the cache warm; each warm run takes one that was not yet seen.
const PROMPTS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// Nothing of the prompt was seen.
    Cold,
    /// Its prefix was seen, in another prompt.
    Warm,
    /// The whole of it was seen.
    Hot,
}

/// One request of a run.
#[derive(Clone, Copy)]
struct Asked {
    context: usize,
    prompt: usize,
    mode: Mode,
    cache: Cache,
    /// With a cold cache: whether the request feeds it.
    feeds: bool,
}

struct Matrix {
    server: Server,
    /// Shorter contexts may have nothing in the cache that another prompt with the same beginning could use.
    warm_from: usize,
    /// By context and prompt.
    alone: Vec<Vec<Answer>>,
    /// Contexts with a prompt that was not yet seen.
    fresh: BTreeSet<usize>,
    cells: BTreeSet<String>,
    wrong: Vec<String>,
    runs: usize,
    together: usize,
}

#[test]
fn every_cell_answers_as_a_cold_request_alone() {
    every_cell_answers(&[], 0);
}

/// A hybrid model goes on from a snapshot of its state: of a prompt in one chunk the only one lies behind what another prompt
/// has in common with it.
#[test]
fn every_cell_of_a_hybrid_model_answers_as_a_cold_request_alone() {
    let model = fixture::repository().join("gates/models/tiny-qwen3.5");
    every_cell_answers(&["--model", model.to_str().unwrap()], 129);
}

fn every_cell_answers(model: &[&str], warm_from: usize) {
    // The delay keeps the shortest answers in flight together.
    let arguments = ["--threads", "0", "--fault", "decode-delay=1ms"];
    let server = Server::start(&[&arguments[..], model].concat());
    let mut matrix = Matrix {
        server,
        warm_from,
        alone: Vec::new(),
        fresh: (0..contexts()).collect(),
        cells: BTreeSet::new(),
        wrong: Vec::new(),
        runs: 0,
        together: 0,
    };
    for context in 0..contexts() {
        matrix.answer_alone(context);
        matrix.runs_of_one_context(context);
    }
    for pair in [[0, 1], [1, 2], [3, 4], [4, 0]] {
        if pair.iter().all(|&context| context < contexts()) {
            matrix.runs_of_two_contexts(pair);
        }
    }
    matrix.report();
}

/// Contexts of this run, from the first on.
fn contexts() -> usize {
    if fixture::is_nightly() {
        CONTEXTS.len()
    } else {
        3
    }
}

impl Matrix {
    /// The standard of every prompt of a context.
    fn answer_alone(&mut self, context: usize) {
        let answers = (0..PROMPTS).map(|prompt| {
            let mut body = answer::forced(&tokens(context, prompt), TOKENS, Mode::Whole);
            body["cache_prompt"] = json!(false);
            let connection = answer::send_together(self.server.address, &[body]).remove(0);
            let (answer, cached) = answer::read(connection, Mode::Whole).unwrap();
            assert_eq!(cached, 0, "a request without the cache");
            assert_eq!(
                answer.degenerate(TOKENS),
                None,
                "{} tokens alone",
                CONTEXTS[context]
            );
            answer
        });
        let answers: Vec<_> = answers.collect();
        let different: BTreeSet<_> = answers.iter().map(|answer| &answer.tokens).collect();
        assert!(
            different.len() * 2 > PROMPTS,
            "equal answers to several prompts would hide a mix-up"
        );
        self.alone.push(answers);
    }

    fn runs_of_one_context(&mut self, context: usize) {
        use Cache::{Cold, Hot, Warm};
        use Mode::{Streamed, Whole};
        let ask = |cache, prompt, mode| Asked {
            context,
            prompt,
            mode,
            cache,
            feeds: false,
        };
        self.run(&[ask(Cold, 1, Whole)]);
        self.run(&[ask(Cold, 1, Streamed), ask(Cold, 2, Whole)]);
        // Nothing of this context is in the cache until here.
        self.run(&[Asked {
            feeds: true,
            ..ask(Cold, 0, Streamed)
        }]);
        self.run(&[ask(Warm, 1, Whole)]);
        self.run(&[ask(Warm, 2, Streamed)]);
        self.run(&[ask(Warm, 3, Streamed), ask(Warm, 4, Whole)]);
        self.run(&[ask(Hot, 3, Streamed), ask(Hot, 2, Whole)]);
        self.run(&[ask(Hot, 2, Streamed)]);
        self.run(&[ask(Hot, 2, Whole)]);
    }

    /// Four at once, two of each context.
    fn runs_of_two_contexts(&mut self, pair: [usize; 2]) {
        for (cache, streamed, whole) in
            [(Cache::Cold, 2, 3), (Cache::Warm, 5, 5), (Cache::Hot, 3, 5)]
        {
            let asked = pair.map(|context| {
                // A context that was in a pair before has no prompt left that was not seen.
                let seen = cache == Cache::Warm && !self.fresh.remove(&context);
                let cache = if seen { Cache::Hot } else { cache };
                let ask = |prompt, mode| Asked {
                    context,
                    prompt,
                    mode,
                    cache,
                    feeds: false,
                };
                [ask(streamed, Mode::Streamed), ask(whole, Mode::Whole)]
            });
            self.run(asked.as_flattened());
        }
    }

    /// Sends these together; each must be answered as it was alone.
    fn run(&mut self, asked: &[Asked]) {
        let bodies: Vec<_> = asked.iter().map(Asked::body).collect();
        let connections = answer::send_together(self.server.address, &bodies);
        self.runs += 1;
        self.together += usize::from(connections.iter().all(answer::is_unanswered));
        for (one, connection) in asked.iter().zip(connections) {
            let cell = one.cell(asked.len());
            if let Err(what) = self.judge(*one, answer::read(connection, one.mode)) {
                let Asked { prompt, .. } = one;
                self.wrong.push(format!("{cell}, prompt {prompt}: {what}"));
            }
            self.cells.insert(cell);
        }
    }

    fn judge(&self, asked: Asked, read: Result<(Answer, u64), String>) -> Result<(), String> {
        let (answer, cached) = read?;
        if let Some(what) = answer.degenerate(TOKENS) {
            return Err(what);
        }
        let alone = &self.alone[asked.context][asked.prompt];
        if answer != *alone {
            return Err(format!(
                "\n  {answer:?}\n  differs from the cold request alone\n  {alone:?}"
            ));
        }
        let may_be_cold = asked.cache == Cache::Warm && CONTEXTS[asked.context] < self.warm_from;
        if (cached == 0) != (asked.cache == Cache::Cold) && !may_be_cold {
            return Err(format!("{cached} prompt tokens were cached"));
        }
        Ok(())
    }

    #[expect(
        clippy::print_stdout,
        reason = "the size of what was compared, for who runs it"
    )]
    fn report(self) {
        let Self {
            cells,
            wrong,
            runs,
            together,
            ..
        } = self;
        println!(
            "{} cells in {runs} runs, {together} of them seen in flight together",
            cells.len()
        );
        assert!(
            wrong.is_empty(),
            "{} answers are wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert_eq!(cells.len(), 3 * 3 * 2 * contexts(), "{cells:#?}");
    }
}

impl Asked {
    fn body(&self) -> Value {
        let mut body = answer::forced(&tokens(self.context, self.prompt), TOKENS, self.mode);
        body["cache_prompt"] = json!(self.cache != Cache::Cold || self.feeds);
        body
    }

    /// The name of its cell.
    fn cell(&self, batch: usize) -> String {
        let Self {
            context,
            mode,
            cache,
            ..
        } = self;
        format!(
            "batch {batch}, {cache:?}, {mode:?}, {} tokens",
            CONTEXTS[*context]
        )
    }
}

/// A prompt of ordinary tokens. Prompts of a context begin alike, those of two contexts differ from the
/// first token on. With these seeds, most answers to the prompts of a context are different, by either model.
fn tokens(context: usize, prompt: usize) -> Vec<u32> {
    let length = CONTEXTS[context];
    let head = sequence(context as u64 + 1).take(length - TAIL);
    let tail = sequence((context * PROMPTS + prompt) as u64 + 800).take(TAIL);
    head.chain(tail).collect()
}

/// Token ids between 10 and 409.
fn sequence(seed: u64) -> impl Iterator<Item = u32> {
    random::numbers(seed).map(|number| 10 + (number % 400) as u32)
}
