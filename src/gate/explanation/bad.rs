//! The first head launch that is no longer like base's.

use super::case::{Case, Ran};
use super::model::FirstBad;
use verdict::plan::Rule;
use verdict::record::{Arm, Direction, MetricKind};
use verdict::stats;

/// Chance that a launch like base's lies beyond what its launches predict.
const BEYOND: f64 = 0.01;

impl Case<'_> {
    /// The first head launch beyond what base's launches predict of one more, by its place among those that ran.
    pub fn first_bad(&self) -> Option<(usize, FirstBad)> {
        let base = self.values(Arm::Base);
        let (bound, rule) = self.bound(&base)?;
        let is_bad = |ran: &Ran<'_>| {
            let value = ran.measure.as_ref().map(|measure| measure.value);
            value.is_some_and(|value| self.sign() * (value - bound) > 0.0)
        };
        let heads = || {
            self.ran
                .iter()
                .enumerate()
                .filter(|(_, ran)| ran.launch.arm == Arm::Head)
        };
        let (place, first) = heads().find(|(_, ran)| is_bad(ran))?;
        let measured = heads().filter(|(_, ran)| ran.measure.is_some());
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let bad = FirstBad {
            launch: first.launch.position,
            block: first.launch.block,
            value: first
                .measure
                .as_ref()
                .map_or(f64::NAN, |measure| measure.value),
            bound,
            rule,
            beyond: number(heads().filter(|(_, ran)| is_bad(ran)).count()),
            of: number(measured.count()),
        };
        Some((place, bad))
    }

    /// Beyond what a head launch is bad, and why: base's launches predict one more by Student's t on the scale of
    /// logarithms; where they are all alike, by that value; where there is no base, the check's own limit.
    fn bound(&self, base: &[f64]) -> Option<(f64, &'static str)> {
        if let (
            Rule::Ceiling { limit } | Rule::Floor { limit },
            MetricKind::Counter | MetricKind::Score | MetricKind::Share,
        ) = (self.check.rule, self.check.metric.kind())
        {
            return Some((limit, "the limit is"));
        }
        let first = *base.first()?;
        // By the clock no two launches are alike.
        if base.len() < 2 && self.check.metric.kind() == MetricKind::Latency {
            return None;
        }
        if base.iter().all(|value| value.to_bits() == first.to_bits()) {
            return Some((first, "every launch of base gives"));
        }
        let logs: Vec<f64> = base.iter().map(|value| value.ln()).collect();
        // How far 1, whose logarithm is 0, lies from one more launch of base.
        let (low, high) = stats::prediction(0.0, &logs)
            .ok()?
            .interval(1.0 - 2.0 * BEYOND);
        let (bound, rule) = match self.check.metric.direction() {
            Direction::LowerIsBetter => (-low, "one launch of base in a hundred would exceed"),
            Direction::HigherIsBetter => (-high, "one launch of base in a hundred would be below"),
        };
        Some((bound.exp(), rule))
    }
}
