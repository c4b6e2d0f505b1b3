//! Commands: each has one file or folder with its arguments, its steps and its view. [`main`] runs one, and prints its
//! error.

mod authorize;
mod baseline;
mod bisect;
pub mod calibrate;
mod check;
mod compare;
mod doctor;
mod error;
mod explain;
mod golden;
mod history;
mod import;
mod init;
mod judge;
mod kernels;
mod label;
pub mod load;
mod merge;
mod plan;
mod power;
mod proxy;
mod publish;
pub mod replay;
mod roofline;
mod sandbox;
mod selftest;
mod serve;

use crate::cli::output;
use anstream::ColorChoice;
use clap::{Parser, Subcommand, ValueEnum};
use std::process::ExitCode;

/// A regression gate for LLM inference engines.
///
/// Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 inconclusive, 4 invalid measurement,
/// 5 infrastructure (build, launch, network, disk), 130 interrupted.
#[derive(Parser)]
#[command(name = "gate", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Colours: in a terminal unless NO_COLOR is set, always, or never
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        help_heading = "Output",
        hide_possible_values = true,
        value_name = "auto|always|never"
    )]
    color: Color,
    /// Print results and errors only, no progress
    #[arg(short, long, global = true, help_heading = "Output")]
    quiet: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl From<Color> for ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Write gates for an engine: how it starts, what it can do, and the checks that fit
    Init(init::InitArgs),
    /// Build head and base, measure both in turn on this machine, and judge
    Check(check::CheckArgs),
    /// Recompute the verdict of a result directory from its run.json alone
    Judge(judge::JudgeArgs),
    /// Print the plan as it was understood: gates, checks, launches, time; and how to share it among machines
    Plan(plan::PlanArgs),
    /// Put the shards of one run together, and judge it
    Merge(merge::MergeArgs),
    /// Say whether this machine is fit to measure on
    Doctor(doctor::DoctorArgs),
    /// Find the commit of a regression between two commits
    Bisect(bisect::BisectArgs),
    /// Take a failed check of a result directory apart
    Explain(explain::ExplainArgs),
    /// Judge every case of a replay set, one JSON line each on standard output
    Replay(replay::ReplayArgs),
    /// Put results beside one another, or launch engines and compare them
    Compare(compare::CompareArgs),
    /// Read the result of another tool
    Import(import::ImportArgs),
    /// Record, list, show, push and pull main's stored sessions
    Baseline(baseline::BaselineArgs),
    /// Measure what this machine can resolve, by sessions of one build against itself
    Calibrate(calibrate::CalibrateArgs),
    /// Say how many launches and minutes an effect needs on this machine
    Power(power::PowerArgs),
    /// Tell how main moved, from its stored sessions: steps, trend and creep
    History(history::HistoryArgs),
    /// Measure a server that already runs, with one workload
    Load(Box<load::LoadArgs>),
    /// Make goldens: a reference's greedy answers, which an e2e gate compares with
    #[command(subcommand)]
    Golden(golden::GoldenCommand),
    /// Give a pull request the labels that its paths need, and start the run that they stand for
    Label(label::LabelArgs),
    /// Say whether a pull request's commit may run on the machine, and why
    Authorize(authorize::AuthorizeArgs),
    /// Serve a model over the OpenAI HTTP API
    Serve(serve::ServeArgs),
    /// Compile the CUDA kernels ahead
    Kernels(kernels::KernelsArgs),
    /// Measure this machine, and a model on it as a multiple of the least time that the machine needs
    Roofline(roofline::RooflineArgs),
    /// Say on GitHub what became of a pull request's commit: comment, check run, step summary
    Publish(Box<publish::PublishArgs>),
    /// Plant faults in a real engine, and see that the gates catch them
    Selftest(selftest::SelftestArgs),
    /// Stand between a client and an engine, and plant faults in what passes
    Proxy(proxy::ProxyArgs),
    /// Start a command under a policy: what the gate itself starts builds and engines with
    #[command(name = crate::sandbox::SUBCOMMAND, hide = true)]
    Sandbox(sandbox::SandboxArgs),
}

/// Parses, runs, prints the error if there is one, and gives the exit code.
pub fn main() -> ExitCode {
    // clap prints usage errors itself and ends with 2, as documented.
    let Args {
        command,
        color,
        quiet,
    } = Args::parse();
    ColorChoice::from(color).write_global();
    if quiet {
        output::be_quiet();
    }
    let result = match command {
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(args),
        Command::Judge(args) => judge::run(&args),
        Command::Plan(args) => plan::run(args),
        Command::Merge(args) => merge::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Compare(args) => compare::run(args),
        Command::Import(args) => import::run(&args),
        Command::Baseline(args) => baseline::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Power(args) => power::run(args),
        Command::History(args) => history::run(args),
        Command::Load(args) => load::run(*args),
        Command::Golden(command) => golden::run(command),
        Command::Label(args) => label::run(args),
        Command::Authorize(args) => authorize::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Kernels(args) => kernels::run(args),
        Command::Roofline(args) => roofline::run(args),
        Command::Publish(args) => publish::run(*args),
        Command::Selftest(args) => selftest::run(args),
        Command::Proxy(args) => proxy::run(args),
        Command::Sandbox(args) => return sandbox::run(args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => error::print(&error).into(),
    }
}
