//! `gate load`: one workload against a server that already runs, at one pace or at several.

mod address;
mod arguments;
pub mod limits;
mod notes;
mod repeats;
mod samples_file;
mod sweep;
mod view;
mod workload;

pub use arguments::LoadArgs;

use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use anyhow::Context;
use arguments::Format;
use indicatif::{ProgressBar, ProgressDrawTarget};
use verdict::record::Sample;
use view::LoadReport;
use workload::LoadOptions;

pub fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    let (format, is_repeated) = (args.format, args.repeats.is_some());
    let steps = args.steps()?;
    let out = steps.first().and_then(|step| step.out.clone());
    if let Some(path) = &out {
        samples_file::target(path)?;
    }
    let mut reports = Vec::new();
    let mut failed = None;
    for step in &steps {
        let (report, samples) = match measured(step) {
            Ok(measured) => measured,
            Err(error) if reports.is_empty() => return Err(error),
            // What the steps before have measured is shown all the same.
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        if let Some(path) = &out {
            match reports.is_empty() {
                true => samples_file::write(path, &samples)?,
                false => samples_file::append(path, &samples)?,
            }
        }
        drop(samples);
        let is_complete = report.complete;
        reports.push(report);
        if !is_complete {
            break;
        }
    }
    output::print(&shown(&reports, (steps.len(), is_repeated), format))
        .context("cannot write the report to standard output")?;
    if let Some(error) = failed {
        return Err(error);
    }
    let exits = reports.iter().map(|report| exit(report, format));
    Ok(exits.max_by_key(|exit| *exit as u8).unwrap_or(Exit::Usage))
}

/// One step, with its progress on standard error.
fn measured(options: &LoadOptions) -> anyhow::Result<(LoadReport, Vec<Sample>)> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let measured = block_on(async {
        let show = |done, of| {
            bar.set_length(u64::from(of));
            bar.set_position(u64::from(done));
        };
        workload::load(options, &show, interrupted()).await
    });
    bar.finish_and_clear();
    Ok(measured??)
}

fn shown(reports: &[LoadReport], (steps, is_repeated): (usize, bool), format: Format) -> String {
    match (reports, steps, format) {
        (runs, _, Format::Table) if is_repeated => repeats::table(runs),
        (runs, _, Format::Markdown) if is_repeated => repeats::markdown(runs),
        (runs, _, Format::Json) if is_repeated => repeats::json(runs),
        ([report], 1, Format::Table) => view::load_table(report),
        ([report], 1, Format::Markdown) => view::load_markdown(report),
        ([report], 1, Format::Json) => view::load_json(report),
        (reports, _, Format::Table) => sweep::table(reports),
        (reports, _, Format::Markdown) => sweep::markdown(reports),
        (reports, _, Format::Json) => sweep::json(reports),
    }
}

/// Says on standard error why the numbers are none, if so.
fn exit(report: &LoadReport, format: Format) -> Exit {
    if let Some(why) = &report.stopped {
        output::note(&format!("stopped: {why}; look at the server's own log"));
        return Exit::Infrastructure;
    }
    if !report.complete {
        return Exit::Interrupted;
    }
    if report.requests.ok == 0 {
        output::note("invalid: no request was answered soundly");
        return Exit::Invalid;
    }
    // Table and Markdown say so themselves.
    if matches!(format, Format::Json) {
        for reason in report.invalid() {
            output::note(&format!("invalid: {reason}"));
        }
    }
    if report.invalid().next().is_none() {
        Exit::Pass
    } else {
        Exit::Invalid
    }
}
