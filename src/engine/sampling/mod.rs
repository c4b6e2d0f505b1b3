//! Choice of the next token from a row of logits.
//!
//! Main types: [`Sampling`], the rules of one request, and the function [`choose()`]. Steps and their order
//! are vLLM's. A choice depends on the row, the rules and what was said so far, never on the rows beside
//! it, so that a seed gives the same answer in any batch. Refuses to know: where the logits come from.

mod best;
mod choose;
mod distribution;
mod random;
mod scores;

pub use best::{best, better};
pub use choose::{chance, choose, choose_of_best};

/// Below this temperature the greatest score is taken; vLLM's bound.
const GREEDY_BELOW: f32 = 1e-5;

/// Rules of choice. The default is greedy: the greatest logit, ties to the lower id.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the greatest.
    pub temperature: f32,
    /// Only so many best tokens; 0 takes all.
    pub top_k: u32,
    /// The fewest best tokens whose probabilities reach this sum.
    pub top_p: f32,
    /// Only tokens of at least this share of the best one's probability.
    pub min_p: f32,
    /// Logits of tokens that stand in prompt or answer: divided by it where positive, else multiplied.
    pub repetition_penalty: f32,
    /// Taken off the logits of tokens that stand in the answer.
    pub presence_penalty: f32,
    /// Taken off for each time that the token stands in the answer.
    pub frequency_penalty: f32,
    /// Added to the logits of these ids.
    pub bias: Vec<(u32, f32)>,
    /// Only these ids, where there are any.
    pub allowed: Vec<u32>,
    /// Equal seeds give equal draws, whatever runs beside.
    pub seed: u64,
}

/// What of a row of logits a choice needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The greatest that is not banned.
    Greatest,
    /// Each of them, since rules change some.
    Scores,
    /// The weights of all, since temperature alone counts.
    Weights,
    /// So many of the best, or where no rule says how many, as many as hold all that may be drawn.
    Best(Option<usize>),
}

impl Sampling {
    pub fn needs(&self) -> Needs {
        if !self.leaves_scores() {
            Needs::Scores
        } else if self.takes_greatest() {
            Needs::Greatest
        } else if self.top_k == 0 && self.top_p >= 1.0 && self.min_p <= 0.0 {
            Needs::Weights
        } else {
            Needs::Best(Some(self.top_k as usize).filter(|count| *count > 0))
        }
    }

    fn takes_greatest(&self) -> bool {
        self.temperature < GREEDY_BELOW
    }

    /// Nothing but a ban changes what the model gave.
    fn leaves_scores(&self) -> bool {
        let is_zero = |penalty: f32| penalty.abs() <= 0.0;
        is_zero(self.repetition_penalty - 1.0)
            && is_zero(self.presence_penalty)
            && is_zero(self.frequency_penalty)
            && self.bias.is_empty()
            && self.allowed.is_empty()
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            bias: Vec::new(),
            allowed: Vec::new(),
            seed: 0,
        }
    }
}
