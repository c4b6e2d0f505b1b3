//! Rules on what no metric of a stream reads: its end after the last token, and requests that were sent twice.

use super::super::view::View;
use crate::plan::Rule;
use crate::record::{Arm, Facts, Metric, MetricKind, Reason, RuleId};
use crate::stats;

/// So unlikely are as many requests sent again, were both arms alike: seven of head's against none.
const RESENT: f64 = 0.01;

/// Streams of head end later after their last token than base's, by more than the margin of a whole answer: a client that
/// waits for the end waits longer, and no time of tokens shows it.
pub fn late_end(view: &View<'_, '_>) -> Option<Reason> {
    let check = view.case.check;
    let Rule::Regression { margin, .. } = check.rule else {
        return None;
    };
    if check.metric.kind() != MetricKind::Latency || !view.arms().contains(&Arm::Base) {
        return None;
    }
    let of = |arm| {
        let ends = view.of(arm).kept.iter().filter_map(|r| r.stream_end_ms);
        let (rest, whole): (Vec<f64>, Vec<f64>) = ends.unzip();
        Some((stats::median(&rest)?, stats::median(&whole)?))
    };
    let (base_ms, whole_ms) = of(Arm::Base)?;
    let (head_ms, _) = of(Arm::Head)?;
    let facts = Facts::LateEnd {
        base_ms,
        head_ms,
        whole_ms,
    };
    (head_ms - base_ms > margin * whole_ms).then(|| Reason::new(RuleId::LateEnd, facts))
}

/// Head closed more kept connections than base without an answer, and the client sent these requests again: it may have
/// dropped them. A metric that counts them judges them itself.
pub fn resent(view: &View<'_, '_>) -> Option<Reason> {
    if view.case.check.metric == Metric::FailedRequests || view.of(Arm::Base).kept.is_empty() {
        return None;
    }
    let of = |arm| -> u64 {
        let launches = view.of(arm).kept.iter().map(|kept| kept.launch);
        let clients = launches.filter_map(|launch| launch.client(&view.case.workload.id));
        clients.map(|client| u64::from(client.resent)).sum()
    };
    let (base, head) = (of(Arm::Base), of(Arm::Head));
    let is_more = stats::mcnemar_p_worse(head, base) <= RESENT;
    is_more.then(|| Reason::new(RuleId::Resent, Facts::Resent { base, head }))
}
