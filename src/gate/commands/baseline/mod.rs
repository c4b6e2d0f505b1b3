//! `gate baseline record | list | show | push | pull | sign | prune`: main's stored sessions.

mod exchange;
mod remote;

use super::check::SessionArgs;
use crate::baseline::Entry;
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::signer::signer;
use crate::cli::verdict::print;
use crate::cli::{Exit, output};
use crate::report;
use crate::session::{self, Base, Error, Recorded};
use clap::{Args, Subcommand};
use exchange::Signed;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct BaselineArgs {
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
    /// Store what the store of gates/gate.toml (baseline.store) lacks, certificates of `gate calibrate` too
    Push,
    /// Fetch what is missing here from that store; records that do not hold are named and left out
    Pull,
    /// List what INFERGATE_BASELINE_KEY did not sign in that store: records from before the key. docs/baselines.md says
    /// when to sign them
    Sign(remote::SignArgs),
    /// List what is older than baseline.keep, in that store and here, but for each key's newest eight sessions
    Prune(remote::PruneArgs),
}

#[derive(Args)]
struct RecordArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// The ref that is main [default: origin/HEAD, else main or master]
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

pub fn run(args: BaselineArgs) -> anyhow::Result<Exit> {
    match args.command {
        Command::Record(args) => record(args),
        Command::List => list(),
        Command::Show(args) => show(&args),
        Command::Push => remote::push(),
        Command::Pull => remote::pull(),
        Command::Sign(args) => remote::sign(&args),
        Command::Prune(args) => remote::prune(&args),
    }
}

fn record(args: RecordArgs) -> anyhow::Result<Exit> {
    let RecordArgs {
        session,
        base,
        anchor,
    } = args;
    let shown = session.shown;
    let mut options = session.options()?;
    options.base = base.map_or(Base::Main, Base::Ref);
    let signer = signer()?;
    let progress = ProgressLines::default();
    let recorded = block_on(async {
        let show = |event| progress.show(&event);
        let anchor = anchor.as_deref();
        session::record_baseline(&options, anchor, &signer, &show, interrupted()).await
    })??;
    progress.finish();
    let Recorded {
        outcome,
        paths,
        remarks,
    } = recorded;
    for remark in &remarks {
        output::error(remark);
    }
    for path in &paths {
        output::note(&format!("stored: {}", path.display()));
    }
    if paths.is_empty() {
        output::error(
            "not stored: only a complete session within every limit becomes a record of main",
        );
    }
    print(&outcome.record, &outcome.verdict, shown, None)?;
    // A regression has no base here, so what is stored is never a pass: stored is what was asked for.
    Ok(if paths.is_empty() {
        Exit::of_session(&outcome)
    } else {
        Exit::Pass
    })
}

fn entries() -> anyhow::Result<Vec<(PathBuf, Entry, Signed)>> {
    let here = env::current_dir()?;
    Ok(exchange::stored_sessions(&here, &signer()?)?)
}

/// Characters of a session's name that are listed: its second, and of the rest what tells two of one second apart.
const SHOWN: usize = 21;

fn list() -> anyhow::Result<Exit> {
    let entries = entries()?;
    if entries.is_empty() {
        anstream::println!(
            "nothing is stored yet: `gate baseline record` on main stores a session"
        );
        return Ok(Exit::Pass);
    }
    // In the narrowest of terminals there is no room for a column of dashes.
    let has_anchors = entries.iter().any(|(_, entry, _)| entry.anchor.is_some());
    let mut header = vec!["session", "gate", "commit", "launches", "signed"];
    header.extend(has_anchors.then_some("anchor"));
    let mut rows = Vec::new();
    for (_, entry, signed) in &entries {
        let launches = entry.values.values().map(Vec::len).max().unwrap_or(0);
        let anchor = entry.anchor.as_ref().map(|anchor| anchor.name.clone());
        let mut row = vec![
            entry.session.chars().take(SHOWN).collect(),
            entry.key.gate.clone(),
            short(entry.commit.as_deref()),
            launches.to_string(),
            sign_off(*signed),
        ];
        row.extend(has_anchors.then(|| anchor.unwrap_or_else(|| "–".into())));
        rows.push(row);
    }
    let header = header.into_iter().map(str::to_owned).collect();
    output::print(&format!("{}\n", report::columns(header, rows)))?;
    Ok(Exit::Pass)
}

fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let mut entries = entries()?;
    entries.retain(|(_, entry, _)| entry.session.starts_with(&args.session));
    if entries.is_empty() {
        return Err(Error::Usage(format!(
            "no stored session begins with `{}`; `gate baseline list` names them",
            args.session
        ))
        .into());
    }
    let mut text = String::new();
    for (path, entry, signed) in &entries {
        describe(&mut text, path, entry, *signed);
    }
    output::print(&text)?;
    Ok(Exit::Pass)
}

fn describe(text: &mut String, path: &Path, entry: &Entry, signed: Signed) {
    let commit = entry.commit.as_deref().unwrap_or("none");
    let _ = writeln!(text, "{}  {}", entry.key.gate, path.display());
    let _ = writeln!(text, "  created   {}", entry.created);
    let _ = writeln!(text, "  commit    {commit}");
    let _ = writeln!(text, "  machine   {}", entry.key.fingerprint);
    let _ = writeln!(text, "  model     {}", entry.key.model);
    let _ = writeln!(text, "  engine    {}", engine(&entry.key.engine));
    if let Some(profile) = &entry.profile {
        let _ = writeln!(text, "  profile   {profile}");
    }
    let _ = writeln!(text, "  signed    {}", sign_off(signed));
    if let Some(signed) = &entry.sign_off {
        let _ = writeln!(text, "  by        {}", signed.tool);
        let _ = writeln!(text, "  sha256    {}", signed.sha256);
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

/// The engine's words. The ids that prompts are drawn from stand in a key as they always have, and nobody reads them so.
fn engine(words: &[String]) -> String {
    let readable = |word: &String| match word.strip_prefix("prompt ids: ") {
        Some("None") => "prompts of words".to_owned(),
        Some(ids) => {
            let ids = ids.trim_matches(|c: char| !c.is_ascii_digit());
            format!("prompt ids {}", ids.replace(", ", ".."))
        }
        None => word.clone(),
    };
    let words: Vec<String> = words.iter().map(readable).collect();
    words.join(" ")
}

fn list_values(text: &mut String, values: &BTreeMap<String, Vec<f64>>) {
    for (check, values) in values {
        let values: Vec<String> = values.iter().map(|v| format!("{v:.6}")).collect();
        let _ = writeln!(text, "  {check}  {}", values.join("  "));
    }
}

/// In which workflow run, or that it was not.
fn sign_off(signed: Signed) -> String {
    match signed {
        Signed::Yes(Some(run)) => format!("run {run}"),
        Signed::Yes(None) => "yes".to_owned(),
        Signed::No => "no".to_owned(),
        Signed::Broken => "BROKEN".to_owned(),
    }
}

fn short(commit: Option<&str>) -> String {
    commit.map_or_else(|| "–".into(), report::numbers::commit)
}
