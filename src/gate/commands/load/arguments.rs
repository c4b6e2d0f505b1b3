//! Arguments of `gate load`, and what they ask for.
//!
//! Main type: [`LoadArgs`]. Refuses to know: how it is sent.

use super::argument_values::{extra_body, ids, lengths, positive, shape};
use super::workload::lengths::Lengths;
use super::workload::traffic::{Prompts, Traffic};
use super::workload::{Headers, LoadOptions};
use crate::session::Error;
use crate::session::project::draw_seed;
use clap::builder::UnknownArgumentValueParser;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use verdict::plan::{Arrivals, Plausible, Slo};

/// Requests of a burst, where nobody says how many.
const BURST: u32 = 8;

/// Requests, where nobody says how many; the most of a run of set duration.
const REQUESTS: u32 = 100;
const REQUESTS_IN_TIME: u32 = 10_000;

/// Load-test a running server
#[derive(Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["concurrency", "rate", "trace"]))]
pub struct LoadArgs {
    /// The server, as http://HOST:PORT or https://HOST, with a path before /v1 where it has one
    #[arg(long)]
    url: String,
    /// Name of the model in requests
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Environment variable with the server's API key, which is sent as a bearer token and never shown
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    /// A further header of each request, as "NAME: VALUE"; may be repeated. Its value is never shown
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// Further keys of each request, as a JSON object: {"temperature": 0.7, "top_p": 0.9}
    #[arg(long, value_name = "JSON")]
    extra_body: Option<String>,
    /// Ask /v1/chat/completions, each prompt as a single user message; else /v1/completions
    #[arg(long, conflicts_with = "prompt_ids")]
    chat: bool,
    /// Closed loop: keep N requests in flight. Several numbers, as 1,2,4,8, are measured one after another
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: Vec<u32>,
    /// Open loop: send R requests a second, whatever the server does. Several numbers are measured one after another
    #[arg(long, value_name = "R", value_delimiter = ',', value_parser = positive)]
    rate: Vec<f64>,
    /// How an open loop spreads its requests
    #[arg(long, value_enum, default_value_t = Process::Poisson, conflicts_with_all = ["concurrency", "trace"])]
    arrivals: Process,
    /// Requests of one burst of `--arrivals burst` [default: 8]
    #[arg(long, value_name = "N", conflicts_with_all = ["concurrency", "trace"], value_parser = clap::value_parser!(u32).range(1..))]
    burst_size: Option<u32>,
    /// Shape of the gaps of `--arrivals gamma`: below 1 requests come in clusters, above 1 regularly
    #[arg(long, value_name = "K", conflicts_with_all = ["concurrency", "trace"], value_parser = shape)]
    shape: Option<f64>,
    /// Replay the requests of a file at their recorded moments: a JSON object a line with `timestamp` (s),
    /// `prompt_length`, `output_length`, or as Mooncake's traces with `timestamp` (ms), `input_length`,
    /// `output_length`, `hash_ids`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Send the requests of such a file at --concurrency or --rate. Instead of lengths its lines may have a
    /// `prompt`, or `messages` for the chat route; or it is a JSON list as ShareGPT's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "prompt_tokens"])]
    prompts: Option<PathBuf>,
    /// Send each conversation of --prompts turn by turn over the chat route, with the server's own answers in the place
    /// of the recorded ones: N users with one conversation each, or R new conversations a second
    #[arg(long, requires = "prompts")]
    multi_turn: bool,
    /// Requests to measure [default: 100; 10000 with --duration; with a file, all of it]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: Option<u32>,
    /// Stop sending after S seconds
    #[arg(long, value_name = "S", value_parser = positive)]
    duration: Option<f64>,
    /// Let the users of --concurrency come one after another, or --rate rise from 0, over S seconds; requests sent
    /// meanwhile are kept out of every number, and are among those that --requests counts
    #[arg(long, value_name = "S", conflicts_with = "trace", value_parser = positive)]
    ramp_up: Option<f64>,
    /// Measure the same load N times, and show the mean and its 95 % interval between the runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub repeats: Option<u32>,
    /// Requests sent before those, kept out of every number; of a file, its first ones
    #[arg(long, value_name = "W", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warmup: u32,
    /// Tokens of each prompt, or a range as 100-200, drawn from the seed; without --prompt-ids or --tokenizer words,
    /// which are more tokens
    #[arg(long, value_name = "P", default_value = "128", conflicts_with = "trace", value_parser = Lengths::parse)]
    prompt_tokens: Lengths,
    /// Standard deviation of the prompts' lengths around --prompt-tokens
    #[arg(long, value_name = "S", conflicts_with_all = ["trace", "prompts"], value_parser = positive)]
    prompt_tokens_stddev: Option<f64>,
    /// Tokens of each answer, or a range as 100-200; of a file's, where it names none and has no recorded answer to
    /// count
    #[arg(long, value_name = "K", default_value = "128", value_parser = Lengths::parse)]
    output_tokens: Lengths,
    /// Standard deviation of the answers' lengths around --output-tokens
    #[arg(long, value_name = "S", value_parser = positive)]
    output_tokens_stddev: Option<f64>,
    /// Draw prompts from the token ids A to B − 1; without it, prompts are words
    #[arg(long, value_name = "A..B", value_parser = ids)]
    prompt_ids: Option<(u32, u32)>,
    /// The model's tokenizer.json: word prompts then have exactly P tokens, and answers are counted
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Greatest TTFT of a good request, in milliseconds
    #[arg(long, value_name = "MS", value_parser = positive)]
    slo_ttft: Option<f64>,
    /// Greatest TPOT of a good request, in milliseconds
    #[arg(long, value_name = "MS", value_parser = positive)]
    slo_tpot: Option<f64>,
    /// Greatest E2E of a good request, in milliseconds
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
    /// The server cannot force an answer's length: answers may end early
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
    pub format: Format,
    #[command(flatten)]
    _other_names: OtherNames,
}

/// Options that other load generators have, by the names that they have there. Hidden: clap refuses each and says what
/// to write.
#[derive(Args)]
struct OtherNames {
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--rate"))]
    request_rate: Option<String>,
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--requests"))]
    num_prompts: Option<String>,
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--concurrency"))]
    max_concurrency: Option<String>,
    #[arg(
        long,
        hide = true,
        value_parser = UnknownArgumentValueParser::suggest(
            "a trace is replayed at its own moments: change `timestamp` in the file, or send it by '--prompts' at '--rate'"
        )
    )]
    speed: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    /// Exponential gaps
    Poisson,
    /// Gaps of a gamma distribution with --shape
    Gamma,
    /// Equal gaps
    Constant,
    /// N at once, at equal intervals
    Burst,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// For a terminal
    Table,
    /// For a pull request
    Markdown,
    /// One JSON object
    Json,
    /// A row for each run: a pace or a repeat
    Csv,
    /// One page that needs nothing else
    Html,
}

impl LoadArgs {
    /// What to measure, one after another: several where several paces are named.
    ///
    /// # Errors
    /// Arguments that contradict each other, and a key that is not there.
    pub fn steps(self) -> Result<Vec<LoadOptions>, Error> {
        self.refuse_settings_of_other_arrivals()?;
        self.refuse_streams_without_requests()?;
        self.refuse_a_ramp_without_end()?;
        let paces = self.repeated(self.paces())?;
        let of = u32::try_from(paces.len()).unwrap_or(u32::MAX);
        let options = self.options()?;
        let steps = (0..).zip(paces).map(|(number, pace)| {
            let mut step = options.clone();
            step.traffic.pace = pace;
            step.traffic.part = (number, of);
            step
        });
        Ok(steps.collect())
    }

    /// One pace several times over.
    fn repeated(&self, paces: Vec<Option<Arrivals>>) -> Result<Vec<Option<Arrivals>>, Error> {
        match (self.repeats, &*paces) {
            (None, _) => Ok(paces),
            (Some(repeats), [pace]) => Ok(vec![pace.clone(); repeats as usize]),
            (Some(_), _) => Err(Error::Usage(
                "--repeats is of one load: name one number in --concurrency or --rate".into(),
            )),
        }
    }

    fn refuse_a_ramp_without_end(&self) -> Result<(), Error> {
        match self.ramp_up.zip(self.duration) {
            Some((ramp_up, duration)) if ramp_up >= duration => Err(Error::Usage(format!(
                "the load still rises when it ends: say a --duration of more than the {ramp_up} s of --ramp-up"
            ))),
            _ => Ok(()),
        }
    }

    fn refuse_settings_of_other_arrivals(&self) -> Result<(), Error> {
        let usage = |text: &str| Err(Error::Usage(text.into()));
        let (is_burst, is_gamma) = match self.arrivals {
            Process::Burst => (true, false),
            Process::Gamma => (false, true),
            _ => (false, false),
        };
        if self.burst_size.is_some() && !is_burst {
            return usage("--burst-size is for bursts: say --arrivals burst too, or leave it out");
        }
        if self.shape.is_some() != is_gamma {
            return usage(
                "--shape and --arrivals gamma belong together: say both, as --arrivals gamma --shape 0.5, or neither",
            );
        }
        Ok(())
    }

    /// Such a run would be of fewer streams than it says.
    fn refuse_streams_without_requests(&self) -> Result<(), Error> {
        let Some(requests) = self.requests_to_measure() else {
            return Ok(());
        };
        let streams = self.concurrency.iter().find(|streams| **streams > requests);
        let Some(streams) = streams else {
            return Ok(());
        };
        Err(Error::Usage(format!(
            "{streams} streams are never in flight with {requests} requests: say --requests {streams} at least, several \
             times as many for numbers of a full engine, or fewer in --concurrency"
        )))
    }

    /// `None`: as many as the file has.
    fn requests_to_measure(&self) -> Option<u32> {
        let is_of_file = self.trace.is_some() || self.prompts.is_some();
        let default = match self.duration {
            Some(_) => REQUESTS_IN_TIME,
            None => REQUESTS,
        };
        self.requests.or((!is_of_file).then_some(default))
    }

    /// `None`: the file's own moments.
    fn paces(&self) -> Vec<Option<Arrivals>> {
        if self.trace.is_some() {
            return vec![None];
        }
        let closed = self.concurrency.iter();
        let closed = closed.map(|&concurrency| Arrivals::Closed { concurrency });
        let open = self.rate.iter().map(|&rate| self.open_loop(rate));
        closed.chain(open).map(Some).collect()
    }

    fn open_loop(&self, rate: f64) -> Arrivals {
        match self.arrivals {
            Process::Poisson => Arrivals::Poisson { rate },
            Process::Gamma => Arrivals::Gamma {
                rate,
                shape: self.shape.unwrap_or(1.0),
            },
            Process::Constant => Arrivals::Constant { rate },
            Process::Burst => {
                let size = self.burst_size.unwrap_or(BURST);
                Arrivals::Burst {
                    size,
                    every: Duration::from_secs_f64(f64::from(size) / rate),
                }
            }
        }
    }

    fn options(self) -> Result<LoadOptions, Error> {
        let requests = self.requests_to_measure();
        let headers = self.headers()?;
        let extra_body = self.extra_body.as_deref().map(extra_body).transpose()?;
        let output_tokens = lengths("output", self.output_tokens, self.output_tokens_stddev)?;
        let prompt_tokens = lengths("prompt", self.prompt_tokens, self.prompt_tokens_stddev)?;
        let prompts = match self.trace.or(self.prompts) {
            Some(path) => Prompts::File(path),
            None => Prompts::Drawn {
                tokens: prompt_tokens,
            },
        };
        Ok(LoadOptions {
            url: self.url,
            model: self.model,
            chat: self.chat,
            headers,
            extra_body: extra_body.unwrap_or_default(),
            traffic: Traffic {
                prompts,
                pace: None,
                requests,
                warmup: self.warmup,
                output_tokens,
                multi_turn: self.multi_turn,
                ramp_up: self.ramp_up.map(Duration::from_secs_f64),
                duration: self.duration.map(Duration::from_secs_f64),
                part: (0, 1),
            },
            prompt_ids: self.prompt_ids,
            tokenizer: self.tokenizer,
            slo: Slo {
                ttft_ms: self.slo_ttft,
                tpot_ms: self.slo_tpot,
                e2e_ms: self.slo_e2e,
            },
            plausible: Plausible {
                tpot_floor_ms: self.tpot_floor,
                prefill_floor_us: self.prefill_floor,
            },
            // One for all steps, so that any of them can be repeated.
            seed: self.seed.unwrap_or_else(draw_seed),
            timeout: Duration::from_secs_f64(self.timeout),
            forces_length: !self.no_ignore_eos,
            stream_usage: !self.no_stream_usage,
            keep_alive: !self.no_keep_alive,
            return_token_ids: self.return_token_ids,
            out: self.out,
        })
    }

    fn headers(&self) -> Result<Headers, Error> {
        let mut headers = Headers::default();
        if let Some(variable) = &self.api_key_env {
            let key = std::env::var(variable).map_err(|_| {
                // Not named: it may be the key itself, given by mistake.
                Error::Usage(
                    "--api-key-env: there is no environment variable of that name, or it is not text; give the name of \
                     one that holds the key, as KEY after `export KEY=…`"
                        .into(),
                )
            })?;
            if key.trim().is_empty() {
                return Err(Error::Usage("--api-key-env: that variable is empty".into()));
            }
            headers.add("authorization", &format!("Bearer {}", key.trim()))?;
        }
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Error::Usage("--header: write it as \"NAME: VALUE\"".into()))?;
            headers.add(name.trim(), value.trim())?;
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, LoadArgs};
    use clap::Parser;
    use std::time::Duration;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn args(further: &[&str]) -> LoadArgs {
        let line = ["load", "--url", "http://h", "--model", "m"];
        Line::parse_from(line.iter().chain(further)).load
    }

    #[test]
    fn each_pace_is_a_step() {
        let burst = args(&["--rate", "4", "--arrivals", "burst"]);
        let expect = Arrivals::Burst {
            size: 8,
            every: Duration::from_secs(2),
        };
        assert_eq!(burst.paces(), [Some(expect)]);
        let steps = args(&["--concurrency", "1,4", "--duration", "3"]).steps();
        let steps: Vec<_> = steps
            .unwrap()
            .into_iter()
            .map(|step| step.traffic)
            .collect();
        let paces: Vec<_> = steps
            .iter()
            .map(|step| (step.part, step.pace.clone()))
            .collect();
        let closed = |concurrency| Some(Arrivals::Closed { concurrency });
        assert_eq!(paces, [((0, 2), closed(1)), ((1, 2), closed(4))]);
        assert_eq!(steps[0].requests, Some(10_000));
        let of_file = args(&["--concurrency", "1", "--prompts", "f"])
            .steps()
            .unwrap();
        assert_eq!(of_file[0].traffic.requests, None);
    }

    #[test]
    fn what_contradicts_is_refused() {
        for (arguments, expect) in [
            (
                &["--rate", "4", "--burst-size", "2"][..],
                "--arrivals burst",
            ),
            (&["--rate", "4", "--shape", "2"], "belong together"),
            (&["--rate", "4", "--arrivals", "gamma"], "belong together"),
            (&["--concurrency", "2,101"], "101 streams are never"),
            (&["--rate", "4", "--header", "x"], "NAME: VALUE"),
            (
                &["--rate", "4", "--header", "host: x"],
                "is set by the client",
            ),
            (&["--rate", "4", "--header", "a b: x"], "--header"),
            (
                &["--rate", "4", "--api-key-env", "NO_SUCH_KEY_1"],
                "give the name of one",
            ),
        ] {
            let refusal = args(arguments).steps().unwrap_err().to_string();
            assert!(refusal.contains(expect), "{refusal}");
        }
    }
}
