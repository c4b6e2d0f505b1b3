//! Detection of the engine in a source tree, and of its build command, from files.
//!
//! Refuses to know: where the tree is; it is handed a reader of its files.

use super::CUSTOM;
use super::custom::is_python;
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

/// How an engine is built from its own tree.
pub struct Recipe {
    /// The table `engine.build`.
    pub build: &'static str,
    /// What `engine.serve` names in the preset, an installed program, and what it names then.
    pub serve: (&'static str, &'static str),
}

/// The recipe of a preset's engine.
pub fn recipe(engine: &str) -> Recipe {
    let (build, serve) = match engine {
        "llama.cpp" => (CMAKE, ("\"llama-server\"", "\"{artifact}\"")),
        "ollama" => (
            GO,
            (
                "\"ollama\", \"serve\"",
                "\"{artifact}/bin/ollama\", \"serve\"",
            ),
        ),
        "vllm" => (
            PIP,
            (
                "\"vllm\"",
                "\"env\", \"PYTHONPATH={artifact}\", \"python\", \"-m\", \"vllm.entrypoints.cli.main\"",
            ),
        ),
        "transformers" => (
            PIP,
            (
                "\"transformers\"",
                "\"env\", \"PYTHONPATH={artifact}\", \"{artifact}/bin/transformers\"",
            ),
        ),
        "llama-cpp-python" => (
            PIP,
            (
                "\"python\"",
                "\"env\", \"PYTHONPATH={artifact}\", \"python\"",
            ),
        ),
        "sglang" => (
            PIP_OF_SGLANG,
            (
                "\"python\"",
                "\"env\", \"PYTHONPATH={artifact}\", \"python\"",
            ),
        ),
        CUSTOM => (OWN, ("\"./my-engine\"", "\"{artifact}\"")),
        _ => (CARGO, ("\"gate\"", "\"{artifact}\"")),
    };
    Recipe { build, serve }
}

/// The command of a running server of this engine, started from what its tree is built to.
pub fn built_command(engine: &str, words: &[String]) -> Vec<String> {
    let built = recipe(engine).serve.1;
    let built: Option<Table> = format!("words = [{built}]").parse().ok();
    let built = built.as_ref().and_then(|it| it["words"].as_array());
    let built = built.into_iter().flatten().filter_map(|word| word.as_str());
    let mut rest = words.iter().peekable();
    let interpreter = rest.next_if(|word| is_python(word));
    let is_module = rest.next_if(|word| *word == "-m").is_some();
    let own = |word: &str| match interpreter {
        Some(it) if word == "python" => it.clone(),
        _ => word.to_owned(),
    };
    if is_module {
        // The environment alone.
        let environment = built.take_while(|word| *word == "env" || word.contains('='));
        let environment: Vec<String> = environment.map(str::to_owned).collect();
        return [environment, words.to_vec()].concat();
    }
    let built: Vec<&str> = built.collect();
    // Where the build is a package alone, its own program is started.
    let is_package = built.last() == Some(&"python");
    let rest = rest.skip(usize::from(!is_package)).cloned();
    built.into_iter().map(own).chain(rest).collect()
}

const CARGO: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# `{target}` is a build directory that is kept.
command = ["cargo", "build", "--release", "--locked", "--bin", "gate", "--target-dir", "{target}"]
artifact = "{target}/release/gate"
timeout = "30 min"
"#;

/// In the place of a build, where there is no repository.
pub const NO_BUILD: &str = r#"
# A commit or a pull request can be compared with main only if the gate builds both: `command` makes `artifact`, and `serve`
# starts it, by "{artifact}". An engine that a script starts needs an artifact too: copy its files, for instance.
# [engine.build]
# command = ["sh", "-ec", "mkdir -p '{target}/engine' && cp -R serve.sh src '{target}/engine/'"]
# artifact = "{target}/engine"
"#;

const OWN: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# FILL IN (then delete these two words): the command, and the file or folder that it makes, with all that the engine needs.
# `{target}` is a build directory that is kept. An engine that a script starts needs an artifact too, or each commit would
# run the same files: copy them, and let `serve` above begin with "{artifact}/serve.sh".
# command = ["sh", "-ec", "mkdir -p '{target}/engine' && cp -R serve.sh src '{target}/engine/'"]
# artifact = "{target}/engine"
command = ["cargo", "build", "--release", "--locked", "--target-dir", "{target}"]
artifact = "{target}/release/my-engine"
timeout = "30 min"
"#;

const CMAKE: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# Without shared libraries, since the server alone is kept. Without an NVIDIA GPU: -DGGML_CUDA=OFF.
command = [
    "sh", "-ec",
    "cmake -S . -B '{target}/cmake' -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DBUILD_SHARED_LIBS=OFF && cmake --build '{target}/cmake' --target llama-server --parallel",
]
artifact = "{target}/cmake/bin/llama-server"
timeout = "60 min"
"#;

const GO: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# A folder with the program and, where it looks for them, its libraries.
command = [
    "sh", "-ec",
    "cmake -S . -B '{target}/cmake' && rm -rf '{target}/cmake/lib' '{target}/ollama' && cmake --build '{target}/cmake' --parallel && mkdir -p '{target}/ollama/bin' && cp -R '{target}/cmake/lib' '{target}/ollama/' && go build -o '{target}/ollama/bin/ollama' .",
]
artifact = "{target}/ollama"
timeout = "60 min"
"#;

const PIP: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# A folder with the package, which Python then looks into first. What the package needs besides (PyTorch and the
# rest) is the machine's. It is built from a copy: pip writes into the sources, which a build may not at the top of the tree.
command = [
    "sh", "-ec",
    "rm -rf '{target}/src' && mkdir -p '{target}/src' && tar -cf '{target}/src.tar' --exclude=./.gate --exclude=./target . && tar -xf '{target}/src.tar' -C '{target}/src' && python -m pip install --quiet --no-deps --upgrade --target '{target}/site' '{target}/src'",
]
artifact = "{target}/site"
timeout = "3 h"
"#;

const PIP_OF_SGLANG: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# A folder with the package, which Python then looks into first. What the package needs besides (PyTorch, sgl-kernel
# and the rest) is the machine's. It is built from a copy: pip writes into the sources, which a build may not at the top of
# the tree.
command = [
    "sh", "-ec",
    "rm -rf '{target}/src' && mkdir -p '{target}/src' && tar -cf '{target}/src.tar' --exclude=./.gate --exclude=./target . && tar -xf '{target}/src.tar' -C '{target}/src' && python -m pip install --quiet --no-deps --upgrade --target '{target}/site' '{target}/src/python'",
]
artifact = "{target}/site"
timeout = "3 h"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_server_is_started_from_the_build() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (engine, running, expect) in [
            (
                "vllm",
                "/v/bin/python /v/bin/vllm serve m --port {port} --enforce-eager",
                "env PYTHONPATH={artifact} /v/bin/python -m vllm.entrypoints.cli.main serve m --port {port} --enforce-eager",
            ),
            (
                "vllm",
                "python3 -m vllm.entrypoints.openai.api_server --model m --port {port}",
                "env PYTHONPATH={artifact} python3 -m vllm.entrypoints.openai.api_server --model m --port {port}",
            ),
            (
                "sglang",
                "python -m sglang.launch_server --model-path m --port {port}",
                "env PYTHONPATH={artifact} python -m sglang.launch_server --model-path m --port {port}",
            ),
            (
                "sglang",
                "/v/bin/python /v/bin/sglang serve --port {port}",
                "env PYTHONPATH={artifact} /v/bin/python /v/bin/sglang serve --port {port}",
            ),
            (
                "llama.cpp",
                "build/bin/llama-server -m x -ngl 99 --port {port}",
                "{artifact} -m x -ngl 99 --port {port}",
            ),
        ] {
            assert_eq!(built_command(engine, &words(running)), words(expect));
        }
    }

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
