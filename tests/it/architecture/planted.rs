//! Violations planted in the sources: each is refused by the table of rooms, by Cargo or by clippy.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::imports::{Graph, Target};
use super::{source, violations};
use fixture::skip;

/// Imports: the file that gets one, and its text.
const IMPORTS: [(&str, &str); 14] = [
    ("verdict/judge/mod.rs", "use crate::report;"),
    ("verdict/judge/mod.rs", "use crate::{cli, stats};"),
    (
        "verdict/judge/mod.rs",
        "use crate::{\n    plan::{Plan, Rule},\n    pipeline,\n};",
    ),
    ("verdict/stats/mod.rs", "use crate::judge::judge;"),
    ("client/driver/mod.rs", "use crate::server;"),
    (
        "verdict/judge/mod.rs",
        "mod deep { use super::super::engine::Engine; }",
    ),
    (
        "verdict/stats/mod.rs",
        "use crate as root;\nfn f() { root::judge::judge(); }",
    ),
    ("verdict/judge/mod.rs", "use ::clap::Parser;"),
    ("gate/report/mod.rs", "use clap as c;"),
    ("gate/commands/bisect/view.rs", "use crate::session::run;"),
    ("gate/commands/bisect/view.rs", "use super::driver::Hunt;"),
    ("gate/commands/bisect/driver.rs", "use clap::Parser;"),
    (
        "gate/session/run.rs",
        "use crate::commands::check::stages::check;",
    ),
    ("verdict/judge/mod.rs", "fn f() { tokio::spawn(async {}); }"),
];

/// Calls that a pure package has not; each must get a lint.
const CALLS: [&str; 9] = [
    "std::fs::read(\"x\")",
    "std::path::Path::new(\"x\").exists()",
    "std::time::Instant::now()",
    "std::time::SystemTime::now()",
    "std::process::Command::new(\"x\")",
    "println!(\"x\")",
    "std::env::var(\"x\")",
    "std::thread::spawn(|| ())",
    "std::net::TcpListener::bind(\"x\")",
];

/// An import that the table allows, to see that not everything is refused.
const ALLOWED: (&str, &str) = ("verdict/judge/mod.rs", "use crate::stats::mean;");

#[test]
fn planted_imports_are_refused() {
    let packages = ["verdict", "client", "gate"].map(|name| (name, read(name, None)));
    let is_refused = |(file, planted): (&str, &str)| {
        let (package, _) = file.split_once('/').unwrap();
        let (_, before) = packages.iter().find(|(name, _)| *name == package).unwrap();
        let after = read(package, Some((&source(file), planted)));
        let mut new_crates = after.crates.difference(&before.crates);
        after.violations != before.violations || new_crates.any(|name| !depends_on(package, name))
    };
    for planted in IMPORTS {
        assert!(is_refused(planted), "{planted:?}");
    }
    assert!(!is_refused(ALLOWED), "{ALLOWED:?}");
}

/// What the imports of a package come to.
struct Imports {
    violations: Vec<String>,
    /// The names in which paths out of the package begin.
    crates: BTreeSet<String>,
}

/// Reads a package, with a text added to one of its files.
fn read(package: &str, planted: Option<(&Path, &str)>) -> Imports {
    let text_of = |file: &Path| {
        let text = fs::read_to_string(file).ok()?;
        let added = planted.filter(|(place, _)| *place == file);
        Some(added.map_or(text.clone(), |(_, added)| format!("{text}\n{added}\n")))
    };
    let root = source(package).join("mod.rs");
    let graph = Graph::read_from(&root, true, &text_of);
    let outside = graph
        .imports()
        .into_iter()
        .filter_map(|(_, target)| match target {
            Target::Outside(path) => path.into_iter().find(|name| !name.is_empty()),
            _ => None,
        });
    Imports {
        violations: violations(&graph),
        crates: outside.collect(),
    }
}

/// True if the manifest of a package below `src/` lets it name this crate.
fn depends_on(package: &str, name: &str) -> bool {
    let manifest = fs::read_to_string(source(package).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest["dependencies"].as_table().unwrap();
    dependencies.contains_key(&name.replace('_', "-"))
}

/// One run of clippy over a package that has each call, with the lints of this workspace and `verdict`'s clippy.toml.
#[test]
fn planted_calls_get_a_lint() {
    let folder = tempfile::tempdir().unwrap();
    let workspace: toml::Table = fs::read_to_string(source("../Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let lints = toml::to_string(&workspace["workspace"]["lints"]).unwrap();
    let lints = lints.replace("[", "[lints.");
    let manifest = format!(
        "[workspace]\n[package]\nname = \"probe\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n{lints}"
    );
    let functions = CALLS
        .iter()
        .zip(0..)
        .map(|(call, n)| format!("pub fn f{n}() {{ let _ = {call}; }}\n"));
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.path().join("lib.rs"), functions.collect::<String>()).unwrap();
    fs::copy(
        source("verdict/clippy.toml"),
        folder.path().join("clippy.toml"),
    )
    .unwrap();
    let run = Command::new(env!("CARGO"))
        .args(["clippy", "--offline", "--message-format", "short"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    if said.contains("no such command") || said.contains("is not installed") {
        return skip::skip("cargo clippy");
    }
    for (line, call) in (1..).zip(CALLS) {
        let place = format!("lib.rs:{line}:");
        let is_refused = |said: &str| said.starts_with(&place) && said.contains("use of");
        assert!(said.lines().any(is_refused), "{call} passes:\n{said}");
    }
}
