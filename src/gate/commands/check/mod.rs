//! `gate check`: the whole pipeline on this machine.

mod stages;

use crate::cli::format::VerdictArgs;
use crate::cli::names::{self, GateArgs, Names};
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output, verdict};
use crate::commands::{doctor, plan};
use crate::session::{self, Base, Options};
use ::verdict::plan::Selection;
use anyhow::Context;
use clap::Args;
use std::env;
use std::path::PathBuf;

/// What a session measures; shared by `check` and `baseline record`.
#[derive(Args)]
pub struct SessionArgs {
    /// Which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick")]
    profile: String,
    #[command(flatten)]
    gates: GateArgs,
    /// Result directory [default: a new one under .gate/runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed for launch order and prompts [default: random, recorded]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    pub shown: VerdictArgs,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Git ref to compare with (at its merge base with head), or `stored`: main's stored sessions, advisory only
    /// [default: the branch that a pull request's job is for (GITHUB_BASE_REF), origin/HEAD, main or master]
    #[arg(long, value_name = "REF|stored")]
    base: Option<String>,
    /// A commit to check with the gates of this working tree, such as a pull request's
    /// [default: the working tree itself]
    #[arg(long, value_name = "REF")]
    head: Option<String>,
    /// Extra argument for base's engine; repeatable
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    base_arg: Vec<String>,
    /// Extra argument for head's engine; repeatable
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    head_arg: Vec<String>,
    /// Measure one build against itself (A/A run) to see the machine's noise
    #[arg(long)]
    same_build: bool,
    /// Measure one shard of a run over several machines: the gates of all shards, of which --gate names this one's.
    /// The error budget is shared with the others; `gate shard merge` puts them together
    #[arg(long, value_name = "NAME", requires = "gates")]
    together: Vec<Names>,
    /// Resume the session in DIR; refused if gates, builds or machine have changed
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["profile", "gates", "out", "seed", "base", "base_arg", "head_arg", "same_build", "together"]
    )]
    resume: Option<PathBuf>,
    /// Print which gates would run and for how long, then exit
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
}

pub fn run(args: CheckArgs) -> anyhow::Result<Exit> {
    let CheckArgs {
        session,
        base,
        head,
        base_arg,
        head_arg,
        same_build,
        together,
        resume,
        dry_run,
    } = args;
    let shown = session.shown;
    let mut options = session.options()?;
    if dry_run {
        return plan::show(options.selection);
    }
    options.base = match base.as_deref() {
        None => Base::Main,
        Some("stored") => Base::Stored,
        Some(name) => Base::Ref(name.to_owned()),
    };
    options.head = head;
    options.base_args = base_arg;
    options.head_args = head_arg;
    options.same_build = same_build;
    options.together = names::all(together);
    // Before the session, which makes a load of its own and raises the limit of open files.
    let doubts = match resume {
        None => doctor::doubts(&options.start, &options.selection),
        Some(_) => Vec::new(),
    };
    let progress = ProgressLines::default();
    let show = |event| progress.show(&event);
    let outcome = block_on(async {
        match resume {
            None => stages::check(&options, &show, interrupted()).await,
            Some(directory) => {
                let (start, head) = (&options.start, options.head.clone());
                session::resume(start, &directory, head, &show, interrupted()).await
            }
        }
    })??;
    progress.finish();
    let exit = Exit::of_session(&outcome);
    if matches!(exit, Exit::Inconclusive | Exit::Invalid) {
        for doubt in doubts {
            output::note(&format!("warning: when the session began, {doubt}"));
        }
    }
    verdict::print(
        &outcome.record,
        &outcome.verdict,
        shown,
        Some(&outcome.directory),
    )?;
    Ok(exit)
}

impl SessionArgs {
    pub fn options(self) -> anyhow::Result<Options> {
        let Self {
            profile,
            gates,
            out,
            seed,
            shown: _,
        } = self;
        Ok(Options {
            start: env::current_dir().context("cannot tell the current directory")?,
            selection: Selection {
                profile,
                gates: gates.names(),
            },
            base: Base::Main,
            head: None,
            out,
            seed,
            base_args: Vec::new(),
            head_args: Vec::new(),
            same_build: false,
            together: Vec::new(),
        })
    }
}
