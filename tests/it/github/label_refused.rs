//! What `gate github label` refuses, and what it says where GitHub refuses or is down.

use super::job::{Job, event};
use fixture::github::{Ill, Trouble, sha};
use serde_json::json;

#[test]
fn forged_events_are_refused() {
    let huge = format!("{{\"x\":\"{}\"}}", "a".repeat(5 << 20));
    let mut other = event("opened", None, "ada", &sha(12));
    other["repository"]["full_name"] = json!("evil/Hello-World");
    let mut branch = event("opened", None, "ada", "main");
    branch["number"] = json!(12);
    for (text, part) in [
        (huge, "more than"),
        ("{".to_owned(), "not what GitHub sends"),
        ("[".repeat(200_000), "not what GitHub sends"),
        ("\u{0}".to_owned(), "not what GitHub sends"),
        (other.to_string(), "not of octocat/Hello-World"),
        (branch.to_string(), "`main` is no commit"),
        (
            event("opened", None, "ada", &sha(12))
                .to_string()
                .replace("12,", "\"12\","),
            "invalid type",
        ),
    ] {
        let job = Job::with_pull("ada", false, &["src/lib.rs"]);
        job.project.write("event.json", &text);
        let mut command = job.command(&["github", "label"]);
        command
            .env("GITHUB_EVENT_NAME", "pull_request_target")
            .env("GITHUB_EVENT_PATH", job.project.path("event.json"));
        let ended = fixture::Ended::of(&command.output().unwrap());
        ended.expect(2).says(&[part]);
        assert!(job.fake.asked().is_empty(), "{part}");
    }
}

#[test]
fn other_events_and_none_are_told() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.run(&["github", "label"]).expect(2).says(&["--pr"]);
    let mut command = job.command(&["github", "label", "--pr", "12"]);
    command.env_remove("GITHUB_REPOSITORY");
    let ended = fixture::Ended::of(&command.output().unwrap());
    ended.expect(2).says(&["which repository?", "--repo"]);
    job.project.write("event.json", "{}");
    let mut command = job.command(&["github", "label"]);
    command
        .env("GITHUB_EVENT_NAME", "pull_request\n::x")
        .env("GITHUB_EVENT_PATH", job.project.path("event.json"));
    let ended = fixture::Ended::of(&command.output().unwrap());
    ended
        .expect(2)
        .says(&["`pull_request ::x` is no event", "pull_request_target"]);
}

#[test]
fn errors_name_the_request_and_what_mends_it() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.fake.state().grant("actions", None);
    let ended = job.label_on("opened", None, "ada").expect(5);
    ended.says(&[
        "POST /repos/octocat/Hello-World/actions/workflows/gate.yml/dispatches",
        "`actions: write`",
    ]);
    // What was not started is started when it is asked for again.
    job.fake
        .state()
        .grant("actions", Some(fixture::github::Grant::Write));
    job.label_on("reopened", None, "ada").expect(0);
    assert_eq!(job.started().len(), 1);
    let mut command = job.command(&["github", "label", "--pr", "12"]);
    command.env("GITHUB_TOKEN", "ghs_SomeoneElsesSecret42");
    let ended = fixture::Ended::of(&command.output().unwrap()).expect(5);
    let ended = ended.says(&["Bad credentials: [token]", "wrong, expired or revoked"]);
    assert!(!ended.stderr.contains("SomeoneElses"), "{}", ended.stderr);
    let mut command = job.command(&["github", "label", "--pr", "12"]);
    command.env_remove("GITHUB_TOKEN").env_remove("GH_TOKEN");
    let ended = fixture::Ended::of(&command.output().unwrap());
    ended.expect(2).says(&["set GITHUB_TOKEN"]);
}

#[test]
fn a_label_that_cannot_be_made_keeps_nothing_from_its_run() {
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    job.fake.state().grant("issues", None);
    job.add_label("gpu-approved");
    let ended = job.label_on("labeled", Some("gpu-approved"), "ada");
    ended.expect(0).says(&[
        "the label `needs-gpu` stays as it was",
        "You do not have permission to create labels",
    ]);
    assert_eq!(
        job.statuses("infergate/approval"),
        ["success: approved by @ada"]
    );
    assert_eq!(job.started().len(), 1);
    assert_eq!(job.outputs()["started"], "true");
    // One that the repository has needs no more than `pull-requests: write`.
    job.fake.state().labels.push("Needs-GPU".into());
    job.label_on("reopened", None, "ada").expect(0);
    assert_eq!(job.labels(), ["gpu-approved", "needs-gpu"]);
}

#[test]
fn a_github_that_is_down_is_infrastructure() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.fake.plant(Trouble {
        method: "",
        path: "",
        times: 99,
        ill: Ill::Status(503, "Unavailable", vec![]),
    });
    job.label_on("opened", None, "ada")
        .expect(5)
        .says(&["503", "githubstatus.com"]);
}

#[test]
fn a_run_that_may_have_been_started_is_started_again() {
    // Twice is harmless, since the workflow's concurrency cancels the first; never would not be.
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.fake.plant(Trouble {
        method: "POST",
        path: "/dispatches",
        times: 1,
        ill: Ill::DoneBut(502),
    });
    job.run(&["github", "label", "--pr", "12", "--patience", "5s"])
        .expect(0)
        .says(&["502", "trying again in 1 s"]);
    assert_eq!(job.started().len(), 2);
    assert_eq!(job.statuses("infergate/started/12").len(), 1);
}

#[test]
fn mistakes_in_the_rules_have_carets() {
    for (from, to, parts) in [
        (
            "paths = [\"**\"",
            "paths = [\"src/{**\"",
            &["gates/gate.toml", "^^^", "label[0].paths[0]"][..],
        ),
        (
            "forks = \"approved\"",
            "forks = \"some\"",
            &["^^^^^^", "`approved`, `never`"],
        ),
        (
            "workflow = \"gate.yml\"",
            "workflow = \"../gate.yml\"",
            &["workflow's file name"],
        ),
        (
            "forks = \"approved\"",
            "name = \"h100 --> x\"",
            &["^^^^^^", "a check run's name", "`-->`"],
        ),
        (
            "forks = \"approved\"",
            "name = \"a\\u0007b\"",
            &["a check run's name"],
        ),
        (
            "forks = \"approved\"",
            "comment = \"red\"",
            &["`always`, `on-failure`"],
        ),
        (
            "approval_label = \"gpu-approved\"",
            "aproval_label = \"x\"",
            &["unknown key `github.aproval_label`"],
        ),
        ("name = \"needs-gpu\"", "name = \"\"", &["a label's name"]),
    ] {
        let job = Job::with_pull("ada", false, &[]);
        job.project.edit("gates/gate.toml", from, to);
        job.run(&["github", "label", "--pr", "12"])
            .expect(2)
            .says(parts);
        assert!(job.fake.asked().is_empty());
    }
    let job = Job::with_pull("ada", false, &[]);
    let text = job.project.read("gates/gate.toml");
    let wrong = text.replace(
        "gates = [\"e2e\", \"e2e-hybrid\", \"prefill-drift\", \"tpot\"]\n",
        "gates = [\"topt\"]\n",
    );
    job.project.write("gates/gate.toml", &wrong);
    // Of a plan too, so that it is seen before a pull request comes.
    for arguments in [&["github", "label", "--pr", "12"][..], &["check"]] {
        job.run(arguments)
            .expect(2)
            .says(&["unknown gate `topt`", "did you mean `tpot`?"]);
    }
}

/// GitHub answers so where the repository was renamed. Sent again as a GET it would read as done.
#[test]
fn a_label_behind_a_redirect_is_not_set() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let there = format!("{}/repositories/1296269/issues/12/labels", job.fake.url());
    job.fake.plant(Trouble {
        method: "POST",
        path: "/labels",
        times: 1,
        ill: Ill::Status(301, "Moved Permanently", vec![("location", there)]),
    });
    job.label_on("opened", None, "ada").expect(0).says(&[
        "the label `needs-gpu` stays as it was: POST /repos/octocat/Hello-World/issues/12/labels",
        "if the repository was renamed or moved, use its new name",
    ]);
    assert!(job.labels().is_empty());
    assert!(
        !job.fake
            .asked()
            .iter()
            .any(|asked| asked.starts_with("GET") && asked.ends_with("/labels"))
    );
}
