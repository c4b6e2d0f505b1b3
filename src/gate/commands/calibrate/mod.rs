//! `gate calibrate`: what this machine can resolve, by A/A sessions.

mod page;
mod sessions;
pub mod view;

use crate::calibration::Certificate;
use crate::cli::command_line::command_line;
use crate::cli::format::{PictureFormat as Format, VerdictFormat};
use crate::cli::names::GateArgs;
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::verdict::print;
use crate::cli::{Exit, output};
use crate::report::pretty_json;
use crate::session::Outcome;
use anyhow::Context;
use clap::Args;
use sessions::{CalibrateOptions, Calibration, CalibrationResult};
use std::env;
use std::path::PathBuf;
use verdict::plan::Selection;
use verdict::record::RunVerdict;

#[derive(Args)]
pub struct CalibrateArgs {
    /// A/A sessions to measure
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=999))]
    sessions: u32,
    /// Which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick")]
    profile: String,
    #[command(flatten)]
    gates: GateArgs,
    /// Where the sessions go; a directory of an earlier call is continued, and its whole sessions count
    /// [default: a new one under .gate/runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub fn run(args: CalibrateArgs) -> anyhow::Result<Exit> {
    let CalibrateArgs {
        sessions,
        profile,
        gates,
        out,
        format,
    } = args;
    let options = CalibrateOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        selection: Selection {
            profile,
            gates: gates.names(),
        },
        sessions,
        out,
    };
    let progress = ProgressLines::default();
    let show = |event| progress.show(&event);
    let calibration =
        block_on(async { sessions::calibrate(&options, &show, interrupted()).await })??;
    progress.finish();
    let place = calibration.directory.display();
    output::note(&format!("sessions: {place}"));
    if calibration.is_interrupted {
        output::note(&format!("interrupted; --out {place} goes on from here"));
    }
    let Calibration {
        is_interrupted,
        verdicts,
        result,
        ..
    } = calibration;
    let exit = match result {
        CalibrationResult::Certified(certified) => show_certified(certified, &verdicts, format)?,
        CalibrationResult::Nothing(last) => show_nothing(last.as_deref(), format)?,
    };
    Ok(if is_interrupted {
        Exit::Interrupted
    } else {
        exit
    })
}

fn show_certified(
    certified: Vec<(PathBuf, Certificate)>,
    verdicts: &[RunVerdict],
    format: Format,
) -> anyhow::Result<Exit> {
    let (paths, certificates): (Vec<PathBuf>, Vec<Certificate>) = certified.into_iter().unzip();
    for path in &paths {
        output::note(&format!("certificate: {}", path.display()));
    }
    let text = match format {
        Format::Text => view::calibration_text(&certificates),
        Format::Json => pretty_json(&certificates),
        Format::Html => page::page(&certificates, verdicts, command_line()),
    };
    output::print(&text).context("cannot write the calibration to standard output")?;
    let alarms = |c: &Certificate| view::too_many_alarms(c).is_some();
    let refused = |c: &Certificate| !view::refusals(c).is_empty();
    Ok(if certificates.iter().any(alarms) {
        Exit::Fail
    } else if certificates.iter().any(refused) {
        Exit::Inconclusive
    } else {
        Exit::Pass
    })
}

/// Why there is no certificate: the last session's own report.
fn show_nothing(last: Option<&Outcome>, format: Format) -> anyhow::Result<Exit> {
    output::note("no session could judge the gates' comparisons: no certificate");
    let Some(last) = last else {
        return Ok(Exit::Interrupted);
    };
    output::note("the last one's report:");
    let format = match format {
        Format::Text => VerdictFormat::Text,
        Format::Json => VerdictFormat::Json,
        Format::Html => VerdictFormat::Html,
    };
    print(&last.record, &last.verdict, format.into(), None)?;
    Ok(Exit::of_session(last))
}
