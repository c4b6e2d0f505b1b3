//! A run in one sentence: what changed, by how much, and what is allowed.

use super::super::numbers;
use super::super::row;
use super::sentence;
use super::words::name_of;
use verdict::plural::count;
use verdict::record::{
    CheckVerdict, Facts, Hypothesis, Metric, RuleId, RunVerdict, Statistic, Tested, Verdict,
};

/// The sentence; it may quote an engine.
pub fn summary(verdict: &RunVerdict) -> String {
    let checks: Vec<&CheckVerdict> = row::worst_first(verdict);
    let decisive = checks.iter().copied();
    let decisive = decisive.filter(|c| c.verdict == verdict.verdict && !c.is_waived());
    let decisive: Vec<&CheckVerdict> = decisive.collect();
    let Some(first) = decisive.first() else {
        return "every check is waived: nothing was judged".to_owned();
    };
    if verdict.verdict == Verdict::Pass {
        return passed(verdict, &decisive);
    }
    let more = match decisive.len() - 1 {
        0 => String::new(),
        n => {
            let more = count(n, "more check");
            let are = if n == 1 { "is" } else { "are" };
            match verdict.verdict {
                Verdict::Fail => format!("; {more} failed"),
                Verdict::Invalid => format!("; {more} {are} invalid"),
                _ => format!("; {more} {are} undecided"),
            }
        }
    };
    format!("{} ({}){more}", in_words(first), first.id)
}

fn in_words(check: &CheckVerdict) -> String {
    let text = match check.verdict {
        Verdict::Fail => failed(check),
        Verdict::Inconclusive => undecided(check),
        _ => None,
    };
    text.unwrap_or_else(|| sentence(check))
}

/// `Decoding is 10.0 % slower; up to 1 % is allowed`.
fn failed(check: &CheckVerdict) -> Option<String> {
    let limit = row::limit(check);
    match check.reason.rule {
        RuleId::Regression => Some(match check.change {
            Some(change) => {
                let margin = limit.split(" to ").next().unwrap_or_default();
                let percent = if margin.ends_with('%') { "" } else { " %" };
                format!(
                    "{}; up to {margin}{percent} is allowed",
                    moved(check, change)
                )
            }
            None => format!(
                "{} went from {} to {}",
                capital(&name_of(check)),
                numbers::optional(check.base, check.metric.unit()),
                numbers::optional(check.head, check.metric.unit())
            ),
        }),
        RuleId::Ceiling | RuleId::Floor => Some(format!(
            "{} is {}; the limit is {}",
            capital(&name_of(check)),
            numbers::optional(check.head, check.metric.unit()),
            limit.trim_start_matches(['≤', '≥', ' '])
        )),
        _ => None,
    }
}

/// Of a comparison by a test that has not shown enough.
fn undecided(check: &CheckVerdict) -> Option<String> {
    let reason = match &check.reason.facts {
        Facts::Open { before, .. } => &before.facts,
        facts => facts,
    };
    let Facts::Tested(Tested {
        hypothesis: Hypothesis::Change { ceiling, .. },
        ..
    }) = reason
    else {
        return None;
    };
    check.interval?;
    Some(format!(
        "{} may have changed by {}: not decided, since a pass needs less than {} to be shown",
        subject(check).0,
        numbers::change(check),
        numbers::percent(*ceiling)
    ))
}

/// `Decoding is 10.0 % slower`.
fn moved(check: &CheckVerdict, change: f64) -> String {
    let (subject, verb, greater, smaller) = subject(check);
    let word = if change > 0.0 { greater } else { smaller };
    format!("{subject} {verb} {} {word}", numbers::size(check))
}

/// The subject of a sentence, its verb, and what a greater and a smaller value mean.
type Subject = (String, &'static str, &'static str, &'static str);

fn subject(check: &CheckVerdict) -> Subject {
    let of = |name: &str, verb, greater, smaller| (name.to_owned(), verb, greater, smaller);
    let is_usual = matches!(check.statistic, Statistic::Median | Statistic::Single);
    match check.metric {
        Metric::Tpot if is_usual => of("Decoding", "is", "slower", "faster"),
        Metric::Ttft if is_usual => of("The first token", "comes", "later", "earlier"),
        Metric::E2e if is_usual => of("A whole answer", "takes", "longer", "shorter"),
        Metric::Ready => of("Starting", "takes", "longer", "shorter"),
        Metric::PrefillRate if is_usual => of("Prefill", "is", "faster", "slower"),
        Metric::Throughput => of("Throughput", "is", "higher", "lower"),
        _ => (capital(&name_of(check)), "is", "higher", "lower"),
    }
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

fn passed(verdict: &RunVerdict, checks: &[&CheckVerdict]) -> String {
    let all = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let waived: Vec<&str> = all
        .filter(|check| check.is_waived())
        .map(|check| check.id.as_str())
        .collect();
    let waived = match waived.as_slice() {
        [] => String::new(),
        ids => format!(", waived: {}", ids.join(", ")),
    };
    let passed = format!(
        "{} of {} passed{waived}",
        count(checks.len(), "check"),
        count(verdict.gates.len(), "gate")
    );
    let effects = checks
        .iter()
        .filter_map(|check| Some((check.smallest_effect?, &check.id)));
    match effects.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((effect, id)) => format!(
            "{passed}; each would have shown a change of {} ({id} is the least sensitive)",
            numbers::effect(effect)
        ),
        None => passed,
    }
}
