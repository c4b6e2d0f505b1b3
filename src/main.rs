//! The binary `gate`: parse, call the command line's code, return its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    infergate::cli::main()
}
