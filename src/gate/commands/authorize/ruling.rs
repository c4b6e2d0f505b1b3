//! `gate github authorize`: may this commit of a pull request run on the machine?
//!
//! [`may_run`] is the rule, a pure function of [`Facts`]; [`authorize`] asks GitHub for them. A label never
//! authorises: labels stay when a push brings code that nobody saw. What authorises is who wrote it, who started
//! it, or an approval that is bound to this very commit ([`approval`]).

use crate::session::{Error, GitHubOptions};
use github::{
    ChangedFile, Client, CommitStatus, MOST_COMPARED, Pull, QueueBranch, Sha, State, clean,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use verdict::plan::{self, Forks, GitHubConfig, GitHubRules, Needed};

/// Context of the commit status that holds an approval.
pub fn approval_context(config: &GitHubConfig) -> String {
    format!("{}/approval", config.name)
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct AuthorizeOptions {
    /// Where the search for the project begins: a checkout of main.
    pub start: PathBuf,
    pub github: GitHubOptions,
    pub number: u64,
    pub head_sha: String,
    /// Names of gates; empty: those that the paths need.
    pub gates: Vec<String>,
    pub profile: String,
    /// Login of whoever dispatched this run, by Actions' environment.
    pub starter: Option<String>,
    /// The commit is the merge queue's, and not the pull request's own head.
    pub queued: Option<Queued>,
    /// `None`: this is no run of Actions.
    pub run: Option<RunOrigin>,
}

/// A commit that the merge queue made.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The queue's branch, whose head it is.
    pub branch: String,
    /// What it is measured against, all 40 digits.
    pub base_sha: String,
}

/// Inputs of this workflow run, by Actions' environment. Each attempt of a run has the same.
#[derive(Clone, Debug)]
pub struct RunOrigin {
    /// `refs/heads/BRANCH` that it was started on.
    pub branch: Option<String>,
    /// That branch's head when it was started: whose gates and program judge.
    pub commit: Sha,
    /// True for the run's first attempt.
    pub is_first: bool,
}

/// The answer, with all that a run needs.
#[derive(Clone, Debug)]
pub struct Ruling {
    pub is_authorized: bool,
    /// One line.
    pub reason: String,
    number: String,
    head_sha: Sha,
    /// What head is measured against; known where it may run.
    base_sha: Option<Sha>,
    base_branch: String,
    gates: String,
}

impl Ruling {
    /// For people.
    pub fn line(&self) -> String {
        let word = if self.is_authorized { "yes" } else { "no" };
        let head = self.head_sha.short();
        format!("{word}: #{} at {head}: {}", self.number, self.reason)
    }

    /// For later steps of the job.
    pub fn outputs(&self) -> [(&'static str, &str); 7] {
        [
            (
                "authorized",
                if self.is_authorized { "true" } else { "false" },
            ),
            ("pr", &self.number),
            ("head_sha", self.head_sha.as_str()),
            ("base_sha", self.base_sha.as_ref().map_or("", Sha::as_str)),
            ("base_ref", &self.base_branch),
            ("gates", &self.gates),
            ("reason", &self.reason),
        ]
    }
}

/// All that the rule asks about.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    pub pull: &'a Pull,
    /// The commit that is to run.
    pub asked: &'a Sha,
    pub is_fork: bool,
    pub config: &'a GitHubConfig,
    pub author_may_write: bool,
    /// A person who may write here and started the run of this commit by hand.
    pub starter: Option<&'a str>,
    /// What the approval of this very commit says.
    pub approval: Option<&'a str>,
}

/// Whether it may run: the reason why, or why not.
pub fn may_run(facts: &Facts<'_>) -> Result<String, String> {
    refuse_what_never_runs(facts)?;
    let author = facts.pull.author.as_deref().unwrap_or("nobody");
    let author = clean(author, 60);
    // To a fork others may push than who opened the pull request.
    if facts.author_may_write && !facts.is_fork {
        return Ok(format!("its author @{author} may write to this repository"));
    }
    if let Some(starter) = facts.starter {
        let starter = clean(starter, 60);
        return Ok(format!(
            "@{starter}, who may write to this repository, started it"
        ));
    }
    if let Some(approval) = facts.approval {
        return Ok(format!("this commit is {}", clean(approval, 140)));
    }
    let who = match facts.author_may_write {
        true => "it comes from a fork, to which others than its author may push".to_owned(),
        false => format!("its author @{author} may not write to this repository"),
    };
    Err(format!(
        "{who}, and nobody approved this commit; somebody with write access approves it with the label `{}`",
        facts.config.approval_label
    ))
}

fn refuse_what_never_runs(facts: &Facts<'_>) -> Result<(), String> {
    let Facts { pull, asked, .. } = facts;
    if !pull.is_open {
        return Err("the pull request is closed".into());
    }
    if pull.head_sha != **asked {
        let live = pull.head_sha.short();
        return Err(format!("superseded: the head is {live} by now"));
    }
    if pull.head_repository.is_none() {
        return Err("the repository that it comes from is gone".into());
    }
    if let Some(why_not) = foreign_base(facts.config, pull) {
        return Err(why_not);
    }
    if facts.is_fork && facts.config.forks == Forks::Never {
        return Err("it comes from a fork, and gates/gate.toml says `forks = \"never\"`".into());
    }
    Ok(())
}

/// The approval of a commit out of its statuses, newest first. Only our own account's count: anybody who may
/// write statuses can make one of this name. One that was taken back is none.
pub fn approval<'a>(
    config: &GitHubConfig,
    statuses: &'a [CommitStatus],
    own_id: u64,
) -> Option<&'a str> {
    let newest = ours(statuses, &approval_context(config), own_id)?;
    (newest.state == State::Success).then_some(newest.description.as_str())
}

/// The newest status of this context that our own account wrote.
pub fn ours<'a>(
    statuses: &'a [CommitStatus],
    context: &str,
    own_id: u64,
) -> Option<&'a CommitStatus> {
    let is_ours = |status: &&CommitStatus| {
        // GitHub does not tell contexts apart by case.
        status.creator == Some(own_id) && status.context.eq_ignore_ascii_case(context)
    };
    statuses.iter().find(is_ours)
}

/// Asks GitHub, and decides.
pub async fn authorize(options: &AuthorizeOptions) -> Result<Ruling, Error> {
    let root = plan::find_root(&options.start)?;
    let rules = plan::github_rules(&root, &options.profile)?;
    refuse_unknown_gates(&options.gates, &rules)?;
    let asked = Sha::parse(&options.head_sha)?;
    let queued = options.queued.as_ref();
    let queued = queued.map(|queued| queue_entry(queued, options.number));
    let queued = queued.transpose()?;
    let client = options.github.client(rules.config.bot_id)?;
    let pull = client.pull(options.number).await?;
    let decided = match &queued {
        None => decide(options, &client, &rules, &pull, &asked).await?,
        Some((branch, _)) => {
            decide_queued(options, &client, &rules, &pull, (branch, &asked)).await?
        }
    };
    let mut ruling = Ruling {
        is_authorized: decided.is_ok(),
        reason: decided.unwrap_or_else(|why_not| why_not),
        number: pull.number.to_string(),
        base_sha: None,
        base_branch: pull.base_branch.clone(),
        gates: String::new(),
        head_sha: asked,
    };
    if !ruling.is_authorized {
        return Ok(ruling);
    }
    let base = match &queued {
        None => pull.base_branch.as_str(),
        Some((_, base)) => base.as_str(),
    };
    let compared = client.compare(base, &ruling.head_sha).await?;
    let compared = compared.filter(|compared| match &queued {
        None => true,
        Some((_, base)) => compared.merge_base == *base,
    });
    let Some(compared) = compared else {
        ruling.is_authorized = false;
        ruling.reason = match &queued {
            None => unrelated(base),
            Some((_, base)) => format!("it is not built upon {}, its base", base.short()),
        };
        return Ok(ruling);
    };
    let known = if queued.is_some() {
        0
    } else {
        pull.changed_files
    };
    let needed = needed(&rules, known, compared.files).gates(&rules.of_profile);
    ruling.gates = with_asked(needed, &options.gates, &rules.of_profile).join(" ");
    ruling.base_sha = Some(compared.merge_base);
    Ok(ruling)
}

/// Gates to run: those that the paths need, and further ones that were asked for. Whoever asks for fewer would turn the
/// required check green without them. None are those of the profile, as is asked for by none.
fn with_asked(needed: Vec<String>, asked: &[String], of_profile: &[String]) -> Vec<String> {
    let further = |gate: &&String| !needed.contains(gate) && !of_profile.contains(gate);
    if asked.is_empty() || needed.is_empty() && !asked.iter().any(|gate| further(&gate)) {
        return needed;
    }
    let least = if needed.is_empty() {
        of_profile
    } else {
        &needed
    };
    let all: BTreeSet<&String> = least.iter().chain(asked).collect();
    all.into_iter().cloned().collect()
}

/// Branch and base, checked before GitHub is asked.
fn queue_entry(queued: &Queued, number: u64) -> Result<(QueueBranch, Sha), Error> {
    let branch = QueueBranch::parse(&queued.branch).filter(|branch| branch.number == number);
    let branch = branch.ok_or_else(|| {
        Error::Usage(format!(
            "--queue: `{}` is no branch of a merge queue with an entry of #{number}",
            clean(&queued.branch, 200)
        ))
    })?;
    Ok((branch, Sha::parse(&queued.base_sha)?))
}

/// A commit that the merge queue made may run while its branch is there: nobody but who may write to the repository
/// puts a pull request into the queue, and nobody but GitHub writes to the queue's branches.
async fn decide_queued(
    options: &AuthorizeOptions,
    client: &Client,
    rules: &GitHubRules,
    pull: &Pull,
    (branch, asked): (&QueueBranch, &Sha),
) -> Result<Result<String, String>, Error> {
    if !pull.is_open {
        return Ok(Err("the pull request is closed".into()));
    }
    if let Some(why_not) = foreign_base(&rules.config, pull) {
        return Ok(Err(why_not));
    }
    if branch.base_branch != pull.base_branch {
        return Ok(Err(format!(
            "the merge queue's branch is for `{}`, and the pull request goes into `{}`",
            clean(&branch.base_branch, 100),
            clean(&pull.base_branch, 100)
        )));
    }
    let tip = client.tip(&branch.name).await?;
    if tip.is_none_or(|tip| tip.sha != *asked) {
        return Ok(Err("superseded: the merge queue dropped this commit".into()));
    }
    if let Some(run) = &options.run
        && let Some(why_not) = judges_by_old_main(client, run, &pull.default_branch).await?
    {
        return Ok(Err(why_not));
    }
    let may = "it is the merge queue's: only who may write to this repository fills that";
    Ok(Ok(may.into()))
}

/// Why nothing that goes into this branch runs; `None`: it may.
pub fn foreign_base(config: &GitHubConfig, pull: &Pull) -> Option<String> {
    (!config.allows_base(&pull.base_branch, &pull.default_branch)).then(|| {
        format!(
            "it goes into the branch `{}`, which is neither the default branch nor among `bases` in gates/gate.toml",
            clean(&pull.base_branch, 100)
        )
    })
}

/// Why an orphan branch cannot be measured.
pub fn unrelated(base_branch: &str) -> String {
    format!(
        "it has no commit in common with `{}`, so there is no base to compare it with: rebase it onto that branch",
        clean(base_branch, 100)
    )
}

fn refuse_unknown_gates(gates: &[String], rules: &GitHubRules) -> Result<(), Error> {
    match gates.iter().find(|gate| !rules.gates.contains(gate)) {
        None => Ok(()),
        Some(unknown) => Err(Error::Usage(format!(
            "--gates: unknown gate `{}`; available: {}",
            clean(unknown, 60),
            rules.gates.join(", ")
        ))),
    }
}

/// Asks no more than the answer needs.
async fn decide(
    options: &AuthorizeOptions,
    client: &Client,
    rules: &GitHubRules,
    pull: &Pull,
    asked: &Sha,
) -> Result<Result<String, String>, Error> {
    let mut facts = Facts {
        pull,
        asked,
        is_fork: pull.is_from_fork(client.repository()),
        config: &rules.config,
        author_may_write: false,
        starter: None,
        approval: None,
    };
    if let Err(why_not) = refuse_what_never_runs(&facts) {
        return Ok(Err(why_not));
    }
    if let Some(run) = &options.run
        && let Some(why_not) = judges_by_old_main(client, run, &pull.default_branch).await?
    {
        return Ok(Err(why_not));
    }
    facts.author_may_write = may_write(client, pull.author.as_deref()).await?;
    if facts.author_may_write && !facts.is_fork {
        return Ok(may_run(&facts));
    }
    if may_write(client, options.starter.as_deref()).await? {
        facts.starter = options.starter.as_deref();
        return Ok(may_run(&facts));
    }
    let own_id = client.own_id().await?;
    let statuses = client.statuses(asked).await?;
    facts.approval = approval(&rules.config, &statuses, own_id);
    Ok(may_run(&facts))
}

/// Why this workflow run may not judge; `None`: it may. Main is at its head where a run begins, and a long wait for
/// the machine is no reason; but somebody may start an old run again for 30 days, with the gates of that time.
async fn judges_by_old_main(
    client: &Client,
    run: &RunOrigin,
    main: &str,
) -> Result<Option<String>, Error> {
    let named = clean(main, 100);
    if let Some(branch) = &run.branch
        && branch.strip_prefix("refs/heads/") != Some(main)
    {
        return Ok(Some(format!(
            "this workflow run is of `{}`, and only `{named}` judges: start the workflow there",
            clean(branch, 100)
        )));
    }
    if run.is_first {
        return Ok(None);
    }
    let head = client.tip(main).await?.map(|tip| tip.sha);
    if head.as_ref() == Some(&run.commit) {
        return Ok(None);
    }
    let now = head.as_ref().map_or("nowhere", Sha::short);
    Ok(Some(format!(
        "a re-run of an old run would judge by old gates: it is of `{named}` at {}, which is at {now} by now; start a new \
         run of the workflow",
        run.commit.short()
    )))
}

pub async fn may_write(client: &Client, login: Option<&str>) -> Result<bool, Error> {
    match login {
        None => Ok(false),
        Some(login) => Ok(client.permission(login).await?.may_write()),
    }
}

/// What the paths need that a commit changes. Of a rename both paths count; where GitHub does not list all, everything
/// is needed: at its limit, or where there are fewer than the pull request says (`known`). `files` are of a comparison, which is of one commit: the pull request's own list is of
/// whatever is its head when it is asked for, and somebody may have pushed since.
pub fn needed(rules: &GitHubRules, known: usize, files: Vec<ChangedFile>) -> Needed {
    if files.len() >= MOST_COMPARED || files.len() < known {
        return Needed::everything(&rules.labels);
    }
    let paths: Vec<String> = files
        .into_iter()
        .flat_map(|file| [Some(file.filename), file.previous_filename])
        .flatten()
        .collect();
    Needed::of_paths(&rules.labels, &paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_is_our_own_and_the_newest() {
        let status = |context: &str, state, creator| CommitStatus {
            context: context.into(),
            state,
            description: "approved by @ada".into(),
            creator,
        };
        let (yes, no) = (State::Success, State::Failure);
        const APPROVAL: &str = "infergate/approval";
        let config = GitHubConfig::default();
        for (statuses, expect) in [
            (vec![], false),
            (vec![status(APPROVAL, yes, Some(7))], true),
            (vec![status("Infergate/Approval", yes, Some(7))], true),
            (vec![status(APPROVAL, yes, Some(8))], false),
            (vec![status(APPROVAL, yes, None)], false),
            (vec![status("infergate/approved", yes, Some(7))], false),
            (vec![status(APPROVAL, State::Pending, Some(7))], false),
            (
                vec![
                    status(APPROVAL, no, Some(7)),
                    status(APPROVAL, yes, Some(7)),
                ],
                false,
            ),
            (
                vec![
                    status(APPROVAL, yes, Some(7)),
                    status(APPROVAL, no, Some(7)),
                ],
                true,
            ),
            // Somebody else's word neither gives nor takes.
            (
                vec![
                    status(APPROVAL, no, Some(8)),
                    status(APPROVAL, yes, Some(7)),
                ],
                true,
            ),
        ] {
            assert_eq!(
                approval(&config, &statuses, 7).is_some(),
                expect,
                "{statuses:?}"
            );
        }
    }
}
