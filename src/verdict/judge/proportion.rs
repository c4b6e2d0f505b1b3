//! Successes out of cases. The launches of a build answer alike, so the cases of one launch are the
//! trials, and further launches are repeats of them and not more evidence. Where they do not answer alike, chance
//! chose the answers, and a verdict must hold by each of them: then it hangs on no launch that was picked.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::continuous;
use super::view::View;
use crate::metrics::LaunchMeasure;
use crate::plan::Rule;
use crate::record::{
    Advice, Arm, Cases, Comparison, Facts, Hypothesis, Limit, Reason, Remark, RuleId, Side, TooFew,
    Verdict,
};
use crate::stats;

/// Confidence of the interval that is shown.
const SHOWN: f64 = 0.95;

pub fn assess(rules: &Rules<'_>, view: &View<'_, '_>) -> Assessment {
    let mut figures = Figures::of(view);
    let head = launches(view, Arm::Head, &mut figures);
    let base = launches(view, Arm::Base, &mut figures);
    let first = |launches: &[&LaunchMeasure]| launches.first().map(|m| m.value);
    (figures.base, figures.head) = (first(&base), first(&head));
    match (view.case.check.rule, view.comparison) {
        (Rule::Regression { .. }, Comparison::Alone | Comparison::Anchored) => {
            return continuous::no_base(view);
        }
        (Rule::Regression { .. }, Comparison::Stored) => {
            // Stored sessions keep no single cases.
            return Assessment::never(figures, RuleId::NoPairedCases, Facts::None);
        }
        _ => {}
    }
    if !view.is_complete() {
        return Assessment::waiting(figures, Facts::TooFew(TooFew::SoFar), view.wants());
    }
    if head.is_empty() || (view.is_regression() && base.is_empty()) {
        let facts = Facts::TooFew(TooFew::NoCases);
        return Assessment::never(figures, RuleId::TooFewLaunches, facts);
    }
    match view.case.check.rule {
        Rule::Regression { margin, ceiling } => {
            regression(rules, figures, (&base, &head), (margin, ceiling))
        }
        Rule::Ceiling { limit } => absolute(rules, figures, &head, Limit::ceiling(limit)),
        Rule::Floor { limit } => absolute(rules, figures, &head, Limit::floor(limit)),
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
    figures.remarks.push(Remark::LaunchesDiffer {
        arm,
        least: evidence.values.least,
        greatest: evidence.values.greatest,
    });
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
    mut figures: Figures,
    (base, head): (&[&LaunchMeasure], &[&LaunchMeasure]),
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let pairs = pairs(base, head);
    figures.p_fail = Some(greatest(pairs.iter().map(|pair| pair.p_fail(margin))));
    figures.p_pass = Some(greatest(pairs.iter().map(|pair| pair.p_pass(ceiling))));
    let Pair { lost, gained, n } = pairs[0];
    figures.change = Some(-pairs[0].loss());
    let hypothesis = Hypothesis::Lost {
        margin,
        ceiling,
        lost,
        gained,
        cases: n,
        launches: pairs.len(),
    };
    tested(
        figures,
        RuleId::Regression,
        hypothesis,
        more_cases(rules, 1.0 - ceiling, n),
    )
}

fn tested(
    figures: Figures,
    rule: RuleId,
    hypothesis: Hypothesis,
    advice: Option<Advice>,
) -> Assessment {
    let finding = Finding::Tested(Tested {
        rule,
        hypothesis,
        is_smallest: false,
        advice,
        wants: None,
        passed: None,
    });
    Assessment::new(figures, finding)
}

/// Wilson's score test against a limit; a limit of 0 or 1 is exact.
fn absolute(
    rules: &Rules<'_>,
    mut figures: Figures,
    head: &[&LaunchMeasure],
    limit: Limit,
) -> Assessment {
    let at = limit.value;
    if !(at > 0.0 && at < 1.0) {
        return exact(figures, head, limit);
    }
    let cases = cases_of(head[0]);
    figures.interval = stats::wilson(cases.right, cases.all, SHOWN);
    let worst = |p: fn(u64, u64, f64) -> f64| {
        let cases = head.iter().map(|launch| cases_of(launch));
        greatest(cases.map(|cases| p(cases.right, cases.all, at)))
    };
    let (below, above) = (worst(stats::share_p_below), worst(stats::share_p_above));
    let ((p_fail, p_pass), provable) = match limit.side {
        Side::Ceiling => ((above, below), 1.0 - at),
        Side::Floor => ((below, above), at),
    };
    (figures.p_fail, figures.p_pass) = (Some(p_fail), Some(p_pass));
    let hypothesis = Hypothesis::ShareLimit {
        limit,
        cases,
        launches: head.len(),
        remarks: head[0].remarks.clone(),
    };
    tested(
        figures,
        limit.rule(),
        hypothesis,
        more_cases(rules, provable, cases.all),
    )
}

/// A limit of 0 or 1: all answers right or none, in every launch. Chance has no part in that.
fn exact(mut figures: Figures, head: &[&LaunchMeasure], limit: Limit) -> Assessment {
    let mut launches = head.iter().copied();
    let broken = launches.find(|launch| limit.is_broken_by(launch.value));
    let shown = broken.unwrap_or(head[0]);
    let cases = cases_of(shown);
    figures.head = Some(shown.value);
    figures.interval = stats::wilson(cases.right, cases.all, SHOWN);
    let verdict = match broken {
        Some(_) => Verdict::Fail,
        None => Verdict::Pass,
    };
    let facts = Facts::ShareLimit {
        limit,
        is_broken: broken.is_some(),
        cases,
        remarks: shown.remarks.clone(),
    };
    Assessment::settled(figures, verdict, Reason::new(limit.rule(), facts))
}

fn cases_of(launch: &LaunchMeasure) -> Cases {
    let right = launch.successes.values().filter(|&&right| right).count();
    Cases {
        right: right as u64,
        all: launch.successes.len() as u64,
    }
}

/// Given where even a faultless answer to all cases could not have shown a share above `share`:
/// n ≥ z² · share / (1 − share).
fn more_cases(rules: &Rules<'_>, share: f64, cases: u64) -> Option<Advice> {
    let z = stats::t_quantile(1.0 - rules.design.beta, f64::INFINITY)?;
    let needed = (z * z * share / (1.0 - share)).ceil();
    (needed > cases as f64).then_some(Advice::MoreCases { cases, needed })
}
