//! Commands: each has one file or folder with its arguments, its steps and its view. [`main`] runs one, and prints its
//! error.

mod authorize;
mod baseline;
mod bisect;
pub mod calibrate;
mod check;
mod compare;
mod completions;
mod demo;
mod doctor;
mod error;
mod explain;
mod golden;
mod history;
mod import;
mod init;
mod kernels;
mod label;
pub mod load;
mod merge;
mod plan;
mod power;
mod proxy;
mod publish;
pub mod replay;
mod report;
mod roofline;
mod sandbox;
mod selftest;
mod serve;

use crate::cli::output;
use anstream::ColorChoice;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

const EXIT_CODES: &str =
    "Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 inconclusive, 4 invalid measurement,
5 infrastructure (build, network, disk: no verdict), 130 interrupted.";

/// A regression gate for LLM inference engines.
#[derive(Parser)]
#[command(name = "gate", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// When to use colours; `auto`: in a terminal, unless NO_COLOR is set
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
    /// Watch the gate catch a planted slowdown: 30 s, no engine needed
    Demo(demo::DemoArgs),
    /// Write gates for your engine: start command, capabilities, checks
    #[command(after_help = "Examples:
  gate init                                    find the engine: tree, running server, PATH
  gate init --engine vllm --model Qwen/Qwen3-0.6B
  gate init --github --action OWNER/infergate@COMMIT --release v0.1.0")]
    Init(init::InitArgs),
    /// Build your tree and main, measure both in turn, print a verdict
    #[command(after_help = "Examples:
  gate check                                   the working tree against main
  gate check --gate tpot --profile full        one gate, more launches
  gate check --head-arg=--max-num-seqs=64      effect of an engine option
  gate check --same-build                      one build against itself: this machine's noise
  gate check --dry-run                         what would be measured, and how long

Exit codes: 0 pass, 1 fail, 2 usage, 3 inconclusive, 4 invalid, 5 infrastructure, 130 interrupted")]
    Check(check::CheckArgs),
    /// Judge a result again, print it in any format, rewrite its reports
    #[command(after_help = "Examples:
  gate report
  gate report DIR --format html > report.html
  gate report DIR --format csv > launches.csv")]
    Report(report::ReportArgs),
    /// Split a run over several machines, and merge the results
    #[command(subcommand)]
    Shard(Shard),
    /// Check whether this machine is fit to measure on
    Doctor(doctor::DoctorArgs),
    /// Find the commit that caused a regression
    #[command(after_help = "Examples:
  gate bisect v0.3.0 main --gate tpot
  gate bisect --resume DIR                      go on after an interruption")]
    Bisect(bisect::BisectArgs),
    /// Explain a check: its slower part, first bad launch, and readings
    #[command(after_help = "Examples:
  gate explain                                 the newest result's gravest check
  gate explain .gate/runs/20261127-040547-quick-28532
  gate explain latency/tpot --format markdown")]
    Explain(explain::ExplainArgs),
    /// Compare results side by side, or launch and compare engines
    #[command(after_help = "Examples:
  gate compare before.json after.json          results of gate load, vllm bench, guidellm or AIPerf
  gate compare --engines ours,vllm             launch engines of gates/engines.toml in turn
  gate compare --engines ours,vllm --gate latency --at-most tpot=1.1")]
    Compare(compare::CompareArgs),
    /// Manage main's stored sessions: record, list, push, pull
    Baseline(baseline::BaselineArgs),
    /// Measure this machine's noise and the smallest change it can detect
    Calibrate(calibrate::CalibrateArgs),
    /// Show how many launches and minutes it takes to detect a change
    Power(power::PowerArgs),
    /// Show main's performance over time: steps, trend and creep
    History(history::HistoryArgs),
    /// Load-test a running server
    #[command(after_help = "Examples:
  gate load --url http://127.0.0.1:8000 --model NAME --concurrency 8
  gate load --url http://127.0.0.1:8000 --model NAME --rate 4 --duration 60
  gate load --url http://127.0.0.1:8000 --model NAME --concurrency 1,2,4,8 --format html")]
    Load(Box<load::LoadArgs>),
    /// Make reference answers (goldens) for the e2e gate
    #[command(subcommand)]
    Golden(golden::GoldenCommand),
    /// Commands for GitHub workflows: label, authorize, publish
    #[command(subcommand)]
    Github(GitHub),
    /// Serve a model over the OpenAI HTTP API
    #[command(after_help = "Examples:
  gate serve
  gate serve --model DIR --port 8000
  curl 127.0.0.1:8000/v1/completions -H 'content-type: application/json' \\
    -d '{\"prompt\": \"1 2 3 4\", \"max_tokens\": 8}'

A reply's usage.prompt_tokens_details.cached_tokens says what was not computed again; /metrics counts all.")]
    Serve(serve::ServeArgs),
    /// Precompile the CUDA kernels of `gate serve`
    Kernels(kernels::KernelsArgs),
    /// Compare `gate serve` with the machine's hardware limit for a model
    Roofline(roofline::RooflineArgs),
    /// Plant faults in a real engine, and check that the gates catch them
    Selftest(selftest::SelftestArgs),
    /// Low-level tools: proxy, import, replay
    #[command(subcommand)]
    Dev(Dev),
    /// Print completions for a shell, or write man pages
    Completions(completions::CompletionsArgs),
}

#[derive(Subcommand)]
enum GitHub {
    /// Label a pull request by its paths, and start the run that it needs
    Label(label::LabelArgs),
    /// Decide whether a pull request's commit may run on the machine
    Authorize(authorize::AuthorizeArgs),
    /// Post a verdict: comment, check run, step summary
    Publish(Box<publish::PublishArgs>),
}

#[derive(Subcommand)]
enum Shard {
    /// Show which shard would measure which gates, and how long
    Plan(plan::PlanArgs),
    /// Merge the shards of one run, and judge it
    Merge(merge::MergeArgs),
}

#[derive(Subcommand)]
enum Dev {
    /// Forward requests to an engine: record them, or plant faults in the answers
    Proxy(proxy::ProxyArgs),
    /// Read the result of another tool
    Import(import::ImportArgs),
    /// Judge every case of a replay set, one JSON line each on standard output
    Replay(replay::ReplayArgs),
}

/// The commands of the help text, in groups.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Measure", &["demo", "init", "check", "load", "compare"]),
    (
        "Understand a result",
        &["explain", "report", "bisect", "history"],
    ),
    (
        "This machine",
        &["doctor", "calibrate", "power", "roofline"],
    ),
    ("Prepare and test gates", &["golden", "selftest"]),
    ("Baselines", &["baseline"]),
    ("In CI", &["github", "shard"]),
    ("Built-in engine", &["serve", "kernels"]),
    ("Other", &["dev", "completions"]),
];

/// The command line, with its commands in groups.
fn command_line() -> clap::Command {
    let command = Args::command();
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{title}:\n"));
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            text.push_str(&format!(
                "  {name:<11} {}\n",
                about.map_or_else(String::new, ToString::to_string)
            ));
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

/// Names that commands had before the first release, and theirs now. The release after that one knows the new names alone.
const RENAMED: [(&str, &[&str]); 9] = [
    ("judge", &["report"]),
    ("plan", &["shard", "plan"]),
    ("merge", &["shard", "merge"]),
    ("label", &["github", "label"]),
    ("authorize", &["github", "authorize"]),
    ("publish", &["github", "publish"]),
    ("proxy", &["dev", "proxy"]),
    ("import", &["dev", "import"]),
    ("replay", &["dev", "replay"]),
];

/// Reads the command line; an old command's name is read as its new one, and says so.
fn parse() -> Result<Args, clap::Error> {
    let mut words: Vec<OsString> = env::args_os().collect();
    if let Some((old, new)) = rename(&mut words) {
        let new = new.join(" ");
        output::note(&format!(
            "`gate {old}` is called `gate {new}` now; the old name goes in version 0.2"
        ));
    }
    Args::from_arg_matches(&command_line().get_matches_from(words))
}

/// Replaces the command's name where it is an old one.
fn rename(words: &mut Vec<OsString>) -> Option<(&'static str, &'static [&'static str])> {
    // Before the command come options alone, of which one has its value in the next word.
    let mut place = 1;
    while words.get(place)?.to_str()?.starts_with('-') {
        place += if words[place] == "--color" { 2 } else { 1 };
    }
    let renamed = RENAMED.iter().find(|(old, _)| words[place] == *old)?;
    words.splice(place..=place, renamed.1.iter().map(OsString::from));
    Some(*renamed)
}

/// Parses, runs, prints the error if there is one, and gives the exit code.
pub fn main() -> ExitCode {
    if let Some(code) = sandbox::run() {
        return code;
    }
    // clap prints usage errors itself and ends with 2, as documented.
    let Args {
        command,
        color,
        quiet,
    } = parse().unwrap_or_else(|error| error.exit());
    ColorChoice::from(color).write_global();
    if quiet {
        output::be_quiet();
    }
    let result = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Explain(args) => explain::run(&args),
        Command::Compare(args) => compare::run(args),
        Command::Baseline(args) => baseline::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Power(args) => power::run(args),
        Command::History(args) => history::run(args),
        Command::Load(args) => load::run(*args),
        Command::Golden(command) => golden::run(command),
        Command::Serve(args) => serve::run(args),
        Command::Kernels(args) => kernels::run(args),
        Command::Roofline(args) => roofline::run(args),
        Command::Report(args) => report::run(&args),
        Command::Shard(Shard::Plan(args)) => plan::run(args),
        Command::Shard(Shard::Merge(args)) => merge::run(&args),
        Command::Github(GitHub::Label(args)) => label::run(args),
        Command::Github(GitHub::Authorize(args)) => authorize::run(args),
        Command::Github(GitHub::Publish(args)) => publish::run(*args),
        Command::Dev(Dev::Proxy(args)) => proxy::run(args),
        Command::Dev(Dev::Import(args)) => import::run(&args),
        Command::Dev(Dev::Replay(args)) => replay::run(&args),
        Command::Selftest(args) => selftest::run(args),
        Command::Completions(args) => completions::run(&args, command_line()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => error::print(&error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_is_read_as_the_new_one() {
        let check = |line: &str, expect: &str| {
            let mut words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            rename(&mut words);
            assert_eq!(words.join(" ".as_ref()), expect);
        };
        check("gate judge d --quiet", "gate report d --quiet");
        check(
            "gate -q --color never plan",
            "gate -q --color never shard plan",
        );
        check(
            "gate --color=never merge a b",
            "gate --color=never shard merge a b",
        );
        check("gate baseline push", "gate baseline push");
        check("gate check --gate plan", "gate check --gate plan");
        check("gate --color", "gate --color");
        for (_, new) in RENAMED {
            let command = Args::command();
            let first = command.find_subcommand(new[0]).unwrap();
            assert!(
                new.get(1)
                    .is_none_or(|name| first.find_subcommand(name).is_some())
            );
        }
    }

    #[test]
    fn every_command_stands_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        let command = Args::command();
        let mut shown: Vec<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        shown.sort_unstable();
        assert_eq!(grouped, shown);
        command_line().debug_assert();
    }
}
