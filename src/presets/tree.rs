//! What engine a source tree holds, and how it is built there: read from the files by which each is known.
//!
//! Refuses to know: where the tree is; it is handed a reader of its files.

use toml::Table;

/// What was found of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The name of the preset; `None` where no known engine stands in it.
    pub engine: Option<&'static str>,
    /// Globs of what changes an engine, by the languages that are there.
    pub paths: Vec<&'static str>,
}

/// Files that tell a language, and the globs of its sources.
const LANGUAGES: [(&str, &[&str]); 5] = [
    ("Cargo.toml", &["**/*.rs", "**/Cargo.toml", "Cargo.lock"]),
    ("pyproject.toml", PYTHON),
    ("setup.py", PYTHON),
    (
        "CMakeLists.txt",
        &[
            "**/*.c",
            "**/*.cpp",
            "**/*.h",
            "**/*.hpp",
            "**/CMakeLists.txt",
            "**/*.cmake",
        ],
    ),
    ("go.mod", &["**/*.go", "go.mod", "go.sum"]),
];

const PYTHON: &[&str] = &[
    "**/*.py",
    "**/pyproject.toml",
    "setup.py",
    "requirements/**",
    "requirements*.txt",
];

/// Whatever the language: kernels, and the gates themselves.
const ALWAYS: [&str; 3] = ["**/*.cu", "**/*.cuh", "gates/**"];

/// Reads a tree by `read`, which gives a file's text by its path from the root.
pub fn tree(read: impl Fn(&str) -> Option<String>) -> Tree {
    let engine = ENGINES
        .iter()
        .find(|(file, is_it, _)| read(file).is_some_and(|text| is_it(&text)));
    let mut paths: Vec<&str> = Vec::new();
    for (file, globs) in LANGUAGES {
        if read(file).is_some() {
            paths.extend(
                globs
                    .iter()
                    .filter(|glob| !paths.contains(*glob))
                    .copied()
                    .collect::<Vec<_>>(),
            );
        }
    }
    if paths.is_empty() {
        paths.push("**");
    } else {
        paths.extend(ALWAYS);
    }
    paths.push("!**/*.md");
    Tree {
        engine: engine.map(|(_, _, name)| *name),
        paths,
    }
}

type IsIt = fn(&str) -> bool;

/// A file, what it says in this engine's tree, and the engine.
const ENGINES: [(&str, IsIt, &str); 7] = [
    (
        "Cargo.toml",
        |text| package(text, "package", "infergate"),
        "infergate",
    ),
    (
        "pyproject.toml",
        |text| package(text, "project", "vllm"),
        "vllm",
    ),
    (
        "python/pyproject.toml",
        |text| package(text, "project", "sglang"),
        "sglang",
    ),
    (
        "pyproject.toml",
        |text| package(text, "project", "llama_cpp_python"),
        "llama-cpp-python",
    ),
    (
        "CMakeLists.txt",
        |text| text.contains("project(\"llama.cpp\""),
        "llama.cpp",
    ),
    (
        "go.mod",
        |text| text.starts_with("module github.com/ollama/ollama"),
        "ollama",
    ),
    (
        "setup.py",
        |text| text.contains("name=\"transformers\""),
        "transformers",
    ),
];

/// Whether a TOML file's table names this package.
fn package(text: &str, table: &str, name: &str) -> bool {
    let parsed: Option<Table> = text.parse().ok();
    let found = parsed
        .as_ref()
        .and_then(|root| root.get(table)?.get("name")?.as_str());
    found == Some(name)
}

/// How an engine is built from its own tree: the table `engine.build`, and the start of the command that serves
/// from what was built, in place of the installed program's. `None` where nobody wrote it down yet.
pub(super) struct Recipe {
    pub(super) build: &'static str,
    /// What `engine.serve` begins with in the preset, and what it begins with then.
    pub(super) serve: (&'static str, &'static str),
}

pub(super) fn recipe(engine: &str) -> Option<Recipe> {
    let (build, serve) = match engine {
        "infergate" => (CARGO, ("\"gate\"", "\"{artifact}\"")),
        "llama.cpp" => (CMAKE, ("\"llama-server\"", "\"{artifact}\"")),
        "vllm" => (
            PIP,
            (
                "\"vllm\"",
                "\"{artifact}\", \"-m\", \"vllm.entrypoints.cli.main\"",
            ),
        ),
        "sglang" => (PIP_OF_SGLANG, ("\"python\"", "\"{artifact}\"")),
        _ => return None,
    };
    Some(Recipe { build, serve })
}

const CARGO: &str = r#"
[engine.build]
# `{target}` is a build directory that is kept.
command = ["cargo", "build", "--release", "--locked", "--bin", "gate", "--target-dir", "{target}"]
artifact = "{target}/release/gate"
timeout = "30 min"
"#;

const CMAKE: &str = r#"
[engine.build]
# Within the tree, since CMake's build directory belongs to one; without shared libraries, since the server is
# kept and started after another commit was built.
command = [
    "sh", "-ec",
    "cmake -S . -B .gate/build -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DBUILD_SHARED_LIBS=OFF && cmake --build .gate/build --target llama-server --parallel",
]
artifact = ".gate/build/bin/llama-server"
timeout = "60 min"
"#;

const PIP: &str = r#"
[engine.build]
# The package goes into a folder of its own tree; what is built is a Python that looks there first. What it
# needs besides (PyTorch and the rest) is the machine's.
command = [
    "sh", "-ec",
    "python -m pip install --quiet --no-deps --upgrade --target .gate/site . && printf '#!/bin/sh\nPYTHONPATH=%s exec python \"$@\"\n' \"$PWD/.gate/site\" > .gate/python && chmod +x .gate/python",
]
artifact = ".gate/python"
timeout = "3 h"
"#;

const PIP_OF_SGLANG: &str = r#"
[engine.build]
# The package goes into a folder of its own tree; what is built is a Python that looks there first. What it
# needs besides (PyTorch, sgl-kernel and the rest) is the machine's.
command = [
    "sh", "-ec",
    "python -m pip install --quiet --no-deps --upgrade --target .gate/site ./python && printf '#!/bin/sh\nPYTHONPATH=%s exec python \"$@\"\n' \"$PWD/.gate/site\" > .gate/python && chmod +x .gate/python",
]
artifact = ".gate/python"
timeout = "3 h"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_by_their_own_files() {
        let check = |file: &str, text: &str, engine: Option<&str>, glob: &str| {
            let found = tree(|path| (path == file).then(|| text.to_owned()));
            assert_eq!(found.engine, engine, "{file}");
            assert!(found.paths.contains(&glob), "{:?}", found.paths);
            assert_eq!(found.paths.last(), Some(&"!**/*.md"));
        };
        check(
            "Cargo.toml",
            "[package]\nname = \"infergate\"\n",
            Some("infergate"),
            "**/*.rs",
        );
        check(
            "Cargo.toml",
            "[package]\nname = \"other\"\n",
            None,
            "**/*.rs",
        );
        check("Cargo.toml", "not [ toml", None, "**/*.rs");
        check(
            "pyproject.toml",
            "[project]\nname = \"vllm\"\n",
            Some("vllm"),
            "**/*.py",
        );
        check(
            "pyproject.toml",
            "[project]\nname = \"mine\"\n",
            None,
            "**/*.cu",
        );
        check(
            "CMakeLists.txt",
            "project(\"llama.cpp\" C CXX)\n",
            Some("llama.cpp"),
            "**/*.cpp",
        );
        check(
            "go.mod",
            "module github.com/ollama/ollama\n",
            Some("ollama"),
            "**/*.go",
        );
        check("README.md", "# hello", None, "**");
    }
}
