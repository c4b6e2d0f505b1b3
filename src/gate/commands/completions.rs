//! `gate completions`: completions for a shell, and man pages; a release ships both.

use crate::cli::{Exit, output};
use anyhow::Context;
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
pub struct CompletionsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print completions for bash: source them, or write them to ~/.local/share/bash-completion/completions/gate
    Bash,
    /// Print completions for fish: write them to ~/.config/fish/completions/gate.fish
    Fish,
    /// Print completions for zsh: write them as _gate to a folder of $fpath
    Zsh,
    /// Write man pages into a folder
    Man {
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// `command`: the whole command line.
pub fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<Exit> {
    let shell = match &args.what {
        What::Bash => Shell::Bash,
        What::Fish => Shell::Fish,
        What::Zsh => Shell::Zsh,
        What::Man { dir } => {
            let cannot = || format!("cannot write man pages into {}", dir.display());
            fs::create_dir_all(dir).with_context(cannot)?;
            clap_mangen::generate_to(command, dir).with_context(cannot)?;
            return Ok(Exit::Pass);
        }
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "gate", &mut text);
    let text = String::from_utf8_lossy(&text);
    output::print(&text).context("cannot write completions to standard output")?;
    Ok(Exit::Pass)
}
