//! The judge beside the rules of other tools, on the same simulated sessions with known truth:
//! `cargo bench --bench replay -- DIR`.
//!
//! DIR holds a set by `scripts/replay/gen.py`; without it the set of seed 20251 is made in a temporary folder, by
//! python3 with numpy.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its result, and a broken precondition of it is a panic"
)]

mod rules;
mod set;
mod table;

use infergate::commands::replay::cases;
use rules::{RULES, Said};
use serde_json::Value;
use set::{Case, Set};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::Row;
use tempfile::TempDir;

const SEED: &str = "20251";

fn main() {
    let given = std::env::args().skip(1).find(|a| !a.starts_with("--"));
    let made = if given.is_none() { make() } else { None };
    let directory = given
        .map(PathBuf::from)
        .or_else(|| Some(made.as_ref()?.path().to_path_buf()));
    let Some(directory) = directory else { return };
    let set = Set::read(&directory);
    println!("{} sessions, seed {}\n", set.cases.len(), set.seed);
    table::print_header();
    Row::of(&set, &infergate(&directory, &set)).print("infergate");
    for (name, rule) in RULES {
        let said: Vec<Option<Said>> = set.cases.iter().map(rule).collect();
        Row::of(&set, &said).print(name);
    }
    table::print_legend();
}

/// A set in a folder of its own; `None`, said, where it cannot be made.
fn make() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/replay/gen.py");
    let made = Command::new("python3")
        .arg(generator)
        .arg(folder.path())
        .args(["--seed", SEED])
        .status();
    if made.is_ok_and(|status| status.success()) {
        return Some(folder);
    }
    println!(
        "skipped: no set was made; scripts/replay/gen.py needs python3 with numpy, or give a set's DIR"
    );
    None
}

fn infergate(directory: &Path, set: &Set) -> Vec<Option<Said>> {
    let mut lines: HashMap<String, Said> = HashMap::new();
    cases::replay(directory, None, &mut |line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let end = |i: usize| line["ci"][i].as_f64();
        let said = Said {
            verdict: line["verdict"].as_str().unwrap().to_owned(),
            launches: line["launches"].as_u64().unwrap() as usize,
            interval: end(0).zip(end(1)),
        };
        lines.insert(line["case"].as_str().unwrap().to_owned(), said);
    })
    .unwrap();
    let of = |case: &Case| lines.remove(&case.name);
    set.cases.iter().map(of).collect()
}
