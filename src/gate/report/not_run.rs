//! Gates of a project's profiles that a run left out: a pass says nothing about them.

use verdict::record::RunVerdict;

/// `not run: cold-start, users (gate check --profile full)`; `None` where profiles name no others.
pub fn not_run(verdict: &RunVerdict) -> Option<String> {
    let gates = verdict.not_run.iter().flat_map(|(_, gates)| gates);
    let mut all: Vec<&str> = gates.map(String::as_str).collect();
    all.retain(|name| is_name(name));
    all.sort_unstable();
    all.dedup();
    let mut profiles = verdict.not_run.iter();
    let of_one = profiles.find(|(name, gates)| is_name(name) && gates.len() == all.len());
    let profile = of_one.map_or_else(String::new, |(name, _)| {
        format!(" (gate check --profile {name})")
    });
    (!all.is_empty()).then(|| format!("not run: {}{profile}", all.join(", ")))
}

/// A name that no reader of a report can take for something else.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.len() <= 64 && text.chars().all(is_plain)
}
