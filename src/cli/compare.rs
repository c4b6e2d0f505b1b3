//! `gate compare`: results beside one another, or engines launched for it.

use super::names::{self, Names};
use super::progress::Progress;
use super::runtime::{block_on, interrupted};
use super::{Exit, Format, output};
use crate::figures::Table;
use crate::pipeline::{self, Contest, Error, Source};
use crate::plan::Selection;
use crate::report;
use anyhow::Context;
use clap::Args;
use std::env;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct CompareArgs {
    /// Results: a result directory, run.json, the JSON of `gate load` or `gate import`, or another tool's
    /// result; the first is the measure of the others
    #[arg(value_name = "RESULT", required_unless_present = "engines")]
    results: Vec<PathBuf>,
    /// What stands above each result, in their order; may be repeated [default: the files' names]
    #[arg(long, value_name = "NAME", conflicts_with = "engines")]
    name: Vec<String>,
    /// A remark on a result by its place from 1, as 2=quantised; may be repeated
    #[arg(long, value_name = "PLACE=TEXT", value_parser = tag, conflicts_with = "engines")]
    tag: Vec<(usize, String)>,
    /// Launch these engines of gates/engines.toml in turn and compare them: names between commas or spaces
    #[arg(long, value_name = "NAMES", conflicts_with = "results")]
    engines: Vec<Names>,
    /// Launches of each engine
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Which profile of gates/gate.toml to use for --engines
    #[arg(long, default_value = "quick")]
    profile: String,
    /// Only these gates' workloads for --engines, names between commas or spaces; may be repeated
    /// [default: those of the profile]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
    /// The workload of the warm half, as GATE/WORKLOAD, where a session has several
    #[arg(long, value_name = "ID")]
    workload: Option<String>,
    /// Result directory of --engines [default: a new one under .gate/runs]
    #[arg(long, value_name = "DIR", requires = "engines")]
    out: Option<PathBuf>,
    /// Seed of generated prompts for --engines [default: drawn and recorded]
    #[arg(long, requires = "engines")]
    seed: Option<u64>,
    /// How to print the table
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// `2=quantised`.
fn tag(text: &str) -> Result<(usize, String), String> {
    let parts = text
        .split_once('=')
        .map(|(place, tag)| (place.parse(), tag));
    match parts {
        Some((Ok(place), tag)) if place > 0 && !tag.is_empty() => Ok((place, tag.to_owned())),
        _ => Err("write the place of the result from 1, `=`, and the remark: 2=quantised".into()),
    }
}

pub(super) fn run(args: CompareArgs) -> anyhow::Result<Exit> {
    let CompareArgs {
        results,
        name,
        tag,
        engines,
        rounds,
        profile,
        gates,
        workload,
        out,
        seed,
        format,
    } = args;
    if engines.is_empty() {
        let sources = sources(results, name, tag)?;
        let table = pipeline::compare_files(&sources, workload.as_deref())?;
        return print(&table, format);
    }
    let contest = Contest {
        start: env::current_dir().context("cannot tell the current directory")?,
        selection: Selection {
            profile,
            gates: names::all(gates),
        },
        engines: names::all(engines),
        rounds,
        workload,
        out,
        seed,
    };
    let progress = Progress::new();
    let (table, directory) = block_on(async {
        let show = |event| progress.show(&event);
        pipeline::compare_engines(&contest, &show, interrupted()).await
    })??;
    progress.finish();
    output::note(&format!("results: {}", directory.display()));
    print(&table, format)
}

fn sources(
    results: Vec<PathBuf>,
    names: Vec<String>,
    tags: Vec<(usize, String)>,
) -> Result<Vec<Source>, Error> {
    let count = results.len();
    if names.len() > count {
        let text = format!(
            "{} names for {count} results: give --name once a result at the most",
            names.len()
        );
        return Err(Error::Usage(text));
    }
    if let Some((place, _)) = tags.iter().find(|(place, _)| *place > count) {
        let text =
            format!("--tag names result {place}, and there are {count}: places count from 1");
        return Err(Error::Usage(text));
    }
    let mut names = names.into_iter();
    let sources = results.into_iter().enumerate().map(|(at, path)| Source {
        path,
        name: names.next(),
        tags: tags
            .iter()
            .filter(|(place, _)| *place == at + 1)
            .map(|(_, text)| text.clone())
            .collect(),
    });
    Ok(sources.collect())
}

/// An invalid row makes the whole comparison invalid: whoever reads the exit code alone must not trust it.
fn print(table: &Table, format: Format) -> anyhow::Result<Exit> {
    let text = match format {
        Format::Text => report::comparison_text(table),
        Format::Json => report::comparison_json(table),
        Format::Markdown => report::comparison_markdown(table),
    };
    output::print(&text).context("cannot write the comparison to standard output")?;
    Ok(if table.invalid().is_empty() {
        Exit::Pass
    } else {
        Exit::Invalid
    })
}
