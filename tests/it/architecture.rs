//! Holds the dependency table of docs/ARCHITECTURE.md: which room may import which, and which room is the
//! only home of an outside crate. Reads the sources as text, tests within them included.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Room → the rooms that it may import. `digest`, `plural` and `splitmix` are leaves. Between packages Cargo holds
/// most of it; the table says it room by room.
const ROOMS: [(&str, &[&str]); 31] = [
    ("record", &[]),
    ("stats", &[]),
    ("digest", &[]),
    ("plural", &[]),
    ("splitmix", &[]),
    ("plan", &["record", "digest"]),
    ("load", &["record", "plan", "digest", "splitmix"]),
    ("metrics", &["record", "plan", "stats"]),
    ("telemetry", &["record", "plan", "load"]),
    (
        "measure",
        &["load", "telemetry", "plan", "record", "stats", "digest"],
    ),
    ("sandbox", &["plan", "record"]),
    ("launch", &["sandbox", "plan", "record", "digest"]),
    ("baseline", &["record", "digest"]),
    ("history", &["record", "stats", "baseline"]),
    ("judge", &["plan", "record", "stats", "metrics", "plural"]),
    (
        "calibration",
        &[
            "plan", "record", "stats", "metrics", "judge", "baseline", "digest", "splitmix",
        ],
    ),
    ("figures", &["record", "stats"]),
    ("import", &["figures", "record"]),
    ("selftest", &["record"]),
    (
        "report",
        &[
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
    ("doctor", &["plan", "record", "telemetry"]),
    ("presets", &[]),
    ("roofline", &[]),
    ("github", &["record", "digest", "splitmix"]),
    ("proxy", &["engine", "load", "record"]),
    ("engine", &[]),
    ("server", &["engine"]),
    (
        "pipeline",
        &[
            "plan",
            "launch",
            "sandbox",
            "load",
            "telemetry",
            "measure",
            "metrics",
            "baseline",
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
            "github",
            "digest",
            "plural",
        ],
    ),
    (
        "cli",
        &[
            "pipeline",
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
    ("main", &["cli"]),
    ("lib", &[]),
];

/// No room: a helper that tests of any room may use, and that only they can.
const HELPER_OF_TESTS: &str = "skip";

/// Outside crate → the rooms where it may be named. Crates that are not here may be used anywhere.
const HOMES: [(&str, &[&str]); 23] = [
    ("clap", &["cli"]),
    ("anyhow", &["cli"]),
    ("indicatif", &["cli"]),
    ("axum", &["server"]),
    ("hyper", &["load", "proxy", "server"]),
    ("hyper_util", &["proxy", "server"]),
    ("minijinja", &["report", "engine"]),
    ("statrs", &["stats"]),
    ("nvml_wrapper", &["telemetry"]),
    ("object_store", &["baseline"]),
    ("similar", &["pipeline"]),
    ("landlock", &["sandbox"]),
    ("toml", &["launch", "plan", "presets"]),
    ("annotate_snippets", &["plan"]),
    ("tokenizers", &["engine", "load"]),
    ("safetensors", &["engine"]),
    ("cudarc", &["engine"]),
    ("octocrab", &["github"]),
    ("reqwest", &["github"]),
    ("secrecy", &["github"]),
    ("quick_junit", &["report"]),
    ("quick_xml", &["import"]),
    ("globset", &["plan"]),
];

#[test]
fn rooms_import_only_what_the_table_allows() {
    let mut wrong = Vec::new();
    for file in sources() {
        let room = room_of(&file);
        let (_, allowed) = ROOMS
            .iter()
            .find(|(name, _)| *name == room)
            .unwrap_or_else(|| panic!("the room `{room}` is not in the table"));
        for imported in imported_rooms(&package_of(&file), &code(&file)) {
            if imported != room
                && imported != HELPER_OF_TESTS
                && !allowed.contains(&imported.as_str())
            {
                wrong.push(format!("{} imports `{imported}`", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outside_crates_stay_in_their_homes() {
    let mut wrong = Vec::new();
    for file in sources() {
        let room = room_of(&file);
        let text = code(&file);
        for (name, homes) in HOMES {
            let named = text.lines().any(|line| names_crate(line, name));
            if named && !homes.contains(&room.as_str()) {
                wrong.push(format!("{} names `{name}`", file.display()));
            }
        }
    }
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

#[test]
fn the_reader_sees_imports_in_all_their_forms() {
    let seen = |text: &str| {
        imported_rooms("gate", text)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(seen("use crate::plan::Plan;"), "plan");
    assert_eq!(seen("use crate::{judge, load};"), "judge load");
    assert_eq!(seen("use crate::{\n    a::{b, c},\n    d,\n};"), "a d");
    assert_eq!(seen("let x = crate::record::Arm::Base;"), "record");
    assert_eq!(seen("use verdict::record::Arm;"), "record");
    assert_eq!(seen("use client::load::{self, Client};"), "load");
    assert_eq!(seen("engine::server::serve()"), "server");
    assert_eq!(seen("use engine::{Engine, Options};"), "engine");
    assert_eq!(seen("use super::engine;\nengine::start();"), "");
    assert!(names_crate("use clap::Args;", "clap"));
    assert!(names_crate("#[derive(clap::Args)]", "clap"));
    assert!(!names_crate("let overclap::x = 1", "clap"));
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
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

/// The folders below `src/` and the file's stem.
fn parts_of(file: &Path) -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let within = file.strip_prefix(src).unwrap().with_extension("");
    let parts = within.components();
    parts
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect()
}

/// The folder below `src/`: `verdict`, `client`, `engine`, `github`, `gate`; `main` for the binary.
fn package_of(file: &Path) -> String {
    parts_of(file)[0].clone()
}

/// The package's folder or file that holds this file. The packages `engine` and `github` are rooms as a whole, but
/// for the engine's server.
fn room_of(file: &Path) -> String {
    let parts = parts_of(file);
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["engine", "server", ..] => "server".to_owned(),
        ["engine" | "github" | "main", ..] => parts[0].clone(),
        [_, "mod"] => "lib".to_owned(),
        _ => parts[1].clone(),
    }
}

/// The file without its comments: a sentence may name what code may not.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The rooms that paths of a file of `package` name, braces opened.
fn imported_rooms(package: &str, text: &str) -> BTreeSet<String> {
    let whole = |name: &str| match name {
        "server" => "server".to_owned(),
        _ => "engine".to_owned(),
    };
    let mut found = BTreeSet::new();
    let own = heads_after("crate", text);
    match package {
        "engine" => found.extend(own.iter().map(|name| whole(name))),
        "github" => found.extend(own.iter().map(|_| "github".to_owned())),
        _ => found.extend(own),
    }
    let is_room = |name: &String| ROOMS.iter().any(|(room, _)| room == name);
    for other in ["verdict", "client"] {
        found.extend(heads_after(other, text).into_iter().filter(is_room));
    }
    // The others cannot name these: Cargo.toml does not.
    if package != "gate" {
        return found;
    }
    if is_package("engine", text) {
        let heads = heads_after("engine", text);
        found.extend(heads.iter().map(|name| whole(name)));
        found.extend(names("engine", text).then(|| "engine".to_owned()));
        if heads.contains("server") && heads.len() == 1 {
            found.remove("engine");
        }
    }
    if is_package("github", text) {
        found.extend(names("github", text).then(|| "github".to_owned()));
    }
    found
}

fn names(package: &str, text: &str) -> bool {
    text.lines().any(|line| names_crate(line, package))
}

/// True where `name::` means the package, not a module of that name beside the file.
fn is_package(name: &str, text: &str) -> bool {
    let local = [format!("mod {name};"), format!("super::{name};")];
    !local.iter().any(|local| text.contains(local.as_str()))
}

/// The lower-case path segments that follow `head::`.
fn heads_after(head: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let path = format!("{head}::");
    for (at, _) in text.match_indices(&path) {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            || text[..at].ends_with("super::")
        {
            continue;
        }
        let rest = &text[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group_heads(group)),
            None => found.extend(identifier(rest)),
        }
    }
    found
}

/// The first names of each item of a `{…}` group, nested groups passed over.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut expects_head) = (0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expects_head = true,
            c if expects_head && depth == 0 && (c.is_alphabetic() || c == '_') => {
                heads.extend(identifier(&group[at..]));
                expects_head = false;
            }
            _ => {}
        }
    }
    heads
}

/// The lower-case identifier at the start of `text`: rooms are modules, types at the root are none.
fn identifier(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let name = &text[..end];
    name.starts_with(|c: char| c.is_lowercase())
        .then(|| name.to_owned())
}

/// Whether a line of code names an outside crate as the head of a path.
fn names_crate(line: &str, name: &str) -> bool {
    line.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}
