//! Tests of the project's own suite that fail in base as they do in head: no regression, and worth a remark.

use super::session::base_of;
use super::view::View;
use crate::metrics;
use crate::plan::WorkloadKind;
use crate::record::{Arm, Launch};

/// Of the first launch in which they do.
pub fn remark(view: &View<'_, '_>) -> Option<String> {
    let WorkloadKind::Suite(suite) = &view.case.workload.kind else {
        return None;
    };
    let base: Vec<&Launch> = view.of(Arm::Base).kept.iter().map(|r| r.launch).collect();
    let mut pairs = view.of(Arm::Head).kept.iter().filter_map(|reading| {
        let base = base_of(&base, reading.launch)?;
        Some((base, reading.launch))
    });
    let id = &view.case.workload.id;
    pairs.find_map(|(base, head)| metrics::fails_in_both(suite, id, base, head))
}
