//! Main's stored sessions: recording one, and finding those that stand for the base arm.

use super::host::Arms;
use super::{Error, Event, Options, Outcome, Place, Project, build_arms, new_record, session};
use crate::baseline::{Entry, Key, Store, StoreError};
use crate::judge;
use crate::plan::{Gate, Plan};
use crate::record::{Arm, Build, Comparison, Ending, GateVerdict, RunRecord, StoredBase, Verdict};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;

/// The store that the plan names, relative to the project's root.
fn store(project: &Project) -> Store {
    Store::open(&project.root.join(&project.plan.baseline.directory))
}

/// The stored sessions that match this run's machine, model, gates and engine, oldest first.
pub(super) fn sessions(
    project: &Project,
    record: &RunRecord,
) -> Result<Vec<StoredBase>, StoreError> {
    let (plan, store) = (&project.plan, store(project));
    let mut sessions: BTreeMap<String, StoredBase> = BTreeMap::new();
    for gate in &plan.gates {
        for entry in store.find(&key(plan, gate, record))? {
            sessions
                .entry(entry.session.clone())
                .or_insert_with(|| StoredBase {
                    id: entry.session,
                    created: entry.created,
                    commit: entry.commit,
                    fingerprint: entry.key.fingerprint,
                    values: BTreeMap::new(),
                })
                .values
                .extend(entry.values);
        }
    }
    let mut found: Vec<StoredBase> = sessions.into_values().collect();
    found.sort_by(|a, b| (&a.created, &a.id).cmp(&(&b.created, &b.id)));
    Ok(found)
}

/// Stores each gate's values of a session of head alone; returns their paths.
fn add(project: &Project, record: &RunRecord, session: &str) -> Result<Vec<PathBuf>, StoreError> {
    let (plan, store) = (&project.plan, store(project));
    let values = judge::launch_values(plan, record, Arm::Head);
    let commit = Build::of(&record.builds, Arm::Head).and_then(|build| build.commit.clone());
    let entry = |gate: &Gate| Entry {
        key: key(plan, gate, record),
        session: session.to_owned(),
        created: record.created.clone(),
        commit: commit.clone(),
        values: gate
            .checks
            .iter()
            .filter_map(|check| Some((check.id.clone(), values.get(&check.id)?.clone())))
            .collect(),
    };
    plan.gates
        .iter()
        .map(|gate| store.add(&entry(gate)))
        .collect()
}

fn key(plan: &Plan, gate: &Gate, record: &RunRecord) -> Key {
    // The configuration as written: an artifact's path says nothing about what it does.
    let engine = &plan.engine;
    let setting = |(name, value): &(String, String)| format!("{name}={value}");
    let mut words: Vec<String> = engine
        .serve
        .iter()
        .chain(&gate.engine_args)
        .cloned()
        .collect();
    words.extend(engine.env.iter().map(setting));
    if let Some(build) = &engine.build {
        words.push(format!("built by: {}", build.command.join(" ")));
        words.extend(build.env.iter().map(setting));
    }
    words.push(format!("prompt ids: {:?}", engine.prompt_ids));
    Key {
        fingerprint: record.machine.fingerprint.clone(),
        model: engine.model.clone(),
        gate: gate.name.clone(),
        gate_hash: gate.hash.clone(),
        engine: words,
    }
}

/// Launches that a stored session must have: fewer carry no estimate of their spread.
const MIN_LAUNCHES: usize = 4;

/// Measures the working tree alone and adds it to the store as a session of main. Refuses a tree with
/// changes and a commit that is not main's. A session that broke an absolute rule, or was cut short, is
/// returned with no path: it is judged, but not stored. An engine that is not built here has no commit;
/// its sessions are keyed by its command line alone.
pub async fn record_baseline(
    options: &Options,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<(Outcome, Vec<PathBuf>), Error> {
    let mut cancel = std::pin::pin!(cancel);
    let place = Place::New(options.out.as_deref());
    let project = Project::open(&options.start, &options.selection, place)?;
    let mut arms = tokio::select! {
        arms = build_arms(options, &project, on_event) => arms?,
        () = &mut cancel => return Err(Error::Interrupted),
    };
    refuse_what_is_not_main(&arms)?;
    arms.builds.retain(|build| build.arm == Arm::Head);
    arms.comparison = Comparison::Alone;
    let record = new_record(options, &project, &arms);
    let outcome = session::run(&project, &arms, record, on_event, cancel).await?;
    let paths = if is_worth_storing(&outcome) {
        let day = outcome.record.created.replace([':', '-'], "");
        let session = format!("{day}-{:016x}", outcome.record.seed);
        add(&project, &outcome.record, &session)?
    } else {
        Vec::new()
    };
    Ok((outcome, paths))
}

/// Whole, with enough clean launches, and within every absolute rule.
fn is_worth_storing(outcome: &Outcome) -> bool {
    let clean = outcome.record.launches.iter().filter(|l| l.exit.is_clean());
    let sound = |gate: &GateVerdict| !matches!(gate.verdict, Verdict::Fail | Verdict::Invalid);
    outcome.record.ending == Ending::LastLook
        && clean.count() >= MIN_LAUNCHES
        && outcome.verdict.gates.iter().all(sound)
}

/// A baseline is a claim about main: a clean tree whose commit main holds.
fn refuse_what_is_not_main(arms: &Arms) -> Result<(), Error> {
    let [base, head] = Arm::BOTH.map(|arm| Build::of(&arms.builds, arm));
    if head.is_some_and(|head| head.dirty) {
        let text = "the tree has uncommitted changes, so it is not main: commit or stash them";
        return Err(Error::Usage(text.into()));
    }
    if base.map(|base| &base.commit) != head.map(|head| &head.commit) {
        let text = "this commit is not on main: check main out, or name it with --base";
        return Err(Error::Usage(text.into()));
    }
    Ok(())
}
