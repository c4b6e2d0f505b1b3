//! Hugging Face transformers as the reference: a Python environment where there is none yet, and the script in it.

use super::goldens::{Asked, GoldenError, GoldenOptions, TOP_K, messages};
use super::prompts::prompts;
use crate::launch::{Process, ProcessError, Start, program};
use crate::session::{Error, Event};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use verdict::plan::{self, GoldenCase};

const SCRIPT: &str = include_str!("reference.py");

/// What the environment holds, every version pinned.
const REQUIREMENTS: &str = include_str!("../../../../scripts/tiny_qwen3/requirements.txt");

/// Exit code of the script where there is no such model.
const NO_MODEL: i32 = 2;

/// Longer than a download or a large model on a CPU takes: whoever waits ends it sooner.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub async fn ask(
    options: &GoldenOptions,
    (model, python): (&str, Option<&Path>),
    root: &Path,
    on_event: &dyn Fn(Event),
) -> Result<Asked, Error> {
    let model = located(model, &options.start)?;
    let runner = Runner {
        root,
        on_event,
        log: root.join(".gate/logs/golden.log"),
    };
    let python = match python {
        Some(python) => named(python, &options.start)?,
        None => runner.environment().await?,
    };
    let folder = tempfile::tempdir_in(root.join(".gate")).map_err(|e| failed(root, e))?;
    let [script, request, out] =
        ["reference.py", "request.json", "goldens.json"].map(|name| folder.path().join(name));
    fs::write(&script, SCRIPT).map_err(|e| failed(&script, e))?;
    let asked = request_of(options, &model).to_string();
    fs::write(&request, asked).map_err(|e| failed(&request, e))?;
    runner.step(format!(
        "asking transformers for {model}'s answers; output: {}",
        runner.log.display()
    ));
    let status = runner.run(&[&python, &script, &request, &out]).await?;
    if !status.success() {
        let log = runner.log;
        return Err(match status.code() {
            Some(NO_MODEL) => GoldenError::Model { model, log },
            _ => GoldenError::Failed {
                model,
                status: status.to_string(),
                log,
            },
        }
        .into());
    }
    read(&out, &python)
}

/// The directory, or the hub's name of a model: what looks like a path must be there.
fn located(model: &str, start: &Path) -> Result<String, Error> {
    let path = start.join(model);
    if path.is_dir() {
        return Ok(path.display().to_string());
    }
    let is_name = model.split('/').count() <= 2 && !model.starts_with(['.', '/', '~']);
    match is_name && !model.is_empty() {
        true => Ok(model.to_owned()),
        false => Err(Error::Usage(format!(
            "--model {model}: there is no such directory; name one with config.json, weights and tokenizer.json, or a \
             model on the Hugging Face hub, such as Qwen/Qwen3-0.6B"
        ))),
    }
}

/// The interpreter that was named: a path, or a program on PATH.
fn named(python: &Path, start: &Path) -> Result<PathBuf, Error> {
    let found = program(&python.to_string_lossy(), start, &[]);
    found.ok_or_else(|| {
        Error::Usage(format!(
            "--python {}: there is no such program; name a Python that has PyTorch and transformers, or leave --python out \
             to have them installed",
            python.display()
        ))
    })
}

fn request_of(options: &GoldenOptions, model: &str) -> Value {
    let cases = prompts(options.seed, None, options.tokens);
    let prompts: Vec<Value> = cases.iter().map(prompt).collect();
    json!({
        "model": model,
        "seed": options.seed,
        "tokens": options.tokens,
        "top_k": TOP_K,
        "prompts": prompts,
    })
}

fn prompt(case: &GoldenCase) -> Value {
    match &case.prompt_text {
        Some(text) => json!({"id": case.id, "text": text}),
        None => json!({"id": case.id, "messages": messages(case)}),
    }
}

/// What the script wrote, if a gate can read it.
fn read(out: &Path, python: &Path) -> Result<Asked, Error> {
    let unreadable = |cause: String| GoldenError::Unreadable {
        program: python.display().to_string(),
        cause,
    };
    let text = fs::read_to_string(out).map_err(|error| unreadable(error.to_string()))?;
    let goldens = plan::read_goldens(&text).map_err(unreadable)?;
    let has_chat = goldens.cases.iter().any(|case| !case.messages.is_empty());
    let remarks =
        (!has_chat).then(|| "the model has no chat template: no conversations".to_owned());
    Ok(Asked {
        text,
        goldens,
        remarks: remarks.into_iter().collect(),
    })
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    let path = path.to_path_buf();
    crate::session::ResultsError::Write { path, source }.into()
}

/// Starts Python without our secrets, and ends all that it starts.
struct Runner<'a> {
    root: &'a Path,
    on_event: &'a dyn Fn(Event),
    log: PathBuf,
}

impl Runner<'_> {
    fn step(&self, line: String) {
        (self.on_event)(Event::Step { line });
    }

    async fn run(&self, words: &[&Path]) -> Result<ExitStatus, Error> {
        let command: Vec<String> = words.iter().map(|w| w.display().to_string()).collect();
        let mut process = Process::spawn(&Start {
            command: &command,
            env: &[],
            folder: self.root,
            log: &self.log,
            policy: None,
        })?;
        let ended = process.wait(PATIENCE).await;
        process.stop().await?;
        let gone = |source| ProcessError::Spawn {
            command: command.join(" "),
            source,
        };
        let ended = ended.map_err(gone)?;
        ended.ok_or_else(|| gone(std::io::ErrorKind::TimedOut.into()).into())
    }

    /// The interpreter of `.gate/python`, which is made anew where it does not hold what is pinned.
    async fn environment(&self) -> Result<PathBuf, Error> {
        let folder = self.root.join(".gate/python");
        let python = folder.join("bin/python");
        let installed = folder.join("requirements.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
            return Ok(python);
        }
        let own = program("python3", self.root, &[]).ok_or(GoldenError::NoPython)?;
        self.step(format!(
            "installing PyTorch and transformers in {}: several GB, once; output: {}",
            folder.display(),
            self.log.display()
        ));
        let word = Path::new;
        let venv = [&own, word("-m"), word("venv"), word("--clear"), &folder];
        self.made(&venv, "python3 -m venv", &folder).await?;
        let wanted = folder.join("wanted.txt");
        fs::write(&wanted, REQUIREMENTS).map_err(|e| failed(&wanted, e))?;
        let pip = ["-m", "pip", "install", "--disable-pip-version-check", "-r"].map(Path::new);
        let words = [&[python.as_path()], pip.as_slice(), &[wanted.as_path()]].concat();
        self.made(&words, "pip install", &folder).await?;
        // Only a whole environment has this name in it.
        fs::rename(&wanted, &installed).map_err(|e| failed(&installed, e))?;
        Ok(python)
    }

    async fn made(&self, words: &[&Path], step: &'static str, folder: &Path) -> Result<(), Error> {
        match self.run(words).await?.success() {
            true => Ok(()),
            false => Err(GoldenError::Environment {
                folder: folder.to_path_buf(),
                step,
                log: self.log.clone(),
            }
            .into()),
        }
    }
}
