//! A judged run on standard output: as wide as the terminal and with what to do next, or in a format for machines; in a
//! job of GitHub Actions with an annotation for each red check, and in the step's summary.

use super::format::{VerdictArgs, VerdictFormat};
use super::github::variable;
use super::output;
use crate::report::{self, View};
use crate::session::{self, Form};
use anyhow::Context;
use github::actions::{self, Level};
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf, absolute};
use verdict::record::{Ending, Exit, Launch, RunRecord, RunVerdict, Verdict};

/// Prints the verdict. `results`: the directory that holds the record and its reports.
pub fn print(
    record: &RunRecord,
    verdict: &RunVerdict,
    shown: VerdictArgs,
    results: Option<&Path>,
) -> anyhow::Result<()> {
    let form = match shown.format {
        VerdictFormat::Text => Form::Terminal(View {
            width: output::width(),
            is_verbose: shown.verbose,
        }),
        VerdictFormat::Json => Form::Json,
        VerdictFormat::Markdown => Form::Markdown,
        VerdictFormat::Html => Form::Html,
        VerdictFormat::Junit => Form::Junit,
        VerdictFormat::Comment => Form::Comment,
        VerdictFormat::Csv => Form::Csv,
        VerdictFormat::RequestsCsv => Form::RequestsCsv,
        VerdictFormat::OpenMetrics => Form::OpenMetrics,
    };
    let mut text = session::rendered(record, verdict, form)?;
    match (results, shown.format) {
        (Some(results), VerdictFormat::Text) => text.push_str(&next(record, verdict, results)),
        (Some(results), _) => output::note(&format!("results: {}", results.display())),
        (None, _) => {}
    }
    output::print(&text).context("cannot write the verdict to standard output")?;
    let is_text = shown.format == VerdictFormat::Text;
    let summary = variable("GITHUB_STEP_SUMMARY").filter(|_| is_text);
    // A recording of main is compared with nothing.
    if let Some(summary) = summary.filter(|_| !record.comparison.is_recording())
        && let Err(error) = tell_github(record, verdict, Path::new(&summary))
    {
        // The verdict and its exit code stand without it.
        output::error(&format!("not told to GitHub: {error:#}"));
    }
    Ok(())
}

/// Where the report is, and the command that says more or goes on.
fn next(record: &RunRecord, verdict: &RunVerdict, results: &Path) -> String {
    let directory = report::shell_word(&near(results));
    let mut text = "\n".to_owned();
    let mut line = |what: &str, how: &str| {
        let _ = writeln!(text, "{what:<12}  {how}");
    };
    let broken = record.launches.iter().find(|l| l.exit != Exit::Stopped);
    let is_open = verdict.verdict != Verdict::Pass && !record.comparison.is_recording();
    if let Some(log) = broken.and_then(|launch| log(results, launch)) {
        line("log", &report::shell_word(&near(&log)));
    } else if is_open && broken.is_none() && !record.launches.is_empty() {
        line("why", &format!("gate explain {directory}"));
    }
    if let Some(url) = page(results) {
        line("report", &url);
    }
    let can_go_on = matches!(record.ending, Ending::Interrupted | Ending::Unfinished);
    if can_go_on && verdict.verdict != Verdict::Pass {
        line("go on", &format!("gate check --resume {directory}"));
    }
    text
}

/// The engine's whole log, which the report shows the end of. A record may be anybody's: its log is a plain name.
fn log(results: &Path, launch: &Launch) -> Option<PathBuf> {
    let name = launch.log.strip_prefix("logs/")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let path = results.join("logs").join(name);
    (name.chars().all(is_plain) && path.is_file()).then_some(path)
}

/// `file:///…/report.html`, which terminals open.
fn page(results: &Path) -> Option<String> {
    let path = absolute(results.join("report.html")).ok()?;
    let is_there = path.is_file();
    let url = url::Url::from_file_path(path).ok().filter(|_| is_there)?;
    Some(url.to_string())
}

/// The path from here, where it lies below.
fn near(path: &Path) -> String {
    let here = env::current_dir().ok();
    let below = here
        .as_deref()
        .and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}

fn tell_github(record: &RunRecord, verdict: &RunVerdict, summary: &Path) -> anyhow::Result<()> {
    for check in verdict.gates.iter().flat_map(|gate| &gate.checks) {
        let level = match check.verdict {
            Verdict::Pass => continue,
            _ if check.is_waived() => Level::Notice,
            Verdict::Inconclusive => Level::Warning,
            Verdict::Fail | Verdict::Invalid => Level::Error,
        };
        let gate = check.id.split('/').next().unwrap_or_default();
        let title = format!("{}: {}", check.id, check.word());
        let sentence = report::sentence(check);
        let file = format!("gates/{gate}.toml");
        let line = actions::annotation(level, &file, 1, &title, &report::redact(&sentence));
        output::command(&line).context("cannot write an annotation")?;
    }
    let markdown = session::rendered(record, verdict, Form::Comment)?;
    actions::add_summary(summary, &markdown).context("cannot write the step's summary")
}
