//! `gate compare --engines`: engines are launched in turn by the protocol of every session, and compared.
//!
//! In each round every engine is launched once, in an order that rotates, so that none is always the first on
//! a cold machine; the gates' workloads are sent to each. With limits (`at_most`) the judge looks after each round and
//! ends the measuring when it has decided. An engine's launches are a session of their own
//! (`NAME/run.json` in the result directory), in which it stands alone.

use super::at_most::{Limit, are_decided, held, most_rounds};
use super::columns::{choose, compared, of_record};
use super::contest::{Contest, Lane};
use crate::figures::Table;
use crate::launch::Workspace;
use crate::measure::{Follower, Progress, Protocol};
use crate::session::arms::Arms;
use crate::session::host::ArmHost;
use crate::session::project::{draw_seed, machine, now, tool, workspace};
use crate::session::results::Results;
use crate::session::{Error, Event};
use client::SessionClock;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Instant;
use verdict::digest;
use verdict::plan::{self, Contender, Engine, Plan};
use verdict::record::{
    Arm, Build, Comparison, Described, Ending, Extent, Input, Launch, RUN_FORMAT, RunRecord, Sample,
};

/// Measures every engine and compares them; gives the table and the result directory. `cancel` ends it early:
/// nothing is compared then, the launches that were finished are kept.
pub async fn compare_engines(
    contest: &Contest,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<(Table, PathBuf), Error> {
    let mut cancel = std::pin::pin!(cancel);
    let Opened {
        root,
        mut lanes,
        limits,
        directory,
        workspace,
    } = open(contest, cancel.as_mut()).await?;
    let place = (root.as_path(), &workspace);
    tokio::select! {
        measured = measure(contest, &limits, place, &mut lanes, on_event) => measured?,
        () = cancel => return Err(Error::Interrupted),
    }
    let columns = lanes
        .iter()
        .map(|lane| {
            let name = lane.contender.name.clone();
            of_record(name, &lane.record, contest.workload.as_deref())
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let mut table = compared(columns);
    table.held = held(&limits, &lanes);
    Ok((table, directory))
}

/// A contest of which nothing is launched yet.
struct Opened {
    root: PathBuf,
    lanes: Vec<Lane>,
    limits: Vec<Limit>,
    directory: PathBuf,
    workspace: Workspace,
}

async fn open<C: Future<Output = ()>>(
    contest: &Contest,
    cancel: Pin<&mut C>,
) -> Result<Opened, Error> {
    let root = plan::find_root(&contest.start)?;
    let (plan, mut inputs) = plan::from_directory(&root, &contest.selection)?;
    // Whatever cannot be compared is refused before hours are spent on it.
    choose("the gates", &plan, contest.workload.as_deref())?;
    let limits = contest
        .at_most
        .iter()
        .map(|at_most| Limit::new(at_most, &plan, contest))
        .collect::<Result<Vec<_>, Error>>()?;
    let (contenders, files) = plan::contenders(&root, &contest.engines)?;
    inputs.extend(files);
    let workspace = workspace(&root, &plan, cancel).await?;
    let whole = Results::create(contest.out.as_deref(), &workspace, "compare")?;
    let directory = whole.directory().to_path_buf();
    let seed = contest.seed.unwrap_or_else(draw_seed);
    let lanes = contenders
        .into_iter()
        .map(|contender| {
            let mut plan = plan.clone();
            plan.engine = contender.engine.clone();
            let own = directory.join(&contender.name);
            Ok(Lane {
                results: Results::create(Some(&own), &workspace, "compare")?,
                record: record(&plan, &contender, inputs.clone(), seed, &workspace),
                plan,
                contender,
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Opened {
        root,
        lanes,
        limits,
        directory,
        workspace,
    })
}

fn record(
    plan: &Plan,
    contender: &Contender,
    inputs: Vec<Input>,
    seed: u64,
    workspace: &Workspace,
) -> RunRecord {
    RunRecord {
        format: RUN_FORMAT.into(),
        tool: tool(),
        created: now(),
        profile: plan.design.profile.clone(),
        seed,
        comparison: Comparison::Alone,
        machine: machine(workspace),
        builds: vec![Build {
            arm: Arm::Head,
            commit: None,
            subject: None,
            dirty: false,
            artifact_sha256: None,
            command: contender.engine.serve.clone(),
            files: Vec::new(),
            build_s: 0.0,
            on_ci: None,
        }],
        gates: plan.gates.iter().map(|gate| gate.name.clone()).collect(),
        inputs,
        changed_gates: None,
        stored: Vec::new(),
        calibration: Vec::new(),
        launches: Vec::new(),
        ending: Ending::Unfinished,
        elapsed_s: 0.0,
        described: Some(Described {
            prompts: Some(prompts(plan, seed)),
            ..contender.described.clone()
        }),
        extent: Extent::Whole,
    }
}

/// What two engines must share to be sent the same prompts.
fn prompts(plan: &Plan, seed: u64) -> String {
    let Engine {
        prompt_ids,
        tokenizer,
        chat,
        request,
        ..
    } = &plan.engine;
    // Keys of a request reach a chat's template.
    let request = if *chat { request.as_slice() } else { &[] };
    let drawn = format!("{seed} {prompt_ids:?} {tokenizer:?} {chat} {request:?}");
    let gates = plan.gates.iter().map(|gate| gate.hash.as_bytes());
    digest::of_parts(gates.chain([drawn.as_bytes()]))
}

async fn measure(
    contest: &Contest,
    limits: &[Limit],
    place: (&Path, &Workspace),
    lanes: &mut [Lane],
    on_event: &dyn Fn(Event),
) -> Result<(), Error> {
    let clock = SessionClock::start();
    let count = lanes.len();
    let rounds = contest.rounds.unwrap_or_else(|| most_rounds(limits));
    for round in 0..rounds {
        for turn in 0..count {
            let lane = &mut lanes[(turn + round as usize) % count];
            on_event(Event::Engine {
                name: lane.contender.name.clone(),
                round,
            });
            launch(lane, place, round, &clock, on_event).await?;
        }
        if are_decided(limits, lanes) {
            break;
        }
    }
    for lane in lanes {
        lane.record.ending = Ending::LastLook;
        lane.results.begin(&lane.record)?;
    }
    Ok(())
}

/// One launch of one engine, kept at once.
async fn launch(
    lane: &mut Lane,
    (root, workspace): (&Path, &Workspace),
    round: u32,
    clock: &SessionClock,
    on_event: &dyn Fn(Event),
) -> Result<(), Error> {
    let begun = Instant::now();
    let arms = Arms {
        comparison: Comparison::Alone,
        builds: lane.record.builds.clone(),
        artifacts: Vec::new(),
        is_head_a_commit: false,
        foreign: Vec::new(),
    };
    let engine = &lane.plan.engine;
    let out = lane.results.directory();
    let mut host = ArmHost::new(engine, &arms, workspace, root, out, clock, on_event)?;
    let protocol = Protocol {
        plan: &lane.plan,
        seed: lane.record.seed,
        arms: &[Arm::Head],
        clock,
    };
    let mut launches = std::mem::take(&mut lane.record.launches);
    let done = protocol
        .block(round, &mut host, &mut launches, &Onlooker { on_event })
        .await;
    lane.record.launches = launches;
    lane.record.elapsed_s += begun.elapsed().as_secs_f64();
    done?;
    Ok(lane.results.begin(&lane.record)?)
}

/// Shows progress; a launch is kept when it is over.
struct Onlooker<'a> {
    on_event: &'a dyn Fn(Event),
}

impl Follower for Onlooker<'_> {
    type Error = Error;

    fn progress(&self, progress: Progress) {
        (self.on_event)(Event::Progress(progress));
    }

    fn begun(&self, _: &Launch) {}

    fn samples(&self, _: u32, _: &[Sample]) {}

    fn finished(&self, _: &Launch) -> Result<(), Error> {
        Ok(())
    }
}
