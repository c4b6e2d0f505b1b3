//! `[github]` in `gates/gate.toml`: whose word lets a pull request onto the machine, and what the bot starts.

use super::labels::{self, is_plain, label_name};
use crate::plan::source::diagnostic::Diagnostic;
use crate::plan::source::section::{Field, Section};
use globset::GlobSet;

/// Longest `name`, in characters: it is a part of statuses' contexts and of a check run's id.
const MOST_NAME: usize = 60;
/// The check run's name where the project says none.
pub const DEFAULT_NAME: &str = "infergate";

/// What the project lets GitHub do. All keys may be left out.
#[derive(Clone, Debug)]
pub struct GitHubConfig {
    /// Name of the check run, and part of the marks by which everything of ours is found again.
    pub name: String,
    pub comment: Comments,
    /// The label by which a maintainer says that this very commit may run.
    pub approval_label: String,
    pub forks: Forks,
    /// File of the workflow that the bot dispatches, in `.github/workflows/`.
    pub workflow: String,
    /// What the check run says of a verdict that is neither pass nor fail.
    pub inconclusive: Conclusion,
    /// Id of the account that the workflows' token writes as, where GitHub does not say.
    pub bot_id: Option<u64>,
    /// Refuses results that were measured without a sandbox.
    pub require_sandbox: bool,
    /// Branches besides the default branch that a pull request may go into.
    bases: GlobSet,
}

/// When a pull request gets a comment. One that exists is always updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    Always,
    /// Begun only where the check run ends red.
    OnFailure,
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
            name: DEFAULT_NAME.into(),
            comment: Comments::Always,
            approval_label: "gpu-approved".into(),
            forks: Forks::Approved,
            workflow: "gate.yml".into(),
            inconclusive: Conclusion::Failure,
            bot_id: None,
            require_sandbox: false,
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

pub fn read(root: &Section<'_, '_>) -> Result<GitHubConfig, Diagnostic> {
    let mut config = GitHubConfig::default();
    let Some(field) = root.optional("github") else {
        return Ok(config);
    };
    let section = field.section()?;
    if let Some(field) = section.optional("name") {
        config.name = name(&field)?;
    }
    let comments = [
        ("always", Comments::Always),
        ("on-failure", Comments::OnFailure),
    ];
    if let Some(chosen) = section.given("comment", |f| f.choice(&comments))? {
        config.comment = chosen;
    }
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
    config.require_sandbox = section
        .given("require_sandbox", Field::flag)?
        .unwrap_or_default();
    if let Some(bases) = section.given("bases", labels::globs)? {
        config.bases = bases;
    }
    section.finish()?;
    Ok(config)
}

/// The check run's name: it stands within a comment of HTML, which `-->` would end.
fn name(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if !is_plain(name, MOST_NAME) || name.contains("-->") {
        return Err(field.wrong(format!(
            "`{}` must be a check run's name: 1 to {MOST_NAME} characters without line ends, spaces around them or `-->`",
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
