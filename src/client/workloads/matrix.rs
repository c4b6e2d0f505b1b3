//! A matrix as waves: each cell's priming first, where its cache is to know the prompts, then the cell.
//!
//! - `cold`: prompts that no request of the launch has sent.
//! - `warm`: the first half of each prompt was sent before.
//! - `hot`: the very prompt was sent before, alone, and its answer is the one to be repeated. Hot prompts
//!   depend on their place in the batch and on the context alone, so that streamed and whole answers, and
//!   answers of any batch, can be compared.
//!
//! Cells come in a random order, pass by pass, so that no cell always follows the same other one.
//!
//! Refuses to know: sockets, what the answers say.

use super::prompt::SentPrompt;
use super::request_plan::{Label, Pace, Wave};
use super::{Output, prompted};
use crate::{Endpoint, PromptSeed};
use verdict::plan::Matrix;
use verdict::record::{CacheState, Phase, Setting};

/// Hot prompts are numbered from here: far from any request's own index.
const HOT: u32 = 1 << 30;

#[derive(Clone, Copy)]
struct Cell {
    batch: u32,
    cache: CacheState,
    streamed: bool,
    context: u32,
}

/// All waves of the workload `id`, warm-up first.
pub fn waves(endpoint: &Endpoint, id: &str, matrix: &Matrix, seed: PromptSeed) -> Vec<Wave> {
    let mut writer = Writer {
        endpoint,
        id,
        matrix,
        seed,
        next: 0,
    };
    let mut waves = vec![writer.warm_up()];
    for pass in 0..matrix.passes {
        for cell in shuffled(cells(matrix), seed, id, pass) {
            waves.extend(writer.cell(cell, pass));
        }
    }
    waves.retain(|wave| !wave.requests.is_empty());
    waves
}

fn cells(matrix: &Matrix) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &batch in &matrix.batches {
        for &cache in &matrix.caches {
            for &streamed in &matrix.streamed {
                cells.extend(matrix.contexts.iter().map(|&context| Cell {
                    batch,
                    cache,
                    streamed,
                    context,
                }));
            }
        }
    }
    cells
}

/// Fisher and Yates, from the session's seed.
fn shuffled(mut cells: Vec<Cell>, seed: PromptSeed, id: &str, pass: u32) -> Vec<Cell> {
    let mut random = seed.order(id, pass);
    for last in (1..cells.len()).rev() {
        cells.swap(last, random.below(last as u64 + 1) as usize);
    }
    cells
}

struct Writer<'a> {
    endpoint: &'a Endpoint,
    id: &'a str,
    matrix: &'a Matrix,
    seed: PromptSeed,
    /// Index of the next request.
    next: u32,
}

impl Writer<'_> {
    fn warm_up(&mut self) -> Wave {
        let context = self.matrix.contexts.first().copied().unwrap_or(1);
        let requests = (0..self.matrix.warmup).map(|_| {
            let label = Label::of(self.take(), Phase::Warmup);
            let said = self.said(label.index, context);
            prompted(
                self.endpoint,
                said,
                label,
                Output::streamed(self.matrix.output_tokens),
            )
        });
        Wave::new(requests.collect(), Pace::Slots(1))
    }

    /// The priming of a cell, then its requests.
    fn cell(&mut self, cell: Cell, pass: u32) -> [Wave; 2] {
        let mut priming = Vec::new();
        let mut requests = Vec::new();
        for place in 0..cell.batch * self.matrix.rounds {
            let (said, case) = self.prompt(cell, place);
            let setting = Setting::Cell {
                batch: cell.batch,
                cache: cell.cache,
                context: cell.context,
                pass,
            };
            let label = |index, phase| Label {
                case: case.clone(),
                setting: Some(setting),
                ..Label::of(index, phase)
            };
            let tokens = self.matrix.output_tokens;
            let output = |tokens| Output {
                streamed: cell.streamed,
                logprobs: self.matrix.logprobs.top_k,
                ..Output::whole(tokens)
            };
            let primer = match cell.cache {
                CacheState::Cold => None,
                CacheState::Warm => Some((said.half(), 1)),
                CacheState::Hot => Some((said.clone(), tokens)),
            };
            if let Some((said, tokens)) = primer {
                let label = label(self.take(), Phase::Warmup);
                priming.push(prompted(self.endpoint, said, label, output(tokens)));
            }
            let label = label(self.take(), Phase::Measured);
            requests.push(prompted(self.endpoint, said, label, output(tokens)));
        }
        let slots = Pace::Slots(cell.batch);
        [(priming, Pace::Slots(1)), (requests, slots)]
            .map(|(requests, pace)| Wave::new(requests, pace))
    }

    /// The prompt at a place of a cell, and the name under which its answers are compared.
    fn prompt(&self, cell: Cell, place: u32) -> (SentPrompt, Option<String>) {
        if cell.cache == CacheState::Hot {
            let case = format!("{}-{place}", cell.context);
            return (self.said(HOT + place, cell.context), Some(case));
        }
        // No request has this number yet: neither the priming's nor the request's own.
        (self.said(self.next, cell.context), None)
    }

    fn said(&self, number: u32, tokens: u32) -> SentPrompt {
        SentPrompt::new(self.endpoint, self.id, self.seed, number, tokens)
    }

    fn take(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
