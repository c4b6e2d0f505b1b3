//! `gate explain [DIR]`: why a check failed, from the record alone.

mod directory;
mod view;

use crate::cli::format::Format;
use crate::cli::{Exit, output};
use crate::commands::report::or_newest;
use crate::report::pretty_json;
use anyhow::Context;
use clap::Args;
use std::path::{Component, Path, PathBuf};

#[derive(Args)]
pub struct ExplainArgs {
    /// Result directory with a run.json; nothing in it changes [default: the newest under .gate/runs]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Check to explain, as GATE/NAME; alone it is of the newest result [default: the worst that did not pass]
    #[arg(value_name = "CHECK")]
    id: Option<String>,
    /// An older spelling
    #[arg(long, value_name = "CHECK", conflicts_with = "id", hide = true)]
    check: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Whatever is explained, explaining it succeeds: `gate report` gives the verdict's exit code.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let ExplainArgs {
        directory,
        id,
        check,
        format,
    } = args;
    let mut check = check.clone().or_else(|| id.clone());
    let directory = match directory {
        // A check alone, of the newest run.
        Some(it) if check.is_none() && is_id(it) => {
            check = Some(it.display().to_string());
            None
        }
        directory => directory.clone(),
    };
    let directory = or_newest(directory, "explaining")?;
    let text = match directory::explain_directory(&directory, check.as_deref())? {
        Err(verdict) => match format {
            Format::Text | Format::Markdown => view::nothing_text(&verdict),
            Format::Json => view::nothing_json(&verdict),
        },
        Ok(explanation) => match format {
            Format::Text => view::explanation_text(&explanation),
            Format::Json => pretty_json(&explanation),
            Format::Markdown => view::explanation_markdown(&explanation),
        },
    };
    output::print(&text).context("cannot write the explanation to standard output")?;
    Ok(Exit::Pass)
}

/// True for what is no directory and may be a check's id: `tpot/regression`.
fn is_id(path: &Path) -> bool {
    let mut parts = path.components();
    let is_name = |part: Option<Component<'_>>| matches!(part, Some(Component::Normal(_)));
    is_name(parts.next()) && is_name(parts.next()) && parts.next().is_none() && !path.exists()
}
