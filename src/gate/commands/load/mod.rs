//! `gate load`: one workload against a server that already runs, at one pace or at several.

mod address;
mod argument_values;
mod arguments;
pub mod limits;
mod notes;
mod overview;
mod page;
mod repeats;
mod samples_file;
mod spreadsheet;
mod sweep;
mod view;
mod workload;

pub use arguments::LoadArgs;
pub use workload::{Headers, LoadTally, Watch};

use crate::cli::command_line::command_line;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::report::pretty_json;
use anyhow::Context;
use arguments::Format;
use indicatif::{ProgressBar, ProgressDrawTarget};
use samples_file::SamplesFile;
use view::LoadReport;
use workload::LoadOptions;

pub fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    let (format, is_repeated) = (args.format, args.repeats.is_some());
    let steps = args.steps()?;
    let out = steps.first().and_then(|step| step.out.as_deref());
    let mut out = out.map(SamplesFile::create).transpose()?;
    let mut reports = Vec::new();
    let mut failed = None;
    for step in &steps {
        let report = match measured(step, out.as_mut()) {
            Ok(report) => report,
            Err(error) if reports.is_empty() => return Err(error),
            // What the steps before have measured is shown all the same.
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        failed = out
            .as_mut()
            .and_then(|out| out.publish().err())
            .map(Into::into);
        let is_complete = report.complete;
        reports.push(report);
        if !is_complete || failed.is_some() {
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
fn measured(options: &LoadOptions, out: Option<&mut SamplesFile>) -> anyhow::Result<LoadReport> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let measured = block_on(async {
        let show = |done, of| {
            bar.set_length(u64::from(of));
            bar.set_position(u64::from(done));
        };
        workload::load(options, &show, out, interrupted()).await
    });
    bar.finish_and_clear();
    Ok(measured??)
}

fn shown(reports: &[LoadReport], (steps, is_repeated): (usize, bool), format: Format) -> String {
    match (reports, steps, format) {
        (runs, _, Format::Csv) => spreadsheet::load_csv(runs),
        (reports, _, Format::Html) => page::page(reports, (steps, is_repeated), command_line()),
        (runs, _, Format::Table) if is_repeated => repeats::overview(runs).table(),
        (runs, _, Format::Markdown) if is_repeated => repeats::overview(runs).markdown(),
        (runs, _, Format::Json) if is_repeated => repeats::json(runs),
        ([report], 1, Format::Table) => view::load_table(report),
        ([report], 1, Format::Markdown) => view::load_markdown(report),
        ([report], 1, Format::Json) => pretty_json(report),
        (reports, _, Format::Table) => sweep::overview(reports).table(),
        (reports, _, Format::Markdown) => sweep::overview(reports).markdown(),
        (reports, _, Format::Json) => sweep::json(reports),
    }
}

/// Says on standard error why the numbers are none, if so.
fn exit(report: &LoadReport, format: Format) -> Exit {
    if let Some(why) = &report.stopped {
        output::error(&format!("stopped: {why}; look at the server's own log"));
        return Exit::Infrastructure;
    }
    if !report.complete {
        return Exit::Interrupted;
    }
    if report.requests.ok == 0 {
        output::error("invalid: every request failed");
        return Exit::Invalid;
    }
    // Table and Markdown say so themselves; the others may go to a file.
    if matches!(format, Format::Json | Format::Csv | Format::Html) {
        for reason in report.invalid() {
            output::error(&format!("invalid: {reason}"));
        }
    }
    if report.invalid().next().is_none() {
        Exit::Pass
    } else {
        Exit::Invalid
    }
}
