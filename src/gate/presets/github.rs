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

/// The workflows, with the action named as `owner/repository@commit`.
pub fn workflows(action: &str) -> Vec<Written> {
    let (repository, commit) = action.split_once('@').unwrap_or((action, ""));
    let theirs = format!("{repository}/.github/actions/gate@{commit}");
    let written = WORKFLOWS.iter().map(|(name, text)| Written {
        path: format!(".github/workflows/infergate-{name}.yml"),
        text: text.replace(OWN_ACTION, &theirs),
    });
    written.collect()
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

impl Preset {
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
        for file in workflows("owner/infergate@0123456789012345678901234567890123456789") {
            assert!(!file.text.contains("uses: $/"), "{}", file.path);
            let action =
                "owner/infergate/.github/actions/gate@0123456789012345678901234567890123456789";
            assert!(file.text.contains(action), "{}", file.path);
        }
    }
}
