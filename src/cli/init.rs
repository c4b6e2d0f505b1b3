//! `gate init`: writes gates for an engine, as a start to be edited.

use super::{Exit, output};
use crate::pipeline::Error;
use crate::presets::{self, Preset, Written};
use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct InitArgs {
    /// The engine whose start command, capabilities and metrics are written
    #[arg(long, value_parser = PossibleValuesParser::new(presets::ALL.map(|preset| preset.name)))]
    engine: String,
    /// The model as the engine is told it: a name, a directory or a file [default: an example]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The project's root, in which `gates/` is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(args: &InitArgs) -> anyhow::Result<Exit> {
    let InitArgs { engine, model, dir } = args;
    let preset = Preset::named(engine).ok_or_else(|| {
        Error::Usage(format!(
            "there is no preset for the engine `{engine}`; --help lists them"
        ))
    })?;
    let files = preset.files(model.as_deref().unwrap_or(preset.example));
    refuse_to_overwrite(dir, &files)?;
    for file in &files {
        write(&dir.join(&file.path), &file.text)?;
        output::print(&format!("{}\n", dir.join(&file.path).display()))
            .context("cannot write to standard output")?;
    }
    if model.is_none() {
        let example = preset.example;
        output::note(&format!(
            "the model `{example}` is an example: set it in gates/gate.toml, or start anew with --model"
        ));
    }
    output::note(
        "next: read gates/gate.toml, then `gate check` (an A/A run: both arms are equal), or \
         `gate check --head-arg=ARG` to compare with what a further argument makes of it",
    );
    Ok(Exit::Pass)
}

/// All files that are there already are named at once; nothing is written then.
fn refuse_to_overwrite(dir: &Path, files: &[Written]) -> Result<(), Error> {
    let there: Vec<&str> = files
        .iter()
        .map(|file| file.path.as_str())
        .filter(|path| dir.join(path).symlink_metadata().is_ok())
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
