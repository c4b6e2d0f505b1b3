//! `gate init`: writes gates for an engine, as a start to be edited.

use crate::cli::{Exit, output};
use crate::launch::Repository;
use crate::presets::{self, CUSTOM, Preset, Written};
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct InitArgs {
    /// The engine whose start command, capabilities and metrics are written [default with --github: the one
    /// that the tree holds]
    #[arg(
        long,
        required_unless_present = "github",
        value_parser = PossibleValuesParser::new(presets::ALL.map(|preset| preset.name))
    )]
    engine: Option<String>,
    /// The model as the engine is told it: a name, a directory (from --dir) or a file [default: an example]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write GitHub workflows too, and which paths need a gate run; the engine is built from the tree
    #[arg(long, requires = "action")]
    github: bool,
    /// Where the workflows take `gate` from: a repository that holds infergate, and a commit of it
    #[arg(long, value_name = "OWNER/REPO@COMMIT", value_parser = action, requires = "github")]
    action: Option<String>,
    /// The project's root, in which `gates/` is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// `owner/repository@` and all 40 digits of a commit: a tag could be moved to other code.
fn action(text: &str) -> Result<String, String> {
    let is_word = |word: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !word.is_empty() && word.chars().all(allowed)
    };
    let is_commit = |id: &str| id.len() == 40 && id.chars().all(|c| c.is_ascii_hexdigit());
    let parts = text
        .split_once('@')
        .and_then(|(repository, commit)| Some((repository.split_once('/')?, commit)));
    match parts {
        Some(((owner, name), commit)) if is_word(owner) && is_word(name) && is_commit(commit) => {
            Ok(text.to_owned())
        }
        _ => Err(
            "it must be OWNER/REPO@ and the 40 digits of a commit, as `git ls-remote https://github.com/OWNER/REPO \
             HEAD` prints them: a tag could be moved to other code"
                .into(),
        ),
    }
}

pub fn run(args: &InitArgs) -> anyhow::Result<Exit> {
    match &args.action {
        Some(action) => on_github(args, action),
        None => alone(args),
    }
}

fn alone(args: &InitArgs) -> anyhow::Result<Exit> {
    let preset = named(args.engine.as_deref().unwrap_or_default())?;
    // Outside of a repository there is no other commit to build.
    let there = std::path::absolute(&args.dir)?;
    let there = there
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(&there);
    let is_built = Repository::open(there).is_ok();
    let files = preset.files(model(args, preset)?, is_built);
    write_all(&args.dir, &files)?;
    tell_example(args, preset);
    let read = |path: &str| fs::read_to_string(args.dir.join(path)).ok();
    let is_custom = preset.name == CUSTOM;
    if is_built && !is_custom && presets::engine_of(read) != Some(preset.name) {
        output::note(&format!(
            "this tree does not look like {name}'s own: let [engine.build] in {CONFIG} say how {name} is built from it, \
             or remove the table and compare with main's stored sessions (`gate check --base stored`)",
            name = preset.name
        ));
    }
    tell_next(args, preset);
    output::note(match is_built {
        true => {
            "next: read gates/gate.toml, commit it, then `gate check` on a branch with a change"
        }
        false => {
            "next: read gates/gate.toml, then `gate check`: an A/A run, since outside of a git repository there is \
             nothing to compare with; `gate check --head-arg=ARG` compares with what a further argument makes of it"
        }
    });
    Ok(Exit::Pass)
}

/// Gates where there are none yet, workflows, and the rules for labels where there are none yet.
fn on_github(args: &InitArgs, action: &str) -> anyhow::Result<Exit> {
    let dir = &args.dir;
    refuse_subfolder(dir)?;
    let read = |path: &str| fs::read_to_string(dir.join(path)).ok();
    let mut files = presets::workflows(action);
    let mut notes = Vec::new();
    let there = read(CONFIG);
    if let Some(there) = &there {
        notes.extend(lacks_build(args, there)?);
    }
    let config = match there {
        // Somebody wrote it: it keeps its words, and gets what it lacks.
        Some(there) if there.contains("[[label]]") || there.contains("[github]") => {
            notes.push(format!(
                "{CONFIG} has label rules already and stays as it is: let `workflow` in [github] be \
                 \"infergate-gate.yml\", and `store` in [baseline] \"git:infergate-baselines\""
            ));
            None
        }
        Some(there) => {
            notes.push(format!(
                "{CONFIG} was there already: where [baseline] names no `store`, write store = \
                 \"git:infergate-baselines\" there, so that CI keeps main's records"
            ));
            Some(there + presets::RULES)
        }
        None => {
            let (preset, mut gates) = gates_of(args, presets::engine_of(read))?;
            tell_example(args, preset);
            tell_next(args, preset);
            gates[0].text.push_str(presets::RULES);
            files.extend(gates);
            None
        }
    };
    write_all(dir, &files)?;
    if let Some(config) = config {
        fs::write(dir.join(CONFIG), config).with_context(|| format!("cannot write {CONFIG}"))?;
        output::print(&format!("{}\n", dir.join(CONFIG).display()))?;
    }
    notes.push(
        "next: read gates/gate.toml; set a machine up as docs/runner-setup.md of infergate says, the trust boundary \
         first; then commit all of this to the default branch. Where that is not called main, say so in \
         infergate-baseline.yml. Main's records go to the branch that `store` in [baseline] names: protect it, and \
         give the repository a secret INFERGATE_BASELINE_KEY (16 characters or more) that signs them"
            .to_owned(),
    );
    for note in &notes {
        output::note(note);
    }
    Ok(Exit::Pass)
}

const CONFIG: &str = "gates/gate.toml";

/// What becomes of the workflows' runs.
const NO_BUILD: &str = "without a table [engine.build] in gates/gate.toml no commit can be measured, and every run \
                        that a pull request starts ends with exit code 2";

/// GitHub reads workflows at a repository's root alone, and rules for labels name paths from there.
fn refuse_subfolder(dir: &Path) -> anyhow::Result<()> {
    let whole = std::path::absolute(dir)?;
    // A folder that is yet to be made is no repository's root, but may be within one.
    let Some(there) = whole.ancestors().find(|path| path.exists()) else {
        return Ok(());
    };
    let Ok(repository) = Repository::open(there) else {
        return Ok(());
    };
    let root = repository.root().canonicalize()?;
    if there == whole && root == there.canonicalize()? {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} is not the root of its repository, and GitHub reads workflows there alone: run this in {}",
        dir.display(),
        root.display()
    ))
    .into())
}

/// A remark where the gates that are there build nothing. They are not written anew, for whatever engine.
fn lacks_build(args: &InitArgs, there: &str) -> Result<Option<String>, Error> {
    if args.engine.is_some() || args.model.is_some() {
        return Err(Error::Usage(format!(
            "{CONFIG} is there already and keeps its engine: leave --engine and --model out, or move it away"
        )));
    }
    match presets::builds(there) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(NO_BUILD.to_owned())),
        Err(cause) => Err(Error::Usage(format!(
            "{CONFIG} is there and is no TOML: {cause}"
        ))),
    }
}

/// The engine that was named, else the one that the tree holds.
fn gates_of(args: &InitArgs, found: Option<&str>) -> Result<(Preset, Vec<Written>), Error> {
    let name = args.engine.as_deref().or(found).ok_or_else(|| {
        Error::Usage(format!(
            "{} holds no engine that is known here, and there is no {CONFIG} yet: name the engine with --engine, your own with \
             --engine {CUSTOM}",
            args.dir.display()
        ))
    })?;
    let preset = named(name)?;
    let gates = preset.files_on_github(model(args, preset)?);
    Ok((preset, gates))
}

fn named(engine: &str) -> Result<Preset, Error> {
    Preset::named(engine).ok_or_else(|| {
        Error::Usage(format!(
            "there is no preset for the engine `{engine}`; --help lists them"
        ))
    })
}

/// The model's name. An engine that holds a model of its own would serve that one under any other name too, so such a
/// name must be a directory's.
fn model(args: &InitArgs, preset: Preset) -> Result<&str, Error> {
    let model = args.model.as_deref().unwrap_or(preset.example);
    let is_known = !preset.holds_its_example() || model == preset.example;
    if is_known || args.dir.join(model).is_dir() {
        return Ok(model);
    }
    Err(Error::Usage(format!(
        "{} serves a Hugging Face directory, or without --model the small model in its binary; there is no directory \
         {}",
        preset.name,
        args.dir.join(model).display()
    )))
}

fn tell_example(args: &InitArgs, preset: Preset) {
    if args.model.is_none() {
        let example = preset.example;
        output::note(&format!(
            "the model `{example}` is an example: set it in {CONFIG}, or start anew with --model"
        ));
    }
}

/// What is left to do by hand.
fn tell_next(args: &InitArgs, preset: Preset) {
    if preset.name == CUSTOM {
        output::note(&format!(
            "fill in {CONFIG} where it says FILL IN, and what your engine can do"
        ));
    }
    let model = args.model.as_deref().unwrap_or(preset.example);
    output::note(&format!(
        "for the gate e2e make goldens with `{}`, then add \"e2e\" to `gates` of the profiles in {CONFIG}",
        preset.golden_command(model)
    ));
}

/// Writes all files or none, and names each.
fn write_all(dir: &Path, files: &[Written]) -> anyhow::Result<()> {
    refuse_to_overwrite(dir, files)?;
    for file in files {
        write(&dir.join(&file.path), &file.text)?;
        output::print(&format!("{}\n", dir.join(&file.path).display()))
            .context("cannot write to standard output")?;
    }
    Ok(())
}

/// All files that are there already are named at once; nothing is written then.
fn refuse_to_overwrite(dir: &Path, files: &[Written]) -> Result<(), Error> {
    let there: Vec<String> = files
        .iter()
        .map(|file| dir.join(&file.path))
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| path.display().to_string())
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} there already: move them away, or name another directory with --dir",
        match there.as_slice() {
            [one] => format!("{one} is"),
            many => format!("{} are", many.join(", ")),
        }
    )))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    // A file that appeared meanwhile is not overwritten either.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(cannot)
}
