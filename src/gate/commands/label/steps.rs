//! Steps to take on a pull request: a pure function of its state.

use super::whose::{Adder, Unneeded, Word};
use crate::commands::authorize::ruling::{self, Facts};
use github::event::Action;
use github::{Pull, Sha, clean};
use verdict::plan::{GitHubRules, Needed};
use verdict::plural::first_of;

/// Paths that are named as the reason of a label.
const MOST_PATHS: usize = 3;

/// A run of the workflow for this pull request that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub id: u64,
    /// The commit that it measures.
    pub head: Sha,
}

/// How things stand.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    pub rules: &'a GitHubRules,
    /// As it is now.
    pub pull: &'a Pull,
    /// What happened; `None`: somebody asks.
    pub action: Option<&'a Action>,
    /// The head when it happened.
    pub event_sha: Option<&'a Sha>,
    pub word: Option<Word>,
    /// By the paths, and by whoever added a label.
    pub needed: &'a Needed,
    /// Labels that no path needs.
    pub unneeded: &'a [Unneeded],
    /// It has a commit in common with the branch that it goes into.
    pub has_base: bool,
    pub is_fork: bool,
    pub author_may_write: bool,
    /// What the approval of the live head says.
    pub approval: Option<&'a str>,
    /// A run with these gates was started for the live head.
    pub is_started: bool,
    pub running: &'a [Running],
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelStep {
    Add {
        label: String,
        why: String,
    },
    Remove {
        label: String,
        why: String,
    },
    /// Bind an approval to the live head.
    Approve {
        by: String,
    },
    /// Take it back.
    Withdraw {
        by: String,
    },
    /// Cancel a run that the start of a newer one, or a push, made worthless.
    Cancel(Running),
    /// Start the run.
    Start,
    /// It is needed, and may not be started.
    Refuse {
        why: String,
    },
    /// Nothing but a line.
    Tell(String),
}

impl LabelStep {
    /// For people.
    pub fn line(&self) -> String {
        match self {
            Self::Add { label, why } => format!("add label `{label}`: {why}"),
            Self::Remove { label, why } => format!("remove label `{label}`: {why}"),
            Self::Approve { by } => format!("approve this commit: by @{}", clean(by, 60)),
            Self::Withdraw { by } => format!("take the approval back: by @{}", clean(by, 60)),
            Self::Cancel(run) => format!(
                "cancel run {}: it is of {}, which is superseded",
                run.id,
                run.head.short()
            ),
            Self::Start => "start the run".into(),
            Self::Refuse { why } => format!("nothing is started: {why}"),
            Self::Tell(line) => line.clone(),
        }
    }
}

/// The steps for an open pull request, in the order in which they are to be done.
pub fn steps(situation: &Situation<'_>) -> Vec<LabelStep> {
    let mut steps = owned_labels(situation);
    steps.extend(approval(situation));
    let start = start(situation, &steps);
    steps.extend(superseded(situation, start == LabelStep::Start));
    steps.push(start);
    steps
}

/// Runs of older heads; of every head where a new run starts.
fn superseded(situation: &Situation<'_>, starts: bool) -> impl Iterator<Item = LabelStep> {
    let live = &situation.pull.head_sha;
    let running = situation.running.iter();
    let old = running.filter(move |run| starts || run.head != *live);
    old.cloned().map(LabelStep::Cancel)
}

/// Labels of the rules: those that a path needs are added; of the others those that the bot added are removed. Labels of
/// nobody's rule are left alone.
fn owned_labels(situation: &Situation<'_>) -> Vec<LabelStep> {
    let Situation { pull, needed, .. } = situation;
    let has = |name: &str| pull.labels.iter().any(|l| l.eq_ignore_ascii_case(name));
    let mut steps: Vec<LabelStep> = Vec::new();
    for (label, paths) in &needed.labels {
        if !has(label) {
            let (label, why) = (label.clone(), because(paths));
            steps.push(LabelStep::Add { label, why });
        }
    }
    steps.extend(situation.unneeded.iter().map(not_by_paths));
    steps
}

/// What becomes of a label that no path needs.
fn not_by_paths(Unneeded { label, by }: &Unneeded) -> LabelStep {
    match by {
        Adder::Us => LabelStep::Remove {
            label: label.clone(),
            why: "no path needs it".into(),
        },
        Adder::Writer(login) => LabelStep::Tell(format!(
            "keep label `{label}`: @{} asked for its gates",
            clean(login, 60)
        )),
        Adder::Other(login) => {
            let who = match login {
                Some(login) => format!("@{}, who added it,", clean(login, 60)),
                None => "whoever added it".to_owned(),
            };
            LabelStep::Tell(format!(
                "label `{label}` starts nothing: no path needs it, and {who} may not write to this repository"
            ))
        }
    }
}

fn because(paths: &[String]) -> String {
    if paths.is_empty() {
        return "GitHub does not list all files, so any may be among them".into();
    }
    let named = paths.iter().take(MOST_PATHS).map(|p| clean(p, 100));
    first_of(&named.collect::<Vec<_>>(), MOST_PATHS, paths.len())
}

/// What becomes of the approval label and of the approval itself.
fn approval(situation: &Situation<'_>) -> Option<LabelStep> {
    let Situation {
        rules, pull, word, ..
    } = situation;
    let label = &rules.config.approval_label;
    let has = |label: &str| pull.labels.iter().any(|l| l.eq_ignore_ascii_case(label));
    let remove = |why: String| {
        let label = label.clone();
        Some(LabelStep::Remove { label, why })
    };
    match (situation.action, word) {
        // It asks for gates that nobody may start: the rule for a start says what is missing.
        (Some(Action::Labeled(_)), Some(word)) if !word.may_write && !word.is_approval => None,
        (Some(Action::Labeled(_)), Some(word)) if !word.may_write => {
            let who = clean(&word.sender, 60);
            remove(format!(
                "@{who} may not write to this repository, so it approves nothing"
            ))
        }
        (Some(Action::Labeled(_)), Some(word)) if situation.event_sha != Some(&pull.head_sha) => {
            match word.is_approval {
                true => {
                    remove("the head moved since it was added: look again, and add it again".into())
                }
                false => Some(LabelStep::Tell(format!(
                    "label `{}` approves no commit: the head moved since it was added",
                    clean(&word.label, 60)
                ))),
            }
        }
        (Some(Action::Labeled(_)), Some(word)) if has(&word.label) => Some(LabelStep::Approve {
            by: word.sender.clone(),
        }),
        // A rule's label is taken off: an approval that still has its own label stays.
        (Some(Action::Unlabeled(_)), Some(word))
            if situation.approval.is_some() && (word.is_approval || !has(label)) =>
        {
            Some(LabelStep::Withdraw {
                by: word.sender.clone(),
            })
        }
        (Some(Action::Synchronize | Action::Reopened), _) => {
            let needs_none = situation.author_may_write && !situation.is_fork;
            let is_stale = !needs_none && situation.approval.is_none();
            (has(label) && is_stale)
                .then(|| remove("it was for another commit".into()))
                .flatten()
        }
        _ => None,
    }
}

/// Whether the run is started, by the very rule that lets it run.
fn start(situation: &Situation<'_>, before: &[LabelStep]) -> LabelStep {
    let Situation { rules, pull, .. } = situation;
    if !situation.needed.is_anything() {
        return LabelStep::Tell("nothing is started: no path needs a gate".into());
    }
    let approved = before.iter().find_map(|step| match step {
        LabelStep::Approve { by } => Some(format!("approved by @{by}")),
        _ => None,
    });
    let is_withdrawn = before
        .iter()
        .any(|step| matches!(step, LabelStep::Withdraw { .. }));
    let there = situation.approval.filter(|_| !is_withdrawn);
    let ruling = ruling::may_run(&Facts {
        pull,
        asked: &pull.head_sha,
        is_fork: situation.is_fork,
        config: &rules.config,
        author_may_write: situation.author_may_write,
        starter: None,
        approval: approved.as_deref().or(there),
    });
    match ruling {
        Err(why) => LabelStep::Refuse { why },
        Ok(_) if !situation.has_base => LabelStep::Refuse {
            why: ruling::unrelated(&pull.base_branch),
        },
        Ok(_) if situation.is_started => {
            LabelStep::Tell("nothing is started: this commit has its run already".into())
        }
        Ok(_) => LabelStep::Start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use github::PersonKind;
    use verdict::plan::GitHubConfig;

    fn sha(digit: char) -> Sha {
        Sha::parse(&digit.to_string().repeat(40)).unwrap()
    }

    fn labeled() -> Action {
        Action::Labeled("gpu-approved".into())
    }

    fn word(may_write: bool) -> Option<Word> {
        Some(Word {
            sender: "ada".into(),
            may_write,
            label: "gpu-approved".into(),
            is_approval: true,
        })
    }

    /// What becomes of the approval of an open fork's pull request that has the label, as a line; empty: nothing.
    #[track_caller]
    fn check(action: &Action, edit: impl FnOnce(&mut Situation<'_>), expect: &str) {
        let (head, needed) = (sha('a'), Needed::default());
        let pull = Pull {
            number: 12,
            is_open: true,
            head_sha: head.clone(),
            head_repository: Some("mallory/x".into()),
            base_branch: "main".into(),
            default_branch: "main".into(),
            author: Some("mallory".into()),
            author_kind: PersonKind::User,
            labels: vec!["GPU-Approved".into()],
            changed_files: 1,
        };
        let rules = GitHubRules {
            config: GitHubConfig::default(),
            labels: Vec::new(),
            gates: Vec::new(),
            of_profile: Vec::new(),
        };
        let mut situation = Situation {
            rules: &rules,
            pull: &pull,
            action: Some(action),
            event_sha: Some(&head),
            word: None,
            needed: &needed,
            unneeded: &[],
            has_base: true,
            running: &[],
            is_fork: true,
            author_may_write: false,
            approval: None,
            is_started: false,
        };
        edit(&mut situation);
        let line = approval(&situation).map_or_else(String::new, |step| step.line());
        assert!(
            line.starts_with(expect) && line.is_empty() == expect.is_empty(),
            "{line}"
        );
    }

    #[test]
    fn an_approval_comes_stays_and_goes() {
        let there = Some("approved by @ada");
        let off = Action::Unlabeled("gpu-approved".into());
        check(
            &labeled(),
            |s| s.word = word(true),
            "approve this commit: by @ada",
        );
        check(
            &labeled(),
            |s| s.word = word(false),
            "remove label `gpu-approved`: @ada may not",
        );
        check(
            &labeled(),
            |s| (s.word, s.event_sha) = (word(true), None),
            "remove label `gpu-approved`: the head moved",
        );
        // Some other label.
        check(&labeled(), |_| {}, "");
        check(
            &off,
            |s| (s.word, s.approval) = (word(false), there),
            "take the approval back",
        );
        check(&off, |s| s.word = word(true), "");
        for push in [Action::Synchronize, Action::Reopened] {
            check(
                &push,
                |_| {},
                "remove label `gpu-approved`: it was for another commit",
            );
            check(&push, |s| s.approval = there, "");
            check(
                &push,
                |s| (s.author_may_write, s.is_fork) = (true, false),
                "",
            );
            check(
                &push,
                |s| s.author_may_write = true,
                "remove label `gpu-approved`: it was for another commit",
            );
        }
        for other in [Action::Opened, Action::Closed, Action::Other] {
            check(&other, |_| {}, "");
        }
    }
}
