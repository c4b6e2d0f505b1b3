//! The sequential loop: measure a block, consult the judge, go on only while something is undecided.

use super::host::{ArmHost, Arms};
use super::{Error, Event, Outcome, Project};
use crate::measure::Protocol;
use crate::plan::Plan;
use crate::record::{Comparison, Decision, Ending, Launch, RunRecord, RunVerdict};
use crate::{judge, load};
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

/// Blocks of a recording of main, which has no base to be judged against.
const ALONE_BLOCKS: u32 = 4;

/// Measures until every check is decided, the last look or the budget is reached, or `cancel` completes;
/// then writes the record, the verdict and the report.
pub(super) async fn run<C: Future<Output = ()>>(
    project: &Project,
    arms: &Arms,
    mut record: RunRecord,
    on_event: &dyn Fn(Event),
    cancel: Pin<&mut C>,
) -> Result<Outcome, Error> {
    on_event(Event::Measuring {
        comparison: record.comparison,
        blocks: cap(&project.plan, record.comparison),
        budget: project.plan.design.budget,
    });
    let session = Session { project, on_event };
    let verdict = session.measure(arms, &mut record, cancel).await?;
    Ok(Outcome {
        record,
        verdict,
        directory: project.results.directory().to_path_buf(),
    })
}

/// The most blocks that a session takes.
fn cap(plan: &Plan, comparison: Comparison) -> u32 {
    match comparison {
        Comparison::Alone => ALONE_BLOCKS,
        _ => plan.design.looks.last().copied().unwrap_or_default(),
    }
}

struct Session<'a> {
    project: &'a Project,
    on_event: &'a dyn Fn(Event),
}

impl Session<'_> {
    async fn measure<C: Future<Output = ()>>(
        &self,
        arms: &Arms,
        record: &mut RunRecord,
        mut cancel: Pin<&mut C>,
    ) -> Result<RunVerdict, Error> {
        let Project {
            plan,
            root,
            results,
            ..
        } = self.project;
        let clock = load::SessionClock::start();
        let mut host = ArmHost {
            engine: &plan.engine,
            builds: &arms.builds,
            root,
            out: results.directory(),
            clock: &clock,
            running: None,
        };
        let begun = Instant::now();
        let protocol = Protocol {
            plan,
            seed: record.seed,
            arms: record.comparison.arms(),
            clock: &clock,
        };
        let deadline = tokio::time::Instant::now() + plan.design.budget;
        let mut block = 0;
        record.ending = loop {
            let mut launches = std::mem::take(&mut record.launches);
            let ended = tokio::select! {
                done = self.block(&protocol, block, &mut host, &mut launches, record, begun) => Ok(done),
                () = cancel.as_mut() => Err(Ending::Interrupted),
                () = tokio::time::sleep_until(deadline) => Err(Ending::Budget),
            };
            record.launches = launches;
            match ended {
                Ok(done) => done?,
                Err(ending) => break ending,
            }
            block += 1;
            if let Some(ending) = self.look(record, block, begun) {
                break ending;
            }
        };
        // A block that was cut short leaves its engine behind.
        if let Some(process) = host.running.take() {
            process.stop().await;
        }
        record.elapsed_s = begun.elapsed().as_secs_f64();
        let verdict = judge::judge(plan, record);
        results.finish(record, &verdict)?;
        Ok(verdict)
    }

    async fn block(
        &self,
        protocol: &Protocol<'_>,
        block: u32,
        host: &mut ArmHost<'_>,
        launches: &mut Vec<Launch>,
        record: &RunRecord,
        begun: Instant,
    ) -> Result<(), Error> {
        let mut checkpoint = record.clone();
        let save = |launches: &[Launch]| -> Result<(), Error> {
            checkpoint.launches = launches.to_vec();
            checkpoint.elapsed_s = begun.elapsed().as_secs_f64();
            Ok(self.project.results.checkpoint(&checkpoint)?)
        };
        let progress = |progress| (self.on_event)(Event::Progress(progress));
        protocol.block(block, host, launches, &progress, save).await
    }

    /// Why the session ends after `block` blocks; `None`: it goes on.
    fn look(&self, record: &RunRecord, blocks: u32, begun: Instant) -> Option<Ending> {
        if let Some(launch) = record
            .launches
            .iter()
            .find(|launch| !launch.exit.is_clean())
        {
            let detail = format!("launch {} ({})", launch.position, launch.arm.name());
            return Some(Ending::EngineFailed { detail });
        }
        let verdict = judge::judge(&self.project.plan, record);
        let decision = verdict.decision;
        (self.on_event)(Event::Looked { blocks, verdict });
        let cap = cap(&self.project.plan, record.comparison);
        match decision {
            Decision::Stop if record.comparison != Comparison::Alone => {
                return Some(Ending::Decided);
            }
            _ if blocks >= cap => return Some(Ending::LastLook),
            _ => {}
        }
        // The next block would take as long as the last ones did.
        let spent = begun.elapsed();
        let next = spent / blocks.max(1);
        (spent + next > self.project.plan.design.budget).then_some(Ending::Budget)
    }
}
