//! `gate history`: how main moved, from its stored sessions.

mod note;
mod stored;
mod view;

use crate::baseline::NoteOutcome;
use crate::cli::format::Format;
use crate::cli::github::variable;
use crate::cli::names::{self, Names};
use crate::cli::{Exit, output};
use crate::history::Outcome;
use crate::report::site;
use crate::session::project::now;
use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand};
use note::{About, NoteOptions};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use stored::{HistoryOptions, Told};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    command: Option<Command>,
    /// Gates, separated by commas or spaces; repeatable [default: all with stored sessions]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
    /// Only this check
    #[arg(long, value_name = "GATE/CHECK", conflicts_with = "gates")]
    check: Option<String>,
    /// Read only the newest N sessions of a series, at least 10: creep is judged by as many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..))]
    last: Option<u32>,
    /// The profile that the sessions were measured with
    #[arg(long, default_value = "quick")]
    profile: String,
    /// Print the steps and the notes as a changelog, the newest first: date, number, meaning
    #[arg(long)]
    changelog: bool,
    /// Write the history as static pages into this folder: an index, a page a gate, and an Atom feed
    #[arg(long, value_name = "DIR", conflicts_with = "changelog")]
    site: Option<PathBuf>,
    /// How to print the history
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Subcommand)]
enum Command {
    /// Write a line beside main's stored sessions: why main became faster or slower, and what became of it
    Note(NoteArgs),
}

#[derive(Args)]
#[command(group = ArgGroup::new("about").required(true))]
struct NoteArgs {
    /// What you found out, in one line
    text: String,
    /// About this commit of a stored session; its first seven characters suffice
    #[arg(long, value_name = "ID", group = "about")]
    commit: Option<String>,
    /// About the step of this date in the history of --check, such as 2026-11-21
    #[arg(long, value_name = "DATE", group = "about", requires = "check")]
    step: Option<String>,
    /// Only this check [default: all checks of the session]
    #[arg(long, value_name = "GATE/CHECK")]
    check: Option<String>,
    /// The change was kept
    #[arg(long, conflicts_with = "reverted")]
    kept: bool,
    /// The change was reverted
    #[arg(long)]
    reverted: bool,
    /// Who writes it [default: git's user.name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The profile whose history has the step
    #[arg(long, default_value = "quick")]
    profile: String,
}

fn note(args: NoteArgs) -> anyhow::Result<Exit> {
    let NoteArgs {
        text,
        commit,
        step,
        check,
        kept,
        reverted,
        by,
        profile,
    } = args;
    let options = NoteOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        profile,
        // clap wants one of them.
        about: match (commit, step) {
            (Some(commit), _) => About::Commit(commit),
            (None, step) => About::Step(step.unwrap_or_default()),
        },
        check,
        outcome: match (kept, reverted) {
            (true, _) => Some(NoteOutcome::Kept),
            (_, true) => Some(NoteOutcome::Reverted),
            _ => None,
        },
        by,
        text,
    };
    let (path, note) = note::note(&options)?;
    let commit = note.commit.as_deref().unwrap_or("unknown");
    output::note(&format!(
        "stored: {} (session {}, commit {commit})",
        path.display(),
        note.session
    ));
    output::note("`gate baseline push` brings it to the store, where gates/gate.toml names one");
    Ok(Exit::Pass)
}

pub fn run(args: HistoryArgs) -> anyhow::Result<Exit> {
    if let Some(Command::Note(args)) = args.command {
        return note(args);
    }
    let options = HistoryOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        profile: args.profile,
        gates: names::all(args.gates),
        check: args.check,
        last: args.last.map_or(usize::MAX, |last| last as usize),
    };
    let told = stored::history(&options)?;
    let Told {
        history,
        remarks,
        command,
        ..
    } = &told;
    if args.changelog {
        let text = match args.format {
            Format::Text => view::changelog::changelog_text(history),
            Format::Json => view::changelog::changelog_json(history),
            Format::Markdown => view::changelog::changelog_markdown(history),
        };
        output::print(&text).context("cannot write the changelog to standard output")?;
        return Ok(Exit::Pass);
    }
    if let Some(folder) = args.site {
        write_site(&folder, &told)?;
    }
    let text = match args.format {
        Format::Text => view::text::history_text(history, remarks, command),
        Format::Json => view::json::history_json(history, remarks, command),
        Format::Markdown => view::text::history_markdown(history, remarks, command),
    };
    output::print(&text).context("cannot write the history to standard output")?;
    Ok(match history.outcome() {
        Outcome::Quiet => Exit::Pass,
        Outcome::Worse => Exit::Fail,
        Outcome::Unknown => Exit::Inconclusive,
    })
}

/// Links lead to the repository on GitHub where Actions names it.
fn write_site(folder: &Path, told: &Told) -> anyhow::Result<()> {
    let server = variable("GITHUB_SERVER_URL").zip(variable("GITHUB_REPOSITORY"));
    let repository = server.map(|(server, repository)| format!("{server}/{repository}"));
    let shown = view::site::Told {
        history: &told.history,
        remarks: &told.remarks,
        command: &told.command,
        waivers: &told.waivers,
        releases: &told.releases,
    };
    let site = view::site::site(&shown, (now(), repository.as_deref()));
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in site::site(&site) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::note(&format!("site: {}", folder.join("index.html").display()));
    Ok(())
}
