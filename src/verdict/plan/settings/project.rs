//! `gates/gate.toml`: the engine under test, profiles, error budgets and the baseline store.

use super::host;
use super::{github, labels, store};
use crate::plan::model::{
    BaselineConfig, Build, CalibrationConfig, Cooldown, Design, Engine, EngineMetrics, Host,
    Plausible, Spending, Telemetry,
};
use crate::plan::model::{CALIBRATED_LAUNCHES, LAUNCHES};
use crate::plan::source::diagnostic::{Diagnostic, suggestion};
use crate::plan::source::quantity::Dimension;
use crate::plan::source::section::{Field, Section, Source};
use crate::record::Interleave;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// How long a launch may run until what it has so far is saved, where the profile says nothing.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// What `gate.toml` says, for one profile.
pub struct Project {
    pub engine: Engine,
    pub telemetry: Telemetry,
    pub design: Design,
    pub baseline: BaselineConfig,
    pub calibration: CalibrationConfig,
    pub host: Host,
    /// Names of all profiles, the chosen one among them.
    pub profiles: Vec<String>,
    /// The profile whose values of gates hold where the chosen one has none.
    pub like: Option<String>,
}

pub fn read(source: Source<'_>, profile: &str) -> Result<Project, Diagnostic> {
    let table = source.parse()?;
    // Nothing in this file but the profiles themselves differs by profile.
    let root = Section::root(source, &table, "");
    let engine = read_engine(root.required("engine")?.section()?)?;
    let telemetry = read_telemetry(&root)?;
    let design = read_design(&root, profile)?;
    let profiles = profile_names(&root)?;
    let like = read_like(&root, profile)?;
    let baseline = read_baseline(&root)?;
    let calibration = read_calibration(&root)?;
    let host = host::read(&root)?;
    // No session needs these: they are read to be refused where they are wrong, and again by `github_rules`.
    github::read(&root)?;
    labels::read(&root, None)?;
    root.finish()?;
    Ok(Project {
        engine,
        telemetry,
        design,
        baseline,
        calibration,
        host,
        profiles,
        like,
    })
}

/// Each profile with the gates that it names; profiles that name none are left out.
pub fn gates_by_profile(source: Source<'_>) -> Result<Vec<(String, Vec<String>)>, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, "");
    let profiles = root.required("profile")?.section()?.entries();
    let mut by_profile = Vec::new();
    for (name, profile) in profiles {
        let gates = profile.section()?.given("gates", Field::texts)?;
        by_profile.extend(gates.map(|gates| (name.to_owned(), gates)));
    }
    Ok(by_profile)
}

fn profile_names(root: &Section<'_, '_>) -> Result<Vec<String>, Diagnostic> {
    let entries = root.required("profile")?.section()?.entries();
    Ok(entries.iter().map(|(name, _)| (*name).to_owned()).collect())
}

/// `profile.NAME.like` of the chosen profile; that of every other one is checked too.
fn read_like(root: &Section<'_, '_>, chosen: &str) -> Result<Option<String>, Diagnostic> {
    let profiles = root.required("profile")?.section()?.entries();
    let mut of_chosen = None;
    for (name, field) in &profiles {
        let Some(like) = field.section()?.optional("like") else {
            continue;
        };
        let text = like.text()?;
        let others = profiles.iter().filter(|(other, _)| other != name);
        let Some((_, other)) = others.clone().find(|(other, _)| *other == text) else {
            let mut refusal = like.wrong(format!("there is no other profile `{text}`"));
            refusal.help = Some(suggestion(text, others.map(|(other, _)| *other)));
            return Err(refusal);
        };
        if other.section()?.optional("like").is_some() {
            return Err(like.wrong(format!("`{text}` has a `like` itself: name that profile")));
        }
        if *name == chosen {
            of_chosen = Some(text.to_owned());
        }
    }
    Ok(of_chosen)
}

/// The refusal of a gate that a profile names and that is not there.
///
/// # Errors
/// The profile cannot be read.
pub fn unknown_gate(
    source: Source<'_>,
    profile: &str,
    gate: &str,
    help: String,
) -> Result<Diagnostic, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, "");
    let profiles = root.required("profile")?;
    let entries = profiles.section()?.entries();
    let named = entries.iter().find(|(name, _)| *name == profile);
    let profile = named.map_or(&profiles, |(_, field)| field).section()?;
    let gates = profile.required("gates")?;
    let names = gates.list()?;
    let wrong = names.iter().find(|name| name.text() == Ok(gate));
    let wrong = wrong.unwrap_or(&gates);
    let mut refusal = wrong.wrong(format!("unknown gate `{gate}`"));
    refusal.help = Some(help);
    Ok(refusal)
}

pub fn read_engine(engine: Section<'_, '_>) -> Result<Engine, Diagnostic> {
    // Not a `request_timeout` that was mistyped.
    engine.foresee(&["request"]);
    let build = engine.given("build", |field| read_build(field.section()?))?;
    let serve_field = engine.required("serve")?;
    let serve = serve_field.texts()?;
    let env = read_env(&engine)?;
    check_command(&serve_field, &serve, &env, build.is_some())?;
    let read = Engine {
        build,
        serve,
        env,
        model: engine.required("model")?.text()?.to_owned(),
        ready_timeout: engine.required("ready_timeout")?.duration()?,
        request_timeout: engine.required("request_timeout")?.duration()?,
        startup_metric: engine.given("startup_metric", |f| f.text().map(str::to_owned))?,
        return_token_ids: engine
            .given("return_token_ids", Field::flag)?
            .unwrap_or(false),
        prompt_ids: engine.given("prompt_ids", read_ids)?,
        forces_length: engine.given("forces_length", Field::flag)?.unwrap_or(true),
        stream_usage: engine.given("stream_usage", Field::flag)?.unwrap_or(true),
        keep_alive: engine.given("keep_alive", Field::flag)?.unwrap_or(true),
        chat: engine
            .given("chat", |f| read_chat(&engine, f))?
            .unwrap_or(false),
        headers: engine.given("headers", read_headers)?.unwrap_or_default(),
        request: engine.given("request", read_request)?.unwrap_or_default(),
        tokenizer: engine.given("tokenizer", |f| f.text().map(PathBuf::from))?,
        files: engine.given("files", Field::texts)?.unwrap_or_default(),
        metrics: engine
            .given("metrics", |f| read_metrics(f.section()?))?
            .unwrap_or_default(),
        plausible: engine
            .given("plausible", |f| read_plausible(f.section()?))?
            .unwrap_or_default(),
    };
    engine.finish()?;
    Ok(read)
}

/// Keys of requests that are the client's own.
pub const REQUEST_KEYS: [&str; 13] = [
    "echo",
    "ignore_eos",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "min_tokens",
    "model",
    "prompt",
    "return_token_ids",
    "stream",
    "stream_options",
    "temperature",
];

fn read_request(field: &Field<'_, '_>) -> Result<Vec<(String, Value)>, Diagnostic> {
    let section = field.section()?;
    let entries = section.entries();
    let read = entries.iter().map(|(name, field)| {
        if REQUEST_KEYS.contains(name) {
            return Err(field.wrong(format!("`{name}` is set by the workload")));
        }
        Ok(((*name).to_owned(), field.json()?))
    });
    read.collect()
}

fn read_chat(engine: &Section<'_, '_>, field: &Field<'_, '_>) -> Result<bool, Diagnostic> {
    let chat = field.flag()?;
    if chat && let Some(ids) = engine.optional("prompt_ids") {
        return Err(ids.wrong("a chat's prompt is text: leave `prompt_ids` out, or `chat`"));
    }
    Ok(chat)
}

/// Headers that the client sets by itself, in small letters.
pub const CLIENT_HEADERS: [&str; 7] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "transfer-encoding",
];

/// Most headers, and the longest name of one: far above what is used, and below what an HTTP library bears.
const MOST_HEADERS: usize = 100;
const LONGEST_NAME: usize = 256;

fn read_headers(field: &Field<'_, '_>) -> Result<Vec<(String, String)>, Diagnostic> {
    let section = field.section()?;
    let entries = section.entries();
    if entries.len() > MOST_HEADERS {
        return Err(field.wrong(format!("at most {MOST_HEADERS} headers are sent")));
    }
    let read = entries.iter().enumerate().map(|(place, (name, field))| {
        let value = field.text()?;
        let is_this = |(earlier, _): &(&str, Field<'_, '_>)| earlier.eq_ignore_ascii_case(name);
        if entries[..place].iter().any(is_this) {
            return Err(field.wrong(format!("the header `{name}` is there twice")));
        }
        // RFC 9110, section 5.6.2.
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(is_token) {
            return Err(field.wrong(format!("`{name}` is no name of a header")));
        }
        if CLIENT_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(field.wrong(format!("`{name}` is set by the client")));
        }
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(field.wrong("a header's value is visible ASCII"));
        }
        Ok(((*name).to_owned(), value.to_owned()))
    });
    read.collect()
}

fn read_metrics(section: Section<'_, '_>) -> Result<EngineMetrics, Diagnostic> {
    let name = |key| section.given(key, |f| f.text().map(str::to_owned));
    let metrics = EngineMetrics {
        kv_bytes: name("kv_bytes")?,
        kv_usage: name("kv_usage")?,
        running: name("running")?,
        waiting: name("waiting")?,
        preemptions: name("preemptions")?,
        prefix_hits: name("prefix_hits")?,
        prefix_queries: name("prefix_queries")?,
    };
    section.finish()?;
    Ok(metrics)
}

fn read_plausible(section: Section<'_, '_>) -> Result<Plausible, Diagnostic> {
    let plausible = Plausible {
        tpot_floor_ms: section.given("tpot_floor", |f| f.quantity(Dimension::Time))?,
        prefill_floor_us: section
            .given("prefill_floor", |f| f.quantity(Dimension::TimePerToken))?,
    };
    section.finish()?;
    Ok(plausible)
}

fn read_telemetry(root: &Section<'_, '_>) -> Result<Telemetry, Diagnostic> {
    let mut telemetry = Telemetry::default();
    let Some(field) = root.optional("telemetry") else {
        return Ok(telemetry);
    };
    let section = field.section()?;
    if let Some(field) = section.optional("every") {
        telemetry.every = field.duration()?;
        if !(Duration::from_millis(20)..=Duration::from_secs(3_600)).contains(&telemetry.every) {
            return Err(field.wrong("`telemetry.every` must lie between 20 ms and 1 h"));
        }
    }
    telemetry.gpu_exporter = section.given("gpu_exporter", |f| f.text().map(str::to_owned))?;
    telemetry.others_cpu = section.given("others_cpu", |f| f.quantity(Dimension::Cores))?;
    section.finish()?;
    Ok(telemetry)
}

fn check_command(
    field: &Field<'_, '_>,
    serve: &[String],
    env: &[(String, String)],
    built: bool,
) -> Result<(), Diagnostic> {
    if serve.is_empty() {
        return Err(field.wrong("`engine.serve` is empty: it must start the server"));
    }
    if !serve.iter().any(|word| word.contains("{port}")) {
        let mut refusal = field.wrong("`engine.serve` never says `{port}`");
        refusal.help = Some("the gate picks a free port for each launch: pass `{port}`".into());
        return Err(refusal);
    }
    let mut words = serve.iter().chain(env.iter().map(|(_, value)| value));
    match (built, words.any(|word| word.contains("{artifact}"))) {
        (false, true) => {
            Err(field.wrong("`{artifact}` needs a table `engine.build` that makes one"))
        }
        (true, false) => {
            let message = "`engine.serve` never says `{artifact}`: head and base would both start the same program";
            let mut refusal = field.wrong(message);
            refusal.help = Some(
                "`{artifact}` is the file that `engine.build` made; a script takes it as an argument".into(),
            );
            Err(refusal)
        }
        _ => Ok(()),
    }
}

fn read_build(build: Section<'_, '_>) -> Result<Build, Diagnostic> {
    let field = build.required("command")?;
    let command = field.texts()?;
    if command.is_empty() {
        return Err(field.wrong("`engine.build.command` is empty"));
    }
    let artifact_field = build.required("artifact")?;
    let artifact = PathBuf::from(artifact_field.text()?);
    if artifact.is_absolute() {
        return Err(artifact_field.wrong("`engine.build.artifact` must be relative to the tree"));
    }
    let read = Build {
        command,
        env: read_env(&build)?,
        artifact,
        timeout: build.required("timeout")?.duration()?,
    };
    build.finish()?;
    Ok(read)
}

pub fn read_env(section: &Section<'_, '_>) -> Result<Vec<(String, String)>, Diagnostic> {
    let Some(field) = section.optional("env") else {
        return Ok(Vec::new());
    };
    field
        .section()?
        .entries()
        .into_iter()
        .map(|(key, value)| Ok((key.to_owned(), value.text()?.to_owned())))
        .collect()
}

fn read_ids(field: &Field<'_, '_>) -> Result<(u32, u32), Diagnostic> {
    let section = field.section()?;
    let from = section.required("from")?.count(0..u32::MAX)?;
    let to = section.required("to")?.count(0..u32::MAX)?;
    section.finish()?;
    if to <= from + 1 {
        return Err(field.wrong("`prompt_ids` must hold at least two token ids"));
    }
    Ok((from, to))
}

fn read_design(root: &Section<'_, '_>, profile: &str) -> Result<Design, Diagnostic> {
    let errors = root.required("errors")?.section()?;
    // The two budgets have names so alike that the one would be taken for the other, mistyped.
    errors.foresee(&["false_alarm", "false_pass"]);
    let alpha = share(&errors.required("false_alarm")?)?;
    let beta = share(&errors.required("false_pass")?)?;
    let spending = errors.given("spending", |f| {
        f.choice(&Spending::ALL.map(|spending| (spending.name(), spending)))
    })?;
    let budgets = Errors {
        alpha,
        beta,
        spending: spending.unwrap_or_default(),
    };
    errors.finish()?;
    let profiles_field = root.required("profile")?;
    let profiles = profiles_field.section()?.entries();
    let mut chosen = None;
    for (name, field) in &profiles {
        // Each profile is checked, also those that this run does not use.
        let read = read_profile(name, budgets, field)?;
        if *name == profile {
            chosen = Some(read);
        }
    }
    chosen.ok_or_else(|| {
        let mut refusal = profiles_field.wrong(format!("unknown profile `{profile}`"));
        refusal.help = Some(suggestion(profile, profiles.iter().map(|(name, _)| *name)));
        refusal
    })
}

/// The budgets for errors, and how the looks share them.
#[derive(Clone, Copy)]
struct Errors {
    alpha: f64,
    beta: f64,
    spending: Spending,
}

fn read_profile(name: &str, errors: Errors, field: &Field<'_, '_>) -> Result<Design, Diagnostic> {
    let section = field.section()?;
    section.foresee(&["like"]);
    let looks_field = section.required("looks")?;
    let looks = looks_field
        .list()?
        .iter()
        .map(|look| look.count(CALIBRATED_LAUNCHES..1001))
        .collect::<Result<Vec<_>, _>>()?;
    if looks.is_empty() || !looks.is_sorted_by(|a, b| a < b) {
        return Err(
            looks_field.wrong("`looks` must be rising numbers of blocks, such as [4, 6, 8]")
        );
    }
    if looks.last().is_some_and(|last| *last < LAUNCHES) {
        return Err(looks_field.wrong(
            "the last of `looks` must be 4 blocks or more: three launches an arm decide only where the machine is \
             calibrated",
        ));
    }
    let design = Design {
        profile: name.to_owned(),
        gates: section.given("gates", Field::texts)?.unwrap_or_default(),
        looks,
        alpha: errors.alpha,
        beta: errors.beta,
        spending: errors.spending,
        budget: section.required("budget")?.duration()?,
        checkpoint_every: section
            .given("checkpoint_every", Field::duration)?
            .unwrap_or(CHECKPOINT_EVERY),
        cooldown: section.given("cooldown", |f| read_cooldown(f.section()?))?,
        interleave: section
            .given("interleave", |field| {
                field.choice(&[Interleave::Launches, Interleave::Requests].map(|i| (i.name(), i)))
            })?
            .unwrap_or_default(),
    };
    section.finish()?;
    Ok(design)
}

fn read_cooldown(section: Section<'_, '_>) -> Result<Cooldown, Diagnostic> {
    let cooldown = Cooldown {
        budget: section.required("budget")?.duration()?,
        burst: section.required("burst")?.duration()?,
        within: section.required("within")?.quantity(Dimension::Fraction)?,
        pause: section.required("pause")?.duration()?,
    };
    section.finish()?;
    Ok(cooldown)
}

pub fn read_baseline(root: &Section<'_, '_>) -> Result<BaselineConfig, Diagnostic> {
    let section = root.required("baseline")?.section()?;
    let config = BaselineConfig {
        directory: PathBuf::from(section.required("directory")?.text()?),
        max_age_days: days(&section.required("max_age")?)?,
        anchor: section.given("anchor", read_ref)?,
        store: section.given("store", store::read)?,
        keep_days: section.given("keep", days)?,
    };
    section.finish()?;
    Ok(config)
}

pub fn read_calibration(root: &Section<'_, '_>) -> Result<CalibrationConfig, Diagnostic> {
    let mut config = CalibrationConfig::default();
    let Some(field) = root.optional("calibration") else {
        return Ok(config);
    };
    let section = field.section()?;
    if let Some(field) = section.optional("directory") {
        config.directory = PathBuf::from(field.text()?);
    }
    if let Some(field) = section.optional("max_age") {
        config.max_age_days = days(&field)?;
    }
    section.finish()?;
    Ok(config)
}

/// An age in whole days.
fn days(field: &Field<'_, '_>) -> Result<u32, Diagnostic> {
    const DAY_MS: f64 = 86_400e3;
    let days = field.quantity(Dimension::Time)? / DAY_MS;
    if !(1.0..=3650.0).contains(&days) {
        let text = format!("`{}` must lie between 1 and 3650 days", field.name);
        return Err(field.wrong(text));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked just above"
    )]
    let days = days as u32;
    Ok(days)
}

/// The name of a git ref: what would be read as an option, or as nothing, is none.
fn read_ref(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        let mut refusal = field.wrong(format!("`{}` must be a git ref", field.name));
        refusal.help = Some("name a release that stays as it is, such as \"v0.3.0\"".into());
        return Err(refusal);
    }
    Ok(name.to_owned())
}

/// A probability strictly between 0 and 50 %: a run that must never be wrong would never end.
fn share(field: &Field<'_, '_>) -> Result<f64, Diagnostic> {
    let value = field.quantity(Dimension::Fraction)?;
    if value > 0.0 && value < 0.5 {
        Ok(value)
    } else {
        Err(field.wrong(format!(
            "`{}` must lie above 0 % and below 50 %",
            field.name
        )))
    }
}
