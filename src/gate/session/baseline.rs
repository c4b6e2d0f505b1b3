//! Main's stored sessions: recording one, and finding those that stand for the base arm.

use super::launch_cost::spent;
use super::sources::{commits, refuse_commits};
use super::{Base, Error, Event, Options, Outcome, Place, Project, build_arms, new_record};
use crate::baseline::{Anchor, Entry, FormatError, Key, Signer, Store, StoreError, signed};
use crate::history;
use crate::launch::Repository;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use verdict::digest;
use verdict::judge;
use verdict::plan::{self, Gate, Plan};
use verdict::record::{
    Arm, Build, Comparison, Ending, GateVerdict, RunRecord, StoredBase, Verdict,
};

/// The store that the plan names, relative to the project's root.
pub fn store(project: &Project) -> Store {
    Store::open(&project.root.join(&project.plan.baseline.directory))
}

/// The stored sessions that match this run's model, gates and engine, oldest first. Those of another machine
/// are among them: they carry no verdict, but tell that there was one.
pub fn sessions(project: &Project, record: &RunRecord) -> Result<Vec<StoredBase>, StoreError> {
    sessions_of(&project.root, &project.plan, record)
}

/// The same for a project that nothing is measured in.
pub fn sessions_of(
    root: &Path,
    plan: &Plan,
    record: &RunRecord,
) -> Result<Vec<StoredBase>, StoreError> {
    let stored = Store::open(&root.join(&plan.baseline.directory)).list()?;
    let mut sessions: BTreeMap<String, StoredBase> = BTreeMap::new();
    for gate in &plan.gates {
        let wanted = key(plan, gate, record);
        for (_, entry) in &stored {
            let is_elsewhere = Key {
                fingerprint: wanted.fingerprint.clone(),
                ..entry.key.clone()
            };
            if is_elsewhere != wanted {
                continue;
            }
            sessions
                .entry(entry.session.clone())
                .or_insert_with(|| StoredBase {
                    id: entry.session.clone(),
                    created: entry.created.clone(),
                    commit: entry.commit.clone(),
                    fingerprint: entry.key.fingerprint.clone(),
                    values: BTreeMap::new(),
                })
                .values
                .extend(entry.values.clone());
        }
    }
    let mut found: Vec<StoredBase> = sessions.into_values().collect();
    found.sort_by(|a, b| (&a.created, &a.id).cmp(&(&b.created, &b.id)));
    Ok(found)
}

/// What a session measured, one entry a gate.
fn entries(
    project: &Project,
    record: &RunRecord,
    anchor: Option<&str>,
    signer: &Signer,
) -> Result<Vec<Entry>, FormatError> {
    let plan = &project.plan;
    let day = record.created.replace([':', '-'], "");
    let session = format!("{day}-{:016x}", record.seed);
    let [base, head] = [Arm::Base, Arm::Head].map(|arm| judge::launch_values(plan, record, arm));
    let commit = |arm| Build::of(&record.builds, arm).and_then(|build| build.commit.clone());
    let of = |gate: &Gate, values: &BTreeMap<String, Vec<f64>>| {
        let checks = gate.checks.iter();
        checks
            .filter_map(|check| Some((check.id.clone(), values.get(&check.id)?.clone())))
            .collect()
    };
    let entry = |gate: &Gate| Entry {
        key: key(plan, gate, record),
        session: session.clone(),
        created: record.created.clone(),
        commit: commit(Arm::Head),
        profile: Some(record.profile.clone()),
        values: of(gate, &head),
        anchor: anchor.zip(commit(Arm::Base)).map(|(name, commit)| Anchor {
            name: name.to_owned(),
            commit,
            values: of(gate, &base),
        }),
        spent: spent(plan, record, gate),
        sign_off: None,
    };
    let entries = plan.gates.iter().map(entry);
    entries.map(|entry| signed(entry, signer)).collect()
}

/// For each gate whose newest stored session cannot be compared with this one: a new series, and why.
fn new_series(stored: &[(PathBuf, Entry)], now: &[Entry]) -> Vec<String> {
    let told = now.iter().filter_map(|entry| {
        let same_gate =
            |then: &&Entry| then.key.gate == entry.key.gate && then.profile == entry.profile;
        let then = stored
            .iter()
            .rev()
            .map(|(_, entry)| entry)
            .find(same_gate)?;
        let changes = history::differences(then, entry);
        let gate = &entry.key.gate;
        (!changes.is_empty())
            .then(|| format!("{gate}: a new series starts: {}", changes.join(", ")))
    });
    told.collect()
}

fn key(plan: &Plan, gate: &Gate, record: &RunRecord) -> Key {
    key_on(plan, gate, &record.machine.fingerprint)
}

/// What a gate's sessions on a machine are known by.
pub fn key_on(plan: &Plan, gate: &Gate, fingerprint: &str) -> Key {
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
    if engine.chat {
        words.push("prompts over the chat route".to_owned());
    }
    // Values are not shown: somebody may have written a key there after all.
    words.extend(engine.headers.iter().map(|(name, value)| {
        let digest = digest::of_parts([value.as_bytes()]);
        format!("header {name}: {}", &digest[..12])
    }));
    if !engine.request.is_empty() {
        words.push(format!("request: {:?}", engine.request));
    }
    let words = words.iter().map(|word| on_one_line(word));
    Key {
        fingerprint: fingerprint.to_owned(),
        model: engine.model.clone(),
        gate: gate.name.clone(),
        gate_hash: gate.hash.clone(),
        engine: words.collect(),
    }
}

/// Control characters as `\n` and the like: a script may stand among the words, and a store takes none.
fn on_one_line(word: &str) -> String {
    let mut line = String::new();
    for c in word.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Launches that a stored session must have: fewer carry no estimate of their spread.
const MIN_LAUNCHES: usize = 4;

/// A recording of main.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub outcome: Outcome,
    /// What was stored; empty where the session does not stand for main.
    pub paths: Vec<PathBuf>,
    /// Series that begin with this session, and why the ones before ended.
    pub remarks: Vec<String>,
}

/// Measures the working tree and adds it to the store as a session of main: alone, or in turn with the frozen
/// release `anchor`, else the one that the project names. `signer` vouches for what is stored. Refuses a tree with changes and a commit that is not
/// main's. A session that broke an absolute rule, or was cut short, is judged, but not stored. An engine
/// that is not built here has no commit; its sessions are keyed by its command line alone.
pub async fn record_baseline(
    options: &Options,
    anchor: Option<&str>,
    signer: &Signer,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Recorded, Error> {
    let mut cancel = std::pin::pin!(cancel);
    let place = Place::New(options.out.as_deref());
    let config = plan::baseline_config(&plan::find_root(&options.start)?)?;
    let anchor = anchor.or(config.anchor.as_deref());
    let comparison = match anchor {
        Some(_) => Comparison::Anchored,
        None => Comparison::Alone,
    };
    let of = (options.start.as_path(), &options.selection);
    let project = Project::open(of, comparison, place, cancel.as_mut()).await?;
    refuse_what_is_not_main(options, &project, anchor)?;
    let mut options = options.clone();
    if let Some(name) = anchor {
        options.base = Base::Anchor(name.to_owned());
    }
    let mut arms = tokio::select! {
        arms = build_arms(&options, &project, on_event) => arms?,
        () = &mut cancel => return Err(Error::Interrupted),
    };
    arms.comparison = comparison;
    if anchor.is_none() {
        arms.builds.retain(|build| build.arm == Arm::Head);
    }
    let record = new_record(&options, &project, &arms);
    let outcome = super::run(&project, &arms, record, on_event, cancel).await?;
    let (mut paths, mut remarks) = (Vec::new(), Vec::new());
    if is_worth_storing(&outcome) {
        let store = store(&project);
        let entries = entries(&project, &outcome.record, anchor, signer)?;
        remarks = new_series(&store.list()?, &entries);
        for entry in &entries {
            paths.push(store.add(entry)?);
        }
    }
    Ok(Recorded {
        outcome,
        paths,
        remarks,
    })
}

/// Whole, with enough clean launches of each arm, and within every absolute rule.
fn is_worth_storing(outcome: &Outcome) -> bool {
    let record = &outcome.record;
    let clean = |arm| {
        let launches = record.launches.iter();
        launches
            .filter(|l| l.arm == arm && l.exit.is_clean())
            .count()
    };
    let mut arms = record.comparison.arms().iter();
    let sound = |gate: &GateVerdict| !matches!(gate.verdict, Verdict::Fail | Verdict::Invalid);
    record.ending == Ending::LastLook
        && arms.all(|&arm| clean(arm) >= MIN_LAUNCHES)
        && outcome.verdict.gates.iter().all(sound)
}

/// A baseline is a claim about main: a clean tree whose commit main holds. An anchor is a commit as well.
fn refuse_what_is_not_main(
    options: &Options,
    project: &Project,
    anchor: Option<&str>,
) -> Result<(), Error> {
    let refused = |text: String| Err(Error::Usage(text));
    if project.plan.engine.build.is_none() {
        return refuse_commits(options, anchor);
    }
    let commits = commits(options, &project.root)?;
    if commits.dirty {
        let changed = Repository::open(&project.root)?.changed_paths("HEAD")?;
        let named: Vec<&str> = changed.iter().take(3).map(String::as_str).collect();
        let more = if changed.len() > named.len() {
            ", …"
        } else {
            ""
        };
        return refused(format!(
            "the tree has uncommitted changes, so it is not main: commit them, remove them or let git ignore them: \
             {}{more}",
            named.join(", ")
        ));
    }
    if commits.base != commits.head {
        return refused(
            "this commit is not on main: check main out, or name it with --base".into(),
        );
    }
    match anchor {
        None => Ok(()),
        Some(name) => Ok(Repository::open(&project.root)?.commit(name).map(drop)?),
    }
}
