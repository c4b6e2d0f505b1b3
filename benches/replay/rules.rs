//! What other tools do with the same sessions. Each has a fixed budget of eight launches an arm; those that
//! hold head against main's history need head's alone.

use crate::set::{Case, Launch, Stored};
use verdict::stats;

/// What a rule said of a session.
pub(crate) struct Said {
    pub(crate) verdict: String,
    pub(crate) launches: usize,
    /// Of the relative change, where the rule gives one.
    pub(crate) interval: Option<(f64, f64)>,
}

/// `None`: the rule cannot be asked.
pub(crate) type Rule = fn(&Case) -> Option<Said>;

/// Named after what they compare.
pub(crate) const RULES: [(&str, Rule); 7] = [
    ("fixed 5 %", |case| fixed(case, 1.05)),
    ("fixed 10 %", |case| fixed(case, 1.10)),
    ("Welch, requests", welch_of_requests),
    ("Mann–Whitney, requests", mann_whitney_of_requests),
    ("Welch, last ten", welch_against_the_last_ten),
    ("t on history, 64, .99", t_on_history),
    ("Hodges–Lehmann", hodges_lehmann_of_launches),
];

/// Level of the tests, two-sided.
const P: f64 = 0.05;
/// Launches of an arm.
const BUDGET: usize = 8;

/// Head's and base's launches of the first eight blocks; where one arm is not among them, the first of each.
fn arms(case: &Case) -> (Vec<&Launch>, Vec<&Launch>) {
    let of = |is_head: bool, launches: &mut dyn Iterator<Item = &'_ Launch>| -> usize {
        launches.filter(|l| l.is_head == is_head).count()
    };
    let first = || case.launches.iter().take(2 * BUDGET);
    let is_mixed = of(true, &mut first()) > 0 && of(false, &mut first()) > 0;
    let pick = |is_head: bool| -> Vec<&Launch> {
        let within = if is_mixed { 2 * BUDGET } else { usize::MAX };
        let mine = case
            .launches
            .iter()
            .take(within)
            .filter(|l| l.is_head == is_head);
        mine.take(BUDGET).filter(|l| !l.values.is_empty()).collect()
    };
    (pick(true), pick(false))
}

fn said(is_slower: bool, launches: usize) -> Option<Said> {
    Some(Said {
        verdict: if is_slower { "fail" } else { "pass" }.to_owned(),
        launches,
        interval: None,
    })
}

fn requests(launches: &[&Launch]) -> Vec<f64> {
    launches
        .iter()
        .flat_map(|l| l.values.iter().copied())
        .collect()
}

fn medians(launches: &[&Launch]) -> Vec<f64> {
    launches
        .iter()
        .filter_map(|l| stats::median(&l.values))
        .collect()
}

fn means(launches: &[&Launch]) -> Vec<f64> {
    launches
        .iter()
        .filter_map(|l| stats::mean(&l.values))
        .collect()
}

/// Mean of a stored session, one each, oldest first.
fn sessions(history: &[Stored]) -> Vec<f64> {
    let sessions = history.chunk_by(|a, b| a.session == b.session);
    sessions
        .filter_map(|launches| {
            let means: Vec<f64> = launches.iter().map(|l| l.mean).collect();
            stats::mean(&means)
        })
        .collect()
}

/// Head's mean beyond a factor of main's last stored session.
fn fixed(case: &Case, factor: f64) -> Option<Said> {
    let (head, _) = arms(case);
    let last = *sessions(&case.history).last()?;
    let mean = stats::mean(&means(&head)).filter(|_| case.is_latency)?;
    said(mean > factor * last, head.len())
}

fn is_above_by_welch(head: &[f64], base: &[f64]) -> bool {
    match stats::welch(head, base) {
        Ok(estimate) => estimate.p_greater(0.0) < P / 2.0,
        // Two constants differ for certain, or not at all.
        Err(_) => stats::mean(head) > stats::mean(base),
    }
}

fn welch_of_requests(case: &Case) -> Option<Said> {
    let (head, base) = arms(case);
    let is_slower = is_above_by_welch(&requests(&head), &requests(&base));
    said(is_slower, head.len() + base.len())
}

fn mann_whitney_of_requests(case: &Case) -> Option<Said> {
    let (head, base) = arms(case);
    let (head_values, base_values) = (requests(&head), requests(&base));
    let test = stats::mann_whitney(&head_values, &base_values).ok()?;
    let is_above = stats::median(&head_values) > stats::median(&base_values);
    said(test.p_two_sided() < P && is_above, head.len() + base.len())
}

fn welch_against_the_last_ten(case: &Case) -> Option<Said> {
    let (head, _) = arms(case);
    let ten = &case.history[case.history.len().saturating_sub(10)..];
    let ten: Vec<f64> = ten.iter().map(|l| l.median).collect();
    let medians = medians(&head);
    if !case.is_latency || medians.len() < 2 {
        return None;
    }
    said(is_above_by_welch(&medians, &ten), head.len())
}

/// Head's mean beyond the t interval of main's sessions.
fn t_on_history(case: &Case) -> Option<Said> {
    let (head, _) = arms(case);
    let sessions = sessions(&case.history);
    let n = sessions.len() as f64;
    let sd = (stats::variance(&sessions)? * (n - 1.0) / n).sqrt();
    let limit = stats::mean(&sessions)? + stats::t_quantile(0.99, n - 1.0)? * sd;
    let mean = stats::mean(&means(&head)).filter(|_| case.is_latency)?;
    said(mean > limit, head.len())
}

/// By launches, interleaved, without a normal distribution: fails where the whole interval is beyond 1 %, passes
/// where it is below 3 %.
fn hodges_lehmann_of_launches(case: &Case) -> Option<Said> {
    let (head, base) = arms(case);
    let logs = |launches| -> Vec<f64> { medians(launches).into_iter().map(f64::ln).collect() };
    let shift = stats::hodges_lehmann(&logs(&head), &logs(&base), 1.0 - P).ok()?;
    let (low, high) = shift.interval;
    let verdict = match (low > 0.01_f64.ln_1p(), high < 0.03_f64.ln_1p()) {
        (true, _) => "fail",
        (false, true) => "pass",
        (false, false) => "inconclusive",
    };
    Some(Said {
        verdict: verdict.to_owned(),
        launches: head.len() + base.len(),
        interval: Some((low.exp_m1(), high.exp_m1())),
    })
}
