//! The bars of docs/verdict.md, a row a rule.

use crate::rules::Said;
use crate::set::{Case, Set};

const NULL: &[&str] = &["null_quiet", "null_typical", "null_noisy"];
const CALM: &[&str] = &["null_quiet", "null_typical"];
const THREE: &[&str] = &["reg3_quiet", "reg3_typical"];
const SLOWER: &[&str] = &[
    "reg3_quiet",
    "reg3_typical",
    "envmask_reg3",
    "reg5_typical",
    "reg5_noisy",
    "reg10_noisy",
];

/// Shares in percent, and mean launches; NaN where there is nothing to tell.
pub(crate) struct Row {
    fails_at_0: f64,
    fails_at_1: f64,
    fails_after_step: f64,
    finds_3: f64,
    finds_hidden_3: f64,
    finds_5: f64,
    false_pass: f64,
    inconclusive_at_0: f64,
    invalid: f64,
    launches_at_0: f64,
    launches_at_3: f64,
    covers: f64,
}

impl Row {
    /// What a rule said of each of the set's cases.
    pub(crate) fn of(set: &Set, said: &[Option<Said>]) -> Self {
        let all: Vec<(&Case, Option<&Said>)> = set
            .cases
            .iter()
            .zip(said.iter().map(Option::as_ref))
            .collect();
        let share = |suites: &[&str], verdict: &str| {
            percent(of(&all, suites).map(|(_, said)| said.is_some_and(|s| s.verdict == verdict)))
        };
        let launches = |suites: &[&str]| {
            let launches = of(&all, suites).filter_map(|(_, said)| said.map(|s| s.launches as f64));
            mean(launches)
        };
        let special = |suite: &str| suite.starts_with("inv_") || suite.starts_with("cnt_");
        let right = all
            .iter()
            .filter(|(case, _)| special(&case.suite))
            .map(|(case, said)| said.is_some_and(|s| case.expect.contains(&s.verdict)));
        let timed = all.iter().filter(|(case, _)| !special(&case.suite));
        let covers = timed.filter_map(|(case, said)| {
            let (low, high) = (*said)?.interval?;
            Some(low <= case.delta && case.delta <= high)
        });
        Self {
            fails_at_0: share(NULL, "fail"),
            fails_at_1: share(&["reg1_typical"], "fail"),
            fails_after_step: share(&["envstep_null"], "fail"),
            finds_3: share(THREE, "fail"),
            finds_hidden_3: share(&["envmask_reg3"], "fail"),
            finds_5: share(&["reg5_typical"], "fail"),
            false_pass: share(SLOWER, "pass"),
            inconclusive_at_0: share(CALM, "inconclusive"),
            invalid: percent(right),
            launches_at_0: launches(NULL),
            launches_at_3: launches(THREE),
            covers: percent(covers),
        }
    }

    pub(crate) fn print(&self, name: &str) {
        let cells = [
            self.fails_at_0,
            self.fails_at_1,
            self.fails_after_step,
            self.finds_3,
            self.finds_hidden_3,
            self.finds_5,
            self.false_pass,
            self.inconclusive_at_0,
            self.invalid,
            self.launches_at_0,
            self.launches_at_3,
            self.covers,
        ];
        let cells = cells.map(|v| match v {
            v if v.is_nan() => format!("{:>5}", "-"),
            v if v >= 99.95 => format!("{v:>5.0}"),
            v => format!("{v:>5.1}"),
        });
        println!("{name:<23}{}", cells.concat());
    }
}

pub(crate) fn print_header() {
    println!(
        "{:<23}  fails, %        finds, %       pass inc. inv. launches cov.",
        ""
    );
    println!(
        "{:<23}    0  +1%  env   3% hid.   5%   3%+    0    %    0   3%    %",
        ""
    );
}

pub(crate) fn print_legend() {
    println!(
        "\nenv: no change, the machine slower by 4 %. hid.: slower by 3 %, the machine faster by 4 %. pass: passed\n\
         although slower by 3 % or more. inv.: broken sessions and counters that got what they should."
    );
}

fn of<'r, 'a>(
    all: &'r [(&'a Case, Option<&'a Said>)],
    suites: &'r [&str],
) -> impl Iterator<Item = &'r (&'a Case, Option<&'a Said>)> {
    all.iter()
        .filter(move |(case, _)| suites.contains(&case.suite.as_str()))
}

fn percent(hits: impl Iterator<Item = bool>) -> f64 {
    mean(hits.map(|hit| if hit { 100.0 } else { 0.0 }))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
    sum / n
}
