//! The few greatest of many scores.
//!
//! Main function: [`best`]. The order of tokens, here and wherever one is better than another: the greater
//! score first, of equals the lower id. Refuses to know: what the scores mean.

use std::cmp::Ordering;

/// Candidates are gathered up to this many before the best are picked from them.
const ROOM: usize = 256;

/// The ids of the `count` greatest scores, in no order. NaN must not be among them. One pass, and
/// seldom more than a comparison a score.
pub fn best(scores: &[f32], count: usize) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    let room = count.saturating_mul(2).max(ROOM).min(scores.len());
    let mut kept: Vec<u32> = Vec::with_capacity(room);
    // The least score that is still among the best: a later id must exceed it.
    let mut least = f32::NEG_INFINITY;
    for (id, score) in (0u32..).zip(scores) {
        if *score > least || kept.len() < count {
            kept.push(id);
            if kept.len() == room && count < room {
                keep_best(scores, &mut kept, count);
                least = scores[kept[count - 1] as usize];
            }
        }
    }
    keep_best(scores, &mut kept, count);
    kept
}

/// Leaves the `count` best, the worst of them last.
fn keep_best(scores: &[f32], ids: &mut Vec<u32>, count: usize) {
    if ids.len() > count {
        ids.select_nth_unstable_by(count - 1, better(scores));
        ids.truncate(count);
    }
}

/// The order of ids, best first.
pub fn better(scores: &[f32]) -> impl Fn(&u32, &u32) -> Ordering {
    |a, b| {
        let by_score = scores[*b as usize].partial_cmp(&scores[*a as usize]);
        by_score.unwrap_or(Ordering::Equal).then(a.cmp(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a sort of everything, with many ties, rising, falling and mixed.
    #[test]
    fn equals_a_sort() {
        let patterns: [fn(usize) -> f32; 5] = [
            |at| at as f32,
            |at| -(at as f32),
            |at| (at * 7919 % 50) as f32,
            |at| ((at as f32) * 12.9898).sin(),
            |at| if at % 3 == 0 { f32::NEG_INFINITY } else { 0.0 },
        ];
        for pattern in patterns {
            for size in [0, 1, 5, 255, 256, 257, 3000] {
                let scores: Vec<f32> = (0..size).map(pattern).collect();
                let mut sorted: Vec<u32> = (0..size as u32).collect();
                sorted.sort_by(better(&scores));
                for count in [0, 1, 2, 20, 128, 200, 2999, 5000] {
                    let mut got = best(&scores, count);
                    got.sort_by(better(&scores));
                    assert_eq!(got, sorted[..count.min(size)], "{count} of {size}");
                }
            }
        }
    }
}
