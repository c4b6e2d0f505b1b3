//! A program run to its end: within a limit, all that it started included, and what that cost.
//!
//! Main function: [`run`]. Refuses to know: which program, what it measures.

use crate::Outcome;
use crate::child::Child;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::sys::time::TimeVal;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Lines of a failed program's output that are told.
const LINES: usize = 12;

/// CPU s, user and system, of the program and of every process that it started. All its output goes to
/// the file `output`, since some programs tell their errors there and some on stderr.
pub(crate) fn run(
    mut command: Command,
    output: &Path,
    limit: Duration,
    stops: Option<u64>,
) -> Outcome<f64> {
    let file = File::create(output)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .process_group(0);
    // A process whose parent ended without waiting for it becomes ours, and so does its CPU time.
    set_child_subreaper(true)?;
    let before = children_s()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(until(command.into(), limit, stops))?;
    let spent = children_s()? - before;
    match ended {
        Some(status) if status.success() => Ok(spent),
        Some(status) => Err(format!("{status}; its last words:\n{}", last(output)?).into()),
        None => {
            let limit = limit.as_secs();
            Err(format!(
                "not done after {limit} s; its last words:\n{}",
                last(output)?
            )
            .into())
        }
    }
}

/// `None`: it ran past the limit. Nothing of it is left afterwards.
async fn until(
    mut command: tokio::process::Command,
    limit: Duration,
    stops: Option<u64>,
) -> Outcome<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let id = child.id().ok_or("a process without an id")?;
    let group = Pid::from_raw(i32::try_from(id)?);
    let _stopper = stops.map(|ms| Child::stopper(group, ms)).transpose()?;
    let ended = tokio::time::timeout(limit, child.wait()).await;
    // An error says that nobody is left.
    let _left = killpg(group, Signal::SIGKILL);
    child.wait().await?;
    while waitpid(Pid::from_raw(-group.as_raw()), None).is_ok() {}
    Ok(ended.ok().transpose()?)
}

/// CPU s of all children that were waited for.
fn children_s() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let s = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(s(usage.user_time()) + s(usage.system_time()))
}

fn last(output: &Path) -> Outcome<String> {
    let bytes = fs::read(output)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}
