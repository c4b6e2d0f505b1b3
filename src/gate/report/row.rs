//! A check as a row of a table: the same words, digits and order in the terminal, the comment, Markdown and HTML.

use super::numbers::{self, bare, percent, uncut};
use verdict::record::{CheckVerdict, Facts, GateVerdict, Rule, RuleId, RunVerdict, Unit, Verdict};

/// A row's cells, as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub check: String,
    pub base: String,
    pub head: String,
    /// Both in one cell: `20 → 21.2 ms`.
    pub values: String,
    /// The change where there is one, else head's value, with its interval.
    pub result: String,
    /// With its interval.
    pub change: String,
    /// When the check fails, and when it passes: `> 1 %` and `< 5 %`, `> 20 ms` and `≤ 20 ms`.
    pub fails: String,
    pub passes: String,
    pub verdict: &'static str,
}

impl Row {
    pub fn of(check: &CheckVerdict) -> Self {
        let unit = check.metric.unit();
        Self {
            check: check.id.clone(),
            base: numbers::optional(check.base, unit),
            head: head(check),
            values: values(check),
            result: result(check),
            change: numbers::change(check),
            fails: fails(check),
            passes: passes(check),
            verdict: check.word(),
        }
    }
}

/// Base's and head's value, the unit once.
fn values(check: &CheckVerdict) -> String {
    let unit = check.metric.unit();
    let (Some(base), Some(head)) = (check.base, check.head) else {
        return numbers::optional(check.base.or(check.head), unit);
    };
    let (base, head) = (numbers::value(base, unit), numbers::value(head, unit));
    if matches!(unit, Unit::PerToken | Unit::PerRequest) {
        return format!("{base} → {head}");
    }
    match (base.rsplit_once(' '), head.rsplit_once(' ')) {
        (Some((bare, one)), Some((_, other))) if one == other => format!("{bare} → {head}"),
        _ => format!("{base} → {head}"),
    }
}

fn result(check: &CheckVerdict) -> String {
    match check.change {
        Some(_) => numbers::change(check),
        None if check.base.is_none() && check.head.is_none() => "no value".to_owned(),
        None => head(check),
    }
}

/// Head's value; with its interval where that is not the change's: `0.127 ms [0.112, 0.144]`.
fn head(check: &CheckVerdict) -> String {
    let unit = check.metric.unit();
    let head = numbers::optional(check.head, unit);
    match (check.rule, check.interval) {
        (Rule::Ceiling { .. } | Rule::Floor { .. }, Some((low, high))) if check.head.is_some() => {
            format!("{head} [{}, {}]", bare(low, unit), bare(high, unit))
        }
        _ => head,
    }
}

fn fails(check: &CheckVerdict) -> String {
    let unit = check.metric.unit();
    match check.rule {
        Rule::Regression { .. } => format!("> {}", percent(limits(check).unwrap_or_default().0)),
        Rule::Ceiling { limit } => format!("> {}", uncut(limit, unit)),
        Rule::Floor { limit } => format!("< {}", uncut(limit, unit)),
    }
}

fn passes(check: &CheckVerdict) -> String {
    let unit = check.metric.unit();
    match check.rule {
        Rule::Regression { .. } => match limits(check) {
            Some((margin, ceiling)) if ceiling > margin => format!("< {}", percent(ceiling)),
            limits => format!("≤ {}", percent(limits.unwrap_or_default().0)),
        },
        Rule::Ceiling { limit } => format!("≤ {}", uncut(limit, unit)),
        Rule::Floor { limit } => format!("≥ {}", uncut(limit, unit)),
    }
}

/// Margin and ceiling of a comparison as shares of base's value. Where launches are all alike there is no ceiling, and both are
/// the margin. `None`: another rule.
pub fn limits(check: &CheckVerdict) -> Option<(f64, f64)> {
    let Rule::Regression { margin, ceiling } = check.rule else {
        return None;
    };
    let ceiling = match check.reason.facts {
        Facts::Exact { .. } => margin,
        _ => ceiling,
    };
    Some((margin, ceiling))
}

/// What is allowed, as it stands in a sentence: `1 %`, `20 ms`.
pub fn allowed(check: &CheckVerdict) -> String {
    let fails = fails(check);
    fails.get(2..).unwrap_or_default().to_owned()
}

/// All checks, the worst first: of failed ones the greatest change, of invalid ones those whose reason is head's; others of one
/// verdict in the order of the gates.
pub fn worst_first(verdict: &RunVerdict) -> Vec<&CheckVerdict> {
    let mut checks: Vec<_> = verdict.gates.iter().flat_map(|gate| &gate.checks).collect();
    let excess = |check: &CheckVerdict| match check.verdict {
        Verdict::Fail => check.excess(),
        Verdict::Invalid if check.reason.rule == RuleId::TokenParity => 1.0,
        _ => 0.0,
    };
    checks.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    checks.sort_by_key(|check| match check.is_waived() {
        true => 3,
        false => severity(check.verdict),
    });
    checks
}

/// All gates, the worst first.
pub fn gates_worst_first(verdict: &RunVerdict) -> Vec<&GateVerdict> {
    let mut gates: Vec<&GateVerdict> = verdict.gates.iter().collect();
    gates.sort_by_key(|gate| severity(gate.verdict));
    gates
}

/// The worst is 0; 3 is what is waived.
fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail => 0,
        Verdict::Invalid => 1,
        Verdict::Inconclusive => 2,
        Verdict::Pass => 4,
    }
}
