//! Comments and check runs that the binary posts to the fake GitHub.

use super::records::{BASE, HEAD, Site, noisy, record, regressed};
use fixture::Ended;
use fixture::github::{
    ACTIONS_TOKEN, Comment, Fake, Ill, PERSONAL_TOKEN, REPOSITORY, Trouble, sha,
};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

pub(super) const MARKER: &str = "<!-- infergate:gate -->";

/// A pull request 12 whose head is [`HEAD`].
pub(super) fn github() -> Fake {
    let fake = Fake::start();
    fake.state().open_pull(12, "ada", false, &["src/lib.rs"]);
    fake.state().pull(12).head_sha = HEAD.into();
    fake
}

/// `gate github publish` of whatever these arguments say, as Actions runs it.
pub(super) fn publishing(site: &Site, fake: &Fake, token: &str, arguments: &[&str]) -> Command {
    let mut command = site
        .main
        .command(&["github", "publish", "--pr", "12", "--head-sha", HEAD]);
    command
        .args(arguments)
        .args(["--patience", "0"])
        .env("GITHUB_TOKEN", token)
        .env("GITHUB_REPOSITORY", REPOSITORY)
        .env("GITHUB_API_URL", fake.url());
    command
}

pub(super) fn publish(site: &Site, fake: &Fake, token: &str, arguments: &[&str]) -> Ended {
    Ended::of(&publishing(site, fake, token, arguments).output().unwrap())
}

/// The same of the site's artifact, as the report job runs it in a run that the bot started.
pub(super) fn report(site: &Site, fake: &Fake, further: &[&str]) -> Ended {
    report_by("github-actions[bot]", site, fake, further)
}

pub(super) fn report_by(actor: &str, site: &Site, fake: &Fake, further: &[&str]) -> Ended {
    let mut command = site.command(further);
    command
        .env("GITHUB_TOKEN", ACTIONS_TOKEN)
        .env("GITHUB_REPOSITORY", REPOSITORY)
        .env("GITHUB_API_URL", fake.url())
        .env("GITHUB_SERVER_URL", "https://github.com")
        .env("GITHUB_RUN_ID", "77")
        .env("GITHUB_ACTOR", actor)
        .env("GITHUB_TRIGGERING_ACTOR", "ada")
        .env("GITHUB_OUTPUT", site.main.path("output"))
        .env("GITHUB_STEP_SUMMARY", site.main.path("summary"))
        .env("GITHUB_ACTIONS", "true");
    if !further.contains(&"--patience") {
        command.args(["--patience", "0"]);
    }
    let ended = Ended::of(&command.output().unwrap());
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(ACTIONS_TOKEN), "{text}");
    }
    ended
}

pub(super) fn comment_of(author: &str, body: &str, id: u64) -> Comment {
    Comment {
        id,
        issue: 12,
        author: author.into(),
        body: body.into(),
    }
}

#[test]
fn from_pending_to_a_verdict_in_one_comment_and_one_check_run() {
    let (site, fake) = (Site::new(&regressed()), github());
    publish(
        &site,
        &fake,
        ACTIONS_TOKEN,
        &["--pending", "--base-sha", BASE],
    )
    .expect(0);
    {
        let state = fake.state();
        assert_eq!((state.comments.len(), state.check_runs.len()), (1, 1));
        assert!(
            state.comments[0].body.starts_with(MARKER)
                && state.comments[0].body.contains("Measuring: ")
        );
        let run = &state.check_runs[0];
        assert_eq!(
            (&run["status"], &run["conclusion"]),
            (&json!("in_progress"), &Value::Null)
        );
        assert_eq!(run["external_id"], format!("infergate:12:{HEAD}"));
        assert_eq!(
            (&run["name"], &run["head_sha"]),
            (&json!("infergate"), &json!(HEAD))
        );
    }
    let ended = report(&site, &fake, &[]).expect(1);
    let state = fake.state();
    assert_eq!((state.comments.len(), state.check_runs.len()), (1, 1));
    assert!(state.comments[0].body.contains("Fail: "));
    let run = &state.check_runs[0];
    assert_eq!(
        (&run["status"], &run["conclusion"]),
        (&json!("completed"), &json!("failure"))
    );
    assert!(
        run["output"]["title"]
            .as_str()
            .unwrap()
            .starts_with("fail: "),
        "{run}"
    );
    let annotation = &run["annotations"][0];
    assert_eq!(
        (
            &annotation["path"],
            &annotation["start_line"],
            &annotation["annotation_level"]
        ),
        (&json!("gates/tpot.toml"), &json!(11), &json!("failure"))
    );
    // Actions is told as well.
    assert!(
        ended
            .stdout
            .contains("::error file=gates/tpot.toml,line=11,title=tpot/regression%3A fail"),
        "{}",
        ended.stdout
    );
    let output = fs::read_to_string(site.main.path("output")).unwrap();
    let values: Vec<&str> = output.lines().collect();
    let value = |name: &str| {
        let at = values
            .iter()
            .position(|line| line.starts_with(&format!("{name}<<")))
            .unwrap();
        values[at + 1]
    };
    assert_eq!((value("verdict"), value("conclusion")), ("fail", "failure"));
    assert!(
        value("comment_url").starts_with("https://")
            && value("check_run_url").starts_with("https://")
    );
    let summary = fs::read_to_string(site.main.path("summary")).unwrap();
    assert!(summary.starts_with("## ❌ Fail: "), "{summary}");
    assert!(
        summary.contains("[the run](https://github.com/octocat/Hello-World/actions/runs/77)"),
        "{summary}"
    );
}

#[test]
fn a_comment_of_ours_is_found_by_mark_and_author_on_any_page() {
    let (site, fake) = (Site::new(&record()), github());
    {
        let mut state = fake.state();
        for id in 1..=230 {
            state.comments.push(comment_of("bob", "me too", id));
        }
        // Somebody else's with our mark, one of ours that quotes it, and two of ours.
        state
            .comments
            .push(comment_of("mallory", &format!("{MARKER}\n# Pass: "), 231));
        state.comments.push(comment_of(
            "github-actions[bot]",
            &format!("> {MARKER}\nsee above"),
            232,
        ));
        state.comments.push(comment_of(
            "github-actions[bot]",
            &format!("{MARKER}\nold"),
            233,
        ));
        state.comments.push(comment_of(
            "github-actions[bot]",
            &format!("{MARKER}\nyounger"),
            234,
        ));
    }
    report(&site, &fake, &[])
        .expect(0)
        .says(&["further comments of ours with the same mark are left alone: 234"]);
    let state = fake.state();
    assert_eq!(state.comments.len(), 234);
    let body = |id: u64| {
        state
            .comments
            .iter()
            .find(|c| c.id == id)
            .unwrap()
            .body
            .clone()
    };
    assert_eq!(body(231), format!("{MARKER}\n# Pass: "));
    assert!(body(232).ends_with("see above") && body(234).ends_with("younger"));
    assert!(body(233).contains("Pass: ") && body(233).contains(HEAD));
    let patched = state
        .requests
        .iter()
        .filter(|r| r.method == "PATCH" && r.path.contains("/comments/"));
    assert_eq!(patched.count(), 1);
}

#[test]
fn a_comment_that_was_deleted_is_created_anew() {
    let (site, fake) = (Site::new(&record()), github());
    fake.state().comments.push(comment_of(
        "github-actions[bot]",
        &format!("{MARKER}\nold"),
        5,
    ));
    let gone = vec![];
    fake.plant(Trouble {
        method: "PATCH",
        path: "/issues/comments/5",
        times: 1,
        ill: Ill::Status(404, "Not Found", gone),
    });
    report(&site, &fake, &[]).expect(0);
    let state = fake.state();
    assert_eq!(
        state
            .requests
            .iter()
            .filter(|r| r.method == "POST" && r.path.ends_with("/comments"))
            .count(),
        1
    );
}

#[test]
fn a_head_that_moved_marks_the_comment_and_not_the_check_run() {
    let (site, fake) = (Site::new(&record()), github());
    fake.state().pull(12).head_sha = sha(99);
    report(&site, &fake, &[]).expect(0);
    {
        let state = fake.state();
        assert!(
            state.comments[0].body.contains("> **Stale:**")
                && state.comments[0].body.contains(&sha(99))
        );
        assert_eq!(state.check_runs[0]["head_sha"], HEAD);
    }
    // A comment about the newer head stays as it is.
    fake.state().comments[0].body = format!("{MARKER}\n<!-- infergate:head {} -->\nnewer", sha(99));
    report(&site, &fake, &[])
        .expect(0)
        .says(&["the comment is about the newer head"]);
    assert!(fake.state().comments[0].body.ends_with("newer"));
    // And a run that was cancelled by it says nothing there, but ends its own check run.
    fake.state().comments[0].body = format!("{MARKER}\nsomething");
    publish(&site, &fake, ACTIONS_TOKEN, &["--cancelled"]).expect(0);
    assert!(fake.state().comments[0].body.ends_with("something"));
    let state = fake.state();
    assert_eq!(state.check_runs.last().unwrap()["conclusion"], "cancelled");
}

/// Main's gate has so many checks more that nothing can hold.
fn with_failing_checks(number: usize) -> Site {
    let checks: String = (0..number)
        .map(|n| format!("\n[[check]]\nname = \"c{n}\"\nmetric = \"tpot\"\nrule = \"ceiling\"\nlimit = \"1 µs\"\nmin_samples = 5\n"))
        .collect();
    let site = Site::new(&record());
    let gate = site.main.read("gates/tpot.toml");
    site.main
        .write("gates/tpot.toml", &format!("{gate}{checks}"));
    site
}

#[test]
fn more_than_fifty_annotations_go_in_several_calls() {
    let site = with_failing_checks(60);
    let fake = github();
    report(&site, &fake, &[]).expect(1);
    let state = fake.state();
    assert_eq!(
        state.check_runs[0]["annotations"].as_array().unwrap().len(),
        60
    );
    assert_eq!(
        state
            .requests
            .iter()
            .filter(|r| r.method == "PATCH" && r.path.contains("/check-runs/"))
            .count(),
        2
    );
    assert_eq!(state.check_runs[0]["conclusion"], "failure");
}

#[test]
fn no_annotation_is_shown_twice() {
    let site = with_failing_checks(60);
    let fake = github();
    for method in ["POST", "PATCH"] {
        fake.plant(Trouble {
            method,
            path: "/check-runs",
            times: 1,
            ill: Ill::DoneBut(502),
        });
    }
    let annotations = || -> Vec<usize> {
        let runs = &fake.state().check_runs;
        let annotations = runs
            .iter()
            .map(|run| run["annotations"].as_array().unwrap().len());
        annotations.collect()
    };
    report(&site, &fake, &["--patience", "10s"]).expect(1);
    assert_eq!(annotations(), [60]);
    // The same again, as when a job is run again: GitHub keeps what the first one showed.
    report(&site, &fake, &[]).expect(1);
    assert_eq!(annotations(), [60, 60]);
}

#[test]
fn changed_gates_and_no_comment() {
    let (site, fake) = (Site::new(&record()), github());
    fake.state()
        .open_pull(12, "ada", false, &["gates/tpot.toml"]);
    fake.state().pull(12).head_sha = HEAD.into();
    report(&site, &fake, &["--no-comment"]).expect(0);
    let state = fake.state();
    assert!(state.comments.is_empty());
    let summary = state.check_runs[0]["output"]["summary"].as_str().unwrap();
    assert!(
        summary.contains("this pull request changes gates/: it is judged with main's"),
        "{summary}"
    );
    assert!(!summary.contains("<!--"), "{summary}");
}

fn with_github(site: &Site, lines: &str) {
    let config = site.main.read("gates/gate.toml");
    let config = config.split("\n[github]").next().unwrap();
    site.main
        .write("gates/gate.toml", &format!("{config}\n[github]\n{lines}\n"));
}

#[test]
fn a_commit_of_the_merge_queue_has_a_check_run_alone() {
    let (site, fake) = (Site::new(&regressed()), github());
    fake.state().pull(12).head_sha = sha(99);
    let queue = ["--queue", "gh-readonly-queue/main/pr-12-abc"];
    let pending = [&["--pending", "--base-sha", BASE][..], &queue].concat();
    publish(&site, &fake, ACTIONS_TOKEN, &pending).expect(0);
    report(&site, &fake, &queue).expect(1);
    let state = fake.state();
    assert!(state.comments.is_empty());
    assert_eq!(state.check_runs.len(), 1);
    assert_eq!(state.check_runs[0]["conclusion"], "failure");
    let summary = state.check_runs[0]["output"]["summary"].as_str().unwrap();
    // It never is the pull request's head, and no newer one makes it stale.
    assert!(!summary.contains("Stale"), "{summary}");
}

#[test]
fn two_names_have_a_check_run_and_a_comment_each() {
    let (site, fake) = (Site::new(&record()), github());
    report(&site, &fake, &[]).expect(0);
    with_github(&site, "name = \"infergate (h100)\"");
    for _ in 0..2 {
        report(&site, &fake, &[]).expect(0);
    }
    let state = fake.state();
    let marks: Vec<&str> = state
        .comments
        .iter()
        .map(|comment| comment.body.lines().next().unwrap())
        .collect();
    assert_eq!(marks, [MARKER, "<!-- infergate:gate infergate (h100) -->"]);
    let body = &state.comments[1].body;
    assert!(body.contains("## ✅ infergate (h100): Pass: "), "{body}");
    let names: Vec<_> = state
        .check_runs
        .iter()
        .map(|run| (run["name"].as_str(), run["external_id"].as_str()))
        .collect();
    let (plain, other) = (
        format!("infergate:12:{HEAD}::77"),
        format!("infergate (h100):12:{HEAD}::77"),
    );
    let h100 = (Some("infergate (h100)"), Some(other.as_str()));
    assert_eq!(
        names,
        [(Some("infergate"), Some(plain.as_str())), h100, h100]
    );
    drop(state);
    let from = site.artifact().to_str().unwrap().to_owned();
    let arguments = ["--from", &from, "--base-sha", BASE, "--profile", "quick"];
    publish(&site, &fake, PERSONAL_TOKEN, &arguments).expect(0);
    assert_eq!(fake.state().statuses[0].context, "infergate (h100)");
}

#[test]
fn a_quiet_project_comments_only_on_what_is_red() {
    let quiet = "comment = \"on-failure\"";
    let pending = ["--pending", "--base-sha", BASE];
    for (record, code, comments) in [(record(), 0, 0), (regressed(), 1, 1), (noisy(), 3, 1)] {
        let (site, fake) = (Site::new(&record), github());
        with_github(&site, quiet);
        publish(&site, &fake, ACTIONS_TOKEN, &pending).expect(0);
        assert!(fake.state().comments.is_empty());
        report(&site, &fake, &[]).expect(code);
        assert_eq!(fake.state().comments.len(), comments, "{code}");
        assert_eq!(fake.state().check_runs.len(), 1);
    }
    // What blocks nothing is not red.
    let (site, fake) = (Site::new(&noisy()), github());
    with_github(&site, &format!("{quiet}\ninconclusive = \"neutral\""));
    report(&site, &fake, &[]).expect(3);
    assert!(fake.state().comments.is_empty());
    // Nobody approved it: somebody must act.
    publish(&site, &fake, ACTIONS_TOKEN, &["--not-run", "why"]).expect(0);
    assert!(fake.state().comments[0].body.contains("Not run"));
    // A comment that is there turns green.
    site.put("run.json", &record().to_string());
    report(&site, &fake, &[]).expect(0);
    let state = fake.state();
    assert_eq!(state.comments.len(), 1);
    assert!(state.comments[0].body.contains("Pass: "));
}

#[test]
fn comment_and_check_run_name_the_commit_of_main_that_judges() {
    let (site, fake) = (Site::new(&regressed()), github());
    let of_main = |main: u64, arguments: &[&str]| {
        let mut command = publishing(&site, &fake, ACTIONS_TOKEN, arguments);
        command.env("GITHUB_SHA", sha(main));
        Ended::of(&command.output().unwrap())
    };
    let ids = || -> Vec<String> {
        let state = fake.state();
        let ids = state
            .check_runs
            .iter()
            .map(|run| run["external_id"].as_str());
        ids.map(|id| id.unwrap().to_owned()).collect()
    };
    of_main(0xa, &["--pending", "--base-sha", BASE]).expect(0);
    let from = site.artifact().to_str().unwrap().to_owned();
    let from = ["--from", &from, "--base-sha", BASE, "--profile", "quick"];
    of_main(0xa, &from).expect(1);
    assert_eq!(ids(), [format!("infergate:12:{HEAD}:{}", sha(0xa))]);
    let judged = |main: u64| format!("judged by main at `{}`", sha(main));
    let body = fake.state().comments[0].body.clone();
    assert!(body.contains(&judged(0xa)), "{body}");
    // Another commit of main takes over a check run that is pending, and says so.
    fake.state().check_runs[0]["conclusion"] = Value::Null;
    of_main(0xb, &from).expect(1);
    assert_eq!(ids(), [format!("infergate:12:{HEAD}:{}", sha(0xb))]);
    assert!(fake.state().comments[0].body.contains(&judged(0xb)));
}

#[test]
fn a_cut_list_of_files_is_told() {
    let many: Vec<String> = (0..3_100).map(|n| format!("a/{n}")).collect();
    let many = many.iter().map(String::as_str);
    // GitHub ends its list at 3,000.
    let last: Vec<&str> = many.clone().chain(["gates/tpot.toml"]).collect();
    let first: Vec<&str> = ["gates/tpot.toml"].into_iter().chain(many).collect();
    for (files, part) in [
        (last, "GitHub lists 3000 of this pull request's 3101 files"),
        (first, "this pull request changes gates/"),
    ] {
        let (site, fake) = (Site::new(&record()), github());
        fake.state().open_pull(12, "ada", false, &files);
        fake.state().pull(12).head_sha = HEAD.into();
        report(&site, &fake, &[]).expect(0);
        let body = fake.state().comments[0].body.clone();
        assert!(body.contains(part), "`{part}` is missing in:\n{body}");
    }
}

#[test]
fn the_longest_comment_is_one_that_github_takes() {
    let site = with_failing_checks(300);
    let fake = github();
    report(&site, &fake, &[]).expect(1);
    let state = fake.state();
    assert!(
        state.comments[0].body.len() > 20_000 && state.comments[0].body.contains("Left out, since")
    );
}

#[test]
fn what_an_inconclusive_result_comes_to_is_the_projects_word() {
    for (word, conclusion) in [("failure", "failure"), ("neutral", "neutral")] {
        let (site, fake) = (Site::new(&noisy()), github());
        let config = site.main.read("gates/gate.toml");
        site.main.write(
            "gates/gate.toml",
            &format!("{config}\n[github]\ninconclusive = \"{word}\"\n"),
        );
        report(&site, &fake, &[]).expect(3);
        assert_eq!(fake.state().check_runs[0]["conclusion"], conclusion);
    }
}
