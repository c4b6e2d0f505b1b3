//! `gate sandbox POLICY -- COMMAND`: becomes a build or an engine under a policy. Hidden: the gate alone calls it, for
//! each launch, so it is read without clap, which would first build the options of all commands.

use crate::cli::{Exit, output};
use crate::sandbox::{Policy, SUBCOMMAND, enter};
use std::env;
use std::io::{Error, Result};
use std::process::ExitCode;

/// Runs it where the command line names it.
pub fn run() -> Option<ExitCode> {
    let mut words = env::args_os().skip(1);
    words.next().filter(|word| word == SUBCOMMAND)?;
    let words: Option<Vec<String>> = words.map(|word| word.into_string().ok()).collect();
    Some(match words.as_deref() {
        Some([policy, dashes, command @ ..]) if dashes == "--" && !command.is_empty() => {
            ended(start(policy, command), &command[0])
        }
        _ => {
            output::note("error: usage: gate sandbox POLICY -- COMMAND");
            Exit::Usage.into()
        }
    })
}

fn start(policy: &str, command: &[String]) -> Result<i32> {
    let policy: Policy = serde_json::from_str(policy).map_err(Error::other)?;
    enter(&policy, command)
}

fn ended(result: Result<i32>, program: &str) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            output::note(&format!(
                "error: cannot start {program} in its sandbox: {error}"
            ));
            Exit::Infrastructure.into()
        }
    }
}
