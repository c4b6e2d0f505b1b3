//! Approvals through `gate github label`: whose word counts, for which commit, and what becomes of those who try without.

use super::job::{Job, event};
use fixture::github::{Ill, Trouble, sha};
use fixture::{Ended, workflow};

const NEEDS: &str = "needs-gpu";
const APPROVED: &str = "gpu-approved";

#[test]
fn a_forks_pull_request_is_labelled_and_not_started() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let ended = job.label_on("opened", None, "mallory").expect(0);
    assert!(
        ended.stdout.contains("nobody approved this commit"),
        "{}",
        ended.stdout
    );
    assert_eq!(job.labels(), [NEEDS]);
    assert!(job.started().is_empty());
    let outputs = job.outputs();
    assert_eq!(outputs["started"], "false");
    assert_eq!(outputs["needed"], "true");
    assert!(outputs["reason"].contains("nobody approved this commit"));
    // As label.yml says it. A reason may hold names from outside, and is data in the script.
    let reason = format!("{}; `touch a` $(touch b) \"", outputs["reason"]);
    let run = |number: &str| {
        let mut command = job.command(&[]);
        command.env("PR", "12").env("HEAD_SHA", sha(12));
        command.env("REASON", &reason).env("GITHUB_RUN_ID", number);
        command.env("GITHUB_SERVER_URL", "https://github.com");
        let mut step = workflow::step("label.yml", "Say why it does not run", &command);
        Ended::of(&step.output().unwrap()).expect(0)
    };
    run("1");
    {
        let state = job.fake.state();
        assert_eq!(state.check_runs[0]["conclusion"], "action_required");
        assert!(state.comments[0].body.contains("nobody approved"));
    }
    assert!(!job.project.path("a").exists() && !job.project.path("b").exists());
    // A verdict of a run that somebody started by hand outlives the next event.
    job.fake.state().check_runs[0]["conclusion"] = "success".into();
    run("2").says(&["is not said"]);
    assert_eq!(job.fake.state().check_runs[0]["conclusion"], "success");
}

#[test]
fn a_maintainers_approval_starts_that_very_commit() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.add_label(APPROVED);
    let ended = job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    assert!(
        ended.stdout.contains("approve this commit: by @ada"),
        "{}",
        ended.stdout
    );
    assert_eq!(
        job.statuses("infergate/approval"),
        ["success: approved by @ada"]
    );
    assert_eq!(job.fake.state().statuses[0].sha, sha(12));
    assert_eq!(job.started()[0]["head_sha"], sha(12));
    assert_eq!(job.labels(), [APPROVED, NEEDS]);
}

#[test]
fn a_push_after_the_approval_runs_nothing_and_takes_the_label() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.add_label(APPROVED);
    job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    job.push(13);
    let ended = job.label_on("synchronize", None, "mallory").expect(0);
    assert!(
        ended
            .stdout
            .contains("remove label `gpu-approved`: it was for another commit"),
        "{}",
        ended.stdout
    );
    assert_eq!(job.labels(), [NEEDS]);
    assert_eq!(job.started().len(), 1, "the approved commit's alone");
}

#[test]
fn a_push_that_races_with_the_approval_is_not_approved() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.add_label(APPROVED);
    let seen = event("labeled", Some(APPROVED), "ada", &sha(12));
    job.push(13);
    let ended = job.label_on_event(&seen).expect(0);
    assert!(ended.stdout.contains("the head moved"), "{}", ended.stdout);
    assert!(job.statuses("infergate/approval").is_empty());
    assert!(job.started().is_empty());
    assert!(!job.labels().contains(&APPROVED.to_owned()));
}

#[test]
fn an_approval_by_somebody_who_may_not_write_is_none() {
    for sender in [
        "bob",
        "mallory",
        "nobody",
        "github-actions[bot]",
        "other-app[bot]",
    ] {
        let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
        job.add_label(APPROVED);
        let ended = job.label_on("labeled", Some(APPROVED), sender).expect(0);
        assert!(
            ended.stdout.contains("so it approves nothing"),
            "{}",
            ended.stdout
        );
        assert_eq!(job.labels(), [NEEDS], "{sender}");
        assert!(job.statuses("infergate/approval").is_empty());
        assert!(job.started().is_empty());
    }
}

#[test]
fn labels_that_look_like_the_approval_are_not() {
    for name in [
        "not-gpu-approved",
        "gpu-approved-not",
        "needs-gpu gpu-approved",
        "gpu_approved",
    ] {
        let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
        job.add_label(name);
        job.label_on("labeled", Some(name), "ada").expect(0);
        assert!(job.statuses("infergate/approval").is_empty(), "{name}");
        assert!(job.started().is_empty(), "{name}");
        assert_eq!(job.labels(), [name, NEEDS]);
    }
}

#[test]
fn an_author_who_may_write_keeps_the_label() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.add_label(APPROVED);
    job.label_on("synchronize", None, "ada").expect(0);
    assert_eq!(job.labels(), [APPROVED, NEEDS]);
}

#[test]
fn each_name_keeps_its_own_approval_and_start() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.add_label(APPROVED);
    job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    let workflow = "workflow = \"gate.yml\"";
    let other = format!("name = \"infergate (h100)\"\n{workflow}");
    job.project.edit("gates/gate.toml", workflow, &other);
    let bot = "github-actions[bot]";
    job.authorize(&sha(12), bot, &[]).expect(1);
    job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    job.authorize(&sha(12), bot, &[]).expect(0);
    for name in ["infergate", "infergate (h100)"] {
        assert_eq!(job.statuses(&format!("{name}/approval")).len(), 1, "{name}");
        assert_eq!(job.statuses(&format!("{name}/started/12")).len(), 1);
    }
}

#[test]
fn an_approval_that_is_taken_back_is_none() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.add_label(APPROVED);
    job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    job.fake
        .state()
        .pull(12)
        .labels
        .retain(|label| label != APPROVED);
    job.label_on("unlabeled", Some(APPROVED), "octocat")
        .expect(0);
    let approvals = job.statuses("infergate/approval");
    assert_eq!(approvals[1], "failure: approval taken back by @octocat");
    job.authorize(&sha(12), "github-actions[bot]", &[])
        .expect(1);
}

#[test]
fn what_an_app_wrote_counts_as_its_own() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.fake.state().become_app("other-app[bot]");
    job.add_label(APPROVED);
    job.label_on("labeled", Some(APPROVED), "ada").expect(0);
    job.authorize(&sha(12), "github-actions[bot]", &[])
        .expect(0);
    // Its note that a run was started counts as well: the next event starts no other.
    job.label_on("edited", None, "mallory").expect(0);
    assert_eq!(job.started().len(), 1);
}

#[test]
fn where_the_server_does_not_say_who_we_are_the_project_does() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.fake.state().become_app("other-app[bot]");
    job.fake.plant(Trouble {
        method: "POST",
        path: "/graphql",
        times: 9,
        ill: Ill::Status(404, "Not Found", vec![]),
    });
    job.add_label(APPROVED);
    job.label_on("labeled", Some(APPROVED), "ada")
        .expect(0)
        .says(&["account 77, not as 41898282", "bot_id = 77"]);
    job.authorize(&sha(12), "github-actions[bot]", &[])
        .expect(1);
    let config = job.project.read("gates/gate.toml");
    let config = config.replace("[github]\n", "[github]\nbot_id = 77\n");
    job.project.write("gates/gate.toml", &config);
    job.authorize(&sha(12), "github-actions[bot]", &[])
        .expect(0);
    // An approval that another account wrote stays none.
    job.fake.state().statuses[0].creator = "github-actions[bot]".into();
    job.authorize(&sha(12), "github-actions[bot]", &[])
        .expect(1);
}
