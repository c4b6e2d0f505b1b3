//! `gate baseline record | list | show`: main's stored sessions.

use super::check::{SessionArgs, block_on, interrupted, print};
use super::progress::Progress;
use super::{Exit, output};
use crate::baseline::{Entry, Store};
use crate::pipeline::{self, Base, Error, Recorded};
use crate::plan;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct BaselineArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure this clean checkout of main and store it
    Record(RecordArgs),
    /// List what is stored
    List,
    /// Show the stored values of one session
    Show(ShowArgs),
}

#[derive(Args)]
struct RecordArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// The ref that is main [default: origin/main, else main]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// A frozen release that main is launched in turn with, so that `gate history` can tell main from the
    /// machine [default: baseline.anchor of gates/gate.toml, else none]
    #[arg(long, value_name = "REF")]
    anchor: Option<String>,
}

#[derive(Args)]
struct ShowArgs {
    /// Name of the session, as `gate baseline list` shows it, or its beginning
    session: String,
}

pub(super) fn run(args: BaselineArgs) -> anyhow::Result<Exit> {
    match args.command {
        Command::Record(args) => record(args),
        Command::List => list(),
        Command::Show(args) => show(&args),
    }
}

fn record(args: RecordArgs) -> anyhow::Result<Exit> {
    let RecordArgs {
        session,
        base,
        anchor,
    } = args;
    let format = session.format;
    let mut options = session.options()?;
    options.base = base.map_or(Base::Main, Base::Ref);
    let progress = Progress::new();
    let recorded = block_on(async {
        let show = |event| progress.show(&event);
        pipeline::record_baseline(&options, anchor.as_deref(), &show, interrupted()).await
    })??;
    progress.finish();
    let Recorded {
        outcome,
        paths,
        remarks,
    } = recorded;
    for remark in &remarks {
        output::note(remark);
    }
    for path in &paths {
        output::note(&format!("stored: {}", path.display()));
    }
    if paths.is_empty() {
        output::note("not stored: only a whole session within every limit stands for main");
    }
    print(&outcome.record, &outcome.verdict, format)?;
    // A regression has no base here, so what is stored is never a pass: stored is what was asked for.
    Ok(if paths.is_empty() {
        Exit::of_session(&outcome)
    } else {
        Exit::Pass
    })
}

fn entries() -> anyhow::Result<Vec<(PathBuf, Entry)>> {
    let here = env::current_dir()?;
    let root = plan::find_root(&here).map_err(Error::from)?;
    let store = plan::baseline_directory(&root).map_err(Error::from)?;
    Ok(Store::open(&store).list().map_err(Error::from)?)
}

fn list() -> anyhow::Result<Exit> {
    let entries = entries()?;
    if entries.is_empty() {
        anstream::println!(
            "nothing is stored yet: `gate baseline record` on main stores a session"
        );
        return Ok(Exit::Pass);
    }
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(["session", "gate", "commit", "launches", "anchor"]);
    for (_, entry) in &entries {
        let launches = entry.values.values().map(Vec::len).max().unwrap_or(0);
        let anchor = entry.anchor.as_ref().map(|anchor| anchor.name.clone());
        table.add_row([
            entry.session.clone(),
            entry.key.gate.clone(),
            short(entry.commit.as_deref()),
            launches.to_string(),
            anchor.unwrap_or_else(|| "–".into()),
        ]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(Exit::Pass)
}

fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let mut entries = entries()?;
    entries.retain(|(_, entry)| entry.session.starts_with(&args.session));
    if entries.is_empty() {
        return Err(Error::Usage(format!(
            "no stored session begins with `{}`; `gate baseline list` names them",
            args.session
        ))
        .into());
    }
    let mut text = String::new();
    for (path, entry) in &entries {
        describe(&mut text, path, entry);
    }
    output::print(&text)?;
    Ok(Exit::Pass)
}

fn describe(text: &mut String, path: &Path, entry: &Entry) {
    let commit = entry.commit.as_deref().unwrap_or("none");
    let _ = writeln!(text, "{}  {}", entry.key.gate, path.display());
    let _ = writeln!(text, "  created   {}", entry.created);
    let _ = writeln!(text, "  commit    {commit}");
    let _ = writeln!(text, "  machine   {}", entry.key.fingerprint);
    let _ = writeln!(text, "  model     {}", entry.key.model);
    let _ = writeln!(text, "  engine    {}", entry.key.engine.join(" "));
    if let Some(profile) = &entry.profile {
        let _ = writeln!(text, "  profile   {profile}");
    }
    list_values(text, &entry.values);
    if let Some(anchor) = &entry.anchor {
        let _ = writeln!(
            text,
            "  beside its anchor {} ({})",
            anchor.name, anchor.commit
        );
        list_values(text, &anchor.values);
    }
}

fn list_values(text: &mut String, values: &BTreeMap<String, Vec<f64>>) {
    for (check, values) in values {
        let values: Vec<String> = values.iter().map(|v| format!("{v:.6}")).collect();
        let _ = writeln!(text, "  {check}  {}", values.join("  "));
    }
}

fn short(commit: Option<&str>) -> String {
    commit.map_or_else(|| "–".into(), |commit| commit.chars().take(12).collect())
}
