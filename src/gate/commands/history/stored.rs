//! Main's history out of the store: which sessions are read, and of which checks.

use crate::baseline::{Entry, Store};
use crate::history::{self, Age, History, Watched};
use crate::launch::Repository;
use crate::session::Error;
use crate::session::project::now;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::slice;
use verdict::plan::{self, Check, Plan, PlanError, Rule, Selection, Waiver};

/// What small steps may come to for a check that compares nothing itself: the margin of most gates.
const MARGIN: f64 = 0.01;

/// What to tell.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub profile: String,
    /// Names of gates; empty: all that have stored sessions.
    pub gates: Vec<String>,
    /// Only this check, as `gate/check`.
    pub check: Option<String>,
    /// Sessions of a series that are read, the newest ones.
    pub last: usize,
}

/// A history, and how to add to it.
#[derive(Clone, Debug)]
pub struct Told {
    pub history: History,
    /// What was left out, and why.
    pub remarks: Vec<String>,
    /// The command that stores one more session.
    pub command: String,
    /// Checks that may be red for a while: until when, who says so, and why.
    pub waivers: Vec<(String, String)>,
    /// Tags of main: their names, and when they were made, in seconds since 1970. None where git tells none.
    pub releases: Vec<(String, i64)>,
}

/// Reads the store of the project and tells main's history.
pub fn history(options: &HistoryOptions) -> Result<Told, Error> {
    let root = plan::find_root(&options.start)?;
    let config = plan::baseline_config(&root)?;
    let store = Store::open(&root.join(&config.directory));
    let entries = store.list()?;
    let mut entries: Vec<Entry> = entries.into_iter().map(|(_, entry)| entry).collect();
    let mut remarks = Vec::new();
    let gates = gates(options, &entries);
    let others = leave_out_other_profiles(&mut entries, &gates, &options.profile);
    remarks.extend(others);
    let is_named = options.check.is_some() || !options.gates.is_empty();
    let (mut watched, mut waivers) = (Vec::new(), Vec::new());
    // `2026-11-25`, as a waiver's last day is written.
    let today: String = now().chars().take("2026-11-25".len()).collect();
    for gate in &gates {
        match plan_of(&root, &options.profile, slice::from_ref(gate)) {
            Ok(plan) => {
                watched.extend(checks(&plan));
                let in_force = plan.waivers.iter().filter(|it| it.expires >= today);
                waivers.extend(in_force.map(waived));
            }
            // The history of a gate that is gone is no reason to refuse that of the others.
            Err(PlanError::UnknownGate { .. }) if !is_named => {
                remarks.push(format!(
                    "{gate}: stored sessions, but no such gate any more"
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    choose(&mut watched, options.check.as_deref())?;
    let age = Age {
        now: now(),
        most_days: config.max_age_days,
    };
    let mut history = history::tell(&entries, &watched, &age, options.last);
    history.annotate(&store.notes(&age.now)?);
    let tags = Repository::open(&root).and_then(|repository| repository.tags());
    Ok(Told {
        waivers,
        releases: tags.unwrap_or_default(),
        history,
        remarks,
        command: command(
            options,
            config.anchor.is_none() && is_built(&root, &options.profile),
            if is_named { &gates } else { &[] },
        ),
    })
}

/// The gates whose history is wanted, by name.
fn gates(options: &HistoryOptions, entries: &[Entry]) -> Vec<String> {
    let of_check = options.check.as_ref().and_then(|id| id.split_once('/'));
    if let Some((gate, _)) = of_check {
        return vec![gate.to_owned()];
    }
    if !options.gates.is_empty() {
        return options.gates.clone();
    }
    let stored: BTreeSet<&String> = entries.iter().map(|entry| &entry.key.gate).collect();
    stored.into_iter().cloned().collect()
}

/// Another profile sends other requests: its sessions are another history. Says how many there are.
fn leave_out_other_profiles(
    entries: &mut Vec<Entry>,
    gates: &[String],
    profile: &str,
) -> Option<String> {
    entries.retain(|entry| gates.contains(&entry.key.gate));
    let is_other = |entry: &Entry| entry.profile.as_deref().is_some_and(|of| of != profile);
    let others: BTreeSet<String> = entries
        .iter()
        .filter(|entry| is_other(entry))
        .filter_map(|entry| entry.profile.clone())
        .collect();
    entries.retain(|entry| !is_other(entry));
    let flags: Vec<String> = others.iter().map(|of| format!("--profile {of}")).collect();
    (!flags.is_empty()).then(|| {
        format!(
            "sessions of other profiles are not shown: {}",
            flags.join(", ")
        )
    })
}

fn waived(waiver: &Waiver) -> (String, String) {
    let Waiver {
        check,
        reason,
        owner,
        issue,
        expires,
    } = waiver;
    (
        check.clone(),
        format!("until {expires}, {owner}: {reason} ({issue})"),
    )
}

fn plan_of(root: &Path, profile: &str, gates: &[String]) -> Result<Plan, PlanError> {
    let selection = Selection {
        profile: profile.to_owned(),
        gates: gates.to_vec(),
    };
    Ok(plan::from_directory(root, &selection)?.0)
}

fn checks(plan: &Plan) -> Vec<Watched> {
    let watched = |gate: &str, check: &Check| Watched {
        id: check.id.clone(),
        gate: gate.to_owned(),
        metric: check.metric,
        margin: match check.rule {
            Rule::Regression { margin, .. } => margin,
            Rule::Ceiling { .. } | Rule::Floor { .. } => MARGIN,
        },
    };
    let gates = plan.gates.iter();
    gates
        .flat_map(|gate| gate.checks.iter().map(|check| watched(&gate.name, check)))
        .collect()
}

fn choose(watched: &mut Vec<Watched>, check: Option<&str>) -> Result<(), Error> {
    let Some(id) = check else { return Ok(()) };
    let names: Vec<String> = watched.iter().map(|check| check.id.clone()).collect();
    watched.retain(|check| check.id == id);
    if watched.is_empty() {
        let there = match names.is_empty() {
            true => "checks are named GATE/CHECK".to_owned(),
            false => format!("available: {}", names.join(", ")),
        };
        return Err(Error::Usage(format!("unknown check `{id}`; {there}")));
    }
    Ok(())
}

/// Whether commits are built here: an anchor is one.
fn is_built(root: &Path, profile: &str) -> bool {
    plan_of(root, profile, &[]).is_ok_and(|plan| plan.engine.build.is_some())
}

fn command(options: &HistoryOptions, wants_anchor: bool, gates: &[String]) -> String {
    let mut command = "gate baseline record".to_owned();
    if wants_anchor {
        command.push_str(" --anchor RELEASE");
    }
    command.push_str(&format!(" --profile {}", options.profile));
    for gate in gates {
        command.push_str(&format!(" --gate {gate}"));
    }
    command
}
