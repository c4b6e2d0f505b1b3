//! A person's line on main's history: which session it is about, who wrote it, and where it is kept.

use super::stored::{HistoryOptions, history};
use crate::baseline::{Entry, Note, NoteOutcome, Said, Store};
use crate::history::Point;
use crate::launch::Repository;
use crate::session::Error;
use crate::session::project::now;
use std::path::PathBuf;
use verdict::plan;

/// What to write, and about what.
#[derive(Clone, Debug)]
pub struct NoteOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub profile: String,
    pub about: About,
    /// `gate/check`; `None`: all.
    pub check: Option<String>,
    pub outcome: Option<NoteOutcome>,
    /// `None`: git's `user.name`.
    pub by: Option<String>,
    pub text: String,
}

/// The session that a note is about.
#[derive(Clone, Debug)]
pub enum About {
    /// The first stored one of this commit, or of the one whose id begins so.
    Commit(String),
    /// The first after the step of this date in the history of the check.
    Step(String),
}

/// Writes a note beside the stored sessions; where, and what it says.
pub fn note(options: &NoteOptions) -> Result<(PathBuf, Note), Error> {
    let root = plan::find_root(&options.start)?;
    let store = Store::open(&plan::baseline_directory(&root)?);
    let (session, measured, commit) = match &options.about {
        About::Commit(id) => of_commit(&store, id, options.check.as_deref())?,
        About::Step(date) => of_step(options, date)?,
    };
    let by = match &options.by {
        Some(by) => by.clone(),
        None => Repository::open(&root)
            .ok()
            .and_then(|repository| repository.user())
            .ok_or_else(|| {
                Error::Usage(
                    "nobody is named as the author: give --by NAME, or set git's `user.name`"
                        .into(),
                )
            })?,
    };
    let created = now();
    let said = Said {
        created: created.clone(),
        by,
        outcome: options.outcome,
        text: options.text.trim().to_owned(),
        session,
        measured,
        commit,
        check: options.check.clone(),
    };
    let note = Note::new(said, &created).map_err(|refused| {
        Error::Usage(format!("the note cannot be kept: {}", refused.reason()))
    })?;
    let path = store.add_note(&note)?;
    Ok((path, note))
}

/// Name, time and commit of a stored session.
type NotedSession = (String, String, Option<String>);

fn of_commit(store: &Store, id: &str, check: Option<&str>) -> Result<NotedSession, Error> {
    /// Fewer characters name a commit by chance.
    const LEAST: usize = 7;
    let entries: Vec<Entry> = store.list()?.into_iter().map(|(_, entry)| entry).collect();
    let is_of_commit = |entry: &&Entry| {
        let commit = entry.commit.as_deref().unwrap_or_default();
        id.len() >= LEAST && commit.starts_with(id)
    };
    let measures = |entry: &&Entry| check.is_none_or(|check| entry.values.contains_key(check));
    let is_it = |entry: &&Entry| is_of_commit(entry) && measures(entry);
    let found: Vec<&Entry> = entries.iter().filter(is_it).collect();
    match found.as_slice() {
        [] => Err(Error::Usage(format!(
            "no stored session{} is of a commit `{id}`; {}",
            check.map_or(String::new(), |check| format!(" with a value of {check}")),
            newest(&entries)
        ))),
        [first, others @ ..] if others.iter().all(|entry| entry.commit == first.commit) => Ok((
            first.session.clone(),
            first.created.clone(),
            first.commit.clone(),
        )),
        _ => Err(Error::Usage(format!(
            "several commits begin with `{id}`: give more of it"
        ))),
    }
}

/// The newest commits that a note can be on.
fn newest(entries: &[Entry]) -> String {
    let mut commits: Vec<&str> = Vec::new();
    for commit in entries
        .iter()
        .rev()
        .filter_map(|entry| entry.commit.as_deref())
    {
        if !commits.contains(&commit) && commits.len() < 5 {
            commits.push(commit);
        }
    }
    match commits.is_empty() {
        true => {
            "none is stored: `gate baseline pull` or `gate baseline record` brings some".to_owned()
        }
        false => format!(
            "the newest are {}. Of a step, give --step DATE",
            commits.join(", ")
        ),
    }
}

fn of_step(options: &NoteOptions, date: &str) -> Result<NotedSession, Error> {
    let Some(check) = &options.check else {
        return Err(Error::Usage(
            "--step needs --check GATE/CHECK: in whose history the step is".into(),
        ));
    };
    let told = history(&HistoryOptions {
        start: options.start.clone(),
        profile: options.profile.clone(),
        gates: Vec::new(),
        check: Some(check.clone()),
        last: usize::MAX,
    })?;
    let checks = told.history.checks.iter();
    let steps = checks.flat_map(|check| check.steps());
    let first: Vec<&Point> = steps
        .map(|(series, step)| &series.points[step.change.at])
        .collect();
    let of = |point: &&&Point| point.created.starts_with(date) && date.len() == "2026-11-21".len();
    if let Some(point) = first.iter().find(of) {
        return Ok((
            point.session.clone(),
            point.created.clone(),
            point.commit.clone(),
        ));
    }
    let dates: Vec<&str> = first
        .iter()
        .map(|point| point.created.get(..10).unwrap_or(&point.created))
        .collect();
    Err(Error::Usage(match dates.is_empty() {
        true => format!(
            "the history of {check} shows no step with --profile {}: name a commit with --commit",
            options.profile
        ),
        false => format!(
            "the history of {check} shows no step of {date}; there are {}",
            dates.join(", ")
        ),
    }))
}
