//! Architecture of docs/ARCHITECTURE.md: rooms import only what the table allows, each outside crate has one home,
//! files have no import cycle, and folders stay small.
//!
//! Cargo holds most of what crosses packages; `src/verdict/clippy.toml` holds that the verdict is pure. `planted.rs`
//! shows that violations are refused.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read the sources must fail"
)]

mod imports;
mod planted;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use imports::{Graph, Target, cycles};

/// Room → the rooms that it may import. `digest`, `plural` and `splitmix` are leaves. Between packages Cargo holds
/// most of it; the table says it room by room.
const ROOMS: [(&str, &[&str]); 35] = [
    ("record", &[]),
    ("stats", &[]),
    ("digest", &[]),
    ("plural", &[]),
    ("splitmix", &[]),
    ("plan", &["record", "digest"]),
    ("client", &["record", "plan", "stats", "digest", "splitmix"]),
    ("metrics", &["record", "plan", "stats", "digest"]),
    ("telemetry", &["record", "plan", "client"]),
    (
        "measure",
        &["client", "telemetry", "plan", "record", "stats", "digest"],
    ),
    ("sandbox", &["plan", "record"]),
    ("launch", &["sandbox", "plan", "record", "digest"]),
    ("baseline", &["record", "digest"]),
    ("history", &["record", "stats", "baseline"]),
    ("judge", &["plan", "record", "stats", "metrics"]),
    (
        "calibration",
        &[
            "plan", "record", "stats", "metrics", "judge", "baseline", "digest", "splitmix",
        ],
    ),
    ("figures", &["record", "stats"]),
    (
        "explanation",
        &["plan", "record", "stats", "metrics", "judge"],
    ),
    ("import", &["figures", "record"]),
    ("selftest", &["record"]),
    (
        "report",
        &[
            "record",
            "digest",
            "stats",
            "figures",
            "calibration",
            "explanation",
            "history",
            "selftest",
            "doctor",
            "plural",
        ],
    ),
    ("doctor", &["plan", "record", "telemetry"]),
    ("presets", &[]),
    ("roofline", &[]),
    ("github", &["record", "digest", "splitmix"]),
    ("proxy", &["engine", "client", "record"]),
    ("engine", &[]),
    ("server", &["engine"]),
    (
        "session",
        &[
            "plan",
            "launch",
            "sandbox",
            "client",
            "telemetry",
            "measure",
            "metrics",
            "baseline",
            "explanation",
            "judge",
            "report",
            "record",
            "stats",
            "import",
            "calibration",
            "history",
            "selftest",
            "github",
            "digest",
            "plural",
        ],
    ),
    (
        "views",
        &[
            "explanation",
            "report",
            "record",
            "stats",
            "figures",
            "calibration",
            "history",
            "selftest",
            "doctor",
            "plural",
        ],
    ),
    (
        "steps",
        &[
            "session",
            "views",
            "plan",
            "launch",
            "sandbox",
            "client",
            "telemetry",
            "measure",
            "metrics",
            "baseline",
            "explanation",
            "judge",
            "report",
            "record",
            "stats",
            "figures",
            "import",
            "calibration",
            "history",
            "selftest",
            "doctor",
            "presets",
            "github",
            "digest",
            "plural",
        ],
    ),
    (
        "cli",
        &[
            "session", "report", "measure", "baseline", "record", "engine", "selftest", "github",
            "plural",
        ],
    ),
    (
        "commands",
        &[
            "cli",
            "steps",
            "views",
            "session",
            "plan",
            "launch",
            "sandbox",
            "measure",
            "baseline",
            "report",
            "record",
            "server",
            "engine",
            "presets",
            "roofline",
            "figures",
            "import",
            "calibration",
            "history",
            "proxy",
            "selftest",
            "doctor",
            "github",
            "plural",
        ],
    ),
    ("main", &["commands"]),
    ("lib", &[]),
];

/// No room: a helper that tests of any room may use, and that only they can.
const HELPER_OF_TESTS: &str = "skip";

/// Outside crate → the rooms that may name it, where that is less than the packages that depend on it. Other crates
/// may be named wherever Cargo lets them.
const HOMES: [(&str, &[&str]); 22] = [
    ("clap", &["cli", "commands"]),
    ("clap_complete", &["commands"]),
    ("clap_mangen", &["commands"]),
    ("anyhow", &["cli", "commands"]),
    ("indicatif", &["cli", "commands"]),
    ("axum", &["server"]),
    ("hyper", &["client", "proxy", "server"]),
    ("hyper_util", &["proxy", "server"]),
    ("minijinja", &["report", "engine"]),
    ("statrs", &["stats"]),
    ("nvml_wrapper", &["telemetry"]),
    ("object_store", &["baseline"]),
    ("similar", &["session"]),
    ("landlock", &["sandbox"]),
    ("toml", &["launch", "plan", "presets"]),
    ("annotate_snippets", &["plan"]),
    ("tokenizers", &["engine", "client"]),
    ("safetensors", &["engine"]),
    ("cudarc", &["engine"]),
    ("quick_junit", &["report"]),
    ("quick_xml", &["import"]),
    ("globset", &["plan"]),
];

/// Files in a command's folder that belong to its command line like `mod.rs`: they read arguments or start the engine.
const ARGUMENTS: [&str; 4] = [
    "baseline/remote",
    "load/arguments",
    "roofline/kernels",
    "serve/fault",
];

/// The root file of each library and of the binary, below `src/`.
const ROOTS: [&str; 6] = [
    "verdict/mod.rs",
    "client/mod.rs",
    "engine/mod.rs",
    "github/mod.rs",
    "gate/mod.rs",
    "main.rs",
];

/// Most `.rs` files in a folder.
const MOST_FILES: usize = 20;

#[test]
fn rooms_import_only_what_the_table_allows() {
    let graphs = ROOTS.map(|root| Graph::read(&source(root), true));
    let wrong: Vec<String> = graphs.iter().flat_map(violations).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table itself must have no cycle between rooms.
#[test]
fn the_table_has_no_cycle() {
    let mut settled: BTreeSet<&str> = BTreeSet::new();
    while settled.len() < ROOMS.len() {
        let next = ROOMS.iter().find(|(name, allowed)| {
            !settled.contains(name) && allowed.iter().all(|a| settled.contains(a))
        });
        let Some((name, _)) = next else {
            panic!("a cycle among the rooms beyond {settled:?}");
        };
        settled.insert(name);
    }
}

/// Every room that the table names is there, so that a renamed one cannot leave its row behind.
#[test]
fn every_room_exists() {
    let there: BTreeSet<String> = sources().iter().map(|file| room_of(file)).collect();
    let named: BTreeSet<String> = ROOMS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, named);
}

/// A module and one child of its own may know one another; every longer cycle is a fault.
#[test]
fn files_have_no_import_cycle() {
    let mut wrong = Vec::new();
    for root in ROOTS {
        let edges = Graph::read(&source(root), false).edges();
        for component in cycles(&edges).iter().filter(|files| !is_family(files)) {
            wrong.push(described(component, &edges));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn folders_hold_at_most_20_files() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources() {
        *counts.entry(shown(file.parent().unwrap())).or_default() += 1;
    }
    let large = counts.iter().filter(|(_, count)| **count > MOST_FILES);
    let large: Vec<String> = large
        .map(|(folder, count)| format!("{folder}: {count}"))
        .collect();
    assert!(
        large.is_empty(),
        "more than {MOST_FILES} files: {}",
        large.join(", ")
    );
}

/// What is wrong with the imports of a package.
fn violations(graph: &Graph) -> Vec<String> {
    let wrong = graph.imports().into_iter().filter_map(|(file, target)| {
        Some(format!("{}: {}", shown(&file), refusal(&file, &target)?))
    });
    wrong.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Why `file` may not have this import.
fn refusal(file: &Path, target: &Target) -> Option<String> {
    let room = room_of(file);
    let (_, allowed) = ROOMS
        .iter()
        .find(|(name, _)| *name == room)
        .unwrap_or_else(|| panic!("the room `{room}` is not in the table"));
    let imported = match target {
        Target::Missing(path) if path[0] == HELPER_OF_TESTS => return None,
        Target::Missing(path) => {
            return Some(format!("nothing here is called {}", path.join("::")));
        }
        Target::File { offers, .. } => room_of(offers),
        Target::Outside(path) => {
            let path: Vec<&str> = path
                .iter()
                .map(String::as_str)
                .filter(|p| !p.is_empty())
                .collect();
            let homes = HOMES.iter().find(|(name, _)| path.first() == Some(name));
            if let Some((name, homes)) = homes {
                let is_home = homes.contains(&room.as_str());
                return (!is_home).then(|| format!("`{room}` names the crate `{name}`"));
            }
            match path[..] {
                ["engine", "server", ..] => "server".to_owned(),
                ["client", "telemetry", ..] => "telemetry".to_owned(),
                [name @ ("client" | "engine" | "github"), ..] => name.to_owned(),
                ["verdict" | "infergate", room, ..] => room.to_owned(),
                _ => return None,
            }
        }
    };
    let is_allowed = imported == room || imported == "lib" || allowed.contains(&imported.as_str());
    (!is_allowed).then(|| format!("`{room}` imports `{imported}`"))
}

/// True for a module and one child of its own.
fn is_family(files: &BTreeSet<PathBuf>) -> bool {
    let folder = |file: &Path| match file.file_name().is_some_and(|name| name == "mod.rs") {
        true => file.parent().unwrap().to_owned(),
        false => file.with_extension(""),
    };
    let files: Vec<&PathBuf> = files.iter().collect();
    let [a, b] = files[..] else {
        return false;
    };
    let is_parent =
        |parent: &Path, child: &Path| folder(child).parent() == Some(folder(parent).as_path());
    is_parent(a, b) || is_parent(b, a)
}

/// The files of a cycle, with what each imports from the others.
fn described(component: &BTreeSet<PathBuf>, edges: &imports::Edges) -> String {
    let mut text = "a cycle of files:".to_owned();
    for file in component {
        for (other, names) in edges[file]
            .iter()
            .filter(|(other, _)| component.contains(*other))
        {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!(
                "\n  {} → {} ({})",
                shown(file),
                shown(other),
                names.join(", ")
            );
        }
    }
    text
}

fn source(within: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(within)
}

/// The path below `src/`.
fn shown(path: &Path) -> String {
    path.strip_prefix(source("")).unwrap().display().to_string()
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![source("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The package's folder or file that holds this file. The packages `client`, `engine` and `github` are rooms as a whole, but
/// for the client's telemetry and the engine's server. A command's folder has three: its command line is the room `commands`,
/// what it prints is `views`, the rest is `steps`.
fn room_of(file: &Path) -> String {
    let within = shown(&file.with_extension(""));
    let parts: Vec<&str> = within.split('/').collect();
    match parts[..] {
        ["engine", "server", ..] => "server".to_owned(),
        ["client", "telemetry", ..] => "telemetry".to_owned(),
        [name @ ("client" | "engine" | "github" | "main"), ..] => name.to_owned(),
        [_, "mod"] => "lib".to_owned(),
        ["gate", "commands", _] | ["gate", "commands", _, "mod"] => "commands".to_owned(),
        ["gate", "commands", _, "view", ..] => "views".to_owned(),
        ["gate", "commands", ..] if ARGUMENTS.contains(&parts[2..].join("/").as_str()) => {
            "commands".to_owned()
        }
        ["gate", "commands", ..] => "steps".to_owned(),
        _ => parts[1].to_owned(),
    }
}
