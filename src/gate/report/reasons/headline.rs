//! A run in one sentence: what changed, by how much, and what is allowed.

use super::super::numbers;
use super::super::row;
use super::sentence;
use super::words::{capital, name_of};
use verdict::plural::count;
use verdict::record::{
    Advice, CheckVerdict, Facts, Held, Hypothesis, Metric, MetricKind, Remark, Rule, RuleId,
    RunVerdict, Statistic, Tested, Verdict,
};

/// The sentence; it may quote an engine.
pub fn summary(verdict: &RunVerdict) -> String {
    let checks: Vec<&CheckVerdict> = row::worst_first(verdict);
    let decisive = all_decisive(verdict);
    let Some(first) = decisive.first() else {
        return "every check is waived: nothing was judged".to_owned();
    };
    if verdict.verdict == Verdict::Pass {
        return passed(verdict, &decisive);
    }
    let others: Vec<&str> = decisive[1..]
        .iter()
        .map(|check| check.id.as_str())
        .collect();
    let (one, many) = match verdict.verdict {
        Verdict::Fail => ("failed", "failed"),
        Verdict::Invalid => ("is invalid", "are invalid"),
        _ => ("is undecided", "are undecided"),
    };
    let more = match others.as_slice() {
        [] => String::new(),
        [other] => format!("; {other} {one} too"),
        all => format!("; {} more checks {many}", all.len()),
    };
    let invalid = checks
        .iter()
        .filter(|check| check.verdict == Verdict::Invalid && !check.is_waived());
    let invalid = match (verdict.verdict, invalid.count()) {
        (Verdict::Invalid, _) | (_, 0) => String::new(),
        (_, 1) => "; 1 check is invalid".to_owned(),
        (_, n) => format!("; {n} checks are invalid"),
    };
    // Nobody should miss these behind a measurement that is invalid.
    let answers = checks.iter().find(|check| {
        let is_open = check.reason.rule == RuleId::AnswersDiffer && !check.is_waived();
        is_open && check.metric == Metric::AnswerMismatches
    });
    let answers = match (verdict.verdict, answers) {
        (Verdict::Invalid, Some(check)) => format!(
            "; answers may differ in {} ({}, undecided)",
            numbers::optional(check.head, check.metric.unit()),
            check.id
        ),
        _ => String::new(),
    };
    let words = in_words(first);
    let is_shared = decisive.len() > 1 && decisive.iter().all(|check| in_words(check) == words);
    match is_shared {
        true => {
            let others = count(decisive.len() - 1, "more check");
            format!("{words} ({} and {others}){invalid}{answers}", first.id)
        }
        false => format!("{words} ({}){more}{invalid}{answers}", first.id),
    }
}

/// The check that the sentence is about.
pub fn decisive(verdict: &RunVerdict) -> Option<&CheckVerdict> {
    all_decisive(verdict).into_iter().next()
}

/// The checks that have the run's verdict and count in it.
fn all_decisive(verdict: &RunVerdict) -> Vec<&CheckVerdict> {
    let mut checks = row::worst_first(verdict);
    checks.retain(|check| check.verdict == verdict.verdict && !check.is_waived());
    checks
}

fn in_words(check: &CheckVerdict) -> String {
    let text = match check.verdict {
        Verdict::Fail => failed(check),
        Verdict::Inconclusive => undecided(check),
        _ => None,
    };
    text.unwrap_or_else(|| sentence(check))
}

/// `Decoding is 10.0 % [9.6, 10.4] slower; up to 1 % is allowed`.
fn failed(check: &CheckVerdict) -> Option<String> {
    let allowed = row::allowed(check);
    let name = || capital(&name_of(check));
    let value = |v| numbers::optional(v, check.metric.unit());
    match check.reason.rule {
        RuleId::Regression => Some(match check.change {
            Some(change) => format!("{}; up to {allowed} is allowed", moved(check, change)),
            None => format!(
                "{} went from {} to {}",
                name(),
                value(check.base),
                value(check.head)
            ),
        }),
        RuleId::Ceiling | RuleId::Floor => {
            let head = value(check.head);
            Some(match check.metric {
                Metric::AnswerMismatches => {
                    let allowed = match check.rule {
                        Rule::Ceiling { limit: 0.0 } => "none".to_owned(),
                        _ => format!("up to {allowed}"),
                    };
                    format!("Answers differ in {head}; {allowed} is allowed")
                }
                _ => format!("{}: {head}; the limit is {allowed}", name()),
            })
        }
        _ => None,
    }
}

/// Of a comparison by a test that has not shown enough.
fn undecided(check: &CheckVerdict) -> Option<String> {
    let reason = match &check.reason.facts {
        Facts::Open { before, .. } => &before.facts,
        facts => facts,
    };
    if let Facts::Limit {
        held: Held::Unsure, ..
    } = reason
    {
        let value = |value| numbers::optional(value, check.metric.unit());
        let head = value(check.head);
        let base = check.base.map_or_else(String::new, |base| {
            format!(" (base: {})", numbers::bare(base, check.metric.unit()))
        });
        return Some(match check.metric {
            Metric::GoldenMismatches => {
                format!("Answers differ from the goldens in {head}{base}, perhaps by near-ties")
            }
            Metric::AnswerMismatches | Metric::StreamMismatches => {
                format!("Answers differ in {head}{base}, perhaps by near-ties, or as meant")
            }
            _ => format!(
                "{}: {head}; the limit is {}, and chance may explain it",
                capital(&name_of(check)),
                row::allowed(check)
            ),
        });
    }
    let Facts::Tested(Tested {
        hypothesis: Hypothesis::Change { ceiling, .. },
        advice,
        ..
    }) = reason
    else {
        return None;
    };
    let change = check.change.filter(|_| check.interval.is_some())?;
    if let Some(Advice::FewLaunches { .. }) = advice {
        let (base, head) = check.launches;
        let moved = moved(check, change);
        return Some(format!(
            "{moved}, but {base} + {head} launches are too few to fail"
        ));
    }
    if let Some(Advice::NotShown) = advice {
        let moved = moved(check, change);
        return Some(format!(
            "{moved}, but that is not shown well enough to fail"
        ));
    }
    if let Some(Advice::TooNoisy { .. }) = advice {
        return Some(format!(
            "{} may have changed by {}: too noisy to decide",
            subject(check).0,
            numbers::change(check)
        ));
    }
    Some(format!(
        "{} may have changed by {}: not decided, since a pass needs less than {} to be shown",
        subject(check).0,
        numbers::change(check),
        numbers::percent(*ceiling)
    ))
}

/// `Decoding is 10.0 % [9.6, 10.4] slower`.
fn moved(check: &CheckVerdict, change: f64) -> String {
    let (subject, verb, greater, smaller) = subject(check);
    let word = if change > 0.0 { greater } else { smaller };
    let size = match check.metric.kind() {
        // Cases lost, of all.
        MetricKind::Share => numbers::size(check).replace(" %", " points"),
        _ => numbers::size(check),
    };
    format!("{subject} {verb} {size} {word}")
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
    // The clearest gain.
    let is_gain = |check: &&&CheckVerdict| {
        let mut remarks = check.remarks.iter();
        remarks.any(|remark| matches!(remark, Remark::Better { .. }))
    };
    let size = |check: &CheckVerdict| check.change.unwrap_or_default().abs();
    let gains = checks.iter().filter(is_gain);
    let best = gains.max_by(|a, b| size(a).total_cmp(&size(b)));
    let gain = best.map_or_else(String::new, |check| {
        format!(
            "{} ({}); ",
            moved(check, check.change.unwrap_or_default()),
            check.id
        )
    });
    let passed = format!(
        "{gain}{} of {} passed{waived}",
        count(checks.len(), "check"),
        count(verdict.gates.len(), "gate")
    );
    let effects = checks
        .iter()
        .filter_map(|check| Some((check.smallest_effect?, check)));
    match effects.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((effect, check)) => format!("{passed}; {}", seen(effect, check)),
        None => passed,
    }
}

/// Says which change 95 of 100 such runs fail; if that is no smaller than the ceiling, how many runs pass a change of the ceiling.
fn seen(effect: f64, check: &CheckVerdict) -> String {
    let id = &check.id;
    if let Facts::Tested(Tested {
        hypothesis: Hypothesis::Change { ceiling, .. },
        beta,
        ..
    }) = &check.reason.facts
        && effect > *ceiling
    {
        let (ceiling, beta) = (numbers::effect(*ceiling), 100.0 * beta);
        return format!(
            "{id} worse by {ceiling} would have passed in at most {beta} of 100 such runs"
        );
    }
    format!(
        "{id} worse by {} would have failed, in 95 of 100 such runs",
        numbers::effect(effect)
    )
}
