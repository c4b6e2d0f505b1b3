//! A pull request's whole life through the binary: opened, labelled, authorised, measured on the engine in the binary,
//! judged, told; a new push makes it stale and then anew; its path is reverted, and the label goes.
//!
//! GitHub is the stateful one of `tests/fixture/src/github`, which holds every request and answer against GitHub's own
//! description of its API; one test sends the same through Stoplight's Prism.

use fixture::github::{self, ACTIONS_TOKEN, Fake, REPOSITORY};
use fixture::prism::{self, Prism};
use fixture::{Ended, Project, gate, skip};
use serde_json::{Value, json};
use std::process::Command;

const PULL: u64 = 7;

/// A repository with an engine in it, GitHub, and a pull request of `ada`, who may write.
struct Story {
    project: Project,
    github: Fake,
    /// Where GitHub is for `gate`: the fake itself, or who stands before it.
    api_url: String,
}

impl Story {
    /// `lines` are added to `[github]` of the gates.
    fn begin(lines: &str) -> Self {
        let project = Project::with_commits();
        let rules = "\n[[label]]\nname = \"needs-gpu\"\npaths = [\"flags\", \"build.sh\"]\ngates = [\"e2e\"]\n";
        let config = project.read("gates/gate.toml");
        let config = config.split("\n[[label]]").next().unwrap().to_owned();
        let config = config.replacen("[github]\n", &format!("[github]\n{lines}"), 1);
        project.write("gates/gate.toml", &(config + rules));
        project.commit("label rules");
        let github = Fake::start();
        let main = head_of(&project);
        let mut state = github.state();
        state.open_pull(PULL, "ada", false, &["flags"]);
        state.merge_base = main;
        drop(state);
        let api_url = github.url();
        Self {
            project,
            github,
            api_url,
        }
    }

    /// A push to the pull request: these files differ from main's, and the engine gets these flags.
    fn push(&self, flags: &str, files: &[&str]) -> String {
        let project = &self.project;
        project.git(&["checkout", "--quiet", "-B", "topic", "main"]);
        if files.contains(&"flags") {
            project.write("flags", flags);
        }
        project.write("README.md", &format!("{files:?} {flags}"));
        project.commit("a push");
        let sha = head_of(project);
        project.git(&["checkout", "--quiet", "main"]);
        let mut state = self.github.state();
        let pull = state.pull(PULL);
        pull.head_sha.clone_from(&sha);
        pull.files = files.iter().map(|name| ((*name).into(), None)).collect();
        sha
    }

    /// A step of a workflow, with what Actions gives to one that has a token.
    fn step(&self, arguments: &[&str], further: &[(&str, &str)]) -> Ended {
        let mut command = gate(arguments);
        command
            .current_dir(self.project.path(""))
            .env("GITHUB_TOKEN", ACTIONS_TOKEN)
            .env("GITHUB_API_URL", &self.api_url)
            .env("GITHUB_SERVER_URL", "https://github.com")
            .env("GITHUB_REPOSITORY", REPOSITORY)
            .env("GITHUB_RUN_ID", "4711")
            .env("GITHUB_RUN_ATTEMPT", "1")
            .env("GITHUB_REF", "refs/heads/main")
            .env("GITHUB_SHA", self.github.state().merge_base.clone())
            .env("GITHUB_ACTOR", "github-actions[bot]")
            .env("GITHUB_TRIGGERING_ACTOR", "github-actions[bot]")
            .envs(further.iter().copied());
        Ended::of(&command.output().unwrap())
    }

    /// `gate github label`, as label.yml calls it.
    fn label(&self, action: &str, sha: &str) -> Ended {
        self.label_on("pull_request_target", &happened(action, sha))
    }

    /// `ada` adds the label by hand.
    fn label_by_hand(&self, sha: &str) -> Ended {
        let mut state = self.github.state();
        let pull = state.pull(PULL);
        pull.labels.push("needs-gpu".into());
        pull.labelled.push(("needs-gpu".into(), "ada".into()));
        drop(state);
        let mut event = happened("labeled", sha);
        event["label"] = json!({"name": "needs-gpu", "color": "ededed"});
        self.label_on("pull_request_target", &event)
    }

    fn label_on(&self, name: &str, event: &Value) -> Ended {
        // Beside the tree, which stays clean.
        self.project.write(".git/event.json", &event.to_string());
        let path = self.project.path(".git/event.json");
        let path = path.to_str().unwrap();
        let event = [("GITHUB_EVENT_PATH", path), ("GITHUB_EVENT_NAME", name)];
        self.step(&["github", "label"], &event)
    }

    /// The merge queue makes a commit of the pull request, and asks for its checks.
    fn queue(&self, queued: &str, tree_of: &str) -> String {
        let base = self.github.state().merge_base.clone();
        let branch = format!("gh-readonly-queue/main/pr-{PULL}-{base}");
        let mut state = self.github.state();
        state.branches.insert(branch.clone(), queued.to_owned());
        state.trees.insert(queued.to_owned(), tree_of.to_owned());
        let files = state.pull(PULL).files.clone();
        state.former.insert(queued.to_owned(), files);
        drop(state);
        let group = json!({
            "head_sha": queued, "head_ref": format!("refs/heads/{branch}"),
            "base_sha": base, "base_ref": "refs/heads/main",
        });
        let event = json!({
            "action": "checks_requested", "merge_group": group,
            "repository": {"full_name": REPOSITORY, "default_branch": "main"},
            "sender": {"login": "ada", "id": 2, "type": "User"},
        });
        self.label_on("merge_group", &event).expect(0);
        branch
    }

    /// What gate.yml was started with for this commit, if it was.
    fn dispatched(&self, sha: &str) -> Option<String> {
        let state = self.github.state();
        let mut dispatches = state.dispatches.iter();
        let of_it = dispatches.find(|dispatch| dispatch["inputs"]["head_sha"] == sha)?;
        assert_eq!(of_it["inputs"]["pr"], PULL.to_string());
        Some(of_it["inputs"]["gates"].as_str().unwrap().to_owned())
    }

    /// The job `authorize`: its outputs, where the answer is yes.
    fn authorize(&self, sha: &str, gates: &str) -> Ended {
        self.authorize_with(sha, gates, &[])
    }

    fn authorize_with(&self, sha: &str, gates: &str, further: &[&str]) -> Ended {
        self.project.write(".git/outputs", "");
        let path = self.project.path(".git/outputs");
        let outputs = [("GITHUB_OUTPUT", path.to_str().unwrap())];
        let number = PULL.to_string();
        let arguments = [
            "github",
            "authorize",
            "--pr",
            &number,
            "--head-sha",
            sha,
            "--gates",
            gates,
        ];
        self.step(&[&arguments, further].concat(), &outputs)
    }

    fn publish(&self, what: &[&str], sha: &str) -> Ended {
        let number = PULL.to_string();
        let base = self.github.state().merge_base.clone();
        let place = ["--pr", &number, "--head-sha", sha, "--base-sha", &base];
        self.step(&[&["github", "publish"], what, &place].concat(), &[])
    }

    /// The job `gpu`: no token, main's gates, head's commit.
    fn measure(&self, sha: &str, out: &str) -> Ended {
        let base = self.github.state().merge_base.clone();
        let arguments = [
            "check", "--head", sha, "--base", &base, "--gate", "e2e", "--out", out,
        ];
        let mut check = self.project.command(&arguments);
        Ended::of(&check.env("CI", "true").output().unwrap())
    }

    fn report(&self, sha: &str, from: &str) -> Ended {
        let what = [
            "--from",
            from,
            "--keep",
            ".git/verdict",
            "--profile",
            "quick",
            "--gate",
            "e2e",
        ];
        self.publish(&what, sha)
    }

    /// The one comment that there is.
    fn comment(&self) -> String {
        let state = self.github.state();
        assert_eq!(state.comments.len(), 1, "{:?}", state.comments);
        assert_eq!(state.comments[0].author, "github-actions[bot]");
        state.comments[0].body.clone()
    }

    /// Status and conclusion of this commit's newest check run, which is the one that GitHub shows.
    fn check_run(&self, sha: &str) -> (String, Option<String>) {
        let state = self.github.state();
        let runs = state.check_runs.iter();
        let newest = runs
            .filter(|run| run["head_sha"] == sha)
            .max_by_key(|run| run["id"].as_u64())
            .unwrap();
        let text = |name: &str| newest[name].as_str().map(str::to_owned);
        (text("status").unwrap(), text("conclusion"))
    }

    fn labels(&self) -> Vec<String> {
        self.github.state().pull(PULL).labels.clone()
    }
}

/// An event of the pull request by `ada`.
fn happened(action: &str, sha: &str) -> Value {
    json!({
        "action": action,
        "number": PULL,
        "pull_request": {"number": PULL, "head": {"sha": sha, "ref": "topic"}},
        "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        "sender": {"login": "ada", "id": 2, "type": "User"},
    })
}

fn head_of(project: &Project) -> String {
    let output = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(project.path(""))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn is(status: &str, conclusion: Option<&str>) -> (String, Option<String>) {
    (status.to_owned(), conclusion.map(str::to_owned))
}

#[test]
fn a_pull_request_from_its_opening_to_its_end() {
    tell(&Story::begin(""));
}

#[test]
fn a_strangers_pull_request_waits_for_a_maintainer() {
    tell_of_a_stranger(&Story::begin(""));
}

#[test]
fn the_same_passes_the_full_validator() {
    // By day github::prism passes it, and every test its description in process.
    if !fixture::is_nightly() {
        return skip::say("the story before Prism: at night only");
    }
    let Some(packages) = prism::packages() else {
        return;
    };
    for tell in [tell, tell_of_a_stranger] {
        // GraphQL, which would say it, is not in the description.
        let mut story = Story::begin("bot_id = 41898282\n");
        let prism = Prism::start(&packages, &story.github.url());
        story.api_url.clone_from(&prism.url);
        tell(&story);
    }
}

fn tell(story: &Story) {
    // Opened with a fault: labelled, and the bot starts the run itself.
    let first = story.push("--fault=wrong-token=50", &["flags"]);
    story.label("opened", &first).expect(0);
    assert_eq!(story.labels(), ["needs-gpu"]);
    let gates = story
        .dispatched(&first)
        .expect("the bot starts the gate run");
    assert_eq!(gates, "e2e");

    // Authorised: ada may write, and the commit is the pull request's head.
    story.authorize(&first, &gates).expect(0);
    let outputs = story.project.read(".git/outputs");
    assert!(
        outputs.contains(&first) && outputs.contains("authorized"),
        "{outputs}"
    );
    story.publish(&["--pending"], &first).expect(0);
    assert_eq!(story.check_run(&first), is("in_progress", None));
    assert!(story.comment().starts_with("<!-- infergate:gate -->"));

    // Measured on the engine in the binary, and judged: the fault is found.
    story.measure(&first, ".git/result-1").expect(1);
    story.report(&first, ".git/result-1").expect(1);
    assert_eq!(story.check_run(&first), is("completed", Some("failure")));
    let told = story.comment();
    for part in ["e2e", "fail", &first[..12], "gate check --head"] {
        assert!(told.contains(part), "`{part}` is missing in:\n{told}");
    }

    // A new push: what was said is of another commit now, and the old commit may not run again.
    let second = story.push("--fault=decode-delay=1us", &["flags"]);
    story.report(&first, ".git/result-1").expect(1);
    assert!(story.comment().contains("Stale"), "{}", story.comment());
    story.authorize(&first, "e2e").expect(1);
    story.label("synchronize", &second).expect(0);
    assert_eq!(story.labels(), ["needs-gpu"]);
    let gates = story
        .dispatched(&second)
        .expect("the bot starts it for the new commit");

    // Updated: the same comment, a check run of its own.
    story.authorize(&second, &gates).expect(0);
    story.publish(&["--pending"], &second).expect(0);
    assert_eq!(story.check_run(&second), is("in_progress", None));
    story.measure(&second, ".git/result-2").expect(0);
    story.report(&second, ".git/result-2").expect(0);
    assert_eq!(story.check_run(&second), is("completed", Some("success")));
    assert_eq!(story.check_run(&first), is("completed", Some("failure")));
    let told = story.comment();
    assert!(
        told.contains(&second[..12]) && !told.contains("Stale"),
        "{told}"
    );

    // Put into the merge queue: with the same tree and base the verdict holds, with another tree it is measured.
    let (same, other) = (github::sha(0x9e1), github::sha(0x9e2));
    let branch = story.queue(&same, &second);
    assert_eq!(story.dispatched(&same), None);
    let copy = ["--same-as", &second, "--queue", &branch];
    story.publish(&copy, &same).expect(0);
    assert_eq!(story.check_run(&same), is("completed", Some("success")));
    let branch = story.queue(&other, &other);
    let gates = story
        .dispatched(&other)
        .expect("the queue's commit is measured");
    let base = story.github.state().merge_base.clone();
    let queue = ["--queue", &branch, "--base-sha", &base];
    story.authorize_with(&other, &gates, &queue).expect(0);
    story
        .publish(&["--pending", "--queue", &branch], &other)
        .expect(0);
    assert_eq!(story.check_run(&other), is("in_progress", None));
    assert!(story.comment().contains(&second[..12]));

    // The path is reverted: nothing of it needs a GPU any more.
    let third = story.push("", &["README.md"]);
    story.label("synchronize", &third).expect(0);
    assert_eq!(story.labels(), Vec::<String>::new());
    assert_eq!(story.dispatched(&third), None);
    story.publish(&["--not-needed"], &third).expect(0);
    assert_eq!(story.check_run(&third), is("completed", Some("skipped")));
    assert!(
        story.comment().contains("Not needed"),
        "{}",
        story.comment()
    );
    assert_eq!(story.project.leftovers(), [0; 0]);
}

fn tell_of_a_stranger(story: &Story) {
    story
        .github
        .state()
        .open_pull(PULL, "mallory", true, &["flags"]);
    // The bot's own label approves nothing: check run and comment ask for an approval.
    let first = story.push("--fault=wrong-token=50", &["flags"]);
    story.label("opened", &first).expect(0);
    assert_eq!(story.labels(), ["needs-gpu"]);
    assert_eq!(story.dispatched(&first), None);
    story.authorize(&first, "e2e").expect(1);
    let why = "nobody approved this commit";
    story.publish(&["--not-run", why], &first).expect(0);
    assert_eq!(
        story.check_run(&first),
        is("completed", Some("action_required"))
    );
    assert!(story.comment().contains(why), "{}", story.comment());

    // No path needs it any more, so the bot takes its label off; a maintainer's own label stays, and this commit runs.
    let second = story.push("", &["README.md"]);
    story.label("synchronize", &second).expect(0);
    assert_eq!(story.labels(), Vec::<String>::new());
    story.label_by_hand(&second).expect(0);
    assert_eq!(story.labels(), ["needs-gpu"]);
    assert_eq!(story.dispatched(&second).as_deref(), Some("e2e"));
    story.authorize(&second, "e2e").expect(0);

    // What is pushed after it needs a look of its own.
    let third = story.push("--fault=wrong-token=50", &["flags"]);
    story.label("synchronize", &third).expect(0);
    assert_eq!(story.labels(), ["needs-gpu"]);
    assert_eq!(story.dispatched(&third), None);
    story.authorize(&third, "e2e").expect(1);
}
