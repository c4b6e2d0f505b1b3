//! Files that `gate init` writes, and those that are there.

use crate::presets::{Preset, Written};
use crate::session::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// `OWNER/REPO@COMMIT` of the release that this program was built for.
pub const RELEASED_AS: Option<&str> = option_env!("INFERGATE_RELEASED_AS");

/// The file's text with the line that names its schema.
pub fn text_of(file: &Written) -> String {
    schema_line(&file.path, RELEASED_AS) + &file.text
}

/// The line by which editors find the schema of a gate file (taplo); only a release has one that others can read.
fn schema_line(path: &str, released: Option<&str>) -> String {
    let origin = released.and_then(|it| it.split_once('@'));
    let (Some(name), Some((repository, commit))) = (path.strip_prefix("gates/"), origin) else {
        return String::new();
    };
    let schema = match name {
        "gate.toml" => "project",
        _ if name.ends_with(".toml") && !name.contains('/') => "gate",
        _ => return String::new(),
    };
    format!(
        "#:schema https://raw.githubusercontent.com/{repository}/{commit}/docs/schemas/{schema}.schema.json\n"
    )
}

/// The files that an earlier `gate init` wrote without a server, if all of them are unedited.
/// `template`: the preset of an engine that nobody knows.
pub fn templates(dir: &Path, template: Preset<'_>) -> Vec<PathBuf> {
    let config = fs::read_to_string(dir.join("gates/gate.toml")).unwrap_or_default();
    let mut lines = config.lines();
    let model = lines.find_map(|line| line.strip_prefix("model = \"")?.strip_suffix('"'));
    let is_as_written = |file: &Written| {
        let text = text_of(file);
        fs::read_to_string(dir.join(&file.path)).is_ok_and(|there| there == text)
    };
    let all = [true, false].map(|is_built| template.files(model.unwrap_or_default(), is_built));
    let written = all.iter().find(|files| files.iter().all(is_as_written));
    let paths = written.into_iter().flatten();
    paths.map(|file| dir.join(&file.path)).collect()
}

/// Removes templates. Up to three of the other files that exist already are named, else the first and how many more: nothing
/// is removed then.
pub fn make_room(dir: &Path, files: &[Written], templates: &[PathBuf]) -> Result<(), Error> {
    let there: Vec<String> = files
        .iter()
        .map(|file| dir.join(&file.path))
        .filter(|path| path.symlink_metadata().is_ok() && !templates.contains(path))
        .map(|path| path.display().to_string())
        .collect();
    let (what, them) = match there.as_slice() {
        [] => {
            let mut removed = templates.iter();
            return removed.try_for_each(|path| {
                fs::remove_file(path).map_err(|source| {
                    Error::Usage(format!("cannot remove {}: {source}", path.display()))
                })
            });
        }
        [one] => (format!("{one} already exists"), "it"),
        [first, rest @ ..] if rest.len() > 2 => (
            format!("{first} and {} more files already exist", rest.len()),
            "them",
        ),
        few => (format!("{} already exist", few.join(", ")), "them"),
    };
    Err(Error::Usage(format!(
        "{what}; nothing was written. Remove {them}, or use --dir DIR"
    )))
}

pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A file that appeared meanwhile is not overwritten either.
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_files_of_a_release_name_their_schema() {
        let line = |path| schema_line(path, Some("o/r@c0ffee"));
        let of = |name: &str| {
            format!(
                "#:schema https://raw.githubusercontent.com/o/r/c0ffee/docs/schemas/{name}.schema.json\n"
            )
        };
        assert_eq!(line("gates/gate.toml"), of("project"));
        assert_eq!(line("gates/latency.toml"), of("gate"));
        for other in [
            "gates/data/tasks.jsonl",
            ".github/workflows/infergate-gate.yml",
        ] {
            assert_eq!(line(other), "");
        }
        assert_eq!(schema_line("gates/gate.toml", None), "");
    }
}
