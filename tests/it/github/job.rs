//! A job of Actions: `gate` in a checkout of main, with what Actions sets, against a fake GitHub.

use fixture::github::{ACTIONS_BOT_ID, ACTIONS_TOKEN, Fake, Ill, REPOSITORY, Trouble, sha};
use fixture::{Ended, Project};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

pub(crate) struct Job {
    pub(crate) fake: Fake,
    pub(crate) project: Project,
}

impl Job {
    /// A repository with the pull request 12, of this author, that changes these files.
    pub(crate) fn with_pull(author: &str, from_fork: bool, files: &[&str]) -> Self {
        let job = Self {
            fake: Fake::start(),
            project: Project::without_build(),
        };
        let mut state = job.fake.state();
        state.merge_base = sha(0xba5e);
        state.open_pull(12, author, from_fork, files);
        drop(state);
        job
    }

    /// `gate` with these arguments, and Actions' environment without an event.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        command
            .env("GITHUB_TOKEN", ACTIONS_TOKEN)
            .env("GITHUB_API_URL", self.fake.url())
            .env("GITHUB_REPOSITORY", REPOSITORY)
            .env("GITHUB_OUTPUT", self.project.path("output"))
            .env("GITHUB_ACTOR", "github-actions[bot]")
            .env("GITHUB_TRIGGERING_ACTOR", "github-actions[bot]")
            .env("GITHUB_EVENT_NAME", "workflow_dispatch");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    /// `gate github label` on an event of the pull request 12, as it stands.
    pub(crate) fn label_on(&self, action: &str, label: Option<&str>, sender: &str) -> Ended {
        let head = self.fake.state().pulls[&12].head_sha.clone();
        self.label_on_event(&event(action, label, sender, &head))
    }

    pub(crate) fn label_on_event(&self, event: &Value) -> Ended {
        self.label_on_named("pull_request_target", event)
    }

    pub(crate) fn label_on_named(&self, name: &str, event: &Value) -> Ended {
        self.project.write("event.json", &event.to_string());
        let mut command = self.command(&["github", "label", "--patience", "0"]);
        command
            .env("GITHUB_EVENT_NAME", name)
            .env("GITHUB_EVENT_PATH", self.project.path("event.json"));
        Ended::of(&command.output().unwrap())
    }

    /// `gate github authorize` of a commit of the pull request 12, started by this login.
    pub(crate) fn authorize(&self, head: &str, starter: &str, more: &[&str]) -> Ended {
        let mut arguments = vec![
            "github",
            "authorize",
            "--pr",
            "12",
            "--head-sha",
            head,
            "--patience",
            "0",
        ];
        arguments.extend(more);
        let mut command = self.command(&arguments);
        command.env("GITHUB_TRIGGERING_ACTOR", starter);
        Ended::of(&command.output().unwrap())
    }

    /// What `gate` handed to Actions so far, taken.
    pub(crate) fn outputs(&self) -> BTreeMap<String, String> {
        let text = self.project.read("output");
        std::fs::remove_file(self.project.path("output")).unwrap();
        let mut lines = text.lines();
        let mut outputs = BTreeMap::new();
        while let Some(line) = lines.next() {
            let (name, mark) = line.split_once("<<").unwrap();
            let value: Vec<&str> = lines.by_ref().take_while(|line| *line != mark).collect();
            outputs.insert(name.to_owned(), value.join("\n"));
        }
        outputs
    }

    pub(crate) fn labels(&self) -> Vec<String> {
        self.fake.state().pulls[&12].labels.clone()
    }

    pub(crate) fn add_label(&self, name: &str) {
        self.fake.state().pull(12).labels.push(name.into());
    }

    /// The same, and GitHub remembers who did it.
    pub(crate) fn add_label_by(&self, name: &str, login: &str) {
        self.add_label(name);
        let mut state = self.fake.state();
        state.pull(12).labelled.push((name.into(), login.into()));
    }

    /// The next comparison finds no commit in common, as of an orphan branch.
    pub(crate) fn orphan(&self) {
        self.fake.plant(Trouble {
            method: "GET",
            path: "/compare/",
            times: 1,
            ill: Ill::Status(
                404,
                "No common ancestor between main and topic.",
                Vec::new(),
            ),
        });
    }

    /// The head becomes another commit.
    pub(crate) fn push(&self, number: u64) {
        self.fake.state().pull(12).head_sha = sha(number);
    }

    /// Inputs of the runs that were started.
    pub(crate) fn started(&self) -> Vec<Value> {
        let state = self.fake.state();
        state
            .dispatches
            .iter()
            .map(|d| d["inputs"].clone())
            .collect()
    }

    /// Statuses of this context, as `state: description`, oldest first.
    pub(crate) fn statuses(&self, context: &str) -> Vec<String> {
        let state = self.fake.state();
        let of = state.statuses.iter().filter(|s| s.context == context);
        of.map(|s| format!("{}: {}", s.state, s.description))
            .collect()
    }
}

/// As the fake has it.
fn id_of(login: &str) -> u64 {
    match login {
        "octocat" => 1,
        "ada" => 2,
        "bob" => 3,
        "mallory" => 4,
        "github-actions[bot]" => ACTIONS_BOT_ID,
        "other-app[bot]" => 77,
        _ => 9_999,
    }
}

/// An event of the pull request 12 as GitHub sends it, with what matters and some of what does not.
pub(crate) fn event(action: &str, label: Option<&str>, sender: &str, head: &str) -> Value {
    let kind = if sender.ends_with("[bot]") {
        "Bot"
    } else {
        "User"
    };
    let mut event = json!({
        "action": action,
        "number": 12,
        "pull_request": {
            "number": 12, "title": "A change", "state": "open", "labels": [{"name": "stale, not believed"}],
            "head": {"sha": head, "ref": "topic", "repo": null},
            "base": {"sha": sha(0), "ref": "main"},
        },
        "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        "sender": {"login": sender, "id": id_of(sender), "type": kind},
    });
    if let Some(label) = label {
        event["label"] = json!({"name": label, "color": "ededed"});
    }
    event
}
