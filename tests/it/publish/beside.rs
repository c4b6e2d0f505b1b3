//! Check runs of two pull requests with one commit: GitHub shows the newest.

use super::posted::{github, publish, report};
use super::records::{HEAD, Site, record};
use fixture::Ended;
use fixture::github::{ACTIONS_TOKEN, Fake, REPOSITORY};
use serde_json::Value;

/// A second pull request of the same commit, whose check run says `action_required`.
fn with_another(measured: &Value) -> (Site, Fake) {
    let (site, fake) = (Site::new(measured), github());
    let mut state = fake.state();
    state.open_pull(14, "ada", false, &["src/lib.rs"]);
    state.pull(14).head_sha = HEAD.into();
    drop(state);
    let refused = ["--not-run", "nobody approved it", "--pr", "14"];
    let mut of_other = site
        .main
        .command(&["github", "publish", "--head-sha", HEAD]);
    of_other
        .args(refused)
        .args(["--patience", "0"])
        .env("GITHUB_TOKEN", ACTIONS_TOKEN)
        .env("GITHUB_REPOSITORY", REPOSITORY)
        .env("GITHUB_API_URL", fake.url());
    Ended::of(&of_other.output().unwrap()).expect(0);
    (site, fake)
}

#[test]
fn what_needs_nothing_hides_no_other_pull_requests_word() {
    let (site, fake) = with_another(&Value::Null);
    let not_needed = || publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]).expect(0);
    not_needed().says(&["the check run of #14 on the same commit says `action_required`"]);
    assert_eq!(fake.state().check_runs.len(), 1);
    // Once it is closed it has no word any more.
    fake.state().pull(14).is_open = false;
    not_needed();
    let state = fake.state();
    assert_eq!(state.check_runs.last().unwrap()["conclusion"], "skipped");
}

/// Else its author would edit and close it, take off the label, or name another base branch for a moment.
#[test]
fn what_needs_nothing_hides_no_failure_and_is_not_said_of_a_closed_pull_request() {
    let (site, fake) = (Site::new(&record()), github());
    report(&site, &fake, &[]);
    let not_needed = || publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]).expect(0);
    let count = || fake.state().check_runs.len();
    assert_eq!(count(), 1);
    fake.state().check_runs[0]["conclusion"] = "failure".into();
    not_needed().says(&["the check run of #12 on the same commit says `failure`"]);
    fake.state().pull(12).is_open = false;
    not_needed().says(&["#12 is closed"]);
    assert_eq!(count(), 1);
    // Another one's failure neither, though that one is closed.
    let (site, fake) = with_another(&Value::Null);
    fake.state().check_runs[0]["conclusion"] = "failure".into();
    fake.state().pull(14).is_open = false;
    let not_needed = publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]).expect(0);
    not_needed.says(&["the check run of #14 on the same commit says `failure`"]);
    assert_eq!(fake.state().check_runs.len(), 1);
}

/// Else a second pull request would have the commit measured again until it is green.
#[test]
fn a_pass_does_not_cover_another_pull_requests_failure() {
    let (site, fake) = with_another(&record());
    let conclusion = |fake: &Fake| fake.state().check_runs.last().unwrap()["conclusion"].clone();
    fake.state().check_runs[0]["conclusion"] = "failure".into();
    report(&site, &fake, &[]).says(&["the check run of #14 on the same commit says `failure`"]);
    assert_eq!(conclusion(&fake), "action_required");
    // Also once it is closed.
    fake.state().pull(14).is_open = false;
    report(&site, &fake, &[]);
    assert_eq!(conclusion(&fake), "action_required");
    fake.state().check_runs[0]["conclusion"] = "success".into();
    report(&site, &fake, &[]);
    assert_eq!(conclusion(&fake), "success");
}

/// Else "Re-run jobs" would be pressed until the noise is kind.
#[test]
fn a_later_attempt_of_a_run_takes_back_no_failure() {
    let (site, fake) = (Site::new(&record()), github());
    let ended = |code: i32, further: &str| {
        let told = report(&site, &fake, &[]).expect(code);
        if !further.is_empty() {
            told.says(&[further]);
        }
        let state = fake.state();
        state.check_runs.last().unwrap()["conclusion"].clone()
    };
    let measured = |title: &str| {
        let mut state = fake.state();
        let run = state.check_runs.last_mut().unwrap();
        run["conclusion"] = "failure".into();
        run["output"]["title"] = title.into();
    };
    assert_eq!(ended(0, ""), "success");
    measured("inconclusive: too noisy");
    assert_eq!(ended(0, ""), "success");
    measured("fail: decoding is slower");
    let stands = "an earlier attempt of this run measured a failure, which stands";
    assert_eq!(ended(0, stands), "action_required");
    // A run that was started by hand.
    for run in &mut fake.state().check_runs {
        let id = run["external_id"].as_str().unwrap();
        run["external_id"] = id.replace(":77", ":76").into();
    }
    assert_eq!(ended(0, ""), "success");
}
