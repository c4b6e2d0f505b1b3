//! From scores to probabilities: temperature, then min-p, top-k and top-p.
//!
//! Main type: [`Distribution`]. Each of the three rules keeps some of the best tokens, so their order
//! matters only where a sum of probabilities counts: top-p's is taken over what the other two left, as
//! vLLM has it. Work is proportional to the vocabulary; nothing of its size is sorted. Refuses to know:
//! chance.

use super::Sampling;
use super::best::{best, better};
use crate::engine::backend::math;

/// What may be drawn, in the order of ids.
pub(super) struct Distribution {
    /// Ids of the weights; `None`: 0, 1, 2, …
    ids: Option<Vec<u32>>,
    /// Proportional to the probabilities; 0 for what was sorted out.
    weights: Vec<f32>,
}

/// Weights that are added up before the sums are searched.
const BLOCK: usize = 512;

impl Distribution {
    /// `greatest` of the scores must be finite, the temperature positive.
    pub(super) fn new(scores: Vec<f32>, greatest: f32, rules: &Sampling) -> Self {
        let count = rules.top_k as usize;
        let ids = (count > 0 && count < scores.len()).then(|| {
            let mut ids = best(&scores, count);
            ids.sort_unstable();
            ids
        });
        let scores = match &ids {
            Some(ids) => ids.iter().map(|id| scores[*id as usize]).collect(),
            None => scores,
        };
        let weight = |score: &f32| weight((score - greatest) / rules.temperature);
        let mut weights: Vec<f32> = scores.iter().map(weight).collect();
        // The best one's weight is 1.
        let least = rules.min_p.min(1.0);
        keep(&mut weights, |_, weight| weight >= least);
        if rules.top_p < 1.0 {
            keep_nucleus(&scores, &mut weights, rules.top_p);
        }
        Self { ids, weights }
    }

    /// The id at the share `uniform` (0..1) of the whole, counted in the order of ids.
    pub(super) fn at(&self, uniform: f64) -> u32 {
        let sums: Vec<f64> = self.weights.chunks(BLOCK).map(sum).collect();
        let mut left = uniform * sums.iter().sum::<f64>();
        let mut passes = |weight: f64| {
            let passes = left >= weight;
            left -= if passes { weight } else { 0.0 };
            passes
        };
        let block = sums.iter().take_while(|sum| passes(**sum)).count() * BLOCK;
        let rest = &self.weights[block.min(self.weights.len())..];
        let at = block
            + rest
                .iter()
                .take_while(|weight| passes(f64::from(**weight)))
                .count();
        // Sums of other orders may differ in the last bit: then it is the last that may be drawn.
        let last = || self.weights.iter().rposition(|weight| *weight > 0.0);
        let at = if at < self.weights.len() {
            at
        } else {
            last().unwrap_or(0)
        };
        match &self.ids {
            Some(ids) => ids[at],
            None => at as u32,
        }
    }

    #[cfg(test)]
    pub(super) fn probabilities(&self, vocab: usize) -> Vec<f64> {
        let total = sum(&self.weights);
        let mut all = vec![0.0; vocab];
        for (at, weight) in self.weights.iter().enumerate() {
            let id = self.ids.as_ref().map_or(at, |ids| ids[at] as usize);
            all[id] = f64::from(*weight) / total;
        }
        all
    }
}

/// e^x, but 0 where the score is −∞.
fn weight(x: f32) -> f32 {
    if x > f32::NEG_INFINITY {
        math::exp(x)
    } else {
        0.0
    }
}

fn keep(weights: &mut [f32], kept: impl Fn(usize, f32) -> bool) {
    for (at, weight) in weights.iter_mut().enumerate() {
        *weight = if kept(at, *weight) { *weight } else { 0.0 };
    }
}

/// Leaves the fewest best tokens whose weights add up to the share `top_p` of all, at least one.
fn keep_nucleus(scores: &[f32], weights: &mut [f32], top_p: f32) {
    let total = sum(weights);
    let mut needed = f64::from(top_p.max(0.0)) * total;
    // Those below this weight add up to less than may be left out. A little less for rounding.
    let least = (total - needed) / weights.len() as f64 * (1.0 - 1e-5);
    let worth = |at: &u32| {
        let weight = weights[*at as usize];
        weight > 0.0 && f64::from(weight) >= least
    };
    let mut candidates: Vec<u32> = (0..weights.len() as u32).filter(worth).collect();
    // The last one kept lies in `open`; those before it are better and are taken off `needed`. The range
    // halves each time, so that all the selecting together is a few passes.
    let order = better(scores);
    let mut open = &mut candidates[..];
    while open.len() > 1 {
        let middle = open.len() / 2;
        open.select_nth_unstable_by(middle, &order);
        let (front, back) = open.split_at_mut(middle);
        let sum: f64 = front
            .iter()
            .map(|at| f64::from(weights[*at as usize]))
            .sum();
        open = if sum >= needed {
            front
        } else {
            needed -= sum;
            back
        };
    }
    if let [last] = open {
        let last = *last;
        keep(weights, |at, _| order(&(at as u32), &last).is_le());
    }
}

/// In 8 lanes, in a fixed order.
fn sum(weights: &[f32]) -> f64 {
    let (blocks, rest) = weights.as_chunks::<8>();
    let mut sums = [0.0f64; 8];
    for block in blocks {
        for (sum, weight) in sums.iter_mut().zip(block) {
            *sum += f64::from(*weight);
        }
    }
    let rest: f64 = rest.iter().map(|weight| f64::from(*weight)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The same by the book, in f64, with a sort.
    pub(in crate::engine::sampling) fn by_the_book(scores: &[f32], rules: &Sampling) -> Vec<f64> {
        let greatest = scores.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        let mut p: Vec<f64> = scores
            .iter()
            .map(|s| (f64::from(s - greatest) / f64::from(rules.temperature)).exp())
            .collect();
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        for (rank, at) in order.iter().enumerate() {
            let beyond = rules.top_k > 0 && rank >= rules.top_k as usize;
            if p[*at] < f64::from(rules.min_p) || beyond {
                p[*at] = 0.0;
            }
        }
        let total: f64 = p.iter().sum();
        let mut before = 0.0;
        for at in order {
            let own = p[at];
            if before > 0.0 && before >= f64::from(rules.top_p) * total {
                p[at] = 0.0;
            }
            before += own;
        }
        let total: f64 = p.iter().sum();
        p.iter().map(|p| p / total).collect()
    }

    /// Scores without order; every eleventh is −∞, every fifth equals its neighbour.
    fn scores(count: usize) -> Vec<f32> {
        let score = |at: usize| ((at as f32) * 12.9898).sin() * 9.0;
        (0..count)
            .map(|at| match at {
                _ if at % 11 == 3 => f32::NEG_INFINITY,
                _ if at % 5 == 4 => score(at - 1),
                _ => score(at),
            })
            .collect()
    }

    #[test]
    fn probabilities_equal_the_formulas_in_every_combination() {
        for count in [1, 2, 7, 600, 5000] {
            let scores = scores(count);
            let greatest = math::max(&scores);
            for temperature in [0.05, 0.6, 1.0, 1.9, 50.0] {
                for top_k in [0, 1, 3, 40, 4999, 1 << 20] {
                    for top_p in [0.0, 0.013, 0.5, 0.951, 0.9999, 1.0] {
                        for min_p in [0.0, 0.0507, 0.7, 1.0] {
                            let rules = Sampling {
                                temperature,
                                top_k,
                                top_p,
                                min_p,
                                ..Sampling::default()
                            };
                            let got = Distribution::new(scores.clone(), greatest, &rules);
                            let got = got.probabilities(count);
                            let want = by_the_book(&scores, &rules);
                            for (id, (got, want)) in got.iter().zip(&want).enumerate() {
                                assert!(
                                    (got - want).abs() < 3e-6,
                                    "{rules:?} {id} of {count}: {got} {want}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// A share of the whole falls to the id in whose part it lies, whatever the block.
    #[test]
    fn shares_are_counted_in_the_order_of_ids() {
        let weights: Vec<f32> = (0..2000)
            .map(|at| ((at % 7) as f32 - 2.0).max(0.0))
            .collect();
        let total: f32 = weights.iter().sum();
        let mut below = 0.0;
        let distribution = Distribution {
            ids: None,
            weights: weights.clone(),
        };
        for (at, weight) in weights.iter().enumerate() {
            for part in [0.0, 0.5, 0.999] {
                if *weight > 0.0 {
                    let uniform = f64::from(below + weight * part) / f64::from(total);
                    let got = distribution.at(uniform + 1e-12);
                    assert_eq!(got, at as u32, "{part}");
                }
            }
            below += weight;
        }
        // The end of the whole is the last that has a weight: 1999 % 7 = 4.
        assert_eq!(distribution.at(1.0 - f64::EPSILON), 1999);
        let ids = Distribution {
            ids: Some(vec![5, 90, 91]),
            weights: vec![0.0, 1.0, 0.0],
        };
        assert_eq!((ids.at(0.0), ids.at(0.999_999), ids.at(1.0)), (90, 90, 90));
    }
}
