//! `[workload.NAME]`: every kind of traffic with its numbers.

use super::{data, goldens, trace};
use crate::plan::model::{
    Answers, Arrivals, FirstRequest, Goldens, Logprobs, Matrix, Mixed, Session, Shape, Staggered,
    Steady, Suite, Tasks, Texts, Trace, TraceEntry, Workload, WorkloadKind,
};
use crate::plan::settings::project::read_env;
use crate::plan::source::diagnostic::Diagnostic;
use crate::plan::source::files::Files;
use crate::plan::source::quantity::{self, Dimension};
use crate::plan::source::section::{Field, Section};
use crate::record::{CacheState, Condition};
use std::sync::Arc;
use std::time::Duration;

/// Reads `[workload.NAME]`; what its data files hold is appended to `defined_by`.
pub fn read(
    id: String,
    field: &Field<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<Workload, Diagnostic> {
    type Reader =
        fn(&Section<'_, '_>, &mut dyn Files, &mut Vec<String>) -> Result<WorkloadKind, Diagnostic>;
    let readers: [(&str, Reader); 12] = [
        ("steady", read_steady),
        ("mixed", read_mixed),
        ("trace", read_trace),
        ("first-request", read_first_request),
        ("matrix", read_matrix),
        ("staggered", read_staggered),
        ("answers", read_answers),
        ("session", read_session),
        ("goldens", read_goldens),
        ("texts", read_texts),
        ("tasks", read_tasks),
        ("command", read_suite),
    ];
    let section = field.section()?;
    let reader = section.required("kind")?.choice(&readers)?;
    let launches = section.given("launches", |f| f.count(1..1000))?;
    let kind = reader(&section, files, defined_by)?;
    // The same commit's tests give the same answer: once is enough.
    let once = matches!(kind, WorkloadKind::Suite(_)).then_some(1);
    let launches = launches.or(once);
    section.finish()?;
    Ok(Workload { id, launches, kind })
}

fn read_steady(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let requests = requests(section)?;
    Ok(WorkloadKind::Steady(Steady {
        requests,
        warmup: warmup(section)?,
        prompt_tokens: tokens(section, "prompt_tokens")?,
        output_tokens: tokens(section, "output_tokens")?,
        arrivals: arrivals(section, requests)?,
    }))
}

fn read_mixed(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let shapes_field = section.required("shapes")?;
    let shapes = shapes_field
        .list()?
        .iter()
        .map(|field| read_shape(field.section()?))
        .collect::<Result<Vec<_>, _>>()?;
    if shapes.is_empty() {
        return Err(shapes_field.wrong("a mixed workload needs a shape"));
    }
    let requests = requests(section)?;
    let arrivals = arrivals(section, requests)?;
    let duration_field = section.optional("duration");
    if let (Some(field), Arrivals::Closed { .. }) = (&duration_field, &arrivals) {
        return Err(field.wrong(
            "a closed loop ends with its last request; remove this line, or give `arrivals` and `rate`",
        ));
    }
    Ok(WorkloadKind::Mixed(Mixed {
        requests,
        warmup: warmup(section)?,
        shapes,
        arrivals,
        duration: duration_field.map(|f| f.duration()).transpose()?,
    }))
}

fn read_shape(section: Section<'_, '_>) -> Result<Shape, Diagnostic> {
    let shape = Shape {
        prompt_tokens: tokens(&section, "prompt_tokens")?,
        output_tokens: tokens(&section, "output_tokens")?,
        weight: section
            .given("weight", |f| f.count(1..10_001))?
            .unwrap_or(1),
        streamed: section.given("streamed", Field::flag)?.unwrap_or(true),
    };
    section.finish()?;
    Ok(shape)
}

fn read_trace(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let file = section.required("file")?;
    let mut lines = read_data(&file, files, defined_by, trace::entries)?;
    let warmup = warmup(section)?;
    if let Some(field) = section.optional("requests") {
        let requests = field.count(1..1_000_001)? as usize;
        if requests > lines.len() {
            return Err(field.wrong(format!("the file holds {} requests", lines.len())));
        }
        lines.truncate(requests);
    }
    let measured = lines.len().saturating_sub(warmup as usize);
    if measured == 0 {
        return Err(file.wrong("nothing is left of the trace after its warm-up"));
    }
    let recorded: Option<Vec<Duration>> = lines.iter().map(|line| line.at).collect();
    let paces = ["concurrency", "arrivals"];
    let has_pace = paces.iter().any(|key| section.optional(key).is_some());
    let arrivals = match recorded.filter(|_| !has_pace) {
        Some(mut at) => {
            if let Some(field) = section.optional("speed") {
                speed_up(&mut at, &field)?;
            }
            Arrivals::Recorded { at }
        }
        None => arrivals(section, u32::try_from(measured).unwrap_or(u32::MAX))?,
    };
    let default = section.given("output_tokens", |f| f.count(1..1_000_001))?;
    let entries = lines.into_iter().map(|line| {
        let output_tokens = line.output_tokens.or(default)?;
        Some(TraceEntry {
            prompt: line.prompt,
            output_tokens,
        })
    });
    let entries: Option<Arc<[TraceEntry]>> = entries.collect();
    let entries = entries.ok_or_else(|| {
        file.wrong(
            "some of its requests have no `output_length`: say `output_tokens = N` for those",
        )
    })?;
    Ok(WorkloadKind::Trace(Trace {
        entries,
        warmup,
        arrivals,
        ramp_up: None,
        duration: None,
    }))
}

fn speed_up(moments: &mut [Duration], field: &Field<'_, '_>) -> Result<(), Diagnostic> {
    let speed = field.quantity(Dimension::Ratio)?;
    if speed <= 0.0 {
        return Err(field.wrong("`speed` must be more than nothing"));
    }
    for at in moments {
        *at = quantity::time(at.as_secs_f64() / speed)
            .ok_or_else(|| field.wrong("at this `speed` the trace takes more than a century"))?;
    }
    Ok(())
}

fn read_first_request(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    Ok(WorkloadKind::FirstRequest(FirstRequest {
        prompt_tokens: tokens(section, "prompt_tokens")?,
        output_tokens: tokens(section, "output_tokens")?,
    }))
}

fn read_matrix(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let streaming = section
        .given("streamed", |f| axis(f, |item| item.flag()))?
        .unwrap_or_else(|| vec![true]);
    let caches = section
        .given("caches", |f| {
            axis(f, |item| {
                item.choice(&CacheState::ALL.map(|cache| (cache.name(), cache)))
            })
        })?
        .unwrap_or_else(|| vec![CacheState::Cold]);
    let contexts_field = section.required("contexts")?;
    let contexts = axis(&contexts_field, |item| item.count(1..1_000_001))?;
    if caches.contains(&CacheState::Warm) && contexts.iter().any(|context| *context < 2) {
        return Err(contexts_field.wrong("half a prompt of one token is none: `warm` needs two"));
    }
    Ok(WorkloadKind::Matrix(Matrix {
        batches: axis(&section.required("batches")?, |item| item.count(1..4097))?,
        caches,
        streamed: streaming,
        contexts,
        output_tokens: tokens(section, "output_tokens")?,
        passes: section.required("passes")?.count(1..10_001)?,
        rounds: section
            .given("rounds", |f| f.count(1..10_001))?
            .unwrap_or(1),
        warmup: warmup(section)?,
        logprobs: logprobs(section)?,
    }))
}

fn logprobs(section: &Section<'_, '_>) -> Result<Logprobs, Diagnostic> {
    let top_k = section.given("top_k", |f| f.count(1..21))?;
    let near_tie = section.optional("near_tie");
    if let (None, Some(field)) = (top_k, &near_tie) {
        return Err(field.wrong("a near-tie is seen in log-probabilities: say `top_k = 5` too"));
    }
    if top_k.is_some() && near_tie.is_none() {
        return Err(section.wrong("`top_k` needs `near_tie`, such as `near_tie = \"0.3 nats\"`"));
    }
    Ok(Logprobs {
        top_k,
        near_tie_nats: near_tie.map(|f| f.quantity(Dimension::Nats)).transpose()?,
    })
}

/// An axis of the matrix: at least one value, none twice.
fn axis<'a, 'd, T: PartialEq>(
    field: &Field<'a, 'd>,
    read: impl Fn(&Field<'a, 'd>) -> Result<T, Diagnostic>,
) -> Result<Vec<T>, Diagnostic> {
    let mut values = Vec::new();
    for item in field.list()? {
        let value = read(&item)?;
        if values.contains(&value) {
            return Err(item.wrong(format!("`{}` holds a value twice", field.name)));
        }
        values.push(value);
    }
    if values.is_empty() {
        return Err(field.wrong(format!("`{}` is empty", field.name)));
    }
    Ok(values)
}

fn read_staggered(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    Ok(WorkloadKind::Staggered(Staggered {
        users: section.required("users")?.count(2..1025)?,
        offset: section.required("offset")?.duration()?,
        prompt_tokens: tokens(section, "prompt_tokens")?,
        output_tokens: tokens(section, "output_tokens")?,
        passes: section.required("passes")?.count(1..10_001)?,
        warmup: warmup(section)?,
    }))
}

fn requests(section: &Section<'_, '_>) -> Result<u32, Diagnostic> {
    section.required("requests")?.count(1..1_000_001)
}

fn warmup(section: &Section<'_, '_>) -> Result<u32, Diagnostic> {
    section.required("warmup")?.count(0..100_001)
}

fn tokens(section: &Section<'_, '_>, key: &'static str) -> Result<u32, Diagnostic> {
    section.required(key)?.count(1..1_000_001)
}

/// `concurrency = N` (a closed loop) or `arrivals = "poisson"` and its like with a `rate`.
fn arrivals(section: &Section<'_, '_>, requests: u32) -> Result<Arrivals, Diagnostic> {
    #[derive(Clone, Copy)]
    enum Name {
        Poisson,
        Gamma,
        Constant,
        Burst,
    }
    if let Some(field) = section.optional("concurrency") {
        return closed_loop(&field, requests);
    }
    let Some(field) = section.optional("arrivals") else {
        let keys = ["concurrency", "arrivals"];
        let misspelt = keys.into_iter().find_map(|key| section.misspelt(key));
        let neither = || {
            section.wrong(
                "say `concurrency = N`, or `arrivals = \"poisson\"` (`gamma`, `constant`, `burst`) with its rate",
            )
        };
        return Err(misspelt.unwrap_or_else(neither));
    };
    let name = field.choice(&[
        ("poisson", Name::Poisson),
        ("gamma", Name::Gamma),
        ("constant", Name::Constant),
        ("burst", Name::Burst),
    ])?;
    let rate = || {
        let field = section.required("rate")?;
        let rate = field.quantity(Dimension::Rate)?;
        if rate <= 0.0 {
            return Err(field.wrong("`rate` must be more than nothing"));
        }
        match quantity::time(1.0 / rate) {
            Some(_) => Ok(rate),
            None => Err(field.wrong("at this `rate` a request comes once in a century")),
        }
    };
    Ok(match name {
        Name::Poisson => Arrivals::Poisson { rate: rate()? },
        Name::Gamma => Arrivals::Gamma {
            rate: rate()?,
            shape: gamma_shape(section)?,
        },
        Name::Constant => Arrivals::Constant { rate: rate()? },
        Name::Burst => Arrivals::Burst {
            size: section.required("burst")?.count(1..4097)?,
            every: section.required("every")?.duration()?,
        },
    })
}

/// Of the gaps' gamma distribution; 1 is a Poisson process.
fn gamma_shape(section: &Section<'_, '_>) -> Result<f64, Diagnostic> {
    let field = section.required("shape")?;
    let shape = field.quantity(Dimension::Ratio)?;
    if !(0.01..=1e4).contains(&shape) {
        return Err(field.wrong("`shape` must lie between 0.01 and 10000"));
    }
    Ok(shape)
}

/// More streams than requests are never in flight together: fewer would be measured than the gate says.
fn closed_loop(field: &Field<'_, '_>, requests: u32) -> Result<Arrivals, Diagnostic> {
    let concurrency = field.count(1..4097)?;
    if concurrency <= requests {
        return Ok(Arrivals::Closed { concurrency });
    }
    let mut refusal = field.wrong(format!(
        "of {requests} requests {concurrency} can never be in flight at once"
    ));
    refusal.help = Some(format!(
        "set `requests` to {concurrency} or more, the warm-up not counted, or `concurrency` to {requests} or fewer"
    ));
    Err(refusal)
}

fn read_answers(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let conditions = section.given("conditions", |f| {
        axis(f, |item| {
            item.choice(&[
                ("sampled", Condition::Sampled),
                ("stopped", Condition::Stopped),
                ("left", Condition::Left),
                ("ended", Condition::Ended),
                ("penalised", Condition::Penalised),
                ("refused", Condition::Refused),
            ])
        })
    })?;
    let conditions = conditions.unwrap_or_default();
    let beyond = section.optional("beyond_tokens");
    let beyond_tokens = match beyond {
        Some(field) if !conditions.contains(&Condition::Refused) => {
            return Err(field.wrong("only the condition `refused` sends such a prompt"));
        }
        Some(field) => Some(field.count(1..1_000_001)?),
        None => None,
    };
    Ok(WorkloadKind::Answers(Answers {
        prompts: section.required("prompts")?.count(1..1001)?,
        prompt_tokens: tokens(section, "prompt_tokens")?,
        output_tokens: section.required("output_tokens")?.count(2..1_000_001)?,
        batch: section.required("batch")?.count(2..4097)?,
        beside_tokens: tokens(section, "beside_tokens")?,
        passes: section.required("passes")?.count(1..10_001)?,
        conditions,
        beyond_tokens,
        logprobs: logprobs(section)?,
    }))
}

fn read_session(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let turns_field = section.required("turns")?;
    let session = Session {
        turns: turns_field.count(1..100_001)?,
        warmup_turns: section.required("warmup_turns")?.count(0..10_001)?,
        message_words: section.required("message_words")?.count(1..10_001)?,
        reply_tokens: section.required("reply_tokens")?.count(1..10_001)?,
        spacing: section.given("spacing", Field::duration)?,
        duration: section.given("duration", Field::duration)?,
    };
    if session.turns < session.warmup_turns + 3 {
        return Err(turns_field.wrong("a session needs at least 3 turns after its warm-up"));
    }
    Ok(WorkloadKind::Session(session))
}

fn read_goldens(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let field = section.required("file")?;
    let data = read_data(&field, files, defined_by, goldens::goldens).map_err(to_be_made)?;
    Ok(WorkloadKind::Goldens(Goldens {
        cases: data.cases,
        texts: data.texts,
        stop_ids: data.stop_ids,
        near_tie_nats: section.required("near_tie")?.quantity(Dimension::Nats)?,
        top_k: section.given("top_k", |f| f.count(1..21))?,
    }))
}

fn read_texts(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let cases = read_data(&section.required("file")?, files, defined_by, data::texts)?;
    Ok(WorkloadKind::Texts(Texts {
        cases,
        top_k: section.required("top_k")?.count(1..21)?,
    }))
}

/// Adds to the refusal of a goldens file which command makes one.
fn to_be_made(mut refusal: Diagnostic) -> Diagnostic {
    refusal.help = Some(
        "`gate golden make --model MODEL` makes it with Hugging Face transformers, `gate golden make --engine` from \
         main's own answers"
            .into(),
    );
    refusal
}

fn read_tasks(
    section: &Section<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let cases = read_data(&section.required("file")?, files, defined_by, data::tasks)?;
    Ok(WorkloadKind::Tasks(Tasks { cases }))
}

fn read_suite(
    section: &Section<'_, '_>,
    _: &mut dyn Files,
    _: &mut Vec<String>,
) -> Result<WorkloadKind, Diagnostic> {
    let field = section.required("command")?;
    let command = field.texts()?;
    if command.first().is_none_or(String::is_empty) {
        return Err(field.wrong("`command` is empty: it must name the program that runs the tests"));
    }
    let env = read_env(section)?;
    let junit = section.given("junit", read_report_path)?;
    let names_report = |word: &String| word.contains("{junit}");
    if junit.is_none()
        && command
            .iter()
            .chain(env.iter().map(|(_, v)| v))
            .any(names_report)
    {
        return Err(field.wrong("`{junit}` needs `junit = \"PATH\"`, which takes its place"));
    }
    Ok(WorkloadKind::Suite(Suite {
        command,
        env,
        junit,
        timeout: section.required("timeout")?.duration()?,
    }))
}

/// A file in the tree or below `{target}`.
fn read_report_path(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let path = field.text()?;
    let is_within =
        !path.is_empty() && !path.starts_with('/') && !path.split('/').any(|p| p == "..");
    if !is_within {
        return Err(field.wrong(
            "`junit` must name a file in the tree, such as \"reports/junit.xml\", or below {target}",
        ));
    }
    Ok(path.to_owned())
}

/// Reads a data file that stands beside the gates, as `parse` understands it.
fn read_data<T>(
    field: &Field<'_, '_>,
    files: &mut dyn Files,
    defined_by: &mut Vec<String>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, Diagnostic> {
    let name = field.text()?;
    if name.starts_with('/') || name.split('/').any(|part| part == "..") {
        return Err(field.wrong(format!("`{name}` leaves the folder `gates/`")));
    }
    let path = format!("gates/{name}");
    let text = files
        .read(&path)
        .map_err(|error| field.wrong(format!("cannot read `{path}`: {error}")))?;
    let data = parse(&text).map_err(|reason| field.wrong(format!("`{path}`: {reason}")))?;
    defined_by.push(text);
    Ok(data)
}
