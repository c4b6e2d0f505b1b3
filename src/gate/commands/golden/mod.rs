//! `gate golden make`: goldens by Hugging Face transformers, or from main's own engine.

mod engine;
mod goldens;
mod make;
mod prompts;
mod python;

use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use anyhow::Context;
use clap::{Args, Subcommand};
use goldens::{GoldenOptions, MadeGoldens, Reference};
use std::env;
use std::path::PathBuf;
use verdict::plural::count;

#[derive(Subcommand)]
pub enum GoldenCommand {
    /// Ask a reference for its greedy answers to built-in prompts, and write them to a file
    Make(MakeArgs),
}

#[derive(Args)]
pub struct MakeArgs {
    /// Answers by Hugging Face transformers: a directory with config.json, weights and tokenizer.json, or a name on the
    /// hub, such as Qwen/Qwen3-0.6B
    #[arg(long, value_name = "DIR|NAME", required_unless_present = "engine")]
    model: Option<String>,
    /// Answers by the engine of gates/gate.toml, built from main where it is built: with log-probabilities where it
    /// gives them, else text alone
    #[arg(long, conflicts_with_all = ["model", "python"])]
    engine: bool,
    /// A Python with PyTorch and transformers [default: one that is installed in .gate/python, several GB]
    #[arg(long, value_name = "PROGRAM", requires = "model")]
    python: Option<PathBuf>,
    /// The file to write, replacing what is there [default: gates/data/goldens.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Most tokens of an answer
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    tokens: u32,
    /// Seed of the prompts that are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(command: GoldenCommand) -> anyhow::Result<Exit> {
    let GoldenCommand::Make(MakeArgs {
        model,
        engine: _,
        python,
        out,
        tokens,
        seed,
    }) = command;
    let options = GoldenOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        reference: match model {
            Some(model) => Reference::Transformers { model, python },
            None => Reference::Engine,
        },
        out,
        tokens,
        seed,
    };
    let progress = ProgressLines::default();
    let show = |event| progress.show(&event);
    let made = block_on(async { make::make_goldens(&options, &show, interrupted()).await })??;
    progress.finish();
    tell(&made);
    output::print(&format!("{}\n", made.path.display()))
        .context("cannot write to standard output")?;
    Ok(Exit::Pass)
}

fn tell(made: &MadeGoldens) {
    for remark in &made.remarks {
        output::note(remark);
    }
    let what = match made.has_logprobs {
        true => "with log-probabilities",
        false => "text alone: where an answer differs, main's own answer decides",
    };
    output::note(&format!("{}, {what}", count(made.cases, "case")));
    output::note(
        "next: `gate check --gate e2e`; then add \"e2e\" to `gates` of the profiles in gates/gate.toml, and commit",
    );
}
