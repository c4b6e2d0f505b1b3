//! What engine a source tree holds, and how it is built there: read from the files by which each is known.
//!
//! Refuses to know: where the tree is; it is handed a reader of its files.

use toml::Table;

/// The name of the preset of the engine whose tree this is; `read` gives a file's text by its path from the root.
/// `None` where no known engine stands in it.
pub fn engine_of(read: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is_its = |file: &str, is_it: IsIt| read(file).is_some_and(|text| is_it(&text));
    let found = ENGINES.iter().find(|(file, is_it, _)| is_its(file, *is_it));
    found.map(|(_, _, name)| *name)
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
        let check = |file: &str, text: &str, engine: Option<&str>| {
            let found = engine_of(|path| (path == file).then(|| text.to_owned()));
            assert_eq!(found, engine, "{file}");
        };
        let cargo = |name: &str| format!("[package]\nname = \"{name}\"\n");
        check("Cargo.toml", &cargo("infergate"), Some("infergate"));
        check("Cargo.toml", &cargo("other"), None);
        check("Cargo.toml", "not [ toml", None);
        let python = |name: &str| format!("[project]\nname = \"{name}\"\n");
        check("pyproject.toml", &python("vllm"), Some("vllm"));
        check("pyproject.toml", &python("mine"), None);
        let cmake = "project(\"llama.cpp\" C CXX)\n";
        check("CMakeLists.txt", cmake, Some("llama.cpp"));
        let go = "module github.com/ollama/ollama\n";
        check("go.mod", go, Some("ollama"));
        check("README.md", "# hello", None);
    }
}
