//! `gate explain [DIR]`: why a check failed, from the record alone.

mod directory;
mod view;

use crate::cli::format::Format;
use crate::cli::{Exit, output};
use crate::report::pretty_json;
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ExplainArgs {
    /// Result directory with a run.json; nothing in it changes [default: the newest under .gate/runs]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Check to explain, as GATE/NAME [default: the worst that did not pass]
    #[arg(long, value_name = "ID")]
    check: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Whatever is explained, explaining it succeeds: `gate report` gives the verdict's exit code.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let ExplainArgs {
        directory,
        check,
        format,
    } = args;
    let directory = match directory {
        Some(it) if check.is_none() && is_id(it) => {
            let it = it.display();
            return Err(Error::Usage(format!(
                "there is no directory {it}; a check is named by an option: `gate explain --check {it}`"
            ))
            .into());
        }
        Some(directory) => directory.clone(),
        None => {
            let newest = directory::newest(Path::new("."))?;
            output::note(&format!("explaining {}", newest.display()));
            newest
        }
    };
    let text = match directory::explain_directory(&directory, check.as_deref())? {
        Err(verdict) => match format {
            Format::Text | Format::Markdown => view::nothing_text(verdict),
            Format::Json => view::nothing_json(verdict),
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
    path.is_relative() && path.components().count() == 2 && !path.exists()
}
