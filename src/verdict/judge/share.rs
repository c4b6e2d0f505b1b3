//! Successes out of cases. The launches of a build answer alike, so the cases of one launch are the
//! trials, and further launches are repeats of them and not more evidence. Where they do not answer alike, chance
//! chose the answers, and a verdict must hold by each of them: then it hangs on no launch that was picked.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::limit::Side;
use super::timed;
use super::view::View;
use super::words::{self, name_of};
use crate::metrics::LaunchMeasure;
use crate::plan::Rule;
use crate::plural::count;
use crate::record::{Arm, Comparison, Verdict};
use crate::stats;

/// Confidence of the interval that is shown.
const SHOWN: f64 = 0.95;

pub fn assess(rules: &Rules<'_>, view: &View<'_, '_>) -> Assessment {
    let mut figures = Figures::of(view);
    let head = launches(view, Arm::Head, &mut figures);
    let base = launches(view, Arm::Base, &mut figures);
    let first = |launches: &[&LaunchMeasure]| launches.first().map(|m| m.value);
    (figures.base, figures.head) = (first(&base), first(&head));
    let no_pairs = "stored sessions keep no single cases, and shares are compared case by case: use --base REF";
    match (view.case.check.rule, view.comparison) {
        (Rule::Regression { .. }, Comparison::Alone | Comparison::Anchored) => {
            return timed::no_base(view);
        }
        (Rule::Regression { .. }, Comparison::Stored) => {
            return Assessment::never(figures, "no-paired-cases", no_pairs.to_owned());
        }
        _ => {}
    }
    if !view.is_complete() {
        let text = view.scope.say(|| format!("{} so far", figures.behind()));
        return Assessment::waiting(figures, text, view.wants());
    }
    if head.is_empty() || (view.is_regression() && base.is_empty()) {
        let text = "no launch answered the cases".to_owned();
        return Assessment::never(figures, "too-few-launches", text);
    }
    match view.case.check.rule {
        Rule::Regression { margin, ceiling } => {
            regression(rules, view, figures, (&base, &head), (margin, ceiling))
        }
        Rule::Ceiling { limit } => absolute(rules, view, figures, &head, (Side::Ceiling, limit)),
        Rule::Floor { limit } => absolute(rules, view, figures, &head, (Side::Floor, limit)),
    }
}

/// The launches that a verdict must hold by: the first, and where they disagree all.
fn launches<'s>(view: &View<'s, '_>, arm: Arm, figures: &mut Figures) -> Vec<&'s LaunchMeasure> {
    let evidence = view.of(arm);
    let kept = evidence.kept.iter();
    let measured = kept.filter_map(|reading| reading.measure.as_ref().ok());
    if !evidence.differs {
        return measured.take(1).collect();
    }
    let end = |value: Option<f64>| words::percent(value.unwrap_or(f64::NAN));
    figures.notes.push(format!(
        "launches of {} answer differently, {} to {} right: a verdict must hold by each of them",
        arm.name(),
        end(evidence.values.least),
        end(evidence.values.greatest)
    ));
    measured.collect()
}

/// The cases of a launch of base and one of head.
struct Pair {
    lost: u64,
    gained: u64,
    n: u64,
}

impl Pair {
    fn of(base: &LaunchMeasure, head: &LaunchMeasure) -> Self {
        let answers = base.successes.iter();
        let pairs: Vec<(bool, bool)> = answers
            .filter_map(|(case, &was)| Some((was, *head.successes.get(case)?)))
            .collect();
        let count = |pair: (bool, bool)| pairs.iter().filter(|&&p| p == pair).count() as u64;
        Self {
            lost: count((true, false)),
            gained: count((false, true)),
            n: pairs.len() as u64,
        }
    }

    fn loss(&self) -> f64 {
        (self.lost as f64 - self.gained as f64) / self.n.max(1) as f64
    }

    /// McNemar's exact p of a loss, where it is beyond the margin.
    fn p_fail(&self, margin: f64) -> f64 {
        if self.loss() > margin {
            stats::mcnemar_p_worse(self.lost, self.gained)
        } else {
            1.0
        }
    }

    /// p that the lost share is below the ceiling; cases gained are not counted against it.
    fn p_pass(&self, ceiling: f64) -> f64 {
        stats::share_p_below(self.lost, self.n, ceiling)
    }
}

/// The n-th launch of one arm against the n-th of the other; the one launch of an arm that agrees against all.
fn pairs(base: &[&LaunchMeasure], head: &[&LaunchMeasure]) -> Vec<Pair> {
    let n = base.len().max(head.len());
    let (base, head) = (base.iter().cycle(), head.iter().cycle());
    let pairs = base.zip(head).take(n);
    pairs.map(|(base, head)| Pair::of(base, head)).collect()
}

fn greatest(p: impl Iterator<Item = f64>) -> f64 {
    p.fold(0.0, f64::max)
}

fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    mut figures: Figures,
    (base, head): (&[&LaunchMeasure], &[&LaunchMeasure]),
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let pairs = pairs(base, head);
    figures.p_fail = Some(greatest(pairs.iter().map(|pair| pair.p_fail(margin))));
    figures.p_pass = Some(greatest(pairs.iter().map(|pair| pair.p_pass(ceiling))));
    let Pair { lost, gained, n } = pairs[0];
    figures.change = Some(-pairs[0].loss());
    let check = view.case.check;
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    let tested = Tested {
        rule: "regression",
        subject: say(&|| {
            let values = words::change(check.metric, base[0].value, head[0].value);
            let name = name_of(check);
            format!(
                "{name} {values}: {lost} of {} lost, {gained} gained",
                count(n, "case")
            )
        }),
        beyond: say(&|| format!("beyond the margin of {}", words::percent(margin))),
        within: say(&|| format!("below the ceiling of {}", words::percent(ceiling))),
        behind: say(&|| behind(n, pairs.len())),
        advice: cases_needed(rules, 1.0 - ceiling, n),
        wants: None,
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

/// `100 cases`, `100 cases in each of 4 launches`.
fn behind(cases: u64, launches: usize) -> String {
    let cases = count(cases, "case");
    match launches {
        1 => cases,
        n => format!("{cases} in each of {}", count(n, "launch")),
    }
}

/// Wilson's score test against a limit; a limit of 0 or 1 is exact.
fn absolute(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    mut figures: Figures,
    head: &[&LaunchMeasure],
    (side, limit): (Side, f64),
) -> Assessment {
    if !(limit > 0.0 && limit < 1.0) {
        return exact(view, figures, head, (side, limit));
    }
    let check = view.case.check;
    let (right, n) = right_of(head[0]);
    figures.interval = stats::wilson(right, n, SHOWN);
    let tests = head.iter().map(|launch| right_of(launch));
    let below = greatest(
        tests
            .clone()
            .map(|(right, n)| stats::share_p_below(right, n, limit)),
    );
    let above = greatest(tests.map(|(right, n)| stats::share_p_above(right, n, limit)));
    let ((p_fail, p_pass), provable) = match side {
        Side::Ceiling => ((above, below), 1.0 - limit),
        Side::Floor => ((below, above), limit),
    };
    (figures.p_fail, figures.p_pass) = (Some(p_fail), Some(p_pass));
    let (rule, broken, kept) = side.words();
    let stated = words::value(check.metric, limit);
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    let tested = Tested {
        rule,
        subject: say(&|| subject(view, head[0], figures.interval)),
        beyond: say(&|| format!("{broken} the {rule} of {stated}{}", quoted(head[0]))),
        within: say(&|| format!("{kept} the {rule} of {stated}")),
        behind: say(&|| behind(n, head.len())),
        advice: cases_needed(rules, provable, n),
        wants: None,
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

/// A limit of 0 or 1: all answers right or none, in every launch. Chance has no part in that.
fn exact(
    view: &View<'_, '_>,
    mut figures: Figures,
    head: &[&LaunchMeasure],
    (side, limit): (Side, f64),
) -> Assessment {
    let breaks = |launch: &LaunchMeasure| match side {
        Side::Ceiling => launch.value > limit,
        Side::Floor => launch.value < limit,
    };
    let broken = head.iter().copied().find(|launch| breaks(launch));
    let shown = broken.unwrap_or(head[0]);
    let (right, n) = right_of(shown);
    figures.head = Some(shown.value);
    figures.interval = stats::wilson(right, n, SHOWN);
    let (rule, beyond, _) = side.words();
    let (verdict, word) = match broken {
        Some(_) => (Verdict::Fail, beyond),
        None => (Verdict::Pass, "not beyond"),
    };
    let text = view.scope.say(|| {
        let stated = words::value(view.case.check.metric, limit);
        let subject = subject(view, shown, figures.interval);
        format!("{subject}, {word} the {rule} of {stated}{}", quoted(shown))
    });
    Assessment::settled(figures, verdict, rule, text)
}

/// Cases answered right, and all.
fn right_of(launch: &LaunchMeasure) -> (u64, u64) {
    let right = launch.successes.values().filter(|&&right| right).count();
    (right as u64, launch.successes.len() as u64)
}

/// `interval`: of the launch's share.
fn subject(view: &View<'_, '_>, launch: &LaunchMeasure, interval: Option<(f64, f64)>) -> String {
    let check = view.case.check;
    let (right, n) = right_of(launch);
    let (low, high) = interval.unwrap_or((0.0, 1.0));
    format!(
        "{} {} [{}, {}], {right} of {}",
        name_of(check),
        words::value(check.metric, launch.value),
        words::bare(check.metric, low),
        words::bare(check.metric, high),
        count(n, "case"),
    )
}

fn quoted(measure: &LaunchMeasure) -> String {
    if measure.remarks.is_empty() {
        return String::new();
    }
    format!(", for example {}", measure.remarks.join("; "))
}

/// Said where even a faultless answer to all cases could not have shown a share above `share`:
/// n ≥ z² · share / (1 − share).
fn cases_needed(rules: &Rules<'_>, share: f64, n: u64) -> Option<String> {
    let z = stats::t_quantile(1.0 - rules.design.beta, f64::INFINITY)?;
    let needed = (z * z * share / (1.0 - share)).ceil();
    (needed > n as f64).then(|| {
        format!(
            "{} cannot show it even if all are right: {} are needed",
            count(n, "case"),
            words::number(needed)
        )
    })
}
