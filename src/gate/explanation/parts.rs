//! The parts of the time, arm against arm, and the sentence about them.

use super::case::Case;
use super::checks;
use super::model::FacetRow;
use std::collections::BTreeMap;
use verdict::metrics::{self, Facet};
use verdict::record::{Arm, RunVerdict};
use verdict::stats;

/// Confidence of each interval.
const CONFIDENCE: f64 = 0.95;

impl Case<'_> {
    /// Compares each part of the time between the arms. A part that a check compares has the verdict's values.
    pub fn facets(&self, verdict: &RunVerdict) -> Vec<(Facet, FacetRow)> {
        let mut by_facet: BTreeMap<Facet, [Vec<f64>; 2]> = BTreeMap::new();
        for ran in self.ran.iter().filter(|ran| ran.launch.exit.is_clean()) {
            for (facet, value) in metrics::facets(self.check, self.workload, ran.launch) {
                let arms = by_facet.entry(facet).or_default();
                arms[usize::from(ran.launch.arm == Arm::Head)].push(value);
            }
        }
        let row = |(facet, [base, head]): (Facet, [Vec<f64>; 2])| {
            let (name, unit) = (facet.name(), facet.unit());
            let [base_middle, head_middle] = [&base, &head].map(|values| middle(values));
            // One launch an arm has a change all the same, of which nobody knows how sure it is.
            let middles = base_middle
                .zip(head_middle)
                .filter(|(base, head)| *base > 0.0 && *head > 0.0);
            let mut row = FacetRow {
                name,
                unit,
                base: base_middle,
                head: head_middle,
                change: middles.map(|(base, head)| head / base - 1.0),
                interval: interval(&base, &head),
                launches: (base.len(), head.len()),
            };
            let values = [base, head];
            let judged = self.compared.iter().find(|(_, of)| *of == values);
            let judged = judged.and_then(|(id, _)| checks(verdict).find(|check| check.id == *id));
            if let Some(judged) = judged.filter(|check| check.interval.is_some()) {
                (row.base, row.head) = (judged.base, judged.head);
                (row.change, row.interval) = (judged.change, judged.interval);
                row.launches = (judged.launches.0 as usize, judged.launches.1 as usize);
            }
            (facet, row)
        };
        by_facet.into_iter().map(row).collect()
    }
}

/// The launches' mean on the scale of logarithms, on which the change is measured too; of a part that touches zero
/// their median.
fn middle(values: &[f64]) -> Option<f64> {
    match logs(values) {
        Some(logs) => stats::mean(&logs).map(f64::exp),
        None => stats::median(values),
    }
}

/// The interval of the relative change. Parts that touch zero have none.
fn interval(base: &[f64], head: &[f64]) -> Option<(f64, f64)> {
    let estimate = stats::welch(&logs(head)?, &logs(base)?).ok()?;
    let (low, high) = estimate.interval(CONFIDENCE);
    Some((low.exp_m1(), high.exp_m1()))
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    let positive = values.iter().all(|value| *value > 0.0);
    positive.then(|| values.iter().map(|value| value.ln()).collect())
}
