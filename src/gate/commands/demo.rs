//! `gate demo`: a planted slowdown, found with nothing but this program.

use crate::cli::{Exit, output};
use crate::presets::demo;
use anyhow::{Context, bail};
use clap::Args;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments that make head's engine take a tenth longer for each decoding step.
const SLOWER: [&str; 2] = ["--head-arg=--fault", "--head-arg=decode-delay=10%"];

#[derive(Args)]
pub struct DemoArgs {
    /// Folder for the gates and the report [default: a new temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Measures this program's engine against itself with a delay in head: the check must fail, which is the demo's success.
pub fn run(args: &DemoArgs) -> anyhow::Result<Exit> {
    let program = env::current_exe().context("cannot tell the path of this program")?;
    let program = program
        .to_str()
        .context("the path of this program is not UTF-8, so no gate file can name it")?;
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        // Of this user alone: what others could write there would be run.
        None => tempfile::Builder::new()
            .prefix("infergate-demo-")
            .tempdir()
            .context("cannot make a temporary folder")?
            .keep(),
    };
    write(&dir, program)?;
    output::note(&format!(
        "This plants a slowdown of 10 % into a small engine that is part of this program, as a change to your engine \
         might. Then it runs\n\n    cd {}\n    gate check {}\n",
        dir.display(),
        SLOWER.join(" ")
    ));
    let status = Command::new(program)
        .arg("check")
        .args(SLOWER)
        .current_dir(&dir)
        .status()
        .context("cannot start `gate check`")?;
    let Some(code) = status.code() else {
        bail!("`gate check` ended by a signal: {status}");
    };
    match code {
        1 => {
            output::note(&format!(
                "\nThe planted slowdown was found. `gate check` ended with exit code 1, which stops a push or a merge.\n\
                 why it is slower: cd {} && gate explain\n\
                 next: `gate init` in the repository of your engine",
                dir.display()
            ));
            Ok(Exit::Pass)
        }
        0 => {
            bail!("the planted slowdown was not found, though the check passed: please report this")
        }
        3 | 4 => {
            output::note(
                "\nThe slowdown is planted, but was not shown: see the reason above. A busy machine hides it: run \
                 `gate demo` again when nothing else runs.",
            );
            Ok(if code == 3 {
                Exit::Inconclusive
            } else {
                Exit::Invalid
            })
        }
        2 => Ok(Exit::Usage),
        130 => Ok(Exit::Interrupted),
        _ => Ok(Exit::Infrastructure),
    }
}

/// The demo's gates.
fn write(dir: &Path, program: &str) -> anyhow::Result<()> {
    let gates = dir.join("gates");
    if gates.exists() {
        bail!(
            "{} exists: name another folder with --dir, or remove it",
            gates.display()
        );
    }
    fs::create_dir_all(&gates)
        .with_context(|| format!("cannot make the folder {}", gates.display()))?;
    for file in demo(program) {
        let path = dir.join(&file.path);
        fs::write(&path, file.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
