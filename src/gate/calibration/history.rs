//! Null sessions out of what earlier sessions stored: launches of one build, split into two arms at random
//! and tested again as the judge tests a check that stands alone.

use super::{Tally, Test, test_of};
use crate::baseline::Entry;
use std::collections::BTreeMap;
use verdict::judge::{launch_values, on_test_scale};
use verdict::plan::{Check, Design, Plan};
use verdict::record::{Arm, Direction, RunRecord, Verdict};
use verdict::splitmix::{GAMMA, mix};
use verdict::stats;

/// A session of one build: check id → the values of launches that stood beside one another, in pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PastSession {
    /// From the baseline store; otherwise a kept result directory.
    pub is_stored: bool,
    pub created: String,
    pub pairs: BTreeMap<String, Vec<(f64, f64)>>,
}

/// The blocks of a kept A/A session.
pub fn pairs_of_blocks(plan: &Plan, record: &RunRecord) -> PastSession {
    let head = launch_values(plan, record, Arm::Head);
    let mut base = launch_values(plan, record, Arm::Base);
    let pairs = head.into_iter().filter_map(|(check, head)| {
        let base = base.remove(&check)?;
        Some((check, base.into_iter().zip(head).collect()))
    });
    PastSession {
        is_stored: false,
        created: record.created.clone(),
        pairs: pairs.collect(),
    }
}

/// The launches of a stored session of main, the first with the second and so on.
pub fn pairs_of_launches(entry: &Entry) -> PastSession {
    let pairs = |values: &Vec<f64>| {
        let pairs = values.chunks_exact(2);
        pairs.map(|pair| (pair[0], pair[1])).collect()
    };
    PastSession {
        is_stored: true,
        created: entry.created.clone(),
        pairs: entry
            .values
            .iter()
            .map(|(check, values)| (check.clone(), pairs(values)))
            .collect(),
    }
}

/// The verdicts of null sessions drawn from `past`, each pair's arms at random by `seed`. Whole sessions are
/// joined until the first look has its blocks; what is left over is not used. A pair stays within its session,
/// so that what moved the machine between two sessions hits both arms.
pub fn draw(check: &Check, design: &Design, past: &[PastSession], seed: u64) -> Tally {
    let mut tally = Tally::default();
    let (Some(&first), Some(&cap)) = (design.looks.first(), design.looks.last()) else {
        return tally;
    };
    let Some(test) = test_of(check, design, 1, false) else {
        return tally;
    };
    let mut coins = Coins(seed ^ check.id.bytes().fold(0, |h, b| mix(h ^ u64::from(b))));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for pairs in past
        .iter()
        .filter_map(|session| session.pairs.get(&check.id))
    {
        let on_scale = pairs.iter().filter_map(|(one, other)| {
            let both = on_test_scale(check.metric, *one).zip(on_test_scale(check.metric, *other));
            both.filter(|(one, other)| one.is_finite() && other.is_finite())
        });
        joined.extend(on_scale.map(|(one, other)| match coins.toss() {
            true => (one, other),
            false => (other, one),
        }));
        if joined.len() >= first as usize {
            joined.truncate(cap as usize);
            if let Some(verdict) = verdict(check, &test, &joined) {
                tally.add(verdict);
            }
            joined.clear();
        }
    }
    tally
}

/// The judge's verdict by t on blocks of (base, head), for a check that is judged alone: the first look that
/// decides. `None` without variance.
fn verdict(check: &Check, test: &Test, blocks: &[(f64, f64)]) -> Option<Verdict> {
    let (base, head): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
    // What is lost where more is better is what the other arm gains.
    let (base, head) = match check.metric.direction() {
        Direction::LowerIsBetter => (base, head),
        Direction::HigherIsBetter => (head, base),
    };
    for look in &test.looks {
        let n = look.blocks as usize;
        if n > blocks.len() {
            break;
        }
        let estimate = stats::welch(&head[..n], &base[..n]).ok()?;
        if estimate.p_greater(test.direction.loss(test.margin)) <= look.fail {
            return Some(Verdict::Fail);
        }
        if estimate.p_less(test.direction.loss(test.ceiling)) <= look.pass {
            return Some(Verdict::Pass);
        }
    }
    Some(Verdict::Inconclusive)
}

/// Fair coins from a seed.
struct Coins(u64);

impl Coins {
    fn toss(&mut self) -> bool {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0) >> 63 == 1
    }
}
