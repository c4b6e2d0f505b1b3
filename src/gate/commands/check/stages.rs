//! `gate check`.

use crate::commands::plan::shards;
use crate::report::named_gates;
use crate::session::project::{Place, Project, new_record};
use crate::session::sources::{build_arms, changed_gates};
use crate::session::{self, Base, Error, Event, Options, Outcome, baseline, citation, results};
use std::future::Future;
use verdict::record::Comparison;

/// Builds, launches, measures, judges and reports. `cancel` ends the session early; what was measured
/// until then is kept and judged. Where nothing is measured, a named result directory says why.
pub async fn check(
    options: &Options,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let checked = checked(options, on_event, cancel).await;
    if let (Err(error), Some(out)) = (&checked, &options.out) {
        results::tell_failure(out, error);
    }
    checked
}

async fn checked(
    options: &Options,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let mut cancel = std::pin::pin!(cancel);
    let place = Place::New(options.out.as_deref());
    let planned = match options.base {
        Base::Stored => Comparison::Stored,
        _ => Comparison::Interleaved,
    };
    let of = (options.start.as_path(), &options.selection);
    let project = Project::open(of, planned, place, cancel.as_mut()).await?;
    let extent = shards::extent(&project, &options.together)?;
    // A certificate that cannot be read is told before anything is built.
    let certificates = citation::citations(&project, options)?;
    // A build may write to the tree.
    let changed_gates = changed_gates(options, &project)?;
    if let Some(changed) = &changed_gates {
        let line = format!(
            "this tree's gates are used, not base's: {} changed",
            named_gates(changed)
        );
        on_event(Event::Step { line });
    }
    let arms = tokio::select! {
        arms = build_arms(options, &project, on_event) => arms?,
        () = &mut cancel => return Err(Error::Interrupted),
    };
    let mut record = new_record(options, &project, &arms);
    record.changed_gates = changed_gates;
    record.calibration = certificates;
    record.extent = extent;
    let stored = baseline::sessions(&project, &record);
    record.stored = match arms.comparison {
        Comparison::Stored => stored?,
        // For a remark alone: a store that cannot be read is no reason against measuring.
        _ => stored.unwrap_or_default(),
    };
    let outcome = session::run(&project, &arms, record, on_event, cancel).await?;
    citation::remember(&project, &outcome.record, &outcome.verdict);
    Ok(outcome)
}
