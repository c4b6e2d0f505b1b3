//! Main's last sessions on the machine of a session, by the check that matters most in it.

use crate::baseline::Store;
use crate::report::Past;
use crate::session::baseline::key_on;
use std::path::Path;
use verdict::plan::{Plan, Rule};
use verdict::record::{CheckVerdict, MetricKind, RunRecord, RunVerdict, Verdict};

/// Sessions that a chart shows.
const SHOWN: usize = 30;

/// What main's store has of the decisive check. A store that cannot be read shows nothing: it is a picture.
pub fn of(root: &Path, plan: &Plan, record: &RunRecord, verdict: &RunVerdict) -> Option<Past> {
    let check = decisive(plan, verdict)?;
    let gate = plan
        .gates
        .iter()
        .find(|gate| gate.checks.iter().any(|c| c.id == check.id))?;
    let key = key_on(plan, gate, &record.machine.fingerprint);
    let store = Store::open(&root.join(&plan.baseline.directory));
    let entries = store.find(&key).ok()?;
    let is_latency = check.metric.kind() == MetricKind::Latency;
    let main: Vec<f64> = entries
        .iter()
        .filter_map(|entry| mean(entry.values.get(&check.id)?, is_latency))
        .collect();
    let from = main.len().saturating_sub(SHOWN);
    Some(Past {
        check: check.id.clone(),
        unit: check.metric.unit(),
        main: main[from..].to_vec(),
        head: check.head,
    })
}

/// The first that failed, else the first that is not decided, else the first that compares.
fn decisive<'a>(plan: &Plan, verdict: &'a RunVerdict) -> Option<&'a CheckVerdict> {
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let compares = |id: &str| {
        let planned = plan
            .gates
            .iter()
            .flat_map(|gate| &gate.checks)
            .find(|check| check.id == id);
        planned.is_some_and(|check| matches!(check.rule, Rule::Regression { .. }))
    };
    checks()
        .find(|check| check.verdict == Verdict::Fail && !check.is_waived())
        .or_else(|| checks().find(|check| check.verdict != Verdict::Pass))
        .or_else(|| checks().find(|check| compares(&check.id)))
        .or_else(|| checks().next())
}

/// As the judge takes the launches of an arm together: geometrically where times are compared.
fn mean(values: &[f64], is_latency: bool) -> Option<f64> {
    let is_logarithmic = is_latency && values.iter().all(|value| *value > 0.0);
    let n = values.len() as f64;
    let mean = match is_logarithmic {
        true => (values.iter().map(|value| value.ln()).sum::<f64>() / n).exp(),
        false => values.iter().sum::<f64>() / n,
    };
    mean.is_finite().then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::mean;

    #[test]
    fn means() {
        assert_eq!(mean(&[], true), None);
        assert_eq!(mean(&[2.0], true), Some(2.0));
        assert!(mean(&[1.0, 4.0], true).is_some_and(|m| (m - 2.0).abs() < 1e-12));
        assert_eq!(mean(&[1.0, 4.0], false), Some(2.5));
        assert_eq!(mean(&[0.0, 4.0], true), Some(2.0));
        assert_eq!(mean(&[f64::INFINITY], false), None);
    }
}
