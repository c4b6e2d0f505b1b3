//! Rules on what no metric of a stream reads: its end after the last token, tokens that come in bursts, warm-up
//! requests, requests that were sent twice, and connections that are not kept.

use super::super::evidence::Reading;
use super::super::view::View;
use crate::metrics::{self, Requests};
use crate::plan::Rule;
use crate::record::{Arm, Facts, Launch, Metric, MetricKind, Phase, Reason, RuleId};
use crate::stats;
use std::collections::BTreeMap;

/// A later end of no more than this hardly matters to a client, whatever the margin.
const LATE_MS: f64 = 1.0;
/// So unlikely are ends as late, were both arms alike: three launches after three.
const LATE: f64 = 0.05;
/// So unlikely are as many requests sent again, were both arms alike: seven of head's against none.
const RESENT: f64 = 0.01;
/// Fewest blocks in which head has more of them: one event may cut all connections of a launch.
const RESENT_BLOCKS: usize = 3;

/// A warm-up request that is later by less than this hardly matters to the first users.
const SLOW_MS: f64 = 1_000.0;

/// Head's share of requests with a new connection exceeds base's by more than this.
const UNKEPT: f64 = 0.25;
/// Head's gap between outputs exceeds base's by more than this factor.
const BURSTS: f64 = 1.5;

/// Head closes connections after its answers, and base does not: a client opens new ones, by some round trips over a network,
/// and no time of a request begins before that.
pub fn unkept_connections(view: &View<'_, '_>) -> Option<Reason> {
    margin_of_answers(view)?;
    let [base, head] = per_launch(view, |reading| reading.reconnected);
    let (base, head) = (stats::median(&base)?, stats::median(&head)?);
    let facts = Facts::UnkeptConnections { base, head };
    (head - base > UNKEPT).then(|| Reason::new(RuleId::UnkeptConnections, facts))
}

/// Streams of head end later after their last token than base's, by more than the margin of a whole answer: a client that
/// waits for the end waits longer, and no time of tokens shows it. By Mann and Whitney's test over launches, however the
/// times are distributed: three launches of head must all end later than three of base.
pub fn late_end(view: &View<'_, '_>) -> Option<Reason> {
    let margin = margin_of_answers(view)?;
    let of = |arm| -> (Vec<f64>, Vec<f64>) {
        let ends = view.of(arm).kept.iter().filter_map(|r| r.stream_end_ms);
        ends.unzip()
    };
    let ((base, whole), (head, _)) = (of(Arm::Base), of(Arm::Head));
    let (base_ms, head_ms) = (stats::median(&base)?, stats::median(&head)?);
    let whole_ms = stats::median(&whole)?;
    let facts = Facts::LateEnd {
        base_ms,
        head_ms,
        whole_ms,
    };
    let is_clear = stats::mann_whitney(&head, &base).ok()?.p_greater <= LATE;
    let is_late = is_clear && head_ms - base_ms > LATE_MS.max(margin * whole_ms);
    is_late.then(|| Reason::new(RuleId::LateEnd, facts))
}

/// Head's slowest warm-up request takes longer than base's, by more than a second and more than a whole answer: work that was
/// moved from the start to the first use of a shape, such as compiling or capturing graphs. The first users wait for it, and
/// no measured request does.
pub fn slow_warm_up(view: &View<'_, '_>) -> Option<Reason> {
    margin_of_answers(view)?;
    let [base, head] = per_launch(view, |reading| reading.warm_up_ms);
    let (base_ms, head_ms) = (stats::median(&base)?, stats::median(&head)?);
    let later_ms = head_ms - base_ms;
    if later_ms <= SLOW_MS || stats::mann_whitney(&head, &base).ok()?.p_greater > LATE {
        return None;
    }
    // Read again, since few heads come here.
    let answers = view.of(Arm::Base).kept.iter().filter_map(|reading| {
        let (check, workload) = (view.case.check, view.case.workload);
        let all = Requests::of(check, workload, reading.launch).all;
        stats::median(&metrics::times_ms(&all, Phase::Measured).collect::<Vec<_>>())
    });
    let whole_ms = stats::median(&answers.collect::<Vec<_>>())?;
    let facts = Facts::SlowWarmUp { base_ms, head_ms };
    (later_ms > whole_ms).then(|| Reason::new(RuleId::SlowWarmUp, facts))
}

/// Head's outputs lie further apart than base's, though its tokens take no longer: they come in bursts, and a client sees a
/// stream that stutters. The gaps between outputs have metrics of their own, which judge them themselves.
pub fn bursts(view: &View<'_, '_>) -> Option<Reason> {
    margin_of_answers(view)?;
    let check = view.case.check;
    if !check.part.reads_tpot(check.metric) {
        return None;
    }
    let [base, head] = per_launch(view, |reading| reading.pause_ms);
    let (base_ms, head_ms) = (stats::median(&base)?, stats::median(&head)?);
    let facts = Facts::Bursts { base_ms, head_ms };
    let is_clear = stats::mann_whitney(&head, &base).ok()?.p_greater <= LATE;
    let is_seen = head_ms > BURSTS * base_ms && head_ms - base_ms > LATE_MS;
    (is_clear && is_seen).then(|| Reason::new(RuleId::Bursts, facts))
}

/// The readings of base's launches and of head's.
fn per_launch(view: &View<'_, '_>, read: fn(&Reading<'_>) -> Option<f64>) -> [Vec<f64>; 2] {
    [Arm::Base, Arm::Head].map(|arm| view.of(arm).kept.iter().filter_map(read).collect())
}

/// The margin of a check that compares times or rates of answers with base's launches; `None` for any other.
fn margin_of_answers(view: &View<'_, '_>) -> Option<f64> {
    let check = view.case.check;
    let Rule::Regression { margin, .. } = check.rule else {
        return None;
    };
    let is_compared = is_of_answers(check.metric) && view.arms().contains(&Arm::Base);
    is_compared.then_some(margin)
}

/// True for times and rates of answers, not of the start or of the machine.
fn is_of_answers(metric: Metric) -> bool {
    use Metric::{EnergyPerToken, FirstResponse, FirstToken, PortOpen, Ready, Stage};
    let is_beside = matches!(
        metric,
        Ready | PortOpen | Stage | FirstToken | FirstResponse | EnergyPerToken
    );
    metric.kind() == MetricKind::Latency && !is_beside
}

/// Head closed more kept connections than base without an answer, and the client sent these requests again: it may have
/// dropped them. Requests of one launch are not independent, so most blocks must show it. A metric that counts them judges
/// them itself.
pub fn resent(view: &View<'_, '_>) -> Option<Reason> {
    if view.case.check.metric == Metric::FailedRequests || view.comparison.is_recording() {
        return None;
    }
    let of = |arm| -> BTreeMap<u32, u64> {
        let launches = view.of(arm).kept.iter().map(|kept| kept.launch);
        let client = |launch: &Launch| launch.client(&view.case.workload.id).map(|c| c.resent);
        let resent = launches.map(|l| (l.block, client(l).map_or(0, u64::from)));
        resent.collect()
    };
    let (base, head) = (of(Arm::Base), of(Arm::Head));
    let blocks = head
        .iter()
        .filter_map(|(block, head)| Some((*base.get(block)?, *head)));
    let blocks: Vec<(u64, u64)> = blocks.collect();
    let more = blocks.iter().filter(|(base, head)| head > base).count();
    let least = view
        .case
        .workload
        .launches
        .map_or(RESENT_BLOCKS, |n| RESENT_BLOCKS.min(n as usize));
    let is_in_most = more >= least && 2 * more > blocks.len();
    let base: u64 = blocks.iter().map(|(base, _)| base).sum();
    let head: u64 = blocks.iter().map(|(_, head)| head).sum();
    let is_more = is_in_most && stats::mcnemar_p_worse(head, base) <= RESENT;
    is_more.then(|| Reason::new(RuleId::Resent, Facts::Resent { base, head }))
}
