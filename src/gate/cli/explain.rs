//! `gate explain DIR`: why a check failed, from the record alone.

use super::{Exit, Format, output};
use crate::pipeline;
use crate::report;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct ExplainArgs {
    /// A result directory that holds run.json; nothing in it is changed
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The check, as GATE/NAME; any verdict can be explained [default: the gravest failed one]
    #[arg(long, value_name = "ID")]
    check: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Whatever is explained, explaining it succeeds: `gate judge` gives the verdict's exit code.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let ExplainArgs {
        directory,
        check,
        format,
    } = args;
    let text = match pipeline::explain_directory(directory, check.as_deref())? {
        Err(nothing) => format!("{nothing}\n"),
        Ok(explanation) => match format {
            Format::Text => report::explanation_text(&explanation),
            Format::Json => report::explanation_json(&explanation),
            Format::Markdown => report::explanation_markdown(&explanation),
        },
    };
    output::print(&text).context("cannot write the explanation to standard output")?;
    Ok(Exit::Pass)
}
