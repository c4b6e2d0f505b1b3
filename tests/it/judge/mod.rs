//! A small record for every verdict and for every rule that makes a measurement invalid.

mod ambiguous;
mod broken_api;
mod calibrated;
mod correctness;
mod counters;
mod family;
mod frozen;
mod growth;
mod held_back;
mod invalid;
mod latency;
mod limits;
mod modes;
mod repeats;
mod stored;
mod streams;
mod surroundings;
mod tails;
mod throttled;
mod waivers;

use fixture::records::{record, tpot_blocks};
use infergate::report::{self, View, notes, sentence, summary};
use verdict::judge::{judge, launch_values};
use verdict::plan::{
    GoldenCase, GoldenToken, Goldens, Plan, Rule, Session, Slo, Spending, TaskCase, Tasks,
    WorkloadKind,
};
use verdict::record::{
    Arm, CheckVerdict, Comparison, Decision, Ending, Exit, Input, Launch, Metric, RunRecord,
    RunVerdict, Sample, Statistic, StoredBase, TokenLogprob, Verdict, Void, VoidRule,
};

pub(crate) fn first(verdict: &RunVerdict) -> &CheckVerdict {
    &verdict.gates[0].checks[0]
}

/// The first check's verdict, rule and sentence.
pub(crate) fn expect(
    plan: &Plan,
    record: &RunRecord,
    verdict: Verdict,
    rule: &str,
    text: &str,
) -> RunVerdict {
    let got = judge(plan, record);
    let check = first(&got);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (verdict, rule),
        "{}",
        sentence(check)
    );
    assert_eq!(sentence(check), text);
    got
}

pub(crate) fn interleaved(launches: Vec<Launch>) -> RunRecord {
    record(Comparison::Interleaved, launches)
}

pub(crate) fn void(rule: VoidRule) -> Option<Void> {
    Some(Void {
        rule,
        detail: "why".into(),
    })
}

pub(crate) fn crashed() -> Exit {
    Exit::Crashed {
        detail: "signal 11".into(),
        log_tail: String::new(),
    }
}

/// Four sound blocks after a change to their launches.
pub(crate) fn spoiled(spoil: impl Fn(&mut Launch)) -> RunRecord {
    let mut launches = tpot_blocks(4, 0.0, 0.003);
    launches.iter_mut().for_each(spoil);
    interleaved(launches)
}
