//! `gate init`: writes gates for an engine, as a start to be edited.

mod command;
mod found;
mod notes;
mod written;

use crate::cli::runtime::block_on;
use crate::cli::{Exit, output};
use crate::launch::Repository;
use crate::presets::{self, CUSTOM, Origin, Preset, Seen, Written};
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use found::Found;
use notes::CONFIG;
use std::fs;
use std::path::{Path, PathBuf};
use written::{RELEASED_AS, make_room};

#[derive(Args)]
pub struct InitArgs {
    /// Engine to write gates for [default: detected; else custom]
    #[arg(
        long,
        value_parser = PossibleValuesParser::new(presets::ALL.map(|preset| preset.name))
    )]
    engine: Option<String>,
    /// Port of your running server, to read its model, capabilities and start command [default: the first of 8000,
    /// 8080, 30000, 11434, 1234, 5000, 8001 and 3000 that answers]
    #[arg(long, value_name = "PORT", conflicts_with = "github", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The model as the engine takes it: a name, a directory (from --dir) or a file [default: an example]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write GitHub workflows too, and which paths need a gate run; the engine is built from the tree
    #[arg(long)]
    github: bool,
    /// Where the workflows get `gate`: a repository with infergate, and its commit [default: this program's release]
    #[arg(long, value_name = "OWNER/REPO@COMMIT", value_parser = action, requires = "github")]
    action: Option<String>,
    /// The release at that commit, whose program the jobs download [default: each job builds it from the source]
    #[arg(long, value_name = "TAG", value_parser = release, requires = "action")]
    release: Option<String>,
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

/// Reads the tag of a release, which is written into workflows.
fn release(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_version = text
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match is_version && text.chars().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err("it must be the tag of a release, such as v0.1.0".into()),
    }
}

const RELEASE: &str = concat!("v", env!("CARGO_PKG_VERSION"));

pub fn run(args: &InitArgs) -> anyhow::Result<Exit> {
    if !args.github {
        return alone(args);
    }
    let (action, release) = match (&args.action, RELEASED_AS) {
        (Some(action), _) => (action.as_str(), args.release.as_deref()),
        (None, Some(released)) => (released, Some(RELEASE)),
        (None, None) => {
            return Err(Error::Usage(
                "--github needs --action OWNER/REPO@COMMIT (and --release TAG if that commit is a release): this program \
                 was built from source, so it does not know where the workflows can get `gate`"
                    .into(),
            )
            .into());
        }
    };
    let (repository, commit) = action.split_once('@').unwrap_or((action, ""));
    on_github(
        args,
        Origin {
            repository,
            commit,
            release,
        },
    )
}

fn tell(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        output::note(&note);
    }
}

fn alone(args: &InitArgs) -> anyhow::Result<Exit> {
    let read = |path: &str| fs::read_to_string(args.dir.join(path)).ok();
    let of_tree = presets::engine_of(read);
    let server = block_on(found::server(&args.dir, args.port, args.model.as_deref()))?;
    if let (None, Some(port)) = (&server, args.port) {
        return Err(Error::Usage(format!(
            "no server on port {port} answers /v1/models with a model: start it first; if it lists none, name one that it \
             serves by --model; or leave out --port and complete {CONFIG} by hand"
        ))
        .into());
    }
    let running = server.as_ref();
    let name = args
        .engine
        .as_deref()
        .or(of_tree)
        .or(running.and_then(|it| it.engine));
    // Outside of a repository there is no other commit to build.
    let there = std::path::absolute(&args.dir)?;
    let there = there
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(&there);
    let is_built = Repository::open(there).is_ok();
    // A repository or a server that nobody knows holds an engine of its own, whatever else is installed.
    let installed = || found::program().filter(|_| running.is_none() && !is_built);
    let name = name.or_else(installed).unwrap_or(CUSTOM);
    let (preset, own) = (named(name)?, named(CUSTOM)?);
    // What runs here may be another engine than the one that was asked for. On a port that is named, any may be one's own.
    let is_asked_for = |it: &&Found| match name == CUSTOM {
        true => it.engine.is_none() || args.port.is_some(),
        false => it.engine == Some(name),
    };
    let running = running.filter(is_asked_for);
    if let (Some(port), None) = (args.port, running) {
        return Err(Error::Usage(format!(
            "the server on port {port} is not {name}: leave out --engine, or --port"
        ))
        .into());
    }
    let is_own_tree = of_tree == Some(name);
    // A known engine is started as it runs here. Its own program may be told of a model in another way.
    let is_filled =
        |it: &&Found| name == CUSTOM || (it.seen.is_known() && !preset.holds_its_example());
    let filled = running.filter(is_filled).map(|it| {
        // What of this tree a known engine's command names, a configuration perhaps, is not the engine.
        let seen = match is_built {
            true if is_own_tree => Seen {
                command: presets::built_command(name, &it.seen.command),
                ..it.seen.as_started()
            },
            true if name == CUSTOM || it.seen.is_of_tree() => it.seen.clone(),
            _ => it.seen.as_started(),
        };
        let (engine, build) = presets::custom(preset.engine(), &seen);
        let recipe = if is_own_tree { preset } else { own };
        let recipe = (is_built && name != CUSTOM).then(|| {
            // Built by the Python that it runs by.
            let pip = format!("{} -m pip", it.seen.interpreter().unwrap_or("python"));
            recipe.build().replace("python -m pip", &pip)
        });
        (engine, build.or(recipe), seen)
    });
    let started = filled.as_ref().map(|(.., seen)| seen.serve());
    let mut heads = notes::engine(name, of_tree, running, started);
    let preset = match &filled {
        Some((engine, build, seen)) => {
            heads.extend(notes::abilities(seen));
            preset.with_engine(engine, build.as_deref(), seen)
        }
        None => running.map_or(preset, |it| preset.with_seen(&it.seen)),
    };
    heads.extend(notes::profiles(preset));
    let model = match running.filter(|_| args.model.is_none()) {
        Some(running) if !preset.holds_its_example() => running.model.clone(),
        Some(running) => own_model(args, preset, running)?,
        None => model(args, preset)?.to_owned(),
    };
    let files = preset.files(&model, is_built);
    let replaced = match running {
        Some(_) => written::templates(&args.dir, own),
        None => Vec::new(),
    };
    make_room(&args.dir, &files, &replaced)?;
    if !replaced.is_empty() {
        heads.push(notes::replaced());
    }
    tell(heads);
    write_all(&args.dir, &files)?;
    let config = &files[0].text;
    let named = args.model.as_deref();
    let of_preset = running.filter(|_| filled.is_none());
    let steps = [
        Some(notes::review(
            config.contains("FILL"),
            Some(running.is_some()),
            filled.is_some() && name != CUSTOM,
        )),
        (running.is_none() && named.is_none()).then(|| notes::example(preset)),
        running.and_then(|it| notes::other_model(it, named)),
        of_preset.and_then(|it| notes::left_out(&it.seen.command, config)),
        is_built
            .then(|| notes::other_tree(preset, of_tree))
            .flatten(),
        running.map(notes::stop),
    ];
    let steps = steps.into_iter().flatten().chain(notes::next(is_built));
    tell(notes::to_do(steps));
    tell([notes::goldens(
        named,
        running.map(|it| it.model.as_str()),
        preset,
    )]);
    Ok(Exit::Pass)
}

/// The model of a running engine whose program holds one: the directory that its command names, or the one in the program.
fn own_model(args: &InitArgs, preset: Preset<'_>, running: &Found) -> Result<String, Error> {
    let option = model_option(&running.seen.command);
    if option.is_none() && running.model == preset.example {
        return Ok(preset.example.to_owned());
    }
    let here = |directory: &str| args.dir.join(directory).canonicalize().ok();
    // Relative to where the server was started, which may not be here.
    let found = option
        .zip(running.folder.as_deref())
        .and_then(|(it, folder)| {
            let there = folder
                .join(it)
                .canonicalize()
                .ok()
                .filter(|it| it.is_dir())?;
            match here(it).as_ref() == Some(&there) {
                true => Some(it.to_owned()),
                false => there.to_str().map(str::to_owned),
            }
        });
    found.ok_or_else(|| {
        Error::Usage(format!(
            "the server on port {} has the model `{}`, and which directory that is was not found out: name it with --model DIR",
            running.port, running.model
        ))
    })
}

/// The value of `--model` in a command.
fn model_option(words: &[String]) -> Option<&str> {
    words
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.strip_prefix("--model")? {
            "" => words.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
}

/// Gates where there are none yet, workflows, and the rules for labels where there are none yet.
fn on_github(args: &InitArgs, origin: Origin<'_>) -> anyhow::Result<Exit> {
    let dir = &args.dir;
    refuse_subfolder(dir)?;
    let read = |path: &str| fs::read_to_string(dir.join(path)).ok();
    let mut files = presets::workflows(origin);
    let mut steps = Vec::new();
    let mut optional = None;
    let there = read(CONFIG);
    if let Some(there) = &there {
        steps.extend(lacks_build(args, there)?);
    }
    let config = match there {
        // Somebody wrote it: it keeps its words, and gets what it lacks.
        Some(there) if there.contains("[[label]]") || there.contains("[github]") => {
            steps.push(format!(
                "in {CONFIG}, which has label rules already and stays as it is, set workflow = \"infergate-gate.yml\" in \
                 [github], and store = \"git:infergate-baselines\" in [baseline]"
            ));
            None
        }
        Some(there) => {
            steps.push(format!(
                "in {CONFIG}, set store = \"git:infergate-baselines\" in [baseline] if it names no `store`: there CI keeps main's \
                 sessions"
            ));
            Some(there + presets::RULES)
        }
        None => {
            let (preset, mut gates) = gates_of(args, presets::engine_of(read))?;
            steps.push(notes::review(preset.name == CUSTOM, None, false));
            if args.model.is_none() {
                steps.push(notes::example(preset));
            }
            optional = Some(notes::goldens(args.model.as_deref(), None, preset));
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
    let next = [
        "set up a machine: docs/runner-setup.md of infergate, the trust boundary first",
        "commit all of this to the default branch; if that is not called main, name it in infergate-baseline.yml",
        "protect the branch that `store` in [baseline] names: main's sessions go there",
        "give the repository a secret INFERGATE_BASELINE_KEY (16 characters or more), which signs main's sessions",
    ];
    tell(notes::to_do(
        steps.into_iter().chain(next.map(str::to_owned)),
    ));
    tell(optional);
    Ok(Exit::Pass)
}

/// The step of gates without a build.
const NO_BUILD: &str = "add a table [engine.build] to gates/gate.toml: without it no commit can be measured, and every \
                        run that a pull request starts ends with exit code 2";

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

/// The step where the gates that are there build nothing. They are not written anew, for whatever engine.
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
fn gates_of(
    args: &InitArgs,
    found: Option<&str>,
) -> Result<(Preset<'static>, Vec<Written>), Error> {
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

fn named(engine: &str) -> Result<Preset<'static>, Error> {
    Preset::named(engine).ok_or_else(|| {
        Error::Usage(format!(
            "there is no preset for the engine `{engine}`; --help lists them"
        ))
    })
}

/// The model's name. An engine that holds a model of its own would serve that one under any other name too, so such a
/// name must be a directory's.
fn model<'a>(args: &'a InitArgs, preset: Preset<'a>) -> Result<&'a str, Error> {
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

/// Writes all files or none, and names each.
fn write_all(dir: &Path, files: &[Written]) -> anyhow::Result<()> {
    make_room(dir, files, &[])?;
    for file in files {
        let path = dir.join(&file.path);
        written::write(&path, &written::text_of(file))
            .with_context(|| format!("cannot write {}", path.display()))?;
        output::print(&format!("{}\n", path.display()))
            .context("cannot write to standard output")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_the_tag_of_a_version() {
        assert_eq!(release("v0.1.0-rc.1").as_deref(), Ok("v0.1.0-rc.1"));
        for other in ["0.1.0", "main", "v", "v1 # x", "v1\n", "v1'"] {
            assert!(release(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_running_engines_model_is_read_off_its_command() {
        let command = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, model) in [
            ("gate serve --model m/q --port {port}", Some("m/q")),
            ("gate serve --model=m/q", Some("m/q")),
            ("gate serve --models x", None),
            ("gate serve --model", None),
        ] {
            assert_eq!(model_option(&command(text)), model, "{text}");
        }
    }
}
