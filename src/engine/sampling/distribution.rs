//! From scores to probabilities: temperature, then min-p, top-k and top-p.
//!
//! Main type: [`Distribution`]. Each of the three rules keeps some of the best tokens, so their order
//! matters only where a sum of probabilities counts: top-p's is taken over what the other two left, as
//! vLLM has it. Work is proportional to the vocabulary; nothing of its size is sorted. Refuses to know:
//! chance.

use super::Sampling;
use super::best::{best, better};
use crate::backend::math;

/// What may be drawn, in the order of ids.
pub struct Distribution {
    /// Ids of the weights; `None`: 0, 1, 2, …
    ids: Option<Vec<u32>>,
    /// Proportional to the probabilities; 0 for what was sorted out.
    weights: Vec<f32>,
}

/// Weights that are added up before the sums are searched.
const BLOCK: usize = 512;

impl Distribution {
    /// `greatest` of the scores must be finite, the temperature positive.
    pub fn new(scores: Vec<f32>, greatest: f32, rules: &Sampling) -> Self {
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

    /// From the best tokens alone with their scores, best first, and the weights of all that may be drawn, added up.
    /// `None`: others may be drawn too.
    pub fn of_best(best: &[(u32, f32)], total: f64, rules: &Sampling) -> Option<Self> {
        let (_, greatest) = *best.first()?;
        let most = match rules.top_k as usize {
            0 => usize::MAX,
            count => count,
        };
        let mut is_all = best.len() >= most;
        let weight = |score: f32| weight((score - greatest) / rules.temperature);
        let mut kept: Vec<(u32, f32)> = best
            .iter()
            .take(most)
            .map(|(id, score)| (*id, weight(*score)))
            .collect();
        let least = rules.min_p.min(1.0);
        if let Some(end) = kept.iter().position(|(_, weight)| *weight < least) {
            kept.truncate(end);
            is_all = true;
        }
        if rules.top_p < 1.0 {
            // Only where no other rule takes some of them away do all count.
            let total = match is_all {
                true => kept.iter().map(|(_, weight)| f64::from(*weight)).sum(),
                false if rules.top_k == 0 && rules.min_p <= 0.0 => total,
                false => return None,
            };
            let mut left = f64::from(rules.top_p.max(0.0)) * total;
            let fills = |(_, weight): &(u32, f32)| {
                left -= f64::from(*weight);
                left <= 0.0
            };
            if let Some(last) = kept.iter().position(fills) {
                kept.truncate(last + 1);
                is_all = true;
            }
        }
        kept.sort_unstable_by_key(|(id, _)| *id);
        let (ids, weights) = kept.into_iter().unzip();
        is_all.then_some(Self {
            ids: Some(ids),
            weights,
        })
    }

    /// The id at the share `uniform` (0..1) of the whole, counted in the order of ids.
    pub fn at(&self, uniform: f64) -> u32 {
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
    pub fn probabilities(&self, vocab: usize) -> Vec<f64> {
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
pub mod tests {
    use super::*;

    /// The same by the book, in f64, with a sort.
    pub fn by_the_book(scores: &[f32], rules: &Sampling) -> Vec<f64> {
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

    /// From the 20 best the same is drawn as from all wherever they are enough: where one rule alone, or top-p behind
    /// another, leaves no more than those.
    #[test]
    fn the_best_alone_draw_the_same_where_they_are_enough() {
        const BEST: usize = 20;
        let (mut enough, mut not) = (0, 0);
        for (count, heat) in [(21, 1.0), (600, 1.0), (600, 0.2), (5000, 3.0)] {
            let scores: Vec<f32> = scores(count).iter().map(|score| score * heat).collect();
            let mut ids = best(&scores, BEST);
            ids.sort_by(better(&scores));
            let list: Vec<(u32, f32)> = ids.iter().map(|id| (*id, scores[*id as usize])).collect();
            let of_all = |rules: &Sampling| Distribution::new(scores.clone(), list[0].1, rules);
            for rules in grid() {
                let open = Sampling {
                    temperature: rules.temperature,
                    ..Sampling::default()
                };
                let left_by = |rules: Sampling| {
                    let weights = of_all(&rules).weights;
                    weights.iter().filter(|weight| **weight > 0.0).count()
                };
                let left_by_min_p = left_by(Sampling {
                    min_p: rules.min_p,
                    ..open.clone()
                });
                let left_by_top_p = left_by(Sampling {
                    top_p: rules.top_p,
                    ..open.clone()
                });
                let is_enough = (1..=BEST as u32).contains(&rules.top_k)
                    || (rules.min_p > 0.0 && left_by_min_p < BEST)
                    || (rules.top_k == 0
                        && rules.min_p <= 0.0
                        && rules.top_p < 1.0
                        && left_by_top_p < BEST);
                let few = Distribution::of_best(&list, sum(&of_all(&open).weights), &rules);
                let Some(few) = few else {
                    assert!(!is_enough, "{rules:?} of {count}");
                    not += 1;
                    continue;
                };
                enough += 1;
                let all = of_all(&rules);
                for at in 0..200 {
                    let uniform = f64::from(at) / 200.0 + 1.3e-3;
                    assert_eq!(few.at(uniform), all.at(uniform), "{rules:?} of {count}");
                }
            }
        }
        assert!(enough > 100 && not > 100, "{enough} {not}");
    }

    fn grid() -> Vec<Sampling> {
        let mut grid = Vec::new();
        for temperature in [0.05, 0.6, 1.0, 1.9] {
            for top_k in [0, 1, 3, 20, 21] {
                for top_p in [0.0, 0.5, 0.951, 1.0] {
                    for min_p in [0.0, 0.0507, 0.7] {
                        grid.push(Sampling {
                            temperature,
                            top_k,
                            top_p,
                            min_p,
                            ..Sampling::default()
                        });
                    }
                }
            }
        }
        grid
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
