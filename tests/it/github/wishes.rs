//! Labels of the rules that a person adds by hand: a wish for the gates, and an approval of that very commit.

use super::job::{Job, event};
use fixture::Ended;
use fixture::github::{PERSONAL_TOKEN, sha};

const NEEDS: &str = "needs-gpu";
const BOT: &str = "github-actions[bot]";

/// A pull request that no rule labels.
fn of_docs(author: &str, from_fork: bool) -> Job {
    Job::with_pull(author, from_fork, &["docs/a.md"])
}

fn add(job: &Job, login: &str) -> Ended {
    job.add_label_by(NEEDS, login);
    job.label_on("labeled", Some(NEEDS), login).expect(0)
}

#[track_caller]
fn says(ended: &Ended, part: &str) {
    assert!(ended.stdout.contains(part), "`{part}` in\n{}", ended.stdout);
}

#[test]
fn a_maintainers_label_stays_and_starts_that_very_commit() {
    for (author, from_fork) in [("ada", false), ("mallory", true)] {
        let job = of_docs(author, from_fork);
        let ended = add(&job, "ada");
        says(&ended, "keep label `needs-gpu`: @ada asked for its gates");
        assert_eq!(job.labels(), [NEEDS]);
        assert_eq!(job.started().len(), 1);
        assert_eq!(job.started()[0]["head_sha"], sha(12));
        assert_eq!(
            job.started()[0]["gates"],
            "e2e e2e-hybrid prefill-drift tpot"
        );
        assert_eq!(
            job.statuses("infergate/approval"),
            ["success: approved by @ada"]
        );
        let outputs = job.outputs();
        assert_eq!([&outputs["needed"], &outputs["started"]], ["true", "true"]);
        job.authorize(&sha(12), BOT, &[]).expect(0);
        // Whatever comes next, the bot leaves it.
        job.label_on("edited", None, author).expect(0);
        assert_eq!(job.labels(), [NEEDS]);
        assert_eq!(job.started().len(), 1);
    }
}

#[test]
fn a_push_keeps_the_wish_and_ends_the_approval() {
    let job = of_docs("mallory", true);
    add(&job, "ada");
    job.push(13);
    let ended = job.label_on("synchronize", None, "mallory").expect(0);
    says(&ended, "nobody approved this commit");
    assert_eq!(job.labels(), [NEEDS]);
    assert_eq!(job.started().len(), 1, "the approved commit's alone");
    job.outputs();
    job.authorize(&sha(13), BOT, &[]).expect(1);
    // Of who may write here each push runs.
    let job = of_docs("ada", false);
    add(&job, "octocat");
    job.push(13);
    job.label_on("synchronize", None, "ada").expect(0);
    assert_eq!(job.started().len(), 2);
}

#[test]
fn a_push_that_races_with_the_label_is_not_approved() {
    let job = of_docs("mallory", true);
    job.add_label_by(NEEDS, "ada");
    let seen = event("labeled", Some(NEEDS), "ada", &sha(12));
    job.push(13);
    let ended = job.label_on_event(&seen).expect(0);
    says(
        &ended,
        "label `needs-gpu` approves no commit: the head moved",
    );
    assert!(job.statuses("infergate/approval").is_empty());
    assert!(job.started().is_empty());
    assert_eq!(job.labels(), [NEEDS]);
}

#[test]
fn the_label_of_somebody_who_may_not_write_starts_nothing() {
    for login in ["bob", "mallory", "nobody", "other-app[bot]"] {
        let job = of_docs("mallory", true);
        let ended = add(&job, login);
        says(&ended, "label `needs-gpu` starts nothing");
        assert!(job.statuses("infergate/approval").is_empty(), "{login}");
        assert!(job.started().is_empty(), "{login}");
        assert_eq!(job.labels(), [NEEDS], "the bot removes only what it added");
        assert_eq!(job.outputs()["needed"], "false");
    }
}

#[test]
fn the_bots_own_label_approves_nothing() {
    // By the paths of a stranger's pull request, it asks for an approval.
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.label_on("opened", None, "mallory").expect(0);
    assert_eq!(job.labels(), [NEEDS]);
    let ended = job.label_on("labeled", Some(NEEDS), BOT).expect(0);
    says(&ended, "nobody approved this commit");
    assert!(job.started().is_empty());
    assert!(job.outputs()["reason"].contains("with the label `gpu-approved`"));
    // A label that needs no path any more goes.
    job.fake.state().pull(12).files = vec![("docs/a.md".into(), None)];
    job.label_on("synchronize", None, "mallory").expect(0);
    assert!(job.labels().is_empty());
}

#[test]
fn a_bot_with_a_persons_token_approves_nothing() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let label = |action: &str, label: Option<&str>, sender: &str| {
        let seen = event(action, label, sender, &sha(12)).to_string();
        job.project.write("event.json", &seen);
        let mut command = job.command(&["github", "label", "--patience", "0"]);
        command
            .env("GITHUB_TOKEN", PERSONAL_TOKEN)
            .env("GITHUB_EVENT_NAME", "pull_request_target")
            .env("GITHUB_EVENT_PATH", job.project.path("event.json"));
        Ended::of(&command.output().unwrap()).expect(0)
    };
    label("opened", None, "mallory");
    assert_eq!(job.labels(), [NEEDS]);
    // GitHub tells of it, as of any person's label; and this person may write.
    label("labeled", Some(NEEDS), "octocat");
    assert!(job.statuses("infergate/approval").is_empty());
    assert!(job.started().is_empty());
}

#[test]
fn a_label_that_is_taken_off_takes_its_approval() {
    let job = of_docs("mallory", true);
    add(&job, "ada");
    job.fake.state().pull(12).labels.clear();
    let ended = job.label_on("unlabeled", Some(NEEDS), "octocat").expect(0);
    says(&ended, "no path needs a gate");
    let approvals = job.statuses("infergate/approval");
    assert_eq!(approvals[1], "failure: approval taken back by @octocat");
    job.authorize(&sha(12), BOT, &[]).expect(1);
}

#[test]
fn an_event_that_the_list_of_events_lacks_counts() {
    let job = of_docs("mallory", true);
    job.add_label(NEEDS);
    job.label_on("labeled", Some(NEEDS), "ada").expect(0);
    assert_eq!(job.started().len(), 1);
}
