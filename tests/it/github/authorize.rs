//! `gate github authorize` through the binary: who may run a commit on the machine, and every way to get there without.

use super::job::Job;
use fixture::github::{Grant, Ill, REPOSITORY, Trouble, sha};
use fixture::{Ended, repository, workflow};

const BOT: &str = "github-actions[bot]";
const APPROVAL: &str = "infergate/approval";

#[test]
fn a_trusted_author_needs_nobody() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let ended = job.authorize(&sha(12), BOT, &[]).expect(0);
    assert_eq!(
        ended.stdout,
        "yes: #12 at 000000000000: its author @ada may write to this repository\n"
    );
    let outputs = job.outputs();
    for (name, value) in [
        ("authorized", "true"),
        ("pr", "12"),
        ("head_sha", sha(12).as_str()),
        ("base_sha", sha(0xba5e).as_str()),
        ("base_ref", "main"),
        ("gates", "e2e e2e-hybrid prefill-drift tpot"),
        ("reason", "its author @ada may write to this repository"),
    ] {
        assert_eq!(outputs[name], value, "{name}");
    }
    assert_eq!(outputs.len(), 7);
}

#[test]
fn a_trusted_authors_fork_needs_somebody_too() {
    // Others may push to it than who opened the pull request.
    let job = Job::with_pull("ada", true, &["src/lib.rs"]);
    refused(&job, &sha(12), BOT, "others than its author may push");
    job.authorize(&sha(12), "ada", &[]).expect(0);
}

/// Says no, and that no base was even looked for.
#[track_caller]
fn refused(job: &Job, head: &str, starter: &str, part: &str) {
    let ended = job.authorize(head, starter, &[]).expect(1);
    assert!(ended.stdout.starts_with("no: #12"), "{}", ended.stdout);
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
    let outputs = job.outputs();
    assert_eq!(outputs["authorized"], "false");
    assert_eq!(
        (outputs["base_sha"].as_str(), outputs["gates"].as_str()),
        ("", "")
    );
    assert!(outputs["reason"].contains(part));
    assert!(
        !job.fake
            .asked()
            .iter()
            .any(|request| request.contains("/compare/"))
    );
}

#[test]
fn a_stranger_needs_somebody() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    refused(&job, &sha(12), BOT, "nobody approved this commit");
    // The label alone is nobody's word.
    job.add_label("gpu-approved");
    refused(&job, &sha(12), BOT, "nobody approved this commit");
    // Reading is not writing, and the author's own click is the author's word.
    refused(&job, &sha(12), "bob", "nobody approved this commit");
    refused(&job, &sha(12), "mallory", "nobody approved this commit");
    let job = Job::with_pull("", true, &["src/lib.rs"]);
    refused(&job, &sha(12), BOT, "its author @nobody may not write");
    job.fake.take_violations();
}

#[test]
fn a_person_who_may_write_answers_for_the_commit_that_they_start() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let ended = job.authorize(&sha(12), "ada", &[]).expect(0);
    assert!(
        ended
            .stdout
            .contains("@ada, who may write to this repository, started it")
    );
    // By Actions' word alone, and only of a run that was dispatched.
    let mut command = job.command(&["github", "authorize", "--pr", "12", "--head-sha", &sha(12)]);
    command
        .env("GITHUB_TRIGGERING_ACTOR", "ada")
        .env("GITHUB_EVENT_NAME", "pull_request_target");
    let ended = Ended::of(&command.output().unwrap());
    ended.expect(1);
}

#[test]
fn an_approval_holds_for_its_commit_alone() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.fake
        .state()
        .add_status(&sha(12), APPROVAL, "success", BOT);
    job.authorize(&sha(12), BOT, &[]).expect(0);
    let _ = job.outputs();
    job.push(13);
    let asked = job.fake.asked().len();
    // The approved commit is no longer the head …
    let ended = job.authorize(&sha(12), BOT, &[]).expect(1);
    assert!(
        ended.stdout.contains("superseded: the head is"),
        "{}",
        ended.stdout
    );
    // … and the head is not approved.
    let ended = job.authorize(&sha(13), BOT, &[]).expect(1);
    assert!(ended.stdout.contains("nobody approved"), "{}", ended.stdout);
    assert!(job.fake.asked().len() > asked);
}

#[test]
fn only_our_own_approval_counts() {
    for (context, state, creator) in [
        (APPROVAL, "success", "mallory"),
        (APPROVAL, "success", "ada"),
        (APPROVAL, "success", "other-app[bot]"),
        (APPROVAL, "failure", BOT),
        (APPROVAL, "pending", BOT),
        ("infergate/approval2", "success", BOT),
        ("ci", "success", BOT),
    ] {
        let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
        job.fake
            .state()
            .add_status(&sha(12), context, state, creator);
        refused(&job, &sha(12), BOT, "nobody approved this commit");
    }
}

#[test]
fn an_approval_behind_many_statuses_is_found() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let mut state = job.fake.state();
    state.add_status(&sha(12), APPROVAL, "success", BOT);
    for number in 0..230 {
        state.add_status(&sha(12), &format!("ci/{number}"), "success", "ada");
    }
    drop(state);
    job.authorize(&sha(12), BOT, &[]).expect(0);
}

#[test]
fn nobody_lets_these_run() {
    let trusted = || Job::with_pull("ada", true, &["src/lib.rs"]);
    let job = trusted();
    job.fake.state().pull(12).is_open = false;
    refused(&job, &sha(12), "octocat", "closed");
    let job = trusted();
    job.fake.state().pull(12).head_repository = None;
    refused(&job, &sha(12), "octocat", "gone");
    let job = trusted();
    job.fake.state().pull(12).base_branch = "$(touch x)".into();
    refused(&job, &sha(12), "octocat", "the branch `$(touch x)`");
    let job = trusted();
    job.project.edit(
        "gates/gate.toml",
        "forks = \"approved\"",
        "forks = \"never\"",
    );
    refused(&job, &sha(12), "octocat", "forks = \"never\"");
    job.fake.state().pull(12).head_repository = Some(REPOSITORY.into());
    job.authorize(&sha(12), "octocat", &[]).expect(0);
    let job = trusted();
    job.push(13);
    refused(&job, &sha(12), "octocat", "superseded");
}

#[test]
fn other_bases_may_be_allowed() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.project.edit(
        "gates/gate.toml",
        "workflow = \"gate.yml\"",
        "workflow = \"gate.yml\"\nbases = [\"release/*\"]",
    );
    for (branch, code) in [
        ("release/1.0", 0),
        ("release/a/b", 1),
        ("main", 0),
        ("main2", 1),
    ] {
        job.fake.state().pull(12).base_branch = branch.into();
        job.authorize(&sha(12), BOT, &[]).expect(code);
    }
}

/// Within a run of main at this commit, of this branch and attempt.
fn within(job: &Job, main: u64, branch: &str, attempt: &str) -> Ended {
    let mut command = job.command(&["github", "authorize", "--pr", "12", "--head-sha", &sha(12)]);
    command
        .env("GITHUB_SHA", sha(main))
        .env("GITHUB_REF", format!("refs/heads/{branch}"))
        .env("GITHUB_RUN_ATTEMPT", attempt);
    Ended::of(&command.output().unwrap())
}

#[test]
fn a_re_run_of_an_old_run_is_refused() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.fake.state().branches.insert("main".into(), sha(0x2222));
    for attempt in ["2", "", "x"] {
        let ended = within(&job, 0x1111, "main", attempt).expect(1);
        let part = "a re-run of an old run would judge by old gates: it is of `main` at";
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
        let outputs = job.outputs();
        assert_eq!(outputs["authorized"], "false");
        assert!(outputs["reason"].contains("start a new run"));
    }
    within(&job, 0x2222, "main", "2").expect(0);
    // What waits for the machine while main goes on is no re-run.
    within(&job, 0x1111, "main", "1").expect(0);
    // A superseded head is the better reason.
    job.push(13);
    let ended = within(&job, 0x1111, "main", "2").expect(1);
    assert!(ended.stdout.contains("superseded"), "{}", ended.stdout);
}

#[test]
fn only_runs_of_the_default_branch_judge() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let ended = within(&job, 0x3a1, "topic", "1").expect(1);
    let part = "this workflow run is of `refs/heads/topic`, and only `main` judges";
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
}

#[test]
fn the_machines_job_asks_again() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let approve = |state| job.fake.state().add_status(&sha(12), APPROVAL, state, BOT);
    let asks = || {
        let mut command = job.command(&[]);
        command
            .env("PR", "12")
            .env("HEAD_SHA", sha(12))
            .env("PROFILE", "full")
            .env("GATES", "tpot");
        let mut step = workflow::step("gate.yml", "May this commit still run?", &command);
        Ended::of(&step.output().unwrap())
    };
    // The machine's job may read alone.
    for name in ["actions", "checks", "issues"] {
        job.fake.state().grant(name, None);
    }
    for name in ["pull_requests", "statuses"] {
        job.fake.state().grant(name, Some(Grant::Read));
    }
    approve("success");
    asks().expect(0);
    let _ = job.outputs();
    approve("failure");
    asks().expect(1);
    assert_eq!(job.outputs()["authorized"], "false");
    approve("success");
    job.push(13);
    asks().expect(1);
    assert!(job.outputs()["reason"].contains("superseded"));
    // Before any code of the pull request is there.
    let file = std::fs::read_to_string(repository().join(".github/workflows/gate.yml")).unwrap();
    let asked = file.find("- name: May this commit still run?").unwrap();
    assert!(asked < file.find("ref: ${{ inputs.head_sha }}").unwrap());
}

#[test]
fn an_orphan_branch_is_told_and_not_run() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.orphan();
    let ended = job.authorize(&sha(12), BOT, &[]).expect(1);
    let part = "no: #12 at 000000000000: it has no commit in common with `main`";
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
    let outputs = job.outputs();
    assert_eq!(outputs["authorized"], "false");
    assert!(outputs["reason"].contains("rebase it onto that branch"));
    // Another 404 is no answer.
    job.fake.plant(Trouble {
        method: "GET",
        path: "/compare/",
        times: 1,
        ill: Ill::Status(404, "Not Found", vec![]),
    });
    job.authorize(&sha(12), BOT, &[]).expect(5);
}

#[test]
fn gates_are_those_that_the_paths_need_and_those_asked_for() {
    for (files, asked, expect) in [
        (
            &["src/lib.rs"][..],
            "soak  tpot",
            "e2e e2e-hybrid prefill-drift soak tpot",
        ),
        // Fewer would turn the required check green without the rest.
        (&["src/lib.rs"], "e2e", "e2e e2e-hybrid prefill-drift tpot"),
        (&["src/lib.rs"], "", "e2e e2e-hybrid prefill-drift tpot"),
        (&["README.md"], "tpot", ""),
        // The profile's, and what was asked for.
        (
            &["README.md"],
            "soak",
            "e2e e2e-hybrid prefill-drift soak tpot",
        ),
        // Started by hand although no path needs it: the profile's.
        (&["README.md"], "", ""),
    ] {
        let job = Job::with_pull("ada", false, files);
        job.authorize(&sha(12), BOT, &["--gates", asked]).expect(0);
        assert_eq!(job.outputs()["gates"], expect, "{asked}");
    }
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    for asked in ["nope", "tpot ../../etc", "tpot;rm", "--pr"] {
        let gates = format!("--gates={asked}");
        let ended = job.authorize(&sha(12), BOT, &[&gates]).expect(2);
        ended.says(&["unknown gate", "prefill-drift"]);
    }
    assert!(job.fake.asked().is_empty());
}

#[test]
fn a_commit_is_all_its_digits() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    for head in ["main", "000000", "$(id)", ""] {
        job.authorize(head, BOT, &[])
            .expect(2)
            .says(&["is no commit"]);
    }
    assert!(job.fake.asked().is_empty());
}

#[test]
fn what_github_does_not_answer_is_no_answer() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    for path in ["/pulls/12", "/permission", "/compare/"] {
        job.fake.plant(Trouble {
            method: "GET",
            path,
            times: 1,
            ill: Ill::Status(500, "Server Error", vec![]),
        });
        let ended = job.authorize(&sha(12), BOT, &[]).expect(5);
        assert_eq!(ended.stdout, "", "{path}");
        assert!(!job.project.path("output").exists(), "{path}");
    }
    job.fake.state().pulls.clear();
    job.authorize(&sha(12), BOT, &[])
        .expect(5)
        .says(&["404", "/pulls/12"]);
    // A permission that the job lacks lets nobody in.
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.fake.state().grant("statuses", None);
    job.authorize(&sha(12), BOT, &[])
        .expect(5)
        .says(&["`statuses: read`"]);
    job.fake.state().grant("statuses", Some(Grant::Read));
    job.authorize(&sha(12), BOT, &[]).expect(1);
}

#[test]
fn tokens_travel_in_the_open_to_this_machine_alone() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    for (url, part) in [
        ("http://github.example.com/api/v3", "needs https"),
        (
            "https://ghs_x@github.example.com",
            "scheme, host and path alone",
        ),
        ("api.github.com", "GITHUB_API_URL"),
    ] {
        job.authorize(&sha(12), BOT, &["--api-url", url])
            .expect(2)
            .says(&[part]);
    }
}
