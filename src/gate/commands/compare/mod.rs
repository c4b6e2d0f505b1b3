//! `gate compare`: results beside one another, or engines launched for it.

mod at_most;
mod caveats;
mod columns;
mod contest;
mod engines;
mod page;
mod view;

use crate::cli::command_line::command_line;
use crate::cli::format::PageFormat as Format;
use crate::cli::names::{self, Names};
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::figures::Table;
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use columns::Source;
use contest::{AtMost, Contest};
use std::env;
use std::path::PathBuf;
use verdict::plan::Selection;
use verdict::record::{Metric, Verdict};

#[derive(Args)]
pub struct CompareArgs {
    /// Results: a result directory, run.json, the JSON of `gate load` or `gate dev import`, or another tool's
    /// result; the first is the measure of the others
    #[arg(value_name = "RESULT", required_unless_present = "engines")]
    results: Vec<PathBuf>,
    /// A name for each result, in their order; may be repeated [default: the files' names]
    #[arg(long, value_name = "NAME", conflicts_with = "engines")]
    name: Vec<String>,
    /// A remark on a result by its place from 1, as 2=quantised; may be repeated
    #[arg(long, value_name = "PLACE=TEXT", value_parser = tag, conflicts_with = "engines")]
    tag: Vec<(usize, String)>,
    /// Launch these engines of gates/engines.toml in turn and compare them: names between commas or spaces
    #[arg(long, value_name = "NAMES", conflicts_with = "results")]
    engines: Vec<Names>,
    /// Launches of each engine [default: 3; with --at-most up to the last test of the profile]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Fail where the first engine takes more than TIMES as long as any other, as tpot=1.1; may be repeated. Of ttft,
    /// tpot, itl, icl, e2e (medians), port_open, ready, first_token, first_response
    #[arg(long, value_name = "METRIC=TIMES", value_parser = at_most)]
    at_most: Vec<AtMost>,
    /// Which profile of gates/gate.toml to use for --engines [default: quick]
    #[arg(long)]
    profile: Option<String>,
    /// Gates whose workloads --engines runs, separated by commas or spaces; repeatable [default: the profile's]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
    /// The workload of the warm half, as GATE/WORKLOAD, where a session has several
    #[arg(long, value_name = "ID")]
    workload: Option<String>,
    /// Result directory of --engines [default: a new one under .gate/runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed for the prompts of --engines [default: random, recorded]
    #[arg(long)]
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

/// `tpot=1.1`.
fn at_most(text: &str) -> Result<AtMost, String> {
    let (name, times) = text
        .split_once('=')
        .ok_or("write the metric, `=`, and how many times the other's it may be: tpot=1.1")?;
    let mut metrics = AtMost::METRICS.into_iter();
    let metric = metrics
        .find(|metric| metric.name() == name)
        .ok_or_else(|| {
            let names = AtMost::METRICS.map(Metric::name).join(", ");
            format!("unknown time {name:?}; available: {names}")
        })?;
    let number = times.trim_end_matches(['x', '×', ' ']).parse::<f64>().ok();
    let times = number
        .filter(|times| (1.0..=1000.0).contains(times) && *times > 1.0)
        .ok_or("the factor must be above 1 and at most 1000: equal engines are never shown to be below 1 ×")?;
    Ok(AtMost { metric, times })
}

pub fn run(args: CompareArgs) -> anyhow::Result<Exit> {
    let CompareArgs {
        results,
        name,
        tag,
        engines,
        rounds,
        at_most,
        profile,
        gates,
        workload,
        out,
        seed,
        format,
    } = args;
    if engines.is_empty() {
        refuse([
            ("--rounds", rounds.is_some()),
            ("--at-most", !at_most.is_empty()),
            ("--profile", profile.is_some()),
            ("--gate", !gates.is_empty()),
            ("--out", out.is_some()),
            ("--seed", seed.is_some()),
        ])?;
        let sources = sources(results, name, tag)?;
        let table = columns::compare_files(&sources, workload.as_deref())?;
        return print(&table, format);
    }
    let contest = Contest {
        start: env::current_dir().context("cannot tell the current directory")?,
        selection: Selection {
            profile: profile.unwrap_or_else(|| "quick".to_owned()),
            gates: names::all(gates),
        },
        engines: names::all(engines),
        rounds,
        at_most,
        workload,
        out,
        seed,
    };
    let progress = ProgressLines::default();
    let (table, directory) = block_on(async {
        let show = |event| progress.show(&event);
        engines::compare_engines(&contest, &show, interrupted()).await
    })??;
    progress.finish();
    output::note(&format!("results: {}", directory.display()));
    print(&table, format)
}

/// Refuses options that only apply to `--engines`: beside results they would do nothing.
fn refuse(given: [(&str, bool); 6]) -> Result<(), Error> {
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Error::Usage(format!(
            "{option} is for engines that are launched: name them with --engines in place of results, or leave it out"
        ))),
        None => Ok(()),
    }
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

fn print(table: &Table, format: Format) -> anyhow::Result<Exit> {
    let text = match format {
        Format::Text => view::comparison_text(table),
        Format::Json => view::comparison_json(table),
        Format::Markdown => view::comparison_markdown(table),
        Format::Html => page::page(table, command_line()),
    };
    output::print(&text).context("cannot write the comparison to standard output")?;
    let held = table.held.iter().map(|held| held.verdict);
    Ok(exit(held, table.invalid().is_empty()))
}

/// The exit code of a comparison: fail where a limit is exceeded, invalid where any row is, so that a script that reads
/// the code alone never trusts an invalid table.
fn exit(held: impl Iterator<Item = Verdict>, is_valid: bool) -> Exit {
    let rows = if is_valid { Exit::Pass } else { Exit::Invalid };
    let limits = held.map(|verdict| match verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Fail => Exit::Fail,
        Verdict::Inconclusive => Exit::Inconclusive,
        Verdict::Invalid => Exit::Invalid,
    });
    let all: Vec<Exit> = limits.chain([rows]).collect();
    let gravest = [Exit::Fail, Exit::Invalid, Exit::Inconclusive];
    let found = gravest.into_iter().find(|exit| all.contains(exit));
    found.unwrap_or(Exit::Pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_limit_decides() {
        use Verdict::{Fail, Inconclusive, Invalid, Pass};
        let check = |held: &[Verdict], is_valid, expect| {
            assert_eq!(exit(held.iter().copied(), is_valid), expect, "{held:?}");
        };
        check(&[], true, Exit::Pass);
        check(&[], false, Exit::Invalid);
        check(&[Pass, Pass], true, Exit::Pass);
        check(&[Pass, Inconclusive], true, Exit::Inconclusive);
        check(&[Inconclusive], false, Exit::Invalid);
        check(&[Inconclusive, Invalid], true, Exit::Invalid);
        check(&[Invalid, Fail], false, Exit::Fail);
    }

    #[test]
    fn a_limit_is_a_time_and_a_factor() {
        let limit = at_most("tpot=1.1x").unwrap();
        assert_eq!((limit.metric, limit.times), (Metric::Tpot, 1.1));
        for (wrong, part) in [
            ("tpot", "tpot=1.1"),
            ("throughput=1.1", "available: ttft, tpot"),
            ("tpot=1", "above 1"),
            ("tpot=fast", "above 1"),
            ("tpot=nan", "above 1"),
        ] {
            let error = at_most(wrong).unwrap_err();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }
}
