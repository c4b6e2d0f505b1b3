//! Main's own engine as the reference: built and started as in every session, and asked twice.

use super::goldens::{Asked, GoldenError, GoldenOptions, TOP_K, messages};
use super::prompts::prompts;
use crate::launch::{Artifact, GitError, Origin, Repository, Workspace};
use crate::measure::{Configuration, Host, Started};
use crate::session::arms::{Arms, command};
use crate::session::host::ArmHost;
use crate::session::project::tool;
use crate::session::{Error, Event};
use client::{PromptSeed, SessionClock};
use serde_json::{Value, json};
use std::path::Path;
use verdict::plan::{self, Engine, GoldenCase, Goldens, Workload, WorkloadKind};
use verdict::record::{Arm, Build, Comparison, Exit, Sample, TokenLogprob, is_blank, short};

/// Where the engine's output goes, from the project's root.
const LOG: &str = ".gate/logs/golden-engine.log";

pub async fn ask(
    options: &GoldenOptions,
    engine: &Engine,
    workspace: &Workspace,
    root: &Path,
    on_event: &dyn Fn(Event),
) -> Result<Asked, Error> {
    let build = of_main(engine, workspace, root, on_event).await?;
    let arms = Arms {
        comparison: Comparison::Alone,
        artifacts: build
            .artifact
            .iter()
            .map(|it| (Arm::Base, it.path.clone()))
            .collect(),
        builds: vec![build.described(engine)],
        is_head_a_commit: false,
        foreign: Vec::new(),
    };
    let clock = SessionClock::start();
    let mut host = ArmHost::new(engine, &arms, workspace, root, root, &clock, on_event)?;
    let line = "starting the engine".to_owned();
    on_event(Event::Step { line });
    let started = host
        .start(Arm::Base, &Configuration::default(), LOG)
        .await?;
    let started = started.map_err(|exit| GoldenError::NoEngine {
        detail: detail(exit),
        log: root.join(LOG),
    })?;
    let cases = prompts(options.seed, engine.prompt_ids, options.tokens);
    let line = format!("asking for {} answers, twice each", cases.len());
    on_event(Event::Step { line });
    let answers = answers(cases, &started, &clock).await;
    host.stop(None).await?;
    written(options, engine, &build, answers?)
}

fn detail(exit: Exit) -> String {
    match exit {
        Exit::NeverReady { detail, .. }
        | Exit::Crashed { detail, .. }
        | Exit::Hung { detail, .. }
        | Exit::Altered { detail } => detail,
        Exit::Stopped => "it was stopped".to_owned(),
    }
}

/// What main's engine is made of.
struct OfMain {
    /// `None` where nothing is built.
    artifact: Option<Artifact>,
    commit: Option<String>,
}

impl OfMain {
    fn described(&self, engine: &Engine) -> Build {
        let artifact = self.artifact.as_ref();
        let path = artifact.map(|it| it.path.as_path());
        Build {
            arm: Arm::Base,
            commit: self.commit.clone(),
            subject: None,
            dirty: false,
            artifact_sha256: artifact.map(|it| it.sha256.clone()),
            command: command(engine, path, &[]),
            files: Vec::new(),
            build_s: artifact.map_or(0.0, |it| it.build_s),
            on_ci: None,
        }
    }
}

/// Builds the commit at which this tree left main; an engine that is not built here is taken as it is.
async fn of_main(
    engine: &Engine,
    workspace: &Workspace,
    root: &Path,
    on_event: &dyn Fn(Event),
) -> Result<OfMain, Error> {
    let Some(build) = &engine.build else {
        let commit = match Repository::open(root) {
            Ok(repository) => repository.head().ok(),
            Err(GitError::Missing(_) | GitError::NoRepository(_)) => None,
            Err(error) => return Err(error.into()),
        };
        return Ok(OfMain {
            artifact: None,
            commit,
        });
    };
    let repository = Repository::open(root)?;
    let commit = repository.base_commit(&repository.head()?, None)?;
    let what = format!("main {}", short(&commit));
    on_event(Event::Building { what: what.clone() });
    let built = workspace.build_commit(&repository, build, &commit, Origin::Main);
    let artifact = built.await?;
    let seconds = artifact.build_s;
    on_event(Event::Built { what, seconds });
    Ok(OfMain {
        artifact: Some(artifact),
        commit: Some(commit),
    })
}

/// A prompt with its answer.
type Answered = (GoldenCase, Sample);

/// The answers that are the same twice, and why others were left out.
struct GoldenAnswers {
    kept: Vec<Answered>,
    remarks: Vec<String>,
}

/// With log-probabilities where the engine gives them for every prompt.
async fn answers(
    cases: Vec<GoldenCase>,
    started: &Started,
    clock: &SessionClock,
) -> Result<GoldenAnswers, GoldenError> {
    let scored = said(&cases, Some(TOP_K), started, clock).await;
    let has_logprobs = |sample: &Sample| sample.void.is_none() && !sample.logprobs.is_empty();
    let scored = scored.iter().any(has_logprobs).then_some(scored);
    let first = match scored {
        Some(scored) => scored,
        None => said(&cases, None, started, clock).await,
    };
    let again = said(&cases, None, started, clock).await;
    keep(cases, &first, &again)
}

async fn said(
    cases: &[GoldenCase],
    top_k: Option<u32>,
    started: &Started,
    clock: &SessionClock,
) -> Vec<Sample> {
    let workload = Workload {
        id: "golden/make".into(),
        launches: None,
        kind: WorkloadKind::Goldens(Goldens {
            cases: cases.to_vec(),
            top_k,
            ..Goldens::default()
        }),
    };
    let seed = PromptSeed {
        session: 0,
        block: 0,
    };
    let outcome = client::run(&started.endpoint, &workload, seed, clock, &|_, _| {});
    outcome.await.samples
}

fn keep(
    cases: Vec<GoldenCase>,
    first: &[Sample],
    again: &[Sample],
) -> Result<GoldenAnswers, GoldenError> {
    let of = |samples: &[Sample], case: &GoldenCase| {
        let mut samples = samples.iter();
        samples
            .find(|sample| sample.case.as_deref() == Some(&case.id))
            .cloned()
    };
    let (n, mut kept) = (cases.len(), Vec::new());
    let mut left = Left::default();
    for case in cases {
        let Some(sample) = of(first, &case) else {
            continue;
        };
        match (&sample.void, of(again, &case)) {
            (Some(void), _) => left.refused.push((case.id, void.detail.clone())),
            _ if is_blank(sample.text.as_deref().unwrap_or_default()) => {
                left.blank.push(case.id);
            }
            (None, Some(second)) if second.text == sample.text => kept.push((case, sample)),
            (None, _) => left.unsteady.push(case.id),
        }
    }
    match kept.is_empty() {
        true => Err(GoldenError::NoAnswer {
            cases: n,
            cause: left.remarks().join("; "),
        }),
        false => Ok(GoldenAnswers {
            kept,
            remarks: left.remarks(),
        }),
    }
}

/// Cases without an answer that an engine can be held to.
#[derive(Default)]
struct Left {
    refused: Vec<(String, String)>,
    blank: Vec<String>,
    unsteady: Vec<String>,
}

impl Left {
    fn remarks(&self) -> Vec<String> {
        let named = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("left out, {what}: {}", names.join(", ")))
        };
        let refused: Vec<String> = self.refused.iter().map(|(case, _)| case.clone()).collect();
        let why = self.refused.first().map_or("", |(_, why)| why);
        [
            named(&format!("no answer ({why})"), &refused),
            named("a blank answer", &self.blank),
            named("two different answers to one prompt", &self.unsteady),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn written(
    options: &GoldenOptions,
    engine: &Engine,
    build: &OfMain,
    answers: GoldenAnswers,
) -> Result<Asked, Error> {
    let cases: Vec<Value> = answers.kept.iter().map(case).collect();
    let head = json!({
        "format": "infergate-goldens/1",
        "model": engine.model,
        "made_by": format!("{}, from the engine's own answers", tool()),
        "engine_commit": build.commit,
        "engine_sha256": build.artifact.as_ref().map(|it| &it.sha256),
        "engine_serve": engine.serve,
        "seed": options.seed,
        "max_tokens": options.tokens,
        "top_k": TOP_K,
    });
    let head = head.to_string();
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    let head = head.strip_suffix('}').unwrap_or(&head);
    let text = format!("{head}, \"cases\": [\n{}\n]}}\n", lines.join(",\n"));
    let goldens = plan::read_goldens(&text).map_err(|cause| GoldenError::Unreadable {
        program: "the engine".to_owned(),
        cause,
    })?;
    Ok(Asked {
        text,
        goldens,
        remarks: answers.remarks,
    })
}

fn case((case, sample): &Answered) -> Value {
    let finish = match sample.finish_reason.as_deref() {
        Some("stop") => "stop",
        _ => "length",
    };
    let mut value = json!({
        "id": case.id,
        "max_tokens": case.max_tokens,
        "text": sample.text,
        "finish": finish,
    });
    if let Some(text) = &case.prompt_text {
        value["prompt_text"] = json!(text);
    }
    if !case.prompt_ids.is_empty() {
        value["prompt_ids"] = json!(case.prompt_ids);
    }
    if !case.messages.is_empty() {
        value["messages"] = messages(case);
    }
    let tokens: Option<Vec<Value>> = sample.logprobs.iter().map(token).collect();
    if let Some(tokens) = tokens.filter(|tokens| !tokens.is_empty()) {
        value["tokens"] = json!(tokens);
    }
    value
}

/// `None` where the engine did not tell what else was likely.
fn token(entry: &TokenLogprob) -> Option<Value> {
    let is_told = entry.top.len() >= 2 && entry.top.iter().all(|(_, logprob)| *logprob <= 0.0);
    let logprob = entry.logprob.filter(|logprob| is_told && *logprob <= 0.0)?;
    Some(json!({"text": entry.token, "logprob": logprob, "top": entry.top}))
}
