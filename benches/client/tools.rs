//! The field's own clients against the same server: what they report, minus what was true.
//!
//! Main type: [`Program`]. Their files are read by the gate's own import, which knows each one's
//! definitions. Statistics are made here, by one definition, from the single requests that a tool reports;
//! the first request of each stream is left out, as of our own client. Refuses to know: how results look.

use crate::Outcome;
use crate::cell::{most_at_once, requests};
use crate::command::{self, Load, ask};
use crate::errors::{Errors, Numbers, Seen};
use crate::process;
use fixture::truth::{self, TOKENS, Truth};
use infergate::import::{self, Request, Tool};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

const TOOLS: [Tool; 3] = [Tool::Aiperf, Tool::Guidellm, Tool::Vllm];

/// For a tool's start, its prompts and its reports; the answers' own time twice comes on top.
const PATIENCE: Duration = Duration::from_secs(300);

/// A tool that is there.
pub(crate) struct Program {
    tool: Tool,
    name: &'static str,
    path: PathBuf,
}

/// What one number of streams brought.
pub(crate) struct Run {
    pub(crate) errors: Errors,
    /// CPU s per 10⁶ tokens beyond the first round of answers.
    pub(crate) cpu_s: f64,
    /// CPU s of the tool without any token: its start, its prompts, its reports.
    pub(crate) start_cpu_s: f64,
    pub(crate) reached: u32,
}

/// One run of the tool, as it reports it and as it was.
struct Answered {
    requests: Vec<Request>,
    truths: Vec<Truth>,
    cpu_s: f64,
}

/// The tools in `folder` (`None`: in the path), and the names of those that are not there.
pub(crate) fn found(folder: Option<&str>) -> Outcome<(Vec<Program>, Vec<&'static str>)> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = match folder {
        Some(folder) => vec![fs::canonicalize(folder).map_err(|why| format!("{folder}: {why}"))?],
        None => env::split_paths(&path).collect(),
    };
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    for tool in TOOLS {
        let names = command::programs(tool);
        let places = folders
            .iter()
            .flat_map(|folder| names.iter().map(move |name| (name, folder)));
        let mut places = places.map(|(name, folder)| (*name, folder.join(name)));
        match places.find(|(_, path)| path.is_file()) {
            Some((name, path)) => programs.push(Program { tool, name, path }),
            None => missing.push(names[0]),
        }
    }
    Ok((programs, missing))
}

impl Program {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Two runs: a round of one answer a stream, and as many answers as our own client gets. Errors are
    /// the second one's; what the second one cost more is the price of its further tokens.
    pub(crate) fn run(
        &self,
        server: SocketAddr,
        streams: u32,
        tokens: u32,
        stops: Option<u64>,
    ) -> Outcome<Run> {
        let load = |requests| Load {
            server,
            streams,
            requests,
            stops,
        };
        let round = self.answered(&load(streams))?;
        let all = self.answered(&load(requests(streams, tokens)))?;
        let cpu_s = (all.cpu_s - round.cpu_s) / (all.tokens() - round.tokens());
        Ok(Run {
            cpu_s: cpu_s * 1e6,
            start_cpu_s: round.cpu_s - cpu_s * round.tokens(),
            reached: most_at_once(&all.truths),
            errors: all.seen(streams as usize).overall(),
        })
    }

    fn answered(&self, load: &Load) -> Outcome<Answered> {
        truth::reset(load.server)?;
        let folder = tempfile::tempdir()?;
        let (arguments, result) = ask(self.tool, load, folder.path());
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(folder.path());
        let limit = PATIENCE + load.ideal() * 2;
        let output = folder.path().join("output");
        let cpu_s = process::run(command, &output, limit, load.stops)?;
        let answered = Answered {
            requests: self.read(&result)?,
            truths: truth::fetch(load.server)?,
            cpu_s,
        };
        answered.hold(load)?;
        Ok(answered)
    }

    fn read(&self, file: &Path) -> Outcome<Vec<Request>> {
        let name = file.display();
        let text = fs::read_to_string(file).map_err(|why| format!("it left no {name}: {why}"))?;
        let read = import::parse(&text, Some(self.tool), None);
        Ok(read.map_err(|why| format!("{name}: {why}"))?.requests)
    }
}

impl Answered {
    /// Refuses a run that was another load than it was asked for.
    fn hold(&self, load: &Load) -> Outcome<()> {
        if let Some(why) = self.requests.iter().find_map(|r| r.failed.as_ref()) {
            return Err(format!("a request failed: {why}").into());
        }
        let (asked, told) = (load.requests as usize, self.requests.len());
        if told != asked || self.truths.len() < asked {
            let served = self.truths.len();
            return Err(format!("{told} of {asked} requests reported, {served} served").into());
        }
        match self.truths.iter().find(|truth| truth.tokens() != TOKENS) {
            Some(truth) => Err(format!("it let {} tokens be sent", truth.tokens()).into()),
            None => Ok(()),
        }
    }

    /// All that the server sent.
    fn tokens(&self) -> f64 {
        self.truths.iter().map(|t| f64::from(t.tokens())).sum()
    }

    /// Without the first request of each stream. What a tool asks before its first request, to see
    /// whether the server is there, it does not report.
    fn seen(mut self, streams: usize) -> Seen {
        let start = |request: &Request| request.start_s.unwrap_or(0.0);
        self.requests.sort_by(|a, b| start(a).total_cmp(&start(b)));
        self.truths.sort_by_key(|truth| truth.arrived_ns);
        let before = self.truths.len() - self.requests.len();
        Seen {
            reported: numbers(&self.requests[streams..]),
            truly: Numbers::of(&self.truths[before + streams..]),
        }
    }
}

fn numbers(requests: &[Request]) -> Numbers {
    let gaps = requests.iter().flat_map(|request| &request.gaps_ms);
    Numbers {
        ttft_ms: requests.iter().map(|r| r.ttft_ms).collect(),
        tpot_ms: requests.iter().map(Request::tpot_ms).collect(),
        itl_ms: gaps.copied().collect(),
        ttft_at_most_ms: Vec::new(),
        tpot_at_most_ms: Vec::new(),
    }
}
