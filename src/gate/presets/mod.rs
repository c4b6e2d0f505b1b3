//! Starting points for `gates/`: for each engine, how it is started, what it can do, and the gates that fit.
//!
//! Main type: [`Preset`]. Plain text files of this folder, with the model's name filled in; the facts about
//! the engines stand in them, beside what the gate does where a capability is missing.
//!
//! Refuses to know: how a gate file is read, where it is written.

mod custom;
mod gates;
mod github;
mod toml_text;
mod tree;

pub use custom::{HIGHEST_ID, Seen, custom, is_python};
pub use github::{Origin, RULES, builds, workflows};
pub use tree::{built_command, engine_of};

use self::toml_text::escaped;
use std::ffi::OsStr;
use std::path::Path;

/// The preset for an engine of one's own.
pub const CUSTOM: &str = "custom";

/// One engine's starting point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset<'a> {
    /// The name on the command line.
    pub name: &'static str,
    /// A model's name that makes an example, where the user gave none.
    pub example: &'static str,
    engine: &'a str,
    /// The table `engine.build`, where it was found out; else that of the engine's name.
    build: Option<&'a str>,
    /// Usage tells how many of a prompt's tokens were cached.
    tells_cached: bool,
    /// It has the chat route, over which conversations go.
    chats: bool,
    /// Completions tell log-probabilities when asked to, streamed ones too.
    tells_logprobs: bool,
    /// Answers change where a request penalises repeated tokens.
    obeys_penalties: bool,
    /// Tokens that it has room for, where that is known.
    context: Option<u32>,
    /// Tokens of a page of its prefix cache, or more.
    page: u32,
    /// Tokens of a long prompt, where the context has room for it.
    long_prompt: u32,
    /// Models are the Hugging Face hub's, as they are there.
    takes_hub_models: bool,
}

/// A file to write: its path from the project's root, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub path: String,
    pub text: String,
}

const SESSION: &str = include_str!("session.toml");

/// The command that makes the goldens of main's own engine.
pub const GOLDENS_OF_ENGINE: &str = "gate golden make --engine";

/// Where an engine that holds a model of its own is told of another one.
const SOURCE: &str = "{{source}}";

/// A prompt that is longer than the context is sent where the context is shorter than this.
const LONGEST: u32 = 100_000;

/// Tokens of a long prompt, for an engine of unknown speed.
const LONG_PROMPT: u32 = 1024;

/// Pages of most caches have no more tokens.
const LEAST_PAGE: u32 = 64;

/// Every engine that has one.
pub const ALL: [Preset<'static>; 8] = [
    Preset {
        name: "vllm",
        example: "Qwen/Qwen3-0.6B",
        engine: include_str!("vllm.toml"),
        build: None,
        tells_cached: true,
        chats: true,
        tells_logprobs: true,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: true,
    },
    Preset {
        name: "sglang",
        example: "Qwen/Qwen3-0.6B",
        engine: include_str!("sglang.toml"),
        build: None,
        tells_cached: true,
        chats: true,
        tells_logprobs: true,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: true,
    },
    Preset {
        name: "llama.cpp",
        example: "model.gguf",
        engine: include_str!("llama.cpp.toml"),
        build: None,
        tells_cached: false,
        chats: true,
        tells_logprobs: false,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: false,
    },
    Preset {
        name: "llama-cpp-python",
        example: "model.gguf",
        engine: include_str!("llama-cpp-python.toml"),
        build: None,
        tells_cached: false,
        chats: true,
        tells_logprobs: false,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: false,
    },
    Preset {
        name: "ollama",
        example: "qwen2.5:0.5b",
        engine: include_str!("ollama.toml"),
        build: None,
        tells_cached: false,
        chats: true,
        tells_logprobs: false,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: false,
    },
    Preset {
        name: "transformers",
        example: "Qwen/Qwen3-0.6B",
        engine: include_str!("transformers.toml"),
        build: None,
        tells_cached: false,
        chats: true,
        tells_logprobs: false,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: true,
    },
    Preset {
        name: "infergate",
        example: "tiny-qwen3",
        engine: include_str!("infergate.toml"),
        build: None,
        tells_cached: true,
        chats: true,
        tells_logprobs: true,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: true,
    },
    Preset {
        name: CUSTOM,
        example: "my-model",
        engine: include_str!("custom.toml"),
        build: None,
        tells_cached: false,
        chats: true,
        tells_logprobs: false,
        obeys_penalties: true,
        context: None,
        page: LEAST_PAGE,
        long_prompt: LONG_PROMPT,
        takes_hub_models: true,
    },
];

impl<'a> Preset<'a> {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|preset| preset.name == name)
    }

    /// The engine's table as it is written, with `{{model}}` for the model's name.
    pub fn engine(self) -> &'a str {
        self.engine
    }

    /// The same with what was found out about the engine: its tables, and what it can do.
    pub fn with_engine(self, engine: &'a str, build: Option<&'a str>, seen: &Seen) -> Self {
        Self {
            engine,
            build,
            // Of a cache that keeps nothing, or of unknown pages, no limit would be right.
            tells_cached: seen.tells_cached
                && seen.page.is_some()
                && (self.tells_cached || self.name == CUSTOM),
            chats: seen.chats,
            tells_logprobs: false,
            obeys_penalties: seen.obeys_penalties,
            ..self
        }
        .with_seen(seen)
    }

    /// The table `engine.build` of this engine's own tree.
    pub fn build(self) -> &'static str {
        tree::recipe(self.name).build
    }

    /// The same with what a running server of it showed: what depends on its version, and on how it was started.
    pub fn with_seen(self, seen: &Seen) -> Self {
        Self {
            tells_logprobs: self.tells_logprobs || seen.tells_logprobs,
            context: seen.context.filter(|tokens| *tokens < LONGEST),
            page: seen.page.unwrap_or(0).max(LEAST_PAGE),
            long_prompt: seen.long_prompt.unwrap_or(LONG_PROMPT),
            ..self
        }
    }

    /// Whether the example's model stands in the engine's program itself: any other is then a directory.
    pub fn holds_its_example(self) -> bool {
        self.engine.contains(SOURCE)
    }

    /// How the engine is started, and what it can do.
    fn engine_text(self, model: &str) -> String {
        let source = match model == self.example {
            true => String::new(),
            false => format!("\"--model\", \"{}\", ", escaped(model)),
        };
        // A directory's path is no name; its last part is.
        let last = Path::new(model).file_name().and_then(OsStr::to_str);
        let name = last.filter(|_| self.holds_its_example()).unwrap_or(model);
        filled(self.engine, name).replace(SOURCE, &source)
    }

    /// The same, built from its tree.
    fn built_text(self, model: &str) -> String {
        let tree::Recipe {
            build,
            serve: (installed, built),
        } = tree::recipe(self.name);
        let text = self.engine_text(model);
        // What was found out has its own.
        let is_example = self.build.is_none();
        let lines = text
            .lines()
            .map(|line| match is_example && line.starts_with("serve = ") {
                true => line.replacen(installed, built, 1),
                false => line.to_owned(),
            });
        lines.map(|line| line + "\n").collect::<String>() + self.build.unwrap_or(build)
    }

    /// The files of `gates/`, with `model` in every place where its name belongs. The engine is built from the tree
    /// around them, or else the installed one is started, which can be compared with nothing but itself.
    pub fn files(self, model: &str, is_built: bool) -> Vec<Written> {
        let engine = match is_built {
            true => self.built_text(model),
            false => self.engine_text(model) + tree::NO_BUILD,
        };
        let project = Written {
            path: "gates/gate.toml".to_owned(),
            text: engine + &self.session_text(),
        };
        let gates = self.gates().into_iter().map(|(name, text)| Written {
            path: format!("gates/{name}.toml"),
            text,
        });
        std::iter::once(project).chain(gates).collect()
    }

    /// The command that makes the goldens of the gate `e2e`. What an engine is told of another kind of model is no name
    /// for transformers.
    pub fn golden_command(self, model: &str) -> String {
        let is_its_own = self.holds_its_example() && model == self.example;
        match self.takes_hub_models && !is_its_own && self.name != CUSTOM {
            true => format!("gate golden make --model {model}"),
            false => GOLDENS_OF_ENGINE.to_owned(),
        }
    }
}

/// The gates of `gate demo`: the engine of `program`, against itself.
pub fn demo(program: &str) -> [Written; 2] {
    let written = |path: &str, text: String| Written {
        path: path.to_owned(),
        text,
    };
    let config = include_str!("demo.toml").replace("{{program}}", &escaped(program));
    [
        written("gates/gate.toml", config),
        written(
            "gates/tpot.toml",
            include_str!("gates/demo-tpot.toml").to_owned(),
        ),
    ]
}

/// Fills the model's name in. It stands within TOML strings alone, never in comments.
fn filled(template: &str, model: &str) -> String {
    template.replace("{{model}}", &escaped(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_stands_wherever_its_name_belongs() {
        for preset in ALL {
            let files = preset.files("some/model", true);
            assert_eq!(files[0].path, "gates/gate.toml");
            assert!(files.len() > 1, "{} has no gate", preset.name);
            let name = match preset.holds_its_example() {
                true => "model",
                false => "some/model",
            };
            let model = format!("\nmodel = \"{name}\"\n");
            assert!(files[0].text.contains(&model), "{}", preset.name);
            assert!(files[0].text.contains("[engine.build]"), "{}", preset.name);
            let serve = files[0]
                .text
                .lines()
                .find(|line| line.starts_with("serve = "));
            assert!(
                serve.is_some_and(|line| line.contains("{artifact}")),
                "{}",
                preset.name
            );
            for file in &files {
                assert!(!file.text.contains("{{"), "{}: {}", preset.name, file.path);
            }
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("unknown"), None);
    }

    #[test]
    fn prompts_and_conversations_fit_into_the_context() {
        let vllm = Preset::named("vllm").unwrap();
        let text = |context, gate: &str| {
            let seen = Seen {
                context,
                ..Seen::default()
            };
            let files = vllm.with_seen(&seen).files("m", true);
            let path = format!("gates/{gate}.toml");
            files
                .into_iter()
                .find(|file| file.path == path)
                .unwrap()
                .text
        };
        let says = |context, gate: &str, line: &str| {
            let text = text(context, gate);
            assert!(text.lines().any(|own| own == line), "{context:?}: {text}");
        };
        says(None, "prefill-drift", "turns = { quick = 24, full = 60 }");
        says(
            Some(4096),
            "prefill-drift",
            "turns = { quick = 24, full = 25 }",
        );
        says(Some(4096), "long-prompts", "prompt_tokens = 1024");
        says(Some(1024), "long-prompts", "prompt_tokens = 512");
        says(Some(512), "matrix", "contexts = [128, 256]");
        says(
            Some(1024),
            "answers",
            "beside_tokens = { quick = 512, full = 512 }",
        );
    }

    #[test]
    fn an_engine_that_a_script_starts_is_shown_an_artifact() {
        for preset in ALL {
            for is_built in [true, false] {
                let text = &preset.files("some/model", is_built)[0].text;
                let is_shown = text.contains("# artifact = \"{target}/engine\"");
                assert_eq!(
                    is_shown,
                    !is_built || preset.name == CUSTOM,
                    "{}",
                    preset.name
                );
            }
        }
    }

    #[test]
    fn an_engine_with_a_model_of_its_own_is_told_of_another_one() {
        let own = Preset::named("infergate").unwrap();
        let serve = |model| {
            own.files(model, false)[0]
                .text
                .contains("\"--model\", \"a/model\"")
        };
        assert!(own.holds_its_example());
        assert_eq!((serve("a/model"), serve(own.example)), (true, false));
    }

    #[test]
    fn no_name_of_a_model_breaks_the_file() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\u000Ad");
        for preset in ALL {
            let text = &preset.files("x/{{source}}{{model}}", false)[0].text;
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
        let text = filled("model = \"{{model}}\"\n", "x\"\ny");
        assert_eq!(text, "model = \"x\\\"\\u000Ay\"\n");
        for preset in ALL {
            let mut comments = preset.engine.lines().filter(|line| line.starts_with('#'));
            // A comment has no escapes, so a name could end it.
            assert!(!comments.any(|line| line.contains("{{")), "{}", preset.name);
        }
    }
}
