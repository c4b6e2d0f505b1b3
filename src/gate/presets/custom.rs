//! The preset of an engine of one's own, with what was seen of a server that runs.

use super::toml_text::escaped;

/// The highest id of a vocabulary that is tried.
pub const HIGHEST_ID: u32 = 30_000;

/// What was seen of a server. Its words are anybody's: they are written as TOML strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The words that start it, `{port}` among them; empty where they are not known.
    pub command: Vec<String>,
    /// Words of the command that name files of the tree, and their paths from its root: the engine is what the tree holds.
    pub scripts: Vec<(String, String)>,
    /// The path of a program of the tree that is compiled, not by cargo, and the command that does so; `None`: not known.
    pub compiled: Option<(String, Option<&'static str>)>,
    /// The word that names what `cargo build --release` makes of the tree, and the program's name.
    pub cargo_program: Option<(String, String)>,
    /// It answers completions, and chats. With chats alone, prompts go over the chat route.
    pub completes: bool,
    pub chats: bool,
    pub stream_usage: bool,
    pub return_token_ids: bool,
    /// `None`: no answer was seen to end by itself.
    pub forces_length: Option<bool>,
    /// One connection carries several requests.
    pub keeps_connections: bool,
    /// Usage tells how many of a prompt's tokens were cached.
    pub tells_cached: bool,
    /// It takes prompts of token ids, up to this one at least.
    pub prompt_ids: Option<u32>,
    /// Completions tell log-probabilities, whole and streamed.
    pub tells_logprobs: bool,
    /// An answer changed where its request penalised repeated tokens.
    pub obeys_penalties: bool,
    /// Tokens of a page of its prefix cache, as far as a repeated prompt shows it.
    pub page: Option<u32>,
    /// Tokens of the longest prompt that it was seen to compute at once.
    pub long_prompt: Option<u32>,
    /// It answers /metrics.
    pub tells_metrics: bool,
    /// Tokens that it has room for, as `/v1/models` says.
    pub context: Option<u32>,
}

/// True if the first word of a command names a Python: `/opt/venv/bin/python3.12`.
pub fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.starts_with("python")
}

impl Seen {
    /// True of a server that completes prompts and whose command has a place for a port: another can be started like it.
    pub fn is_known(&self) -> bool {
        let has_port = self.command.iter().any(|word| word.contains("{port}"));
        has_port && self.completes
    }

    /// The words of `engine.serve`: what the tree holds is taken from the build.
    pub fn serve(&self) -> Vec<String> {
        let is_program = |word: &String| {
            let program = self.cargo_program.as_ref();
            program.is_some_and(|(of, _)| of == word)
        };
        let word_of = |word: &String| match self.scripts.iter().find(|(of, _)| of == word) {
            _ if is_program(word) => "{artifact}".to_owned(),
            Some((_, path)) => format!("{{artifact}}/{path}"),
            None => word.clone(),
        };
        self.command.iter().map(word_of).collect()
    }

    /// The Python that runs it, by a word that needs no quotes in a shell.
    pub fn interpreter(&self) -> Option<&str> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let first = self.command.first().map(String::as_str);
        first.filter(|word| is_python(word) && word.chars().all(plain))
    }

    /// True of a program that the tree holds.
    pub fn is_of_tree(&self) -> bool {
        let program = self.command.first();
        let cargo = self.cargo_program.iter().map(|(word, _)| word);
        let mut held = self.scripts.iter().map(|(word, _)| word).chain(cargo);
        held.any(|word| Some(word) == program)
    }

    /// The same started as it was, where nothing is built.
    pub fn as_started(&self) -> Self {
        Self {
            scripts: Vec::new(),
            cargo_program: None,
            compiled: None,
            ..self.clone()
        }
    }
}

/// An engine's table with what was seen filled in, and the table of its build where the command tells how it is built.
pub fn custom(template: &str, seen: &Seen) -> (String, Option<String>) {
    let mut text = template.to_owned();
    let mut set = |from: &str, to: &str| text = text.replacen(from, to, 1);
    if seen.completes || seen.chats {
        set(
            "Every capability is off: gates that need one are written, but left out of the profiles' `gates` below.",
            "Capabilities are set as the running server showed them. Gates that need more are written, but left out of the\n\
             # profiles' `gates` below.",
        );
    }
    if !seen.command.is_empty() {
        let words = seen.serve().into_iter();
        let words: Vec<String> = words
            .map(|word| format!("\"{}\"", escaped(&word)))
            .collect();
        let has_port = seen.command.iter().any(|word| word.contains("{port}"));
        set(
            "# FILL IN (then delete these two words): the command that starts the server on 127.0.0.1.",
            match seen.command[0].starts_with('/') {
                _ if !has_port => {
                    "# The command of the server that `gate init` found; it names no port. FILL IN how it takes one, as `{port}`,\n\
                     # then delete this sentence."
                }
                true => {
                    "# The command of the server that `gate init` found. Its program is a path on this machine; if all machines\n\
                     # have it on PATH, its name is enough."
                }
                false => "# The command of the server that `gate init` found.",
            },
        );
        set_line(
            &mut text,
            &["serve = "],
            &format!("serve = [{}]", words.join(", ")),
        );
    }
    let mut set = |from: &str, to: &str| text = text.replacen(from, to, 1);
    let is_known = template.contains("\nprompt_ids = ");
    for (name, is_seen) in [
        ("stream_usage", seen.stream_usage),
        ("return_token_ids", seen.return_token_ids),
        ("forces_length", seen.forces_length.unwrap_or(is_known)),
        ("keep_alive", seen.keeps_connections),
    ] {
        // A known engine's are on where they may be.
        if is_seen != is_known {
            set(
                &format!("\n{name} = {}", !is_seen),
                &format!("\n{name} = {is_seen}"),
            );
        }
    }
    if seen.tells_cached {
        set(
            "# Does usage contain `prompt_tokens_details.cached_tokens`? Then a check of the metric `prefill_excess` in the gate\n\
             # `prefill-drift` counts the prompt tokens that each turn computes again.",
            "# Usage contains `prompt_tokens_details.cached_tokens`: the gate `prefill-drift` counts the prompt tokens that each turn\n\
             # computes again.",
        );
    }
    if seen.tells_logprobs {
        set(
            "# Does it return log-probabilities? Then set `top_k` in the gates `answers` and `e2e`.",
            "# It returns log-probabilities: `top_k` in the gates asks for them.",
        );
    }
    if seen.chats && !seen.completes {
        set("# chat = true", "chat = true");
    }
    if is_known && seen.prompt_ids.is_none() {
        set(
            "\nprompt_ids = ",
            "\n# The server refused token ids.\n# prompt_ids = ",
        );
    }
    // The ids of a known engine's preset are of most vocabularies.
    if let Some(last) = seen
        .prompt_ids
        .filter(|last| !is_known || *last < HIGHEST_ID)
    {
        let from = if last > 1_000 { 100 } else { 3 };
        let line = format!("prompt_ids = {{ from = {from}, to = {last} }}");
        set_line(&mut text, &["prompt_ids = ", "# prompt_ids = "], &line);
    }
    if !seen.tells_metrics
        && let Some((before, table)) = text.split_once("\n[engine.metrics]\n")
    {
        let names: String = table.lines().map(|line| format!("# {line}\n")).collect();
        text = format!(
            "{before}\n# The server that `gate init` found does not answer /metrics.\n# [engine.metrics]\n{names}"
        );
    }
    let build = match (&seen.cargo_program, seen.scripts.is_empty()) {
        (Some((_, program)), _) => Some(CARGO.replace("PROGRAM", &escaped(program))),
        (None, false) => Some(copied(seen.compiled.as_ref())),
        (None, true) => None,
    };
    (text, build)
}

/// Puts `line` in the place of the first that begins so.
fn set_line(text: &mut String, begins: &[&str], line: &str) {
    let mut lines = text.lines();
    let is_it = |it: &&str| begins.iter().any(|begin| it.starts_with(begin));
    if let Some(old) = lines.find(is_it).map(str::to_owned) {
        *text = text.replacen(&old, line, 1);
    }
}

/// The build of an engine that is not cargo's: its files are copied, and compiled where they have to be.
fn copied(compiled: Option<&(String, Option<&'static str>)>) -> String {
    let (why, without, then) = match compiled {
        None => (
            " A script needs no\n\
             # compiler: its commit's files are copied, and `serve` starts the copy. Compile here what your engine compiles."
                .to_owned(),
            String::new(),
            String::new(),
        ),
        Some((program, Some(command))) => (
            format!(
                " The\n# commit's files are copied without what was compiled of them, and `{}` is compiled in the copy: check the last\n\
                 # command.",
                escaped(program)
            ),
            left_out(program) + " --exclude='*.o'",
            format!(" && cd '{{target}}/engine' && {command}"),
        ),
        Some((program, None)) => (
            format!(
                " The\n# commit's files are copied. FILL IN, as the last command, what compiles `{}` in the copy; then delete this sentence.",
                escaped(program)
            ),
            left_out(program),
            String::new(),
        ),
    };
    // The file's name comes last: it may hold the name of a place.
    COPY.replace("{{then}}", &then)
        .replace("{{without}}", &without)
        .replace("{{why}}", &why)
}

/// The option of tar that leaves a compiled program out; in a folder that is named as one of builds, all of it, since CMake
/// refuses another's cache.
fn left_out(program: &str) -> String {
    let folder = program.split('/').next().unwrap_or(program);
    let is_of_builds = folder.contains("build") || folder == "out";
    let left = if is_of_builds { folder } else { program };
    format!(" --exclude='./{}'", shell_escaped(left))
}

/// As it stands between single quotes of a shell, within a basic string of TOML.
fn shell_escaped(text: &str) -> String {
    escaped(&text.replace('\'', "'\\''"))
}

const CARGO: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.
[engine.build]
# `{target}` is a build directory that is kept.
command = ["cargo", "build", "--release", "--target-dir", "{target}"]
artifact = "{target}/release/PROGRAM"
timeout = "30 min"
"#;

const COPY: &str = r#"
# How the engine is built from its tree, for base and head alike: without it nothing can be compared.{{why}}
[engine.build]
command = [
    "sh", "-ec",
    "mkdir -p '{target}/engine' && tar -cf '{target}/engine.tar' --exclude=./.git --exclude=./.gate --exclude=./target{{without}} . && tar -xf '{target}/engine.tar' -C '{target}/engine'{{then}}",
]
artifact = "{target}/engine"
timeout = "30 min"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn serve(text: &str) -> &str {
        text.lines()
            .find(|line| line.starts_with("serve = "))
            .unwrap_or_default()
    }

    #[test]
    fn what_was_seen_is_filled_in() {
        let template = include_str!("custom.toml");
        let seen = Seen {
            command: words("python3 ./server.py --port {port} --name \"x"),
            scripts: vec![("./server.py".into(), "server.py".into())],
            completes: true,
            stream_usage: true,
            prompt_ids: Some(300),
            ..Seen::default()
        };
        let (text, build) = custom(template, &seen);
        assert_eq!(
            serve(&text),
            r#"serve = ["python3", "{artifact}/server.py", "--port", "{port}", "--name", "\"x"]"#
        );
        assert!(
            text.contains("\nstream_usage = true\n") && text.contains("\nforces_length = false\n")
        );
        assert!(text.contains("\nprompt_ids = { from = 3, to = 300 }\n"));
        assert!(
            !text.contains("FILL IN")
                && text.contains("# Capabilities are set as the running server")
        );
        assert!(build.is_some_and(|build| build.contains("artifact = \"{target}/engine\"")));
        let parsed: toml::Table = text.replace("{{model}}", "m").parse().expect("TOML");
        assert_eq!(parsed["engine"]["forces_length"].as_bool(), Some(false));
        // Without a build there is no artifact.
        let (text, build) = custom(template, &seen.as_started());
        assert!(!serve(&text).contains("{artifact}") && build.is_none());
        // A server that has a port of its own does not say how it takes another one.
        let portless = Seen {
            command: words("python3 ./server.py"),
            ..Seen::default()
        };
        let (text, _) = custom(template, &portless);
        assert!(text.contains("FILL IN how it takes one") && !serve(&text).contains("{port}"));
        // Nothing seen changes nothing.
        assert_eq!(
            custom(template, &Seen::default()),
            (template.to_owned(), None)
        );
    }

    #[test]
    fn a_program_that_is_no_script_is_compiled_in_the_copy() {
        let of = |command| {
            let seen = Seen {
                command: words("./serve --port {port}"),
                scripts: vec![("./serve".into(), "serve".into())],
                compiled: Some(("serve".into(), command)),
                ..Seen::default()
            };
            custom(include_str!("custom.toml"), &seen).1.unwrap()
        };
        let made = of(Some("make"));
        assert!(
            made.contains(" --exclude='./serve' --exclude='*.o' . && "),
            "{made}"
        );
        assert!(
            made.contains("-C '{target}/engine' && cd '{target}/engine' && make\","),
            "{made}"
        );
        assert!(!made.contains("FILL IN") && of(None).contains("FILL IN"));
        // Beside scripts the program alone is left out.
        for (program, left) in [("build-x/bin/serve", "build-x"), ("bin/serve", "bin/serve")] {
            let left = format!(" --exclude='./{left}'");
            assert_eq!(left_out(program), left);
        }
        for text in [made, of(None)] {
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
    }

    #[test]
    fn a_program_of_the_tree_is_built() {
        let seen = Seen {
            command: words("./target/release/mine --port {port}"),
            cargo_program: Some(("./target/release/mine".into(), "mine".into())),
            ..Seen::default()
        };
        let (text, build) = custom(include_str!("custom.toml"), &seen);
        assert_eq!(
            serve(&text),
            r#"serve = ["{artifact}", "--port", "{port}"]"#
        );
        assert!(build.is_some_and(|build| build.contains("{target}/release/mine\"")));
    }
}
