//! `gate github label --diff`: what this branch's paths would need, without GitHub.

use crate::launch::Repository;
use crate::session::Error;
use std::path::Path;
use verdict::plan::{self, Needed};
use verdict::plural::count;
use verdict::record::short;

/// Paths of a label that are shown.
const MOST_PATHS: usize = 5;

/// Compares the working tree with its merge base with `base`, or main, and says what its paths need.
pub fn label_diff(start: &Path, base: Option<&str>, profile: &str) -> Result<Vec<String>, Error> {
    let root = plan::find_root(start)?;
    let rules = plan::github_rules(&root, profile)?;
    let repository = Repository::open(&root)?;
    let base = repository.base_commit(&repository.head()?, base)?;
    let paths = repository.changed_paths(&base)?;
    let needed = Needed::of_paths(&rules.labels, &paths);
    let short = short(&base);
    let mut lines = vec![format!(
        "changed since {short}: {}",
        count(paths.len(), "path")
    )];
    if rules.labels.is_empty() {
        let line = "gates/gate.toml has no [[label]]: all paths need the profile's gates";
        lines.push(line.into());
    }
    if !needed.is_anything() {
        lines.push("no labels: no path needs a gate".into());
        return Ok(lines);
    }
    for (label, paths) in &needed.labels {
        lines.push(format!(
            "label `{label}`, for {}:",
            count(paths.len(), "path")
        ));
        let shown = paths.iter().take(MOST_PATHS);
        lines.extend(shown.map(|path| format!("  {}", github::clean(path, 100))));
        if paths.len() > MOST_PATHS {
            lines.push(format!("  and {} more", paths.len() - MOST_PATHS));
        }
    }
    let gates = needed.gates(&rules.of_profile);
    let gates = if gates.is_empty() {
        format!("those of the profile `{profile}`")
    } else {
        gates.join(", ")
    };
    lines.push(format!("gates: {gates}"));
    Ok(lines)
}
