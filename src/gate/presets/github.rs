//! Files that a repository needs to be gated on GitHub: workflows that name the action, and
//! the rules for labels.

use super::{Preset, Written};
use toml::Table;

/// The workflows of this repository, which are the ones to copy: name and text.
const WORKFLOWS: [(&str, &str); 3] = [
    (
        "label",
        include_str!("../../../.github/workflows/label.yml"),
    ),
    ("gate", include_str!("../../../.github/workflows/gate.yml")),
    (
        "baseline",
        include_str!("../../../.github/workflows/baseline.yml"),
    ),
];

/// How our own workflows name the action.
const OWN_ACTION: &str = "$/.github/actions/gate";

/// Where workflows take `gate` from: a commit of a repository that holds infergate, and a release of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// `owner/repository`
    pub repository: &'a str,
    pub commit: &'a str,
    /// Its tag, such as `v0.1.0`; `None`: each job builds `gate` from the source.
    pub release: Option<&'a str>,
}

/// The workflows, with the action of `origin`.
pub fn workflows(origin: Origin<'_>) -> Vec<Written> {
    let written = WORKFLOWS.iter().map(|(name, text)| Written {
        path: format!(".github/workflows/infergate-{name}.yml"),
        text: with_action(text, origin),
    });
    written.collect()
}

/// The text, with each step that names our own action naming theirs. A job on the machine with the GPU gets the program that
/// can read it.
fn with_action(text: &str, origin: Origin<'_>) -> String {
    let Origin {
        repository, commit, ..
    } = origin;
    let Some(release) = origin.release else {
        let theirs = format!("{repository}/.github/actions/gate@{commit}");
        return text.replace(OWN_ACTION, &theirs);
    };
    let mut has_gpu = false;
    let mut lines = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("runs-on:") {
            has_gpu = line.contains("self-hosted");
        }
        if let Some((before, "")) = line.split_once(OWN_ACTION) {
            let gpu = if has_gpu { ", gpu: 'true'" } else { "" };
            lines.push_str(&format!(
                "{before}{repository}@{commit} # {release}\n        with: {{ version: {release}{gpu} }}\n"
            ));
        } else {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines
}

/// What is added to `gates/gate.toml`: which paths need the machine with the GPU, and which workflow runs. All but
/// documents, whatever the engine: a tuned configuration, a submodule's commit or a toolchain's version make an engine
/// slower as well, and a pull request that no rule names is never measured.
pub const RULES: &str = r#"
[github]
# The workflow that the bot starts; docs/github.md of infergate.
workflow = "infergate-gate.yml"
# A result counts only where the code of the pull request was kept from the gate's files; docs/sandbox.md of infergate.
require_sandbox = true

# A pull request that touches one of these needs a gate run; the last pattern that matches decides. Leave out more only
# where nothing can change the engine: what no pattern names is never measured. That holds for the exceptions here too:
# where the code compiles a document in (`include_str!("x.md")`, `#[path = "docs/x.rs"]`) or reads one when it runs,
# name it again after them, as in ["**", "!**/*.md", "!docs/**", "src/prompt.md"].
[[label]]
name = "needs-gpu"
paths = ["**", "!**/*.md", "!docs/**"]
"#;

/// Whether a `gates/gate.toml` builds its engine. Error: it is no TOML, and where.
pub fn builds(config: &str) -> Result<bool, String> {
    let config: Table = config
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    let build = config.get("engine").and_then(|engine| engine.get("build"));
    Ok(build.is_some())
}

/// Where the workflows keep main's records. `session.toml` ends in the table that this belongs to.
const STORE: &str = r#"# The branch of this repository that keeps main's records; the first push makes it.
store = "git:infergate-baselines"
"#;

/// The demands of a machine with a GPU; `gate doctor` holds them against it.
const HOST: &str = r#"
# What the machine must have; `gate doctor` looks. A cache names the command that warms it.
[host]
gpus = 1

# [[host.cache]]
# path = "~/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B"
# warm = "hf download Qwen/Qwen3-0.6B"
"#;

impl Preset<'_> {
    /// The files of `gates/` for the engine's own repository on GitHub: built from its tree, on a machine with a GPU.
    pub fn files_on_github(self, model: &str) -> Vec<Written> {
        let mut files = self.files(model, true);
        files[0].text = self.built_text(model) + HOST + &self.session_text() + STORE;
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workflow_keeps_our_own_place_of_the_action() {
        let commit = "0123456789012345678901234567890123456789";
        let mut origin = Origin {
            repository: "owner/infergate",
            commit,
            release: None,
        };
        for file in workflows(origin) {
            assert!(!file.text.contains("uses: $/"), "{}", file.path);
            let action = format!("uses: owner/infergate/.github/actions/gate@{commit}\n");
            assert!(file.text.contains(&action), "{}", file.path);
        }
        origin.release = Some("v0.1.0");
        for file in workflows(origin) {
            assert!(!file.text.contains("actions/gate"), "{}", file.path);
            let action = format!(
                "uses: owner/infergate@{commit} # v0.1.0\n        with: {{ version: v0.1.0"
            );
            assert!(file.text.contains(&action), "{}", file.path);
            let with_gpu = file.text.matches("version: v0.1.0, gpu: 'true' }").count();
            let runners = file.text.matches("runs-on: [self-hosted, gpu]").count();
            assert_eq!(with_gpu, runners, "{}", file.path);
        }
    }
}
