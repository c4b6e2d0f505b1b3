//! The file of raw samples, one JSON object a line.
//!
//! Main functions: [`target`], asked before anything is sent; [`write()`], [`append`].

use crate::session::files::replace;
use crate::session::{Error, ResultsError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use verdict::record::Sample;

/// The folder and the name of a file that can be written: known before anything is sent, since a long run
/// would otherwise be in vain.
pub fn target(path: &Path) -> Result<(&Path, &str), Error> {
    let refused = |cause| Error::Usage(format!("--out {}: {cause}", path.display()));
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|_| !path.is_dir());
    let name = name.ok_or_else(|| refused("that is no name of a file; give one"))?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(refused("there is no such folder; create it"));
    }
    Ok((folder, name))
}

/// One sample a line, replaced whole.
pub fn write(path: &Path, samples: &[Sample]) -> Result<(), Error> {
    let (folder, name) = target(path)?;
    replace(folder, name, |file| lines(file, samples)).map_err(|error: ResultsError| error.into())
}

/// The samples of a further step behind those of the steps before.
pub fn append(path: &Path, samples: &[Sample]) -> Result<(), Error> {
    let appended = || {
        let file = File::options().append(true).create(true).open(path)?;
        let mut buffered = BufWriter::new(&file);
        lines(&mut buffered, samples)?;
        buffered.flush()?;
        drop(buffered);
        file.sync_all()
    };
    appended().map_err(|source| {
        let path = path.to_path_buf();
        ResultsError::Write { path, source }.into()
    })
}

fn lines(file: &mut BufWriter<&File>, samples: &[Sample]) -> io::Result<()> {
    for sample in samples {
        serde_json::to_writer(&mut *file, sample)?;
        file.write_all(b"\n")?;
    }
    Ok(())
}
