//! `gate roofline`: what this machine can do, what a model needs at the least, and what it takes.
//! Refuses to know: the formulas.

mod kernels;
mod page;

use crate::cli::command_line::command_line;
use crate::cli::format::PictureFormat as Format;
use crate::cli::model::ModelArgs;
use crate::cli::{Exit, output};
use crate::report;
use crate::report::sheet::SheetTable;
use crate::roofline::{Floor, Machine, Plausible, Shape, plausible};
use crate::session::Error;
use anyhow::{Context, bail};
use clap::Args;
use engine::request::{CacheUse, Event, Request, Timings};
use engine::{Element, Engine, ModelInfo, Options, Speed, measure_cpu, measure_gpu};
use kernels::TokenTimes;
use page::{Reached, RooflinePage};
use serde::Serialize;

#[derive(Args)]
pub struct RooflineArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompts after which decoding is timed, in tokens [default: of 1,1024,8192 what the model's context
    /// holds]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tokens())]
    context: Vec<u32>,
    /// Prompts whose first token is timed, in tokens [default: of 128,1024,8192 what the model's context
    /// holds]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tokens())]
    prefill: Vec<u32>,
    /// Tokens that each decoding generates; times are for one of them
    #[arg(long, default_value_t = 65, value_name = "N",
        value_parser = clap::value_parser!(u32).range(2..=4096))]
    answer: u32,
    /// Measurements of each; the table shows the median
    #[arg(long, default_value_t = 5, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Decode once more with the time taken of each kernel (GPU only)
    #[arg(long)]
    kernels: bool,
    /// How to print what was measured
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is timed where nothing is asked for.
const USUAL_CONTEXT: [u32; 3] = [1, 1024, 8192];
const USUAL_PREFILL: [u32; 3] = [128, 1024, 8192];

/// Requests that the engine makes room for, though one is computed at a time.
const RUNNING: usize = 8;

/// Prompts are computed in one step, which has 65,535 tokens at the most, one for each running request
/// among them.
fn tokens() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=(1 << 16) - 1 - RUNNING as i64)
}

#[derive(Serialize)]
struct Roofline {
    machine: MachineFigures,
    model: ModelFigures,
    decode: Vec<BoundRow>,
    prefill: Vec<BoundRow>,
    /// Kernels, copies and fills that a decoded token starts in a context so short that attention is not
    /// split; None where steps are not recorded, as on the CPU.
    launches_per_token: Option<u64>,
    /// Of each context, what a decoded token's kernels take; where it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<TokenTimes>,
    /// Milliseconds of each stage of the start.
    start_ms: Vec<(&'static str, f64)>,
    /// None for a model that may lie in a cache.
    plausible: Option<Plausible>,
}

#[derive(Serialize)]
struct MachineFigures {
    name: String,
    backend: &'static str,
    /// Whether memory was copied or only read.
    memory: &'static str,
    #[serde(flatten)]
    rates: Machine,
    /// The measured rates, where the model ran faster than they allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    raised_from: Option<Machine>,
    /// From one small kernel of a CUDA graph to the next; none on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_us: Option<f64>,
}

#[derive(Serialize)]
struct ModelFigures {
    name: String,
    parameters: u64,
    dtype: String,
}

/// One prompt's length: what it takes at the least, and took.
#[derive(Serialize)]
struct BoundRow {
    tokens: u32,
    floor: Floor,
    /// Of one token, or of the first.
    measured_ms: Spread,
    times_floor: f64,
}

#[derive(Serialize)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

pub fn run(args: RooflineArgs) -> anyhow::Result<Exit> {
    let engine = Engine::start(options(&args), &mut |_| {})?;
    if let Some(why) = engine.no_cuda() {
        output::note(&format!("no CUDA, so this is about the CPU: {why}"));
    }
    if args.kernels && !has_recordings(&engine) {
        let text = "--kernels: on the CPU nothing is recorded whose kernels could be timed; it wants --backend cuda";
        return Err(Error::Usage(text.to_owned()).into());
    }
    let prompts = Prompts::new(&args, engine.model_info().max_context)?;
    let roofline = measure(engine, &args, &prompts)?;
    let text = match args.format {
        Format::Text => table(&roofline),
        Format::Json => report::pretty_json(&roofline),
        Format::Html => html(&roofline),
    };
    output::print(&text).context("cannot write what was measured to standard output")?;
    Ok(Exit::Pass)
}

/// The lengths that are timed.
struct Prompts {
    context: Vec<u32>,
    prefill: Vec<u32>,
}

impl Prompts {
    fn new(args: &RooflineArgs, max_context: usize) -> Result<Self, Error> {
        let RooflineArgs {
            context,
            prefill,
            answer,
            ..
        } = args;
        Ok(Self {
            context: fitting("--context", context, &USUAL_CONTEXT, *answer, max_context)?,
            prefill: fitting("--prefill", prefill, &USUAL_PREFILL, 1, max_context)?,
        })
    }
}

/// What was asked for by the flag, which must fit the context with its answer, or what fits of the usual.
fn fitting(
    flag: &str,
    asked: &[u32],
    usual: &[u32],
    answer: u32,
    max_context: usize,
) -> Result<Vec<u32>, Error> {
    let is_beyond = |tokens: &&u32| (**tokens + answer) as usize > max_context;
    if asked.is_empty() {
        let fitting = usual.iter().filter(|tokens| !is_beyond(tokens));
        return Ok(fitting.copied().collect());
    }
    match asked.iter().find(is_beyond) {
        Some(tokens) => Err(Error::Usage(format!(
            "{flag} {tokens}: a prompt of {tokens} tokens and {answer} to generate are more than the {max_context} \
             that the model's context holds"
        ))),
        None => Ok(asked.to_vec()),
    }
}

/// Model and machine in turns: each wants the machine for itself, and a shared one is fast and slow by the
/// minute.
fn measure(engine: Engine, args: &RooflineArgs, prompts: &Prompts) -> anyhow::Result<Roofline> {
    let Prompts { context, prefill } = prompts;
    let (info, shape, repeats) = (engine.model_info().clone(), shape(&engine)?, args.repeats);
    let mut fastest = Fastest::default();
    fastest.look_at_cpu(&info, args.model.threads)?;
    let decoded = timed(&engine, context, repeats, args.answer, &per_token)?;
    fastest.look_at_cpu(&info, args.model.threads)?;
    let prefilled = timed(&engine, prefill, repeats, 1, &first_token)?;
    let launches_per_token = launches_per_token(&engine)?;
    let stages = engine.stats().startup.into_iter();
    let start_ms = stages.map(|stage| (stage.name, stage.elapsed.as_secs_f64() * 1e3));
    end(engine);
    let kernels = if args.kernels {
        kernels::timed(args, context)?
    } else {
        Vec::new()
    };
    let speed = fastest.at_last(&info, args.model.threads)?;
    let timed = Machine {
        bytes_per_second: speed.bytes_per_second,
        operations_per_second: speed.operations_per_second,
    };
    // A decoded token sees its prompt and, in the mean, half of the answer.
    let half = u64::from(args.answer) / 2;
    let decodes = context.iter().zip(&decoded).map(|(tokens, took)| {
        let floor = shape.decode(u64::from(*tokens) + half, &timed);
        timed.that_took(took.least, &floor)
    });
    let prefills = prefill.iter().zip(&prefilled).map(|(tokens, took)| {
        let floor = shape.prefill(u64::from(*tokens), &timed);
        timed.that_took(took.least, &floor)
    });
    // Weights in a cache say nothing of the memory.
    let rates = match plausible(&shape, &timed) {
        Some(_) => decodes.chain(prefills).fold(timed, Machine::faster),
        None => timed,
    };
    let decode_floor = |tokens: u32| shape.decode(u64::from(tokens) + half, &rates);
    let prefill_floor = |tokens: u32| shape.prefill(u64::from(tokens), &rates);
    Ok(Roofline {
        decode: rows(context, decoded, &decode_floor),
        prefill: rows(prefill, prefilled, &prefill_floor),
        launches_per_token,
        kernels,
        start_ms: start_ms.collect(),
        plausible: plausible(&shape, &rates),
        machine: MachineFigures {
            name: speed.machine,
            backend: info.backend,
            memory: speed.memory,
            raised_from: (timed != rates).then_some(timed),
            rates,
            kernel_us: speed.kernel_us,
        },
        model: ModelFigures {
            name: info.name,
            parameters: info.parameters,
            dtype: info.dtype,
        },
    })
}

/// What it holds of the machine is free then.
fn end(engine: Engine) {
    engine.shutdown();
    engine.join();
}

/// Prompts whole, one request at a time, and nothing from a cache.
fn options(args: &RooflineArgs) -> Options {
    let longest = |asked: &[u32], usual: &[u32]| {
        let tokens = if asked.is_empty() { usual } else { asked };
        tokens.iter().max().map_or(1, |tokens| *tokens as usize)
    };
    let context = longest(&args.context, &USUAL_CONTEXT);
    let longest = longest(&args.prefill, &USUAL_PREFILL).max(context);
    Options {
        kv_tokens: longest + args.answer as usize + 64,
        running: RUNNING,
        step_tokens: Some(longest.max(128) + RUNNING),
        chunk_tokens: Some(longest.max(128)),
        prefix_cache: false,
        ..args.model.options()
    }
}

fn shape(engine: &Engine) -> anyhow::Result<Shape> {
    let info = engine.model_info();
    let kv = engine.stats().kv;
    let sizes = info.shape;
    let of_token = kv.page_bytes / kv.page_tokens.max(1);
    let numbers = 2 * sizes.attention_layers * sizes.kv_heads * sizes.head_dim;
    Ok(Shape {
        hidden: sizes.hidden as u64,
        attention_layers: sizes.attention_layers as u64,
        heads: sizes.heads as u64,
        kv_heads: sizes.kv_heads as u64,
        head_dim: sizes.head_dim as u64,
        layer_numbers: sizes.layer_numbers as u64,
        state_numbers: sizes.state_numbers as u64,
        vocab: info.vocab_size as u64,
        weight_bytes: element(info)?.bytes() as u64,
        kv_bytes: of_token / numbers.max(1) as u64,
    })
}

fn element(info: &ModelInfo) -> anyhow::Result<Element> {
    let named = |element: &Element| element.name() == info.dtype;
    let found = Element::ALL.into_iter().find(named);
    found.with_context(|| format!("weights of type {} have no known size", info.dtype))
}

/// The best of what was measured of the machine.
#[derive(Default)]
struct Fastest(Option<Speed>);

impl Fastest {
    /// Beside an idle engine. A GPU is looked at once, when the model has left it.
    fn look_at_cpu(&mut self, info: &ModelInfo, threads: usize) -> anyhow::Result<()> {
        if info.backend != "cpu" {
            return Ok(());
        }
        let speed = measure_cpu(threads)?;
        let known = self.0.take().unwrap_or_else(|| speed.clone());
        self.0 = Some(Speed {
            bytes_per_second: known.bytes_per_second.max(speed.bytes_per_second),
            operations_per_second: known.operations_per_second.max(speed.operations_per_second),
            ..known
        });
        Ok(())
    }

    fn at_last(mut self, info: &ModelInfo, threads: usize) -> anyhow::Result<Speed> {
        self.look_at_cpu(info, threads)?;
        match self.0 {
            Some(speed) => Ok(speed),
            None => Ok(measure_gpu(element(info)?)?),
        }
    }
}

fn per_token(timings: &Timings) -> f64 {
    timings.predicted.as_secs_f64() * 1e3 / f64::from(timings.predicted_n.max(2) - 1)
}

fn first_token(timings: &Timings) -> f64 {
    timings.prompt.as_secs_f64() * 1e3
}

/// Milliseconds of each prompt's length. The first of each warms up and does not count.
fn timed(
    engine: &Engine,
    prompts: &[u32],
    repeats: u32,
    answer: u32,
    of: &dyn Fn(&Timings) -> f64,
) -> anyhow::Result<Vec<Spread>> {
    let one = |tokens: u32| -> anyhow::Result<Spread> {
        let mut times = Vec::new();
        for repeat in 0..=repeats {
            let timings = finish(engine, request(engine, repeat, tokens, answer))?;
            times.push(of(&timings));
        }
        let mut times = times.split_off(1);
        times.sort_by(f64::total_cmp);
        Ok(Spread {
            median: times[times.len() / 2],
            least: times[0],
            greatest: times[times.len() - 1],
        })
    };
    prompts.iter().map(|tokens| one(*tokens)).collect()
}

/// A greedy request of exactly so many tokens, whose prompt is another for each `seed`.
fn request(engine: &Engine, seed: u32, prompt: u32, max_tokens: u32) -> Request {
    let vocab = engine.model_info().vocab_size as u64;
    let id = |at: u32| (u64::from(at) + 31 * u64::from(seed)) * 7919 % vocab;
    Request {
        ignore_eos: true,
        cache: CacheUse::Off,
        ..Request::new((0..prompt).map(|at| id(at) as u32).collect(), max_tokens)
    }
}

fn finish(engine: &Engine, request: Request) -> anyhow::Result<Timings> {
    let mut events = engine.submit(request)?;
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Finished(finished) => return Ok(finished.timings),
            Event::Failed(why) => bail!(why),
            Event::Prompt(_) | Event::Token(_) => {}
        }
    }
    bail!("the engine went away while it was measured")
}

/// Only a GPU's steps are recorded, and they are from the engine's start on.
fn has_recordings(engine: &Engine) -> bool {
    engine.stats().captures > 0
}

/// What an answer of three tokens starts more than one of two.
fn launches_per_token(engine: &Engine) -> anyhow::Result<Option<u64>> {
    if !has_recordings(engine) {
        return Ok(None);
    }
    let started_by = |tokens: u32| -> anyhow::Result<u64> {
        let before = engine.stats().replayed_nodes;
        finish(engine, request(engine, 0, 1, tokens))?;
        Ok(engine.stats().replayed_nodes - before)
    };
    let (two, three) = (started_by(2)?, started_by(3)?);
    Ok(Some(three.saturating_sub(two)).filter(|launches| *launches > 0))
}

fn rows(prompts: &[u32], measured: Vec<Spread>, floor: &dyn Fn(u32) -> Floor) -> Vec<BoundRow> {
    let row = |(tokens, measured_ms): (&u32, Spread)| {
        let floor = floor(*tokens);
        BoundRow {
            tokens: *tokens,
            times_floor: measured_ms.median / floor.milliseconds,
            floor,
            measured_ms,
        }
    };
    prompts.iter().zip(measured).map(row).collect()
}

fn header() -> [String; 5] {
    ["", "tokens", "floor, ms", "measured, ms", "times the floor"].map(str::to_owned)
}

/// A row under [`header`].
fn cells(what: &str, row: &BoundRow) -> Vec<String> {
    let Spread {
        median,
        least,
        greatest,
    } = row.measured_ms;
    vec![
        what.to_owned(),
        row.tokens.to_string(),
        format!("{:.4}", row.floor.milliseconds),
        format!("{median:.4} ({least:.4} to {greatest:.4})"),
        format!("{:.3}", row.times_floor),
    ]
}

/// The machine, and the model.
fn about(roofline: &Roofline) -> [String; 2] {
    let (machine, model) = (&roofline.machine, &roofline.model);
    let kernel = machine.kernel_us.map(|us| format!(", {us:.2} µs a kernel"));
    let raised = machine.raised_from.map(|timed| {
        let (gigabytes, tera) = (
            timed.bytes_per_second / 1e9,
            timed.operations_per_second / 1e12,
        );
        format!(" (the model shows that; timed were {gigabytes:.1} and {tera:.3})")
    });
    let machine = format!(
        "{} ({}): {} {:.1} GB/s, products {:.3} TFLOP/s{}{}",
        machine.name,
        machine.backend,
        machine.memory,
        machine.rates.bytes_per_second / 1e9,
        machine.rates.operations_per_second / 1e12,
        raised.unwrap_or_default(),
        kernel.unwrap_or_default()
    );
    let parameters = model.parameters;
    let model = format!("{}: {parameters} parameters, {}", model.name, model.dtype);
    [machine, model]
}

fn launches(roofline: &Roofline) -> Option<String> {
    let launches = roofline.launches_per_token?;
    Some(format!(
        "A decoded token starts {launches} kernels, copies and fills."
    ))
}

/// What [`Plausible`] is, and its line.
fn plausible_lines(roofline: &Roofline) -> Vec<String> {
    match &roofline.plausible {
        Some(plausible) => vec![
            "For [engine] in gates/gate.toml, a tenth below the floors:".to_owned(),
            plausible.toml(),
        ],
        None => vec![
            "The weights are so few that they may lie in a cache: memory is no floor then."
                .to_owned(),
        ],
    }
}

/// A row each: decoding, then prompts.
fn rows_shown(roofline: &Roofline) -> Vec<Vec<String>> {
    let decode = roofline.decode.iter().map(|row| cells("TPOT", row));
    let prefill = roofline.prefill.iter().map(|row| cells("TTFT", row));
    decode.chain(prefill).collect()
}

fn table(roofline: &Roofline) -> String {
    let table = report::columns_with_numbers(header().to_vec(), rows_shown(roofline), 1..5);
    let launches = launches(roofline).map_or(String::new(), |line| line + "\n");
    let kernels: String = roofline.kernels.iter().map(kernels::table).collect();
    format!(
        "{}\n\n{table}\n\n{launches}{kernels}{}\n",
        about(roofline).join("\n"),
        plausible_lines(roofline).join("\n")
    )
}

fn html(roofline: &Roofline) -> String {
    let reached = |row: &BoundRow| Reached {
        tokens: row.tokens,
        limit_ms: row.floor.milliseconds,
        median_ms: row.measured_ms.median,
        ends_ms: (row.measured_ms.least, row.measured_ms.greatest),
        bound: row.floor.bound.name(),
    };
    let numbers = SheetTable {
        title: "Numbers".to_owned(),
        header: header().to_vec(),
        rows: rows_shown(roofline),
    };
    let kernels = roofline.kernels.iter().map(kernels::sheet_table);
    RooflinePage {
        model: &roofline.model.name,
        decode: roofline.decode.iter().map(reached).collect(),
        prefill: roofline.prefill.iter().map(reached).collect(),
        about: about(roofline).to_vec(),
        tables: std::iter::once(numbers).chain(kernels).collect(),
        is_cached: roofline.plausible.is_none(),
        plausible: plausible_lines(roofline).join(" "),
        launches: launches(roofline),
        start_ms: &roofline.start_ms,
    }
    .html(command_line())
}
