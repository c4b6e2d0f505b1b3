//! `gate dev import`: another tool's result is read, and becomes `gate load`'s JSON or a session that can be judged.

use crate::figures::LoadResult;
use crate::import::{self, Batch, ImportError, Imported, Tool};
use crate::report::foreign;
use crate::session::Error;
use crate::session::files::read_text;
use crate::session::project::{now, tool};
use crate::session::results::Results;
use std::path::{Path, PathBuf};
use verdict::metrics::{contradiction, implausible};
use verdict::plan::MIN_SAMPLES;
use verdict::record::{Arm, RunRecord};

/// Reads one result as figures. What it lacks stands in [`LoadResult::missing`].
pub fn import_figures(
    path: &Path,
    tool: Option<Tool>,
    benchmark: Option<usize>,
) -> Result<LoadResult, Error> {
    let text = read_text(path)?;
    Ok(read(path, &text, tool, benchmark)?.load_result())
}

/// Reads one file a launch as an arm of the session in `directory`, which is begun or completed.
pub fn import_session(
    paths: &[PathBuf],
    tool: Option<Tool>,
    arm: Arm,
    directory: &Path,
) -> Result<RunRecord, Error> {
    let mut launches = Vec::new();
    for path in paths {
        let imported = read(path, &read_text(path)?, tool, None)?;
        if let Some(why) = not_judgeable(&imported) {
            return Err(Error::Usage(format!("{} {why}", path.display())));
        }
        launches.push(imported);
    }
    let (results, earlier) = Results::open_import(directory)?;
    let other = earlier
        .as_ref()
        .and_then(|record| import::load_of_other_arm(record, arm));
    refuse_another_load(paths, &launches, other)?;
    let batch = Batch { arm, launches };
    let record = import::record(earlier, &batch, self::tool(), now());
    results.begin(&record)?;
    Ok(record)
}

/// A request among 64 takes longer than one by itself. Where a file does not say, nothing is refused.
fn refuse_another_load(
    paths: &[PathBuf],
    launches: &[Imported],
    other: Option<String>,
) -> Result<(), Error> {
    let of_file = |(path, launch): (&PathBuf, &Imported)| {
        Some((path.display().to_string(), launch.load.clone()?))
    };
    let other = other.map(|load| ("the other arm".to_owned(), load));
    let files = paths.iter().zip(launches).filter_map(of_file);
    let loads: Vec<(String, String)> = other.into_iter().chain(files).collect();
    let differs = |(_, load): &&(String, String)| *load != loads[0].1;
    let Some((path, load)) = loads.iter().find(differs) else {
        return Ok(());
    };
    let (first, expected) = &loads[0];
    Err(Error::Usage(format!(
        "{path} was measured with {load}, {first} with {expected}: measure all launches under one load"
    )))
}

/// Why a file is no launch that could be judged.
fn not_judgeable(imported: &Imported) -> Option<String> {
    if !imported.is_judgeable() {
        return Some(format!(
            "cannot be judged, only compared: that needs of each request when its first and its last token \
             came, and how many came; {}",
            imported.missing.join("; ")
        ));
    }
    let requests = imported.requests.len();
    (requests < MIN_SAMPLES as usize).then(|| {
        format!(
            "holds {requests} of the {MIN_SAMPLES} requests that a median needs a launch: measure with more, or only \
             compare it"
        )
    })
}

pub fn parse(path: &Path, text: &str, tool: Option<Tool>) -> Result<Imported, Error> {
    read(path, text, tool, None)
}

fn read(
    path: &Path,
    text: &str,
    tool: Option<Tool>,
    benchmark: Option<usize>,
) -> Result<Imported, Error> {
    let refused = |error: ImportError| {
        let cause = foreign(&error.to_string());
        Error::Usage(format!("{}: {cause}", path.display()))
    };
    let mut imported = import::parse(text, tool, benchmark).map_err(refused)?;
    imported.map_texts(foreign);
    if imported.tool == Tool::Samples {
        let samples = import::own_samples(text, benchmark).map_err(refused)?;
        imported.summary.server_contradicts = contradiction(&samples);
        imported.summary.implausible = implausible(&samples);
    }
    Ok(imported)
}
