//! The sequential loop: measure a block, consult the judge, go on only while something is undecided.

use super::arms::Arms;
use super::checkpoint::Checkpoints;
use super::host::ArmHost;
use super::{Error, Event, Outcome, Project};
use crate::measure::{Follower, Progress, Protocol};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use verdict::judge;
use verdict::plan::{Plan, RECORDED_BLOCKS};
use verdict::record::{
    Comparison, Decision, Ending, Launch, RunRecord, RunVerdict, Sample, Verdict,
};

/// Blocks that are measured at the most, in caps: what a throttling machine spoils is repeated, but not
/// for ever.
const MOST_CAPS: u32 = 2;

/// Measures until every check is decided. See [`run_until`].
pub async fn run<C: Future<Output = ()>>(
    project: &Project,
    arms: &Arms,
    record: RunRecord,
    on_event: &dyn Fn(Event),
    cancel: Pin<&mut C>,
) -> Result<Outcome, Error> {
    let goal = Goal {
        is_reached: &is_judged,
        blocks: at_most(&project.plan, record.comparison),
    };
    run_until(project, arms, record, goal, on_event, cancel).await
}

/// The goal of a session.
pub struct Goal<'a> {
    /// True if enough is measured; asked after each block, with the verdict so far.
    pub is_reached: &'a dyn Fn(&RunRecord, &RunVerdict) -> bool,
    /// The most sound blocks that are needed for it.
    pub blocks: u32,
}

/// Every check is decided. A recording of main is for later comparisons, and measured whole.
fn is_judged(record: &RunRecord, verdict: &RunVerdict) -> bool {
    verdict.decision == Decision::Stop && !record.comparison.is_recording()
}

/// Goes on from the launches that the record holds. Measures until the goal or the last look or the budget is
/// reached, or `cancel` completes; then writes the record, the verdict and the report.
pub async fn run_until<C: Future<Output = ()>>(
    project: &Project,
    arms: &Arms,
    mut record: RunRecord,
    goal: Goal<'_>,
    on_event: &dyn Fn(Event),
    cancel: Pin<&mut C>,
) -> Result<Outcome, Error> {
    on_event(Event::Measuring {
        comparison: record.comparison,
        blocks: goal.blocks.min(cap(&project.plan, record.comparison)),
        budget: left(&project.plan, &record),
    });
    let session = Session {
        project,
        goal,
        on_event,
    };
    let verdict = session.measure(arms, &mut record, cancel).await?;
    Ok(Outcome {
        record,
        verdict,
        directory: project.results.directory().to_path_buf(),
    })
}

/// What the launches so far have left of the time for measuring.
fn left(plan: &Plan, record: &RunRecord) -> Duration {
    plan.design.budget.saturating_sub(spent(record))
}

fn spent(record: &RunRecord) -> Duration {
    Duration::try_from_secs_f64(record.elapsed_s).unwrap_or_default()
}

/// The most sound blocks that a verdict needs.
fn at_most(plan: &Plan, comparison: Comparison) -> u32 {
    match comparison.is_recording() {
        true => cap(plan, comparison),
        false => plan.most_blocks(),
    }
}

/// The most sound blocks that a session takes: a search may count those too in which no workload runs.
fn cap(plan: &Plan, comparison: Comparison) -> u32 {
    match comparison {
        Comparison::Alone | Comparison::Anchored => RECORDED_BLOCKS,
        _ => plan.design.looks.last().copied().unwrap_or_default(),
    }
}

struct Session<'a> {
    project: &'a Project,
    goal: Goal<'a>,
    on_event: &'a dyn Fn(Event),
}

impl Session<'_> {
    async fn measure<C: Future<Output = ()>>(
        &self,
        arms: &Arms,
        record: &mut RunRecord,
        cancel: Pin<&mut C>,
    ) -> Result<RunVerdict, Error> {
        let Project {
            plan,
            root,
            results,
            ..
        } = self.project;
        let clock = client::SessionClock::resume(spent(record));
        let (workspace, out) = (&self.project.workspace, results.directory());
        let mut host = ArmHost::new(
            &plan.engine,
            arms,
            workspace,
            root,
            out,
            &clock,
            self.on_event,
        )?;
        let protocol = Protocol {
            plan,
            seed: record.seed,
            arms: record.comparison.arms(),
            clock: &clock,
        };
        results.begin(record)?;
        let every = plan.design.checkpoint_every;
        let keeper = Keeper {
            checkpoints: Checkpoints::open(results.directory(), every, clock.clone())?,
            on_event: self.on_event,
        };
        let ended = self
            .blocks(&protocol, &mut host, record, &keeper, cancel)
            .await;
        // A block that was cut short leaves its engines behind, and launches that were not whole.
        while let Some(process) = host.running.pop() {
            process.stop().await?;
        }
        keeper.checkpoints.abandon()?;
        record.ending = ended?;
        record.elapsed_s = clock.elapsed().as_secs_f64();
        let verdict = judge::judge(plan, record);
        results.finish(plan, record, &verdict)?;
        Ok(verdict)
    }

    /// Block after block, the last one's missing launches first, until there is a reason to end.
    async fn blocks<C: Future<Output = ()>>(
        &self,
        protocol: &Protocol<'_>,
        host: &mut ArmHost<'_>,
        record: &mut RunRecord,
        keeper: &Keeper<'_>,
        mut cancel: Pin<&mut C>,
    ) -> Result<Ending, Error> {
        // An expired waiver fails without any measurement.
        if judge::judge(&self.project.plan, record).verdict == Verdict::Fail {
            return Ok(Ending::Decided);
        }
        let deadline = tokio::time::Instant::now() + left(&self.project.plan, record);
        let mut block = record.launches.last().map_or(0, |launch| launch.block);
        loop {
            let launches = &mut record.launches;
            tokio::select! {
                done = protocol.block(block, host, launches, keeper) => done?,
                () = cancel.as_mut() => return Ok(Ending::Interrupted),
                () = tokio::time::sleep_until(deadline) => {
                    return Ok(Ending::Budget { starting: host.starting(launches.len()) });
                }
            }
            block += 1;
            if let Some(ending) = self.look(record, block, protocol.clock.elapsed()) {
                return Ok(ending);
            }
        }
    }

    /// Why the session ends after `blocks` blocks; `None`: it goes on.
    fn look(&self, record: &RunRecord, blocks: u32, spent: Duration) -> Option<Ending> {
        if let Some(launch) = record
            .launches
            .iter()
            .find(|launch| !launch.exit.is_clean())
        {
            let detail = format!("launch {} ({})", launch.position, launch.arm.name());
            return Some(Ending::EngineFailed { detail });
        }
        let verdict = judge::judge(&self.project.plan, record);
        let is_enough = (self.goal.is_reached)(record, &verdict);
        (self.on_event)(Event::Looked { blocks, verdict });
        let cap = cap(&self.project.plan, record.comparison);
        let is_capped = judge::sound_blocks(record) >= cap || blocks >= MOST_CAPS * cap;
        if is_enough {
            return Some(Ending::Decided);
        }
        if is_capped {
            return Some(Ending::LastLook);
        }
        // The next block would take as long as the last ones did.
        let next = spent / blocks.max(1);
        let is_spent = spent + next > self.project.plan.design.budget;
        is_spent.then_some(Ending::Budget { starting: None })
    }
}

/// Shows what happens, and keeps what was measured.
struct Keeper<'a> {
    checkpoints: Checkpoints,
    on_event: &'a dyn Fn(Event),
}

impl Follower for Keeper<'_> {
    type Error = Error;

    fn progress(&self, progress: Progress) {
        (self.on_event)(Event::Progress(progress));
    }

    fn begun(&self, launch: &Launch) {
        self.checkpoints.begin(launch);
    }

    fn samples(&self, position: u32, samples: &[Sample]) {
        self.checkpoints.samples(position, samples);
    }

    fn finished(&self, launch: &Launch) -> Result<(), Error> {
        Ok(self.checkpoints.finish(launch)?)
    }
}
