//! `gate load`: one workload against a server that already runs.

mod address;
pub mod limits;
mod notes;
mod view;
mod workload;

use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::session::Error;
use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::path::PathBuf;
use std::time::Duration;
use verdict::plan::{Arrivals, Plausible, Slo};
use view::LoadReport;
use workload::{LoadOptions, Traffic};

/// Requests of a burst, where nobody says how many.
const BURST: u32 = 8;

/// Measure a server that already runs, with one workload
#[derive(Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["concurrency", "rate", "trace"]))]
pub struct LoadArgs {
    /// The server, as http://HOST:PORT
    #[arg(long)]
    url: String,
    /// Name of the model in requests
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Closed loop: keep N requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: Option<u32>,
    /// Open loop: send R requests a second, whatever the server does
    #[arg(long, value_name = "R", value_parser = positive)]
    rate: Option<f64>,
    /// How an open loop spreads its requests
    #[arg(long, value_enum, default_value_t = Process::Poisson, conflicts_with_all = ["concurrency", "trace"])]
    arrivals: Process,
    /// Requests of one burst of `--arrivals burst` [default: 8]
    #[arg(long, value_name = "N", conflicts_with_all = ["concurrency", "trace"], value_parser = clap::value_parser!(u32).range(1..))]
    burst_size: Option<u32>,
    /// Replay recorded requests: a JSON line each with timestamp (s), prompt_length, output_length, or as
    /// Mooncake's traces with timestamp (ms), input_length, output_length
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Requests to measure
    #[arg(long, value_name = "M", default_value_t = 100, conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Requests sent before those, kept out of every number; of a trace, its first ones
    #[arg(long, value_name = "W", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warmup: u32,
    /// Tokens of each prompt; without --prompt-ids or --tokenizer so many words, which are more tokens
    #[arg(long, value_name = "P", default_value_t = 128, conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    prompt_tokens: u32,
    /// Tokens of each answer
    #[arg(long, value_name = "K", default_value_t = 128, conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    output_tokens: u32,
    /// Draw prompts from the token ids A to B − 1; without it, prompts are words
    #[arg(long, value_name = "A..B", value_parser = ids)]
    prompt_ids: Option<(u32, u32)>,
    /// The model's tokenizer.json: word prompts then have exactly P tokens, and answers are counted
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// A good request has a TTFT of at most so many milliseconds
    #[arg(long, value_name = "MS", value_parser = positive)]
    slo_ttft: Option<f64>,
    /// A good request has a TPOT of at most so many milliseconds
    #[arg(long, value_name = "MS", value_parser = positive)]
    slo_tpot: Option<f64>,
    /// A good request ends within so many milliseconds
    #[arg(long, value_name = "MS", value_parser = positive)]
    slo_e2e: Option<f64>,
    /// No token after the first can take fewer milliseconds (weights over memory bandwidth, see gate roofline); a
    /// faster answer is void
    #[arg(long, value_name = "MS", value_parser = positive)]
    tpot_floor: Option<f64>,
    /// No token of a prompt can be computed in fewer microseconds; a faster answer is void
    #[arg(long, value_name = "US", value_parser = positive)]
    prefill_floor: Option<f64>,
    /// Seed of prompts and arrivals [default: drawn and reported]
    #[arg(long)]
    seed: Option<u64>,
    /// Longest silence within an answer, in seconds
    #[arg(long, value_name = "S", default_value_t = 120.0, value_parser = positive)]
    timeout: f64,
    /// The server cannot be made to go on to a set length: answers may end early
    #[arg(long)]
    no_ignore_eos: bool,
    /// The server sends no usage in streams: count by token ids or tokenizer
    #[arg(long)]
    no_stream_usage: bool,
    /// The server closes connections after its answers: open one for each request
    #[arg(long)]
    no_keep_alive: bool,
    /// Ask for token ids in streams (vLLM, gate serve)
    #[arg(long)]
    return_token_ids: bool,
    /// Write the raw samples here, one JSON object a line
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How to print the numbers
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    /// Exponential gaps
    Poisson,
    /// Equal gaps
    Constant,
    /// Several at once, again and again
    Burst,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For a terminal
    Table,
    /// For a pull request
    Markdown,
    /// One JSON object
    Json,
}

pub fn run(args: LoadArgs) -> anyhow::Result<Exit> {
    args.refuse_a_burst_that_is_none()?;
    args.refuse_streams_without_requests()?;
    let format = args.format;
    let options = args.options();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let report = block_on(async {
        let show = |done, of| {
            bar.set_length(u64::from(of));
            bar.set_position(u64::from(done));
        };
        workload::load(&options, &show, interrupted()).await
    })?;
    bar.finish_and_clear();
    let report = report?;
    let text = match format {
        Format::Table => view::load_table(&report),
        Format::Markdown => view::load_markdown(&report),
        Format::Json => view::load_json(&report),
    };
    output::print(&text).context("cannot write the report to standard output")?;
    Ok(exit(&report, format))
}

/// Says on standard error why the numbers are none, if so.
fn exit(report: &LoadReport, format: Format) -> Exit {
    if let Some(why) = &report.stopped {
        output::note(&format!("stopped: {why}; look at the server's own log"));
        return Exit::Infrastructure;
    }
    if !report.complete {
        return Exit::Interrupted;
    }
    if report.requests.ok == 0 {
        output::note("invalid: no request was answered soundly");
        return Exit::Invalid;
    }
    // Table and Markdown say so themselves.
    if matches!(format, Format::Json) {
        for reason in report.invalid() {
            output::note(&format!("invalid: {reason}"));
        }
    }
    if report.invalid().next().is_none() {
        Exit::Pass
    } else {
        Exit::Invalid
    }
}

impl LoadArgs {
    fn refuse_a_burst_that_is_none(&self) -> Result<(), Error> {
        if self.burst_size.is_none() || matches!(self.arrivals, Process::Burst) {
            return Ok(());
        }
        Err(Error::Usage(
            "--burst-size is for bursts: say --arrivals burst too, or leave it out".into(),
        ))
    }

    /// Such a run would be of fewer streams than it says.
    fn refuse_streams_without_requests(&self) -> Result<(), Error> {
        let Some(streams) = self.concurrency.filter(|streams| *streams > self.requests) else {
            return Ok(());
        };
        let requests = self.requests;
        Err(Error::Usage(format!(
            "{streams} streams are never in flight with {requests} requests: say --requests {streams} at least, several \
             times as many for numbers of a full engine, or fewer in --concurrency"
        )))
    }

    fn options(self) -> LoadOptions {
        let Self {
            url,
            model,
            concurrency,
            rate,
            arrivals,
            burst_size,
            trace,
            requests,
            warmup,
            prompt_tokens,
            output_tokens,
            prompt_ids,
            tokenizer,
            slo_ttft,
            slo_tpot,
            slo_e2e,
            tpot_floor,
            prefill_floor,
            seed,
            timeout,
            no_ignore_eos,
            no_stream_usage,
            no_keep_alive,
            return_token_ids,
            out,
            format: _,
        } = self;
        let arrivals = match (concurrency, rate) {
            (Some(concurrency), _) => Arrivals::Closed { concurrency },
            (None, rate) => open_loop(arrivals, rate.unwrap_or(1.0), burst_size.unwrap_or(BURST)),
        };
        let traffic = match trace {
            Some(path) => Traffic::Trace(path),
            None => Traffic::Steady {
                arrivals,
                requests,
                prompt_tokens,
                output_tokens,
            },
        };
        LoadOptions {
            url,
            model,
            traffic,
            warmup,
            prompt_ids,
            tokenizer,
            slo: Slo {
                ttft_ms: slo_ttft,
                tpot_ms: slo_tpot,
                e2e_ms: slo_e2e,
            },
            plausible: Plausible {
                tpot_floor_ms: tpot_floor,
                prefill_floor_us: prefill_floor,
            },
            seed,
            timeout: Duration::from_secs_f64(timeout),
            forces_length: !no_ignore_eos,
            stream_usage: !no_stream_usage,
            keep_alive: !no_keep_alive,
            return_token_ids,
            out,
        }
    }
}

fn open_loop(process: Process, rate: f64, burst_size: u32) -> Arrivals {
    match process {
        Process::Poisson => Arrivals::Poisson { rate },
        Process::Constant => Arrivals::Constant { rate },
        Process::Burst => Arrivals::Burst {
            size: burst_size,
            every: Duration::from_secs_f64(f64::from(burst_size) / rate),
        },
    }
}

/// Bounded, so that no duration made of it is too long.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let fits = number.filter(|number| (1e-6..=1e9).contains(number));
    fits.ok_or_else(|| "must be a number between 0.000001 and 1000000000".to_owned())
}

fn ids(text: &str) -> Result<(u32, u32), String> {
    let ends = text.split_once("..").and_then(|(low, high)| {
        let ends = (low.parse().ok()?, high.parse().ok()?);
        (ends.0 < ends.1).then_some(ends)
    });
    ends.ok_or_else(|| "must be two rising numbers as in 3..384".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Process, ids, open_loop, positive};
    use std::time::Duration;

    #[test]
    fn ranges_and_numbers_are_read_or_refused() {
        assert_eq!(ids("3..384"), Ok((3, 384)));
        for wrong in ["3", "3..3", "4..3", "a..b", "3..=4", ""] {
            assert!(ids(wrong).is_err(), "{wrong}");
        }
        assert!(positive("0.5").is_ok());
        for wrong in ["0", "-1", "nan", "inf", "1e12", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_burst_keeps_the_rate() {
        let expect = Arrivals::Burst {
            size: 8,
            every: Duration::from_secs(2),
        };
        assert_eq!(open_loop(Process::Burst, 4.0, 8), expect);
    }
}
