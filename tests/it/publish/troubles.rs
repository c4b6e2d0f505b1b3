//! GitHub refuses, fails, or gives no answer, while a verdict is posted.

use super::posted::{github, publish, report};
use super::records::{BASE, HEAD, Site, record, regressed};
use fixture::github::{Grant, Ill, PERSONAL_TOKEN, Trouble};
use std::fs;

#[test]
fn a_persons_token_says_it_by_a_status() {
    let (site, fake) = (Site::new(&record()), github());
    let from = site.artifact().to_str().unwrap().to_owned();
    let arguments = ["--from", &from, "--base-sha", BASE, "--profile", "quick"];
    publish(&site, &fake, PERSONAL_TOKEN, &arguments)
        .expect(0)
        .says(&["this token may not write check runs: a commit status stands in its place"]);
    let state = fake.state();
    assert_eq!(state.check_runs.len(), 0);
    let status = &state.statuses[0];
    assert_eq!(
        (
            status.sha.as_str(),
            status.context.as_str(),
            status.state.as_str()
        ),
        (HEAD, "infergate", "success")
    );
    assert_eq!(state.comments[0].author, "octocat");
}

#[test]
fn github_down_keeps_the_verdict_and_a_later_call_posts_it() {
    let (site, fake) = (Site::new(&regressed()), github());
    fake.plant(Trouble {
        method: "",
        path: "",
        times: 1_000,
        ill: Ill::Status(503, "Service unavailable", vec![]),
    });
    let ended = report(&site, &fake, &[]).expect(1).says(&[
        "the comment could not be posted: ",
        "the check run could not be posted: ",
        "503",
        "what was to be said is kept in ",
    ]);
    assert!(ended.stdout.contains("kept in "), "{}", ended.stdout);
    let kept = fs::read_to_string(site.kept("comment.md")).unwrap();
    assert!(kept.contains("Fail: "));
    let summary = fs::read_to_string(site.main.path("summary")).unwrap();
    assert!(
        summary.contains("> the comment could not be posted: "),
        "{summary}"
    );
    fake.state().troubles.clear();
    report(&site, &fake, &[]).expect(1);
    let state = fake.state();
    assert!(state.comments[0].body.contains("Fail: "));
    assert_eq!(state.check_runs[0]["conclusion"], "failure");
}

#[test]
fn a_failure_between_comment_and_check_run_stops_neither() {
    let (site, fake) = (Site::new(&record()), github());
    fake.plant(Trouble {
        method: "POST",
        path: "/comments",
        times: 1,
        ill: Ill::Status(502, "Bad gateway", vec![]),
    });
    report(&site, &fake, &[])
        .expect(0)
        .says(&["the comment could not be posted: "]);
    assert_eq!(fake.state().check_runs[0]["conclusion"], "success");
    let (site, fake) = (Site::new(&record()), github());
    fake.plant(Trouble {
        method: "POST",
        path: "/check-runs",
        times: 1,
        ill: Ill::Status(502, "Bad gateway", vec![]),
    });
    report(&site, &fake, &[])
        .expect(0)
        .says(&["the check run could not be posted: "]);
    assert!(fake.state().comments[0].body.contains("Pass: "));
}

#[test]
fn what_was_done_without_an_answer_is_not_done_twice() {
    let (site, fake) = (Site::new(&record()), github());
    fake.plant(Trouble {
        method: "POST",
        path: "/comments",
        times: 1,
        ill: Ill::DoneBut(502),
    });
    fake.plant(Trouble {
        method: "POST",
        path: "/check-runs",
        times: 1,
        ill: Ill::Broken,
    });
    report(&site, &fake, &["--patience", "10s"]).expect(0);
    let state = fake.state();
    assert_eq!((state.comments.len(), state.check_runs.len()), (1, 1));
    assert_eq!(state.check_runs[0]["conclusion"], "success");
}

#[test]
fn a_missing_permission_is_named() {
    let (site, fake) = (Site::new(&record()), github());
    fake.state().grant("pull_requests", Some(Grant::Read));
    report(&site, &fake, &[]).expect(0).says(&[
        "the comment could not be posted: ",
        "403",
        "permission",
    ]);
    assert_eq!(fake.state().check_runs[0]["conclusion"], "success");
}
