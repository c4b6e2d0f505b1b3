//! The merge queue through the binary: its commit's required check always ends.

use super::job::Job;
use fixture::github::{Grant, Ill, Pull, REPOSITORY, Run, Trouble, sha};
use fixture::{Ended, workflow};
use serde_json::{Value, json};

const BOT: &str = "github-actions[bot]";
/// The queue's commit, main's head, and the entry before in the queue.
const QUEUED: u64 = 0x9e9e;
const BASE: u64 = 0xba5e;
const BEFORE: u64 = 0xbef0;

fn branch() -> String {
    format!("gh-readonly-queue/main/pr-12-{}", sha(BEFORE))
}

/// The pull request 12 of a stranger, merged by the queue onto [`BEFORE`].
fn job(files: &[&str]) -> Job {
    let job = Job::with_pull("mallory", true, files);
    let mut state = job.fake.state();
    state.branches.insert(branch(), sha(QUEUED));
    let files = state.pull(12).files.clone();
    state.former.insert(sha(QUEUED), files);
    drop(state);
    job
}

fn event() -> Value {
    json!({
        "action": "checks_requested",
        "merge_group": {
            "head_sha": sha(QUEUED), "head_ref": format!("refs/heads/{}", branch()),
            "base_sha": sha(BEFORE), "base_ref": "refs/heads/main",
            "head_commit": {"id": sha(QUEUED), "tree_id": sha(1), "message": "$(touch x)"},
        },
        "repository": {"full_name": REPOSITORY, "default_branch": "main"},
        "sender": {"login": BOT, "id": 1, "type": "Bot"},
    })
}

fn asked(job: &Job) -> Ended {
    job.label_on_named("merge_group", &event())
}

/// A step of label.yml with what the step before handed over.
fn step(job: &Job, name: &str, outputs: &std::collections::BTreeMap<String, String>) -> Ended {
    let mut command = job.command(&[]);
    for (variable, output) in [
        ("PR", "pr"),
        ("HEAD_SHA", "head_sha"),
        ("QUEUE", "queue"),
        ("SAME_AS", "same_as"),
        ("REASON", "reason"),
    ] {
        command.env(variable, &outputs[output]);
    }
    let mut step = workflow::step("label.yml", name, &command);
    Ended::of(&step.output().unwrap())
}

/// Conclusion of the newest check run of the queue's commit.
fn ended(job: &Job) -> Option<String> {
    let state = job.fake.state();
    let mut runs = state.check_runs.iter().rev();
    let run = runs.find(|run| run["head_sha"] == sha(QUEUED))?;
    assert_eq!(run["name"], "infergate");
    Some(run["conclusion"].as_str().unwrap_or("none").to_owned())
}

/// The head was measured by this commit of main, and this came of it.
fn measured(job: &Job, main: u64, title: &str, conclusion: &str) {
    let mut run = job.fake.check_run();
    run["id"] = json!(7);
    run["name"] = json!("infergate");
    run["head_sha"] = json!(sha(12));
    run["external_id"] = json!(format!("infergate:12:{}:{}", sha(12), sha(main)));
    run["status"] = json!("completed");
    run["conclusion"] = json!(conclusion);
    run["app"]["id"] = json!(15_368);
    run["output"]["title"] = json!(title);
    run["output"]["summary"] = json!("All gates hold.");
    job.fake.state().check_runs.push(run);
}

#[test]
fn a_verdict_on_the_same_tree_and_base_is_copied() {
    for (title, conclusion) in [
        ("pass: 2 checks of 1 gate hold", "success"),
        ("fail: tpot got worse", "failure"),
    ] {
        let job = job(&["src/lib.rs"]);
        measured(&job, BASE, title, conclusion);
        job.fake.state().trees.insert(sha(QUEUED), sha(12));
        asked(&job).expect(0);
        let outputs = job.outputs();
        assert_eq!(outputs["same_as"], sha(12));
        assert!(job.started().is_empty());
        step(&job, "Copy the verdict on the same tree and base", &outputs).expect(0);
        assert_eq!(ended(&job).as_deref(), Some(conclusion));
        let state = job.fake.state();
        let output = &state.check_runs.last().unwrap()["output"];
        assert_eq!(output["title"], title);
        let summary = output["summary"].as_str().unwrap();
        assert!(summary.contains(&sha(12)) && summary.contains("All gates hold."));
        assert!(state.comments.is_empty());
    }
}

#[test]
fn what_is_not_the_same_is_measured() {
    type Edit = fn(&Job);
    let cases: [(&str, Edit); 7] = [
        ("no verdict", |job| job.fake.state().check_runs.clear()),
        ("another tree", |job| job.fake.state().trees.clear()),
        ("an older main", |job| {
            job.fake.state().check_runs.clear();
            measured(job, 0x01d, "pass: all", "success");
        }),
        ("another base", |job| {
            let mut state = job.fake.state();
            state.merge_bases.insert(sha(12), sha(0x01d));
        }),
        ("inconclusive", |job| {
            job.fake.state().check_runs[0]["output"]["title"] = json!("inconclusive: noise");
        }),
        ("not measured", |job| {
            let mut state = job.fake.state();
            state.check_runs[0]["conclusion"] = json!("failure");
            state.check_runs[0]["output"]["title"] = json!("not measured: the build failed");
        }),
        ("not needed", |job| {
            job.fake.state().check_runs[0]["conclusion"] = json!("skipped");
        }),
    ];
    for (what, edit) in cases {
        let job = job(&["src/lib.rs"]);
        measured(&job, BASE, "pass: all", "success");
        job.fake.state().trees.insert(sha(QUEUED), sha(12));
        edit(&job);
        asked(&job).expect(0);
        let inputs = json!({
            "pr": "12", "head_sha": sha(QUEUED), "base_sha": sha(BASE), "queue": branch(),
            "gates": "e2e e2e-hybrid prefill-drift tpot",
        });
        assert_eq!(job.started(), [inputs], "{what}");
        // With the entries before it: their own check may have failed, and GitHub may not ask for it.
        let compared = format!("/compare/main...{}", sha(QUEUED));
        let requests = job.fake.asked();
        assert!(
            requests.iter().any(|request| request.ends_with(&compared)),
            "{requests:?}"
        );
        let outputs = job.outputs();
        assert_eq!(
            (outputs["same_as"].as_str(), outputs["started"].as_str()),
            ("", "true")
        );
        // The same event once more starts nothing more.
        asked(&job).expect(0);
        assert_eq!(job.started().len(), 1, "{what}");
    }
}

#[test]
fn another_apps_check_run_is_not_copied() {
    let job = job(&["src/lib.rs"]);
    measured(&job, BASE, "pass: all", "success");
    let mut state = job.fake.state();
    state.check_runs[0]["app"]["id"] = json!(4);
    state.trees.insert(sha(QUEUED), sha(12));
    drop(state);
    asked(&job).expect(0);
    let outputs = job.outputs();
    step(&job, "Copy the verdict on the same tree and base", &outputs).expect(0);
    assert_eq!(ended(&job).as_deref(), Some("action_required"));
}

#[test]
fn what_needs_no_gate_is_said_of_the_queues_commit() {
    let job = job(&["README.md"]);
    asked(&job).expect(0);
    let outputs = job.outputs();
    assert_eq!(outputs["needed"], "false");
    step(&job, "Say that nothing is needed", &outputs).expect(0);
    assert_eq!(ended(&job).as_deref(), Some("skipped"));
    assert!(job.started().is_empty() && job.fake.state().comments.is_empty());
}

#[test]
fn what_may_not_run_is_said_of_the_queues_commit() {
    let job = job(&["src/lib.rs"]);
    job.fake.state().pull(12).base_branch = "wip".into();
    asked(&job).expect(0);
    let outputs = job.outputs();
    assert!(outputs["reason"].contains("the branch `wip`"));
    step(&job, "Say why it does not run", &outputs).expect(0);
    assert_eq!(ended(&job).as_deref(), Some("action_required"));
    assert!(job.fake.state().comments.is_empty());
}

#[test]
fn an_answer_that_does_not_come_ends_the_check_too() {
    for path in ["/pulls/12", "/branches/", "/compare/", "/dispatches"] {
        let job = job(&["src/lib.rs"]);
        job.fake.plant(Trouble {
            method: "",
            path,
            times: 1,
            ill: Ill::Status(500, "Server Error", vec![]),
        });
        asked(&job).expect(5).says(&["500"]);
        let outputs = job.outputs();
        step(&job, "Say that there was no answer", &outputs).expect(0);
        assert_eq!(ended(&job).as_deref(), Some("action_required"), "{path}");
    }
    let job = job(&["src/lib.rs"]);
    let mut command = job.command(&[]);
    command
        .env("PR", "12")
        .env("HEAD_SHA", sha(QUEUED))
        .env("QUEUE", branch());
    let mut step = workflow::step("gate.yml", "Say that there was no answer", &command);
    Ended::of(&step.output().unwrap()).expect(0);
    assert_eq!(ended(&job).as_deref(), Some("action_required"));
}

#[test]
fn a_commit_that_the_queue_dropped_needs_nothing() {
    let job = job(&["src/lib.rs"]);
    for tip in [Some(sha(0xd)), None] {
        let mut state = job.fake.state();
        state.branches.remove(&branch());
        state.branches.extend(tip.map(|tip| (branch(), tip)));
        drop(state);
        let ended = asked(&job).expect(0);
        assert!(ended.stdout.contains("dropped it"), "{}", ended.stdout);
        let outputs = job.outputs();
        assert_eq!(
            (outputs["needed"].as_str(), outputs["reason"].as_str()),
            ("true", "")
        );
    }
    assert!(job.started().is_empty());
}

#[test]
fn a_newer_entry_cancels_the_runs_of_the_one_before() {
    let job = job(&["src/lib.rs"]);
    let run = |id, title: &str, head: u64| Run {
        id,
        title: format!("{title} at {}", sha(head)),
        status: "queued".into(),
    };
    job.fake.state().runs = vec![
        run(1, "merge queue #12", 0xd),
        run(2, "merge queue #13", 0xd),
        run(3, "pull request #12", 12),
    ];
    asked(&job).expect(0);
    let cancelled: Vec<String> = job
        .fake
        .asked()
        .into_iter()
        .filter(|request| request.ends_with("/cancel"))
        .collect();
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert!(cancelled[0].ends_with("/1/cancel"));
}

fn authorize(job: &Job, more: &[&str]) -> Ended {
    let queued = sha(QUEUED);
    let branch = branch();
    let (base, queue) = (sha(BASE), ["--queue", &branch]);
    let arguments = [&["--base-sha", &base][..], &queue, more].concat();
    job.authorize(&queued, BOT, &arguments)
}

#[test]
fn the_queues_commit_may_run_while_it_is_there() {
    let job = job(&["src/lib.rs"]);
    // As label.yml starts it: by the bot, for a stranger's pull request that nobody approved.
    let told = authorize(&job, &[]).expect(0);
    assert!(
        told.stdout.contains("it is the merge queue's"),
        "{}",
        told.stdout
    );
    let outputs = job.outputs();
    assert_eq!(outputs["base_sha"], sha(BASE));
    assert_eq!(outputs["gates"], "e2e e2e-hybrid prefill-drift tpot");
    // Reading is enough for the machine's job.
    for name in ["actions", "checks", "issues"] {
        job.fake.state().grant(name, None);
    }
    for name in ["pull_requests", "statuses"] {
        job.fake.state().grant(name, Some(Grant::Read));
    }
    authorize(&job, &[]).expect(0);
    type Edit = fn(&mut Pull);
    let refusals: [(&str, Edit); 3] = [
        ("closed", |pull| pull.is_open = false),
        ("the branch `wip`", |pull| pull.base_branch = "wip".into()),
        ("superseded: the merge queue dropped", |_| {}),
    ];
    for (part, edit) in refusals {
        let job = self::job(&["src/lib.rs"]);
        edit(job.fake.state().pull(12));
        if part.starts_with("superseded") {
            job.fake.state().branches.insert(branch(), sha(0xd));
        }
        let told = authorize(&job, &[]).expect(1);
        assert!(told.stdout.contains(part), "{}", told.stdout);
    }
    // What it is measured against is a commit that it is built upon.
    job.fake.state().merge_bases.insert(sha(QUEUED), sha(0x01d));
    let told = authorize(&job, &[]).expect(1);
    assert!(told.stdout.contains("is not built upon"), "{}", told.stdout);
    // No branch but the queue's speaks for a commit, and for its own pull request alone.
    job.fake.state().branches.insert("topic".into(), sha(12));
    for branch in ["topic", "gh-readonly-queue/main/pr-13-x"] {
        let arguments = ["--queue", branch, "--base-sha", &sha(BASE)];
        let told = job.authorize(&sha(12), BOT, &arguments).expect(2);
        told.says(&["is no branch of a merge queue with an entry of #12"]);
    }
}

#[test]
fn forged_events_of_a_queue_are_refused() {
    for (pointer, value, part) in [
        (
            "/merge_group/head_sha",
            json!("main"),
            "`main` is no commit",
        ),
        (
            "/merge_group/head_ref",
            json!("refs/heads/topic"),
            "is no branch of a merge queue",
        ),
        (
            "/repository/full_name",
            json!("evil/Hello-World"),
            "not of octocat",
        ),
        (
            "/action",
            json!("destroyed"),
            "`merge_group destroyed` is no event",
        ),
        ("/merge_group", json!(null), "invalid type"),
    ] {
        let job = job(&["src/lib.rs"]);
        let mut forged = event();
        *forged.pointer_mut(pointer).unwrap() = value;
        job.label_on_named("merge_group", &forged)
            .expect(2)
            .says(&[part]);
        assert!(job.fake.asked().is_empty(), "{pointer}");
    }
}
