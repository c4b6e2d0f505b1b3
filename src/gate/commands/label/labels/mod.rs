//! `gate github label`: a pull request gets the labels that its paths need, and the run that they stand for is started.
//!
//! [`label`] asks GitHub for what there is, [`steps`](super::steps) decides, purely, and each [`LabelStep`] is carried out, or
//! only told (`--dry-run`). The bot starts the run itself, since a label that a workflow's token adds starts nothing.
//! Any event leads to the same state from wherever it starts, so that two events that meet, or one that comes
//! twice, do no harm.

mod queue;

use super::steps::{LabelStep, Running, Situation};
use super::whose::{Unneeded, Word};
use crate::commands::authorize::ruling::{self, approval, approval_context, may_write, ours};
use crate::session::{Error, GitHubOptions};
use github::event::Event;
use github::{Client, CommitStatus, NewStatus, Pull, QueueEvent, Sha, State, WorkflowRun};
use std::collections::BTreeMap;
use std::path::PathBuf;
use verdict::digest;
use verdict::plan::{self, GitHubConfig, GitHubRules, Needed};

/// Which pull request, and why now.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// This one, as it is.
    Number(u64),
    /// What Actions hands over: `GITHUB_EVENT_NAME` and `GITHUB_EVENT_PATH`.
    Event { name: String, path: PathBuf },
}

#[derive(Clone, Debug)]
pub struct LabelOptions {
    /// Where the search for the project begins: a checkout of main.
    pub start: PathBuf,
    pub github: GitHubOptions,
    pub trigger: Trigger,
    /// Only say what would be done.
    pub dry_run: bool,
    pub profile: String,
}

/// What was done.
#[derive(Debug)]
pub struct Labelled {
    /// For people, one a line.
    pub lines: Vec<String>,
    /// One sentence each: labels that could not be set.
    pub remarks: Vec<String>,
    number: String,
    head_sha: String,
    is_needed: bool,
    is_started: bool,
    /// Why a run that is needed may not be; empty: it may, or none is needed.
    reason: String,
    gates: String,
    /// The merge queue's branch that the commit is the head of; empty: it is the pull request's.
    queue: String,
    /// The pull request's commit whose verdict holds for the queue's.
    same_as: String,
    /// What ended it; the outputs say what it was about.
    pub failure: Option<Error>,
}

impl Labelled {
    /// For later steps of the job.
    pub fn outputs(&self) -> [(&'static str, &str); 8] {
        let word = |is: bool| if is { "true" } else { "false" };
        [
            ("pr", &self.number),
            ("head_sha", &self.head_sha),
            ("needed", word(self.is_needed)),
            ("started", word(self.is_started)),
            ("reason", &self.reason),
            ("gates", &self.gates),
            ("queue", &self.queue),
            ("same_as", &self.same_as),
        ]
    }
}

/// Labels the pull request, and starts its run where it may run.
pub async fn label(options: &LabelOptions) -> Result<Labelled, Error> {
    let root = plan::find_root(&options.start)?;
    let rules = plan::github_rules(&root, &options.profile)?;
    let client = options.github.client(rules.config.bot_id)?;
    let (number, event) = match &options.trigger {
        Trigger::Number(number) => (*number, None),
        Trigger::Event { name, path } if name == QueueEvent::NAME => {
            let read = QueueEvent::read(path, client.repository());
            let event = read.map_err(github::Error::from)?;
            return Ok(queue::label_queued(options, &client, &rules, &event).await);
        }
        Trigger::Event { name, path } => {
            let read = Event::read(name, path, client.repository());
            let event = read.map_err(github::Error::from)?;
            (event.number, Some(event))
        }
    };
    let pull = client.pull(number).await?;
    if !pull.is_open {
        return Ok(closed(options, &pull));
    }
    let asked = ask(&client, &rules, &pull, event.as_ref()).await?;
    let gates = asked.needed.gates(&rules.of_profile).join(" ");
    let mark = Mark::of(&rules.config, pull.number, &gates, &pull.base_branch);
    let situation = Situation {
        rules: &rules,
        pull: &pull,
        action: event.as_ref().map(|event| &event.action),
        event_sha: event.as_ref().map(|event| &event.head_sha),
        word: asked.word,
        needed: &asked.needed,
        unneeded: &asked.unneeded,
        has_base: asked.has_base,
        is_fork: pull.is_from_fork(client.repository()),
        author_may_write: asked.author_may_write,
        approval: approval(&rules.config, &asked.statuses, asked.own_id),
        running: &asked.running,
        is_started: ours(&asked.statuses, &mark.context, asked.own_id)
            .is_some_and(|status| status.description == mark.description),
    };
    let mut steps = super::steps::steps(&situation);
    // A run that was listed since may be a newer head's, and GitHub ends it for good.
    let cancels = |step: &LabelStep| matches!(step, LabelStep::Cancel(_));
    let moved = match steps.iter().any(cancels) {
        true => client.pull(number).await?.head_sha != pull.head_sha,
        false => false,
    };
    if moved {
        steps.clear();
    }
    let work = Work {
        client: &client,
        rules: &rules,
        pull: &pull,
        gates: &gates,
        mark: &mark,
    };
    let mut remarks = asked.remarks.clone();
    if moved {
        remarks.push("the head has moved: its own event does what it needs".to_owned());
    }
    if !options.dry_run {
        for step in &steps {
            match (work.carry_out(step).await, step) {
                // A label lets nothing run and keeps nothing from it.
                (Err(error), LabelStep::Add { label, .. } | LabelStep::Remove { label, .. }) => {
                    remarks.push(format!("the label `{label}` stays as it was: {error}"));
                }
                // It costs the machine's time, and no verdict: what it says is of another commit.
                (Err(error), LabelStep::Cancel(run)) => {
                    remarks.push(format!("run {} goes on: {error}", run.id));
                }
                (done, _) => done?,
            }
        }
    }
    Ok(Labelled {
        lines: lines(options, &situation, &steps, &gates),
        remarks,
        number: number.to_string(),
        head_sha: pull.head_sha.as_str().to_owned(),
        // Where its paths are held against a branch of anybody's, they prove nothing about main.
        is_needed: asked.needed.is_anything()
            || !rules
                .config
                .allows_base(&pull.base_branch, &pull.default_branch),
        is_started: !options.dry_run && steps.contains(&LabelStep::Start),
        reason: steps.iter().find_map(why_not).unwrap_or_default(),
        gates,
        queue: String::new(),
        same_as: String::new(),
        failure: None,
    })
}

/// Its branches may be gone, so nothing else is asked.
fn closed(options: &LabelOptions, pull: &Pull) -> Labelled {
    Labelled {
        lines: vec![heading(options, pull), "nothing to do: it is closed".into()],
        remarks: Vec::new(),
        number: pull.number.to_string(),
        head_sha: pull.head_sha.as_str().to_owned(),
        is_needed: false,
        is_started: false,
        reason: String::new(),
        gates: String::new(),
        queue: String::new(),
        same_as: String::new(),
        failure: None,
    }
}

fn why_not(step: &LabelStep) -> Option<String> {
    match step {
        LabelStep::Refuse { why } => Some(why.clone()),
        _ => None,
    }
}

/// What GitHub was asked for.
struct LabelAnswers {
    /// By the paths, and by whoever added a label.
    needed: Needed,
    /// Labels that no path needs.
    unneeded: Vec<Unneeded>,
    /// It has a commit in common with the branch that it goes into.
    has_base: bool,
    author_may_write: bool,
    /// Of an event of the approval label, or of a rule's: whose it is.
    word: Option<Word>,
    statuses: Vec<CommitStatus>,
    own_id: u64,
    running: Vec<Running>,
    remarks: Vec<String>,
}

async fn ask(
    client: &Client,
    rules: &GitHubRules,
    pull: &Pull,
    event: Option<&Event>,
) -> Result<LabelAnswers, Error> {
    let word = match event {
        Some(event) => super::whose::word(client, rules, event).await?,
        None => None,
    };
    let title = format!("pull request #{} at ", pull.number);
    let (running, remark) = running(client, &rules.config.workflow, &title).await;
    let compared = client.compare(&pull.base_branch, &pull.head_sha).await?;
    let has_base = compared.is_some();
    let mut needed = match compared {
        Some(compared) => ruling::needed(rules, pull.changed_files, compared.files),
        None => Needed::everything(&rules.labels),
    };
    let mut remarks: Vec<String> = remark.into_iter().collect();
    let unneeded = super::whose::unneeded(client, rules, pull, &needed, event).await;
    let unneeded = unneeded.unwrap_or_else(|error| {
        remarks.push(format!(
            "labels that no path needs stay, and start nothing: {error}"
        ));
        Vec::new()
    });
    for wish in unneeded.iter().filter(|unneeded| unneeded.by.is_writer()) {
        needed.add_label(&rules.labels, &wish.label);
    }
    Ok(LabelAnswers {
        running,
        remarks,
        has_base,
        needed,
        unneeded,
        author_may_write: may_write(client, pull.author.as_deref()).await?,
        word,
        statuses: client.statuses(&pull.head_sha).await?,
        own_id: client.own_id().await?,
    })
}

/// The workflow's runs that have not ended, by the title that its `run-name` gives them; or a sentence why they are not
/// known.
async fn running(client: &Client, workflow: &str, title: &str) -> (Vec<Running>, Option<String>) {
    let runs = match client.open_runs(workflow).await {
        Ok(runs) => runs,
        Err(error) => {
            let remark = format!("runs of superseded commits, if any, go on: {error}");
            return (Vec::new(), Some(remark));
        }
    };
    let of_ours = |run: &WorkflowRun| {
        let head = run.title.strip_prefix(title)?;
        let (id, head) = (run.id, Sha::parse(head).ok()?);
        Some(Running { id, head })
    };
    (runs.iter().filter_map(of_ours).collect(), None)
}

/// The commit status that says what was started.
struct Mark {
    /// Names the pull request: another one of the same commit, into another branch, has a run of its own.
    context: String,
    /// With other gates or against another branch it is another run. Only the digest knows the branch: GitHub refuses a
    /// description with characters that a branch's name may have.
    description: String,
}

impl Mark {
    fn of(config: &GitHubConfig, number: u64, gates: &str, base: &str) -> Self {
        let told = if gates.is_empty() {
            "the profile's"
        } else {
            gates
        };
        let known = digest::of_parts([gates.as_bytes(), base.as_bytes()]);
        let told: String = told.chars().take(80).collect();
        Self {
            context: format!("{}/started/{number}", config.name),
            description: format!("started with gates {told} ({})", &known[..8]),
        }
    }
}

/// The means by which steps are carried out.
struct Work<'a> {
    client: &'a Client,
    rules: &'a GitHubRules,
    pull: &'a Pull,
    gates: &'a str,
    mark: &'a Mark,
}

impl Work<'_> {
    async fn carry_out(&self, step: &LabelStep) -> Result<(), Error> {
        let (client, number) = (self.client, self.pull.number);
        let context = approval_context(&self.rules.config);
        let approval = |state, description| NewStatus {
            context: &context,
            state,
            description,
            target_url: None,
        };
        let head = &self.pull.head_sha;
        match step {
            LabelStep::Add { label, .. } => client.add_label(number, label).await?,
            LabelStep::Remove { label, .. } => client.remove_label(number, label).await?,
            LabelStep::Approve { by } => {
                let text = format!("approved by @{by}");
                client
                    .set_status(head, &approval(State::Success, &text))
                    .await?;
            }
            LabelStep::Withdraw { by } => {
                let text = format!("approval taken back by @{by}");
                client
                    .set_status(head, &approval(State::Failure, &text))
                    .await?;
            }
            LabelStep::Cancel(run) => client.cancel_run(run.id).await?,
            LabelStep::Start => {
                let inputs = BTreeMap::from([
                    ("pr", number.to_string()),
                    ("head_sha", head.to_string()),
                    ("gates", self.gates.to_owned()),
                ]);
                start(
                    client,
                    &self.rules.config,
                    self.pull,
                    head,
                    self.mark,
                    &inputs,
                )
                .await?;
            }
            LabelStep::Refuse { .. } | LabelStep::Tell(_) => {}
        }
        Ok(())
    }
}

/// Starts the workflow, and then says so on the commit: an end in between starts a second run, which cancels the first;
/// the other way round it would start none.
async fn start(
    client: &Client,
    config: &GitHubConfig,
    pull: &Pull,
    head: &Sha,
    mark: &Mark,
    inputs: &BTreeMap<&str, String>,
) -> Result<(), Error> {
    client
        .dispatch(&config.workflow, &pull.default_branch, inputs)
        .await?;
    let started = NewStatus {
        context: &mark.context,
        state: State::Success,
        description: &mark.description,
        target_url: None,
    };
    Ok(client.set_status(head, &started).await?)
}

/// The steps for people. Names from outside come after words of ours, so that no line is a command to Actions.
fn lines(
    options: &LabelOptions,
    situation: &Situation<'_>,
    steps: &[LabelStep],
    gates: &str,
) -> Vec<String> {
    let mut lines = vec![heading(options, situation.pull)];
    let gates = if gates.is_empty() {
        "of the profile"
    } else {
        gates
    };
    lines.extend(steps.iter().map(|step| match step {
        LabelStep::Start => format!(
            "start `{}` for this commit: gates {gates}",
            situation.rules.config.workflow
        ),
        step => step.line(),
    }));
    lines
}

fn heading(options: &LabelOptions, pull: &Pull) -> String {
    let dry = if options.dry_run {
        " (nothing is done: --dry-run)"
    } else {
        ""
    };
    format!(
        "pull request #{} at {}{dry}",
        pull.number,
        pull.head_sha.short()
    )
}
