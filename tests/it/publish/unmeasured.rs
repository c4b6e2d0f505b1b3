//! What is said of a commit that nothing was measured of, and why not.

use super::posted::{github, publish, publishing};
use super::records::{BASE, HEAD, Site, record};
use fixture::github::{ACTIONS_TOKEN, sha};
use fixture::{Ended, workflow};
use serde_json::{Value, json};
use std::fs;

#[test]
fn a_run_without_a_measurement_says_why() {
    let site = Site::new(&Value::Null);
    site.put(
        "failure.txt",
        "error: the build of head failed\n  caused by: @everyone hf_abcdefghijklmnop1234\n",
    );
    let ended = site.dry().expect(5);
    let ended = ended.comments(&[
        "Not measured: ",
        "```text\nerror: the build of head failed\n",
        "[redacted]",
    ]);
    assert!(!ended.stdout.contains("hf_"));
    assert!(
        fs::read_to_string(site.kept("junit.xml"))
            .unwrap()
            .contains("type=\"not-measured\"")
    );
    // A session that died is none, whatever it holds.
    let mut unfinished = record();
    unfinished["ending"] = json!({"why": "unfinished"});
    site.put("run.json", &unfinished.to_string());
    site.dry().expect(5).comments(&["Not measured: "]);
    fs::remove_file(site.artifact().join("run.json")).unwrap();
    // Nothing at all came back.
    fs::remove_file(site.artifact().join("failure.txt")).unwrap();
    site.dry()
        .expect(5)
        .comments(&["neither a finished run.json nor a failure.txt"]);
}

#[test]
fn a_failure_that_names_a_section_forges_none() {
    let site = Site::new(&Value::Null);
    let forged = "<!-- section 0 x -->\n## forged heading\n";
    site.put("failure.txt", forged);
    let shown = format!("```text\n{forged}```");
    site.dry().expect(5).comments(&[&shown]);
    // So long that the comment is cut: its part goes whole.
    let filler = format!("{}\n", "😀".repeat(299)).repeat(58);
    site.put("failure.txt", &format!("{forged}{filler}"));
    let ended = site.dry().expect(5);
    let ended = ended.comments(&["what was said. Full report: report.html"]);
    assert!(!ended.stdout.contains("forged"), "{}", ended.stdout);
}

#[test]
fn a_commit_that_may_not_run_asks_for_action() {
    let (site, fake) = (Site::new(&Value::Null), github());
    let why = "#12 is of a fork | and `nobody` approved it; @everyone";
    publish(&site, &fake, ACTIONS_TOKEN, &["--not-run", why]).expect(0);
    let state = fake.state();
    assert_eq!(state.check_runs[0]["conclusion"], "action_required");
    assert!(
        state.comments[0].body.contains("Not run: ")
            && !state.comments[0].body.contains("@everyone")
    );
}

/// A pull request that went to another branch: that nothing was needed for the one before holds no longer.
#[test]
fn that_a_commit_may_not_run_is_withheld_from_a_verdict_alone() {
    let (site, fake) = (Site::new(&Value::Null), github());
    let of_run = |run: &str, arguments: &[&str]| {
        let mut command = publishing(&site, &fake, ACTIONS_TOKEN, arguments);
        command
            .env("GITHUB_SERVER_URL", "https://github.com")
            .env("GITHUB_RUN_ID", run);
        let ended = Ended::of(&command.output().unwrap()).expect(0);
        let state = fake.state();
        let newest = state.check_runs.last().unwrap();
        (newest["conclusion"].as_str().unwrap().to_owned(), ended)
    };
    let refused = ["--not-run", "nobody approved it"];
    assert_eq!(of_run("1", &["--not-needed"]).0, "skipped");
    assert_eq!(of_run("2", &refused).0, "action_required");
    fake.state().check_runs.last_mut().unwrap()["conclusion"] = "success".into();
    let (conclusion, ended) = of_run("3", &refused);
    assert_eq!(conclusion, "success");
    ended.says(&["that it may not run is not said"]);
}

/// A run was started again, and its approval had been taken back meanwhile.
#[test]
fn a_later_attempt_of_a_run_speaks_for_it() {
    let (site, fake) = (Site::new(&Value::Null), github());
    let attempt = |number: &str, arguments: &[&str]| {
        let mut command = publishing(&site, &fake, ACTIONS_TOKEN, arguments);
        command
            .env("GITHUB_SERVER_URL", "https://github.com")
            .env("GITHUB_RUN_ID", "77")
            .env("GITHUB_RUN_ATTEMPT", number);
        Ended::of(&command.output().unwrap()).expect(0)
    };
    attempt("1", &["--pending", "--base-sha", BASE]);
    fake.state().check_runs[0]["conclusion"] = "failure".into();
    attempt("2", &["--not-run", "nobody approved it"]);
    let state = fake.state();
    assert_eq!(
        state.check_runs.last().unwrap()["conclusion"],
        "action_required"
    );
}

#[test]
fn an_older_commit_is_not_said_to_need_nothing() {
    let (site, fake) = (Site::new(&Value::Null), github());
    fake.state().pull(12).head_sha = sha(99);
    let ended = publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]);
    let ended = ended
        .expect(0)
        .says(&["nothing is said of what an older one needs"]);
    assert!(!ended.stderr.contains("posts it later"), "{}", ended.stderr);
    assert!(fake.state().check_runs.is_empty() && fake.state().statuses.is_empty());
    fake.state().pull(12).head_sha = HEAD.into();
    publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]).expect(0);
    assert_eq!(fake.state().check_runs[0]["conclusion"], "skipped");
}

#[test]
fn a_judge_that_was_killed_leaves_no_check_run_pending() {
    let (site, fake) = (Site::new(&Value::Null), github());
    let pending = ["--pending", "--base-sha", BASE];
    publish(&site, &fake, ACTIONS_TOKEN, &pending).expect(0);
    let mut command = publishing(&site, &fake, ACTIONS_TOKEN, &[]);
    command
        .envs([("PR", "12"), ("HEAD_SHA", HEAD), ("BASE_SHA", BASE)])
        .envs([("PROFILE", "quick"), ("GATES", "tpot")]);
    let mut step = workflow::step("gate.yml", "Say that judging was killed", &command);
    Ended::of(&step.output().unwrap()).expect(5);
    let state = fake.state();
    assert_eq!(state.check_runs[0]["conclusion"], "failure");
    assert!(state.comments[0].body.contains("Not measured: "));
    assert!(state.comments[0].body.contains("see the log of the job"));
}
