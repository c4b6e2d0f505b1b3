//! `gate sandbox`: becomes a build or an engine under a policy. Hidden: the gate alone calls it.

use crate::cli::{Exit, output};
use crate::sandbox::{Policy, enter};
use clap::Args;
use std::process::ExitCode;

#[derive(Args)]
pub struct SandboxArgs {
    /// Rights of the command, as JSON
    policy: String,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn run(args: SandboxArgs) -> ExitCode {
    let entered = serde_json::from_str::<Policy>(&args.policy)
        .map_err(std::io::Error::other)
        .and_then(|policy| enter(policy, &args.command));
    match entered {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            let program = args.command.first().map_or("", String::as_str);
            output::note(&format!(
                "error: cannot start {program} in its sandbox: {error}"
            ));
            Exit::Infrastructure.into()
        }
    }
}
