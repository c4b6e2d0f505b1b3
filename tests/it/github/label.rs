//! `gate github label` through the binary: labels by paths, and the run that it starts.

use super::job::{Job, event};
use fixture::github::{Ill, Run, Trouble, sha};
use fixture::{Ended, repository};
use serde_json::json;

const NEEDS: &str = "needs-gpu";

#[test]
fn paths_bring_the_label_and_the_bot_starts_the_run_itself() {
    let job = Job::with_pull("ada", false, &["docs/a.md", "src/lib.rs", "src/b.md"]);
    let ended = job.label_on("opened", None, "ada").expect(0);
    assert!(
        ended.stdout.contains("add label `needs-gpu`: src/lib.rs\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("start `gate.yml`"),
        "{}",
        ended.stdout
    );
    assert_eq!(job.labels(), [NEEDS]);
    let inputs =
        json!({"pr": "12", "head_sha": sha(12), "gates": "e2e e2e-hybrid prefill-drift tpot"});
    assert_eq!(job.started(), [inputs]);
    let state = job.fake.state();
    assert_eq!(state.dispatches[0]["ref"], "main");
    assert_eq!(state.dispatches[0]["workflow"], "gate.yml");
    drop(state);
    let outputs = job.outputs();
    assert_eq!(outputs["pr"], "12");
    assert_eq!(outputs["needed"], "true");
    assert_eq!(outputs["started"], "true");
    assert_eq!(outputs["reason"], "");
    assert_eq!(outputs["head_sha"], sha(12));
}

#[test]
fn the_same_commit_is_started_once() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.label_on("opened", None, "ada").expect(0);
    // Both events fire where a pull request is opened with a label.
    job.label_on("labeled", Some("bug"), "ada").expect(0);
    let ended = job.label_on("reopened", None, "ada").expect(0);
    assert!(
        ended.stdout.contains("has its run already"),
        "{}",
        ended.stdout
    );
    assert_eq!(job.started().len(), 1);
    job.push(13);
    job.label_on("synchronize", None, "ada").expect(0);
    assert_eq!(job.started().len(), 2);
    assert_eq!(job.started()[1]["head_sha"], sha(13));
}

#[test]
fn runs_of_superseded_commits_are_cancelled() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let run = |id, number: u64, head: u64, status: &str| Run {
        id,
        title: format!("pull request #{number} at {}", sha(head)),
        status: status.into(),
    };
    let mut state = job.fake.state();
    state.runs = vec![
        run(1, 12, 11, "completed"),
        run(2, 12, 11, "in_progress"),
        run(3, 12, 10, "queued"),
        run(4, 1, 11, "in_progress"),
        run(5, 12, 12, "in_progress"),
    ];
    state.runs.push(Run {
        title: format!("merge queue #12 at {}", sha(11)),
        ..run(6, 12, 11, "in_progress")
    });
    drop(state);
    let cancelled = || -> Vec<u64> {
        let mut asked = job.fake.asked().into_iter();
        let mut ids = Vec::new();
        for request in asked.by_ref() {
            let id = request.strip_suffix("/cancel");
            ids.extend(id.and_then(|id| id.rsplit('/').next()?.parse::<u64>().ok()));
        }
        ids
    };
    // The live head has its run already: that one goes on.
    let started = "infergate/started/12";
    job.label_on("opened", None, "ada").expect(0);
    assert_eq!(job.statuses(started).len(), 1);
    assert_eq!(
        cancelled(),
        [5, 3, 2],
        "a new run makes the one before it worthless"
    );
    job.fake.state().runs = vec![run(7, 12, 11, "queued"), run(8, 12, 12, "queued")];
    let ended = job.label_on("edited", None, "ada").expect(0);
    assert!(ended.stdout.contains("cancel run 7"), "{}", ended.stdout);
    assert_eq!(cancelled(), [5, 3, 2, 7]);
    // One that ends meanwhile, or cannot be cancelled, keeps nothing from its run.
    job.push(13);
    job.fake.state().runs = vec![run(9, 12, 12, "queued")];
    job.fake.plant(Trouble {
        method: "POST",
        path: "/cancel",
        times: 1,
        ill: Ill::Status(500, "Server Error", vec![]),
    });
    let ended = job.label_on("synchronize", None, "ada").expect(0);
    ended.says(&["run 9 goes on", "500"]);
    assert_eq!(job.started().len(), 2);
}

#[test]
fn the_bot_knows_the_workflows_runs_by_their_name() {
    let file = std::fs::read_to_string(repository().join(".github/workflows/gate.yml")).unwrap();
    assert!(file.contains("#${{ inputs.pr }} at ${{ inputs.head_sha }}"));
    // A re-run of an old head is in another group than the live head's run.
    let (_, concurrency) = file.split_once("\nconcurrency:\n").unwrap();
    let group = concurrency.lines().next().unwrap();
    for part in ["inputs.pr", "inputs.head_sha", "github.sha"] {
        assert!(group.contains(part), "{group}");
    }
}

#[test]
fn another_list_of_gates_is_another_run() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.label_on("opened", None, "ada").expect(0);
    let gates = "gates = [\"e2e\", \"e2e-hybrid\", \"prefill-drift\", \"tpot\"]\n";
    let text = job.project.read("gates/gate.toml");
    let at = text.rfind(gates).unwrap();
    job.project.write(
        "gates/gate.toml",
        &format!("{}gates = [\"tpot\"]\n", &text[..at]),
    );
    job.label_on("reopened", None, "ada").expect(0);
    assert_eq!(job.started()[1]["gates"], "tpot");
}

#[test]
fn another_base_is_another_run() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let bases = "workflow = \"gate.yml\"\nbases = [\"release/*\"]";
    job.project
        .edit("gates/gate.toml", "workflow = \"gate.yml\"", bases);
    // Also back again: the newest verdict is against the branch between.
    for (branch, runs) in [("main", 1), ("release/1", 2), ("release/1", 2), ("main", 3)] {
        job.fake.state().pull(12).base_branch = branch.into();
        job.label_on("edited", None, "ada").expect(0);
        assert_eq!(job.started().len(), runs, "{branch}");
    }
}

#[test]
fn two_pull_requests_of_one_commit_have_a_run_each() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let bases = "workflow = \"gate.yml\"\nbases = [\"release/*\"]";
    job.project
        .edit("gates/gate.toml", "workflow = \"gate.yml\"", bases);
    let mut state = job.fake.state();
    state.open_pull(14, "ada", false, &["src/lib.rs"]);
    state.pull(14).head_sha = sha(12);
    state.pull(14).base_branch = "release/1".into();
    drop(state);
    for number in ["12", "14", "12", "14"] {
        job.run(&["github", "label", "--pr", number]).expect(0);
    }
    let started = job.started();
    let of: Vec<_> = started.iter().map(|run| &run["pr"]).collect();
    assert_eq!(of, ["12", "14"]);
}

#[test]
fn the_label_goes_when_no_path_needs_it() {
    let job = Job::with_pull("ada", false, &["README.md"]);
    job.add_label_by("Needs-GPU", "github-actions[bot]");
    job.add_label("bug");
    let ended = job.label_on("synchronize", None, "ada").expect(0);
    assert!(
        ended
            .stdout
            .contains("remove label `needs-gpu`: no path needs it"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("no path needs a gate"),
        "{}",
        ended.stdout
    );
    assert_eq!(job.labels(), ["bug"], "others' labels are left alone");
    assert!(job.started().is_empty());
    assert_eq!(job.outputs()["needed"], "false");
}

#[test]
fn a_rename_counts_with_both_its_paths() {
    let job = Job::with_pull("ada", false, &[]);
    let renamed = ("docs/old.rs".to_owned(), Some("src/old.rs".to_owned()));
    job.fake.state().pull(12).files = vec![renamed];
    job.label_on("opened", None, "ada").expect(0);
    assert_eq!(job.labels(), [NEEDS]);
}

#[test]
fn what_is_not_all_listed_needs_everything() {
    // GitHub ends its list at 300; and a list may be short for other reasons.
    for (listed, told) in [(300, None), (301, None), (2, Some(3))] {
        let job = Job::with_pull("ada", false, &vec!["docs/a"; listed]);
        job.fake.state().pull(12).changed_files = told;
        let ended = job.label_on("opened", None, "ada").expect(0);
        assert!(
            ended.stdout.contains("does not list all"),
            "{}",
            ended.stdout
        );
        assert_eq!(job.labels(), [NEEDS]);
    }
}

#[test]
fn a_push_in_between_proves_nothing_about_the_commit_before() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let mut state = job.fake.state();
    // The head moves once it was read, and what the pull request lists from then on are docs.
    let former = std::mem::replace(&mut state.pull(12).files, vec![("a.md".into(), None)]);
    state.former.insert(sha(12), former);
    state.moves = Some((12, 1, sha(13)));
    drop(state);
    job.label_on_event(&event("synchronize", None, "ada", &sha(12)))
        .expect(0);
    let outputs = job.outputs();
    assert_eq!(outputs["needed"], "true");
    assert_eq!(outputs["head_sha"], sha(12));
    assert_eq!(job.started()[0]["head_sha"], sha(12));
    // The newer head's own event says what that one needs.
    job.label_on("synchronize", None, "ada").expect(0);
    let outputs = job.outputs();
    assert_eq!(outputs["needed"], "false");
    assert_eq!(outputs["head_sha"], sha(13));
}

#[test]
fn a_closed_pull_request_is_left_alone() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.fake.state().pull(12).is_open = false;
    // As where the branch that it was into is gone.
    job.fake.plant(Trouble {
        method: "GET",
        path: "/compare/",
        times: 1,
        ill: Ill::Status(404, "Not Found", vec![]),
    });
    let ended = job.label_on("closed", None, "ada").expect(0);
    assert!(ended.stdout.contains("it is closed"), "{}", ended.stdout);
    assert!(job.labels().is_empty() && job.started().is_empty());
    let outputs = job.outputs();
    assert_eq!(
        [&outputs["needed"], &outputs["started"]],
        ["false", "false"]
    );
}

#[test]
fn a_deleted_fork_and_a_foreign_base_start_nothing() {
    for part in ["is gone", "neither the default branch"] {
        let job = Job::with_pull("ada", true, &["src/lib.rs"]);
        let mut state = job.fake.state();
        match part {
            "is gone" => state.pull(12).head_repository = None,
            _ => state.pull(12).base_branch = "feature/x".into(),
        }
        drop(state);
        let ended = job.label_on("opened", None, "ada").expect(0);
        assert!(ended.stdout.contains(part), "{}", ended.stdout);
        assert!(job.started().is_empty());
    }
}

#[test]
fn an_orphan_branch_starts_nothing_and_is_told() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    job.orphan();
    let ended = job.label_on("opened", None, "ada").expect(0);
    let part = "nothing is started: it has no commit in common with `main`";
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
    assert!(job.started().is_empty());
    let outputs = job.outputs();
    assert_eq!(outputs["needed"], "true");
    assert!(outputs["reason"].contains("rebase it onto that branch"));
}

#[test]
fn names_are_data() {
    let evil = "$(touch pwned);`touch pwned`\n::set-output name=authorized::true";
    let job = Job::with_pull("ada", false, &["src/\n::error::x.rs"]);
    let mut state = job.fake.state();
    state.pull(12).head_branch = evil.into();
    state.pull(12).title = evil.into();
    drop(state);
    let mut seen = event("opened", None, "ada", &sha(12));
    seen["pull_request"]["head"]["ref"] = json!(evil);
    let ended = job.label_on_event(&seen).expect(0);
    assert!(!ended.stdout.contains("touch"), "{}", ended.stdout);
    let is_command = |line: &str| line.trim_start().starts_with("::");
    assert!(!ended.stdout.lines().any(is_command), "{}", ended.stdout);
    assert!(!job.project.path("pwned").exists());
    assert_eq!(job.started()[0]["head_sha"], sha(12));
}

#[test]
fn without_rules_every_path_needs_the_profiles_gates() {
    let job = Job::with_pull("ada", false, &["docs/a.md"]);
    let config = job.project.read("gates/gate.toml");
    let (without, _) = config.split_once("\n[[label]]").unwrap();
    job.project.write("gates/gate.toml", without);
    job.label_on("opened", None, "ada").expect(0);
    let inputs = json!({"pr": "12", "head_sha": sha(12), "gates": ""});
    assert_eq!(job.started(), [inputs]);
    assert_eq!(job.outputs()["needed"], "true");
    assert!(job.labels().is_empty());
}

#[test]
fn dry_runs_do_nothing() {
    let job = Job::with_pull("ada", false, &["src/lib.rs"]);
    let ended = job
        .run(&["github", "label", "--pr", "12", "--dry-run"])
        .expect(0);
    assert!(ended.stdout.contains("--dry-run"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("add label `needs-gpu`"),
        "{}",
        ended.stdout
    );
    assert!(
        job.fake
            .asked()
            .iter()
            .all(|request| request.starts_with("GET ") || request == "POST /graphql")
    );
    assert_eq!(job.outputs()["started"], "false");
    // By hand and for good.
    job.run(&["github", "label", "--pr", "12"]).expect(0);
    assert_eq!(job.started().len(), 1);
}

#[test]
fn files_that_the_build_reads_need_a_run() {
    for path in [
        "build.rs",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "scripts/replay",
        ".github/workflows/gate.yml",
    ] {
        let job = Job::with_pull("ada", false, &[path]);
        job.label_on("opened", None, "ada").expect(0);
        assert_eq!(job.labels(), [NEEDS], "{path}");
        assert_eq!(job.started().len(), 1, "{path}");
    }
}

#[test]
fn what_would_this_branch_need() {
    let project = fixture::Project::with_commits();
    project.git(&["switch", "--quiet", "--create", "topic"]);
    let ended = project.run(&["github", "label", "--diff"]).expect(0);
    assert!(
        ended.stdout.contains("no labels: no path needs a gate"),
        "{}",
        ended.stdout
    );
    project.write("Cargo.toml", "");
    project.commit("second");
    // A new file that is not committed yet counts too.
    project.write("gates/new.toml.md", "");
    project.write("Cargo.lock", "");
    let ended = project
        .run(&["github", "label", "--diff", "main"])
        .expect(0);
    insta::assert_snapshot!(ended.stdout.split_once('\n').unwrap().1, @r"
    label `needs-gpu`, for 2 paths:
      Cargo.toml
      Cargo.lock
    gates: e2e, e2e-hybrid, prefill-drift, tpot
    ");
    project
        .run(&["github", "label", "--diff", "nosuch"])
        .expect(2)
        .says(&["unknown commit `nosuch`"]);
}

/// By what the remote calls it, else by the usual names.
#[test]
fn the_default_branch_is_found_whatever_its_name() {
    let project = fixture::Project::with_commits();
    project.git(&["branch", "--move", "master"]);
    project.write("flags", "--threads 1");
    let shown = |project: &fixture::Project| project.run(&["github", "label", "--diff"]);
    assert!(shown(&project).expect(0).stdout.contains("  flags\n"));
    // What master has already is no change; to trunk it is one.
    project.git(&["branch", "trunk"]);
    project.commit("one thread");
    assert!(!shown(&project).expect(0).stdout.contains("  flags\n"));
    project.git(&["update-ref", "refs/remotes/origin/trunk", "trunk"]);
    project.git(&[
        "symbolic-ref",
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/trunk",
    ]);
    assert!(shown(&project).expect(0).stdout.contains("  flags\n"));
    // A pull request's job names the branch that it is for, which need not be the default one.
    let into = |branch: &str| {
        let mut shown = project.command(&["github", "label", "--diff"]);
        shown.env("GITHUB_BASE_REF", branch);
        shown.env("GITHUB_REPOSITORY", "Owner/engine");
        Ended::of(&shown.output().unwrap())
    };
    // Of another repository's pull request it says nothing.
    assert!(into("release").expect(0).stdout.contains("  flags\n"));
    let origin = "https://github.com/owner/engine.git";
    project.git(&["remote", "add", "origin", origin]);
    into("release")
        .expect(2)
        .says(&["origin/release", "fetch-depth: 0"]);
    let head = ["update-ref", "refs/remotes/origin/release", "HEAD"];
    project.git(&head);
    assert!(!into("release").expect(0).stdout.contains("  flags\n"));
}
