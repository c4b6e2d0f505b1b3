//! The binary `gate`: parse, call the command, return its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    infergate::commands::main()
}
