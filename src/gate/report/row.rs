//! A check as a row of a table: the same words, digits and order in the terminal, the comment, Markdown and HTML.

use super::numbers::{self, percent, uncut};
use verdict::record::{CheckVerdict, GateVerdict, Rule, RunVerdict, Verdict};

/// How to read a limit of two numbers; stands below a table that has one.
pub const TWO_LIMITS: &str = "limit a to b: a check fails when head is shown to be worse by more than a, and passes when shown to be worse by \
     less than b";

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
    /// With its interval; of a check without a base the interval of head's value.
    pub change: String,
    pub limit: String,
    pub verdict: &'static str,
}

impl Row {
    pub fn of(check: &CheckVerdict) -> Self {
        let unit = check.metric.unit();
        Self {
            check: check.id.clone(),
            base: numbers::optional(check.base, unit),
            head: numbers::optional(check.head, unit),
            values: values(check),
            result: result(check),
            change: numbers::change(check),
            limit: limit(check),
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
    match (base.rsplit_once(' '), head.rsplit_once(' ')) {
        (Some((bare, one)), Some((_, other))) if one == other => format!("{bare} → {head}"),
        _ => format!("{base} → {head}"),
    }
}

fn result(check: &CheckVerdict) -> String {
    let head = numbers::optional(check.head, check.metric.unit());
    match (check.change, check.interval) {
        (Some(_), _) => numbers::change(check),
        (None, Some(_)) if check.head.is_some() => format!("{head} {}", numbers::change(check)),
        _ => head,
    }
}

/// `1 to 5 %`, `≤ 20 ms`, `≥ 95 %`.
pub fn limit(check: &CheckVerdict) -> String {
    let unit = check.metric.unit();
    match check.rule {
        Rule::Regression { margin, ceiling } if margin >= ceiling => percent(margin),
        Rule::Regression { margin, ceiling } => {
            let margin = percent(margin);
            format!("{} to {}", margin.trim_end_matches(" %"), percent(ceiling))
        }
        Rule::Ceiling { limit } => format!("≤ {}", uncut(limit, unit)),
        Rule::Floor { limit } => format!("≥ {}", uncut(limit, unit)),
    }
}

/// Whether some check's limit is of two numbers.
pub fn has_two_limits(verdict: &RunVerdict) -> bool {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    checks
        .any(|check| matches!(check.rule, Rule::Regression { margin, ceiling } if margin < ceiling))
}

/// All checks, the worst first; those of one verdict in the order of the gates.
pub fn worst_first(verdict: &RunVerdict) -> Vec<&CheckVerdict> {
    let mut checks: Vec<_> = verdict.gates.iter().flat_map(|gate| &gate.checks).collect();
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
