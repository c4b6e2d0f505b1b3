//! `gate golden make`, from the project to the written file.

use super::goldens::{GoldenOptions, MadeGoldens, Reference};
use super::{engine, python};
use crate::launch::Workspace;
use crate::session::files::replace;
use crate::session::{Error, Event};
use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use verdict::plan;

/// Asks the reference and writes the file, replacing one that is there. `cancel` ends it early: nothing is written
/// then.
///
/// # Errors
/// No project, a reference that cannot be started or asked, a file that cannot be written.
pub async fn make_goldens(
    options: &GoldenOptions,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<MadeGoldens, Error> {
    tokio::select! {
        made = make(options, on_event) => made,
        () = cancel => Err(Error::Interrupted),
    }
}

async fn make(options: &GoldenOptions, on_event: &dyn Fn(Event)) -> Result<MadeGoldens, Error> {
    let root = plan::find_root(&options.start)?;
    let path = match &options.out {
        Some(path) => options.start.join(path),
        None => root.join("gates/data/goldens.json"),
    };
    let (folder, name) = place(&path)?;
    // Gates are not read: the one that is to have this file cannot be yet.
    let (engine, host) = plan::engine_config(&root)?;
    let workspace = Workspace::open(&root, &host.sandbox).await?;
    let asked = match &options.reference {
        Reference::Transformers { model, python } => {
            python::ask(options, (model, python.as_deref()), &root, on_event).await?
        }
        Reference::Engine => engine::ask(options, &engine, &workspace, &root, on_event).await?,
    };
    replace(folder, name, |file| file.write_all(asked.text.as_bytes()))?;
    Ok(MadeGoldens {
        path,
        cases: asked.goldens.cases.len(),
        has_logprobs: asked.goldens.cases.iter().any(|c| !c.tokens.is_empty()),
        remarks: asked.remarks,
    })
}

/// The folder, made where it is missing, and the file's name.
fn place(path: &Path) -> Result<(&Path, &str), Error> {
    let refused = |cause: &str| Error::Usage(format!("--out {}: {cause}", path.display()));
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name
        .filter(|_| !path.is_dir())
        .ok_or_else(|| refused("that is no name of a file; give one"))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .map_err(|error| refused(&format!("its folder cannot be made: {error}")))?;
    Ok((folder, name))
}
