//! Check runs of two pull requests with one commit: GitHub shows the newest.

use super::posted::{github, publish, report, report_by};
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

/// Else "Re-run jobs" would be pressed, or another base branch named for a moment, until the noise is kind.
#[test]
fn a_later_run_takes_back_no_failure_unless_somebody_starts_it() {
    let (site, fake) = (Site::new(&record()), github());
    let bot = "github-actions[bot]";
    let ended = |actor: &str, further: &str| {
        let told = report_by(actor, &site, &fake, &[]).expect(0);
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
    assert_eq!(ended(bot, ""), "success");
    measured("inconclusive: too noisy");
    assert_eq!(ended(bot, ""), "success");
    measured("fail: decoding is slower");
    let stands = "an earlier run measured a failure of this commit, which stands";
    assert_eq!(ended("ada", stands), "action_required");
    // Another run: by the bot, and by hand.
    for run in &mut fake.state().check_runs {
        let id = run["external_id"].as_str().unwrap();
        run["external_id"] = id.replace(":77", ":76").into();
    }
    assert_eq!(ended(bot, stands), "action_required");
    assert_eq!(ended("ada", ""), "success");
    assert_eq!(ended(bot, ""), "success");
}

/// A run in progress, or a withheld pass, does not clear another pull request's failure.
#[test]
fn a_failure_stands_until_a_pass_follows_it() {
    let (site, fake) = with_another(&record());
    let failed = |conclusion: Value| {
        let mut state = fake.state();
        let mut later = state.check_runs[0].clone();
        state.check_runs[0]["conclusion"] = "failure".into();
        later["id"] = (later["id"].as_u64().unwrap() + 1).into();
        later["conclusion"] = conclusion;
        state.check_runs.truncate(1);
        state.check_runs.push(later);
    };
    for conclusion in [Value::Null, "action_required".into(), "cancelled".into()] {
        failed(conclusion.clone());
        let told = report(&site, &fake, &[]);
        told.says(&["the check run of #14 on the same commit says `failure`"]);
        let not_needed = publish(&site, &fake, ACTIONS_TOKEN, &["--not-needed"]).expect(0);
        not_needed.says(&["the check run of #14 on the same commit says `failure`"]);
    }
    failed("success".into());
    report(&site, &fake, &[]);
    let state = fake.state();
    assert_eq!(state.check_runs.last().unwrap()["conclusion"], "success");
}
