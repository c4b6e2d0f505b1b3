//! A layer's experts on the CPU: which of them each row takes, and their MLPs.
//!
//! Main type: [`Routed`]. Each expert computes the rows that took it together; a row's sum runs over its experts in the order of
//! their numbers, then the shared one, so that it does not depend on the rows beside it. Refuses to know: attention, the
//! scheduler.

use super::columns::Columns;
use super::memory::{CpuBuffer, Matrix};
use super::simd::{Elements, Kernels};
use super::threads::Threads;
use crate::backend::{ExpertWeights, math};
use crate::config::experts::Experts;

/// One step's rows on their way through the experts.
#[derive(Default)]
pub struct Routed {
    /// Scores, then probabilities: `[rows, experts]`.
    scores: Vec<f32>,
    /// Expert, row and share of each choice, in the order of experts, then rows.
    choices: Vec<Choice>,
    /// Rows of one expert: input `[rows, h]`, gate and up `[rows, 2 m]`, their product `[rows, m]`, output `[rows, h]`.
    input: Vec<f32>,
    gate_up: Vec<f32>,
    activated: Vec<f32>,
    output: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Choice {
    expert: usize,
    row: usize,
    share: f32,
}

impl Routed {
    /// `x[n, h]` → `out[n, h]`.
    #[expect(clippy::too_many_arguments, reason = "what the operation takes")]
    pub fn run(
        &mut self,
        kernels: Kernels,
        threads: &Threads,
        n: usize,
        x: &CpuBuffer,
        experts: &Experts,
        weights: &ExpertWeights<Matrix>,
        out: &mut CpuBuffer,
    ) {
        let product = Product { kernels, threads };
        let hidden = x.cols;
        out.rows_mut(n).fill(0.0);
        product.run(
            x.rows(n),
            weights.router.elements(),
            hidden,
            &mut self.scores,
        );
        self.choose(n, experts);
        let choices = std::mem::take(&mut self.choices);
        for of_one in choices.chunk_by(|a, b| a.expert == b.expert) {
            let expert = of_one[0].expert;
            self.input.clear();
            for choice in of_one {
                self.input.extend_from_slice(x.row(choice.row));
            }
            let size = experts.intermediate;
            let gate_up = part(&weights.gate_up, expert, 2 * size);
            let down = part(&weights.down, expert, hidden);
            self.mlp(product, gate_up, down, hidden, size);
            for (choice, output) in of_one.iter().zip(self.output.chunks_exact(hidden)) {
                add(out, choice.row, output, choice.share);
            }
        }
        self.choices = choices;
        if let (Some(shared), Some(size)) = (&weights.shared, experts.shared) {
            self.input.clear();
            self.input.extend_from_slice(x.rows(n));
            let (gate_up, down) = (shared.gate_up.elements(), shared.down.elements());
            self.mlp(product, gate_up, down, hidden, size);
            product.run(x.rows(n), shared.gate.elements(), hidden, &mut self.scores);
            for (row, output) in self.output.chunks_exact(hidden).enumerate() {
                let share = 1.0 / (1.0 + math::exp(-self.scores[row]));
                add(out, row, output, share);
            }
        }
    }

    /// The best experts of each row by its scores; of equal ones the first.
    fn choose(&mut self, n: usize, experts: &Experts) {
        self.choices.clear();
        let mut order: Vec<usize> = Vec::new();
        for (row, scores) in self
            .scores
            .chunks_exact_mut(experts.count)
            .take(n)
            .enumerate()
        {
            math::softmax(scores);
            order.clear();
            order.extend(0..experts.count);
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            let chosen = &order[..experts.chosen];
            let total: f32 = match experts.normalised {
                true => chosen.iter().map(|expert| scores[*expert]).sum(),
                false => 1.0,
            };
            self.choices.extend(chosen.iter().map(|expert| Choice {
                expert: *expert,
                row,
                share: scores[*expert] / total,
            }));
        }
        self.choices
            .sort_by_key(|choice| (choice.expert, choice.row));
    }

    /// The rows of `input` through one MLP of `size` intermediate numbers, to `output`.
    fn mlp(
        &mut self,
        product: Product<'_>,
        gate_up: Elements<'_>,
        down: Elements<'_>,
        hidden: usize,
        size: usize,
    ) {
        product.run(&self.input, gate_up, hidden, &mut self.gate_up);
        let rows = self.input.len() / hidden;
        self.activated.resize(rows * size, 0.0);
        let both = self.gate_up.chunks_exact(2 * size);
        for (activated, both) in self.activated.chunks_exact_mut(size).zip(both) {
            let (gate, up) = both.split_at(size);
            math::swiglu(gate, up, activated);
        }
        product.run(&self.activated, down, size, &mut self.output);
    }
}

#[derive(Clone, Copy)]
struct Product<'a> {
    kernels: Kernels,
    threads: &'a Threads,
}

impl Product<'_> {
    /// `out[rows, m] = x[rows, k] · weights[m, k]ᵀ`
    fn run(self, x: &[f32], weights: Elements<'_>, k: usize, out: &mut Vec<f32>) {
        let (rows, m) = (x.len() / k, weights.len() / k);
        out.resize(rows * m, 0.0);
        let columns = Columns::new(out, rows, m, m);
        self.threads.columns(columns, rows * k, &|mut part| {
            let (first, width) = (part.first(), part.width());
            let weights = weights.slice(first * k, (first + width) * k);
            self.kernels.product(x, k, weights, &mut part);
        });
    }
}

/// The rows of one expert, `rows` of them.
fn part(all: &Matrix, expert: usize, rows: usize) -> Elements<'_> {
    let size = rows * all.cols;
    all.elements().slice(expert * size, (expert + 1) * size)
}

fn add(out: &mut CpuBuffer, row: usize, output: &[f32], share: f32) {
    let cols = out.cols;
    let sum = &mut out.data[row * cols..][..cols];
    for (sum, output) in sum.iter_mut().zip(output) {
        *sum += share * output;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(scores: &[f32], experts: &Experts) -> Vec<Choice> {
        let mut routed = Routed {
            scores: scores.to_vec(),
            ..Routed::default()
        };
        routed.choose(scores.len() / experts.count, experts);
        routed.choices
    }

    fn experts(count: usize, chosen: usize, normalised: bool) -> Experts {
        Experts {
            count,
            chosen,
            intermediate: 4,
            normalised,
            shared: None,
            sparse: vec![true],
        }
    }

    #[test]
    fn the_best_are_chosen_and_of_equal_ones_the_first() {
        // Probabilities of 1 and 3 are e^2 / (2 e^2 + 2 e) each.
        let scores = [1.0, 2.0, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0];
        let got = choices(&scores, &experts(4, 2, true));
        let places: Vec<_> = got.iter().map(|it| (it.expert, it.row)).collect();
        assert_eq!(places, [(0, 1), (1, 0), (1, 1), (3, 0)]);
        assert!(got.iter().all(|it| (it.share - 0.5).abs() < 1e-6));
        let plain = choices(&scores[..4], &experts(4, 2, false));
        let want = 0.5 * 2.0f32.exp() / (2.0f32.exp() + 1.0f32.exp());
        assert!(plain.iter().all(|it| (it.share - want).abs() < 1e-6));
    }
}
