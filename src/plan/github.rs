//! `[github]` in `gates/gate.toml`: whose word lets a pull request onto the machine, and what the bot starts.

use super::diagnostic::Diagnostic;
use super::labels;
use super::section::{Field, Section};
use globset::GlobSet;

/// Longest name of a label that GitHub takes, in characters.
const MOST_LABEL: usize = 50;

/// What the project lets GitHub do. All keys may be left out.
#[derive(Clone, Debug)]
pub struct GitHubConfig {
    /// The label by which a maintainer says that this very commit may run.
    pub approval_label: String,
    pub forks: Forks,
    /// File of the workflow that the bot dispatches, in `.github/workflows/`.
    pub workflow: String,
    /// What the check run says of a verdict that is neither pass nor fail.
    pub inconclusive: Conclusion,
    /// Id of the account that the workflows' token writes as, where GitHub does not say.
    pub bot_id: Option<u64>,
    /// Branches besides the default branch that a pull request may go into.
    bases: GlobSet,
}

/// Whether the pull request of another repository may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forks {
    /// Like any other: its author may write here, or a maintainer approved the commit.
    Approved,
    Never,
}

/// A check run's conclusion where nothing was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    Failure,
    /// Satisfies a required check.
    Neutral,
}

impl Default for GitHubConfig {
    fn default() -> Self {
        Self {
            approval_label: "gpu-approved".into(),
            forks: Forks::Approved,
            workflow: "gate.yml".into(),
            inconclusive: Conclusion::Failure,
            bot_id: None,
            bases: GlobSet::empty(),
        }
    }
}

impl GitHubConfig {
    /// Whether a pull request into this branch may run.
    pub fn allows_base(&self, branch: &str, default_branch: &str) -> bool {
        branch == default_branch || self.bases.is_match(branch)
    }
}

pub(super) fn read(root: &Section<'_, '_>) -> Result<GitHubConfig, Diagnostic> {
    let mut config = GitHubConfig::default();
    let Some(field) = root.optional("github") else {
        return Ok(config);
    };
    let section = field.section()?;
    if let Some(field) = section.optional("approval_label") {
        config.approval_label = label_name(&field)?;
    }
    let forks = [("approved", Forks::Approved), ("never", Forks::Never)];
    if let Some(chosen) = section.given("forks", |f| f.choice(&forks))? {
        config.forks = chosen;
    }
    if let Some(field) = section.optional("workflow") {
        config.workflow = workflow(&field)?;
    }
    let conclusions = [
        ("failure", Conclusion::Failure),
        ("neutral", Conclusion::Neutral),
    ];
    if let Some(chosen) = section.given("inconclusive", |f| f.choice(&conclusions))? {
        config.inconclusive = chosen;
    }
    config.bot_id = section
        .given("bot_id", |f| f.count(1..u32::MAX))?
        .map(u64::from);
    if let Some(bases) = section.given("bases", labels::globs)? {
        config.bases = bases;
    }
    section.finish()?;
    Ok(config)
}

/// A label's name as GitHub takes it.
pub(super) fn label_name(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    let is_plain = name.trim() == name && !name.chars().any(char::is_control);
    if name.is_empty() || name.chars().count() > MOST_LABEL || !is_plain {
        return Err(field.wrong(format!(
            "`{}` must be a label's name: 1 to {MOST_LABEL} characters without line ends or spaces around them",
            field.name
        )));
    }
    Ok(name.to_owned())
}

fn workflow(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    let is_file = name.ends_with(".yml") || name.ends_with(".yaml");
    if !is_file || name.contains(['/', '\\']) {
        let mut refusal = field.wrong(format!("`{}` must be a workflow's file name", field.name));
        refusal.help = Some("name the file in .github/workflows/, such as \"gate.yml\"".into());
        return Err(refusal);
    }
    Ok(name.to_owned())
}
