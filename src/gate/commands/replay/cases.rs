//! `gate dev replay`: the cases of a replay set through the judge, one line each.

use crate::calibration::launch_noise;
use crate::import::{self, CaseFiles, Manifest};
use crate::session::Error;
use crate::session::files::read_text;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use verdict::plan::Spending;
use verdict::{judge, plan};

/// Judges every case of the set in `directory`, on as many threads as there are processors. `on_line` gets the
/// lines in the manifest's order, each as soon as it and those before it are there.
///
/// `spending`: how the looks share the error budgets, where it is not to be as the set says.
///
/// # Errors
/// A file that cannot be read, or is not of the format: those lines that come before its case were given.
pub fn replay(
    directory: &Path,
    spending: Option<Spending>,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let path = directory.join("manifest.json");
    if !path.exists() {
        return Err(Error::Usage(format!(
            "{} is no replay set: it has no manifest.json; `scripts/replay/gen.py` makes such sets",
            directory.display()
        )));
    }
    let mut manifest = import::manifest(&read_text(&path)?)
        .map_err(|error| Error::Usage(format!("{}: {error}", directory.display())))?;
    if let Some(spending) = spending {
        manifest.spend(spending.name());
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads {
            let (sender, manifest, next) = (sender.clone(), &manifest, &next);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = manifest.cases.get(i) else {
                        return;
                    };
                    // Nobody listens any more after an error.
                    if sender.send((i, line(directory, manifest, case))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        in_order(receiver, on_line)
    })
}

/// Gives the lines on in the order of their numbers; ends at the first error.
fn in_order(
    lines: Receiver<(usize, Result<String, Error>)>,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    for (i, line) in lines {
        waiting.insert(i, line);
        while let Some(line) = waiting.remove(&next) {
            on_line(&line?);
            next += 1;
        }
    }
    Ok(())
}

fn line(directory: &Path, manifest: &Manifest, case: &str) -> Result<String, Error> {
    let folder = directory.join("cases").join(case);
    let read = |name| read_text(&folder.join(name));
    let (launches, samples) = (read("launches.csv")?, read("samples.jsonl")?);
    let in_case = |error| Error::Usage(format!("{}: {error}", folder.display()));
    let calibration = folder.join("calibration.csv");
    let noise = match calibration.exists() {
        true => {
            launch_noise(&import::calibration_blocks(&read_text(&calibration)?).map_err(in_case)?)
        }
        false => None,
    };
    let files = CaseFiles {
        launches: &launches,
        samples: &samples,
        history: &read("history.csv")?,
        noise,
    };
    let record = import::case(manifest, &files).map_err(in_case)?;
    let plan = plan::from_record(&record).map_err(|error| {
        let manifest = directory.join("manifest.json");
        let what = "the numbers of `gate` make no gate";
        Error::Usage(format!("{}: {what}:\n{error}", manifest.display()))
    })?;
    Ok(super::view::replay_line(
        case,
        &judge::judge(&plan, &record),
    ))
}
