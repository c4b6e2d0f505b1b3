//! How a verdict is printed: colours, what to do next, and what GitHub's runner is told.

use super::records::{record, regressed};
use fixture::{Ended, gate};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A result directory with this record.
fn results(record: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.json"), record.to_string()).unwrap();
    folder
}

fn judge(folder: &TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let path = folder.path().to_str().unwrap();
    let arguments = [&["report", path], arguments].concat();
    let mut command = gate(&arguments);
    command.env_remove("GITHUB_STEP_SUMMARY");
    command.envs(environment.iter().copied());
    Ended::of(&command.output().unwrap())
}

#[test]
fn colours_are_for_terminals_or_who_asks() {
    let folder = results(&regressed());
    let red = "\u{1b}[1m\u{1b}[31mfail";
    for (arguments, environment, is_coloured) in [
        (&[][..], &[][..], false),
        (&["--color", "always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
    ] {
        let ended = judge(&folder, arguments, environment).expect(1);
        assert_eq!(ended.stdout.contains(red), is_coloured, "{arguments:?}");
    }
}

#[test]
fn a_red_verdict_says_what_to_do_next() {
    let folder = results(&regressed());
    let path = folder.path().display();
    let ended = judge(&folder, &[], &[]).expect(1);
    let last: Vec<&str> = ended.stdout.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [
            format!("report        file://{path}/report.html"),
            format!("why           gate explain {path}"),
        ]
    );
    // Why a check passed is said where somebody asks.
    let why = "tpot/ceiling: TPOT";
    assert!(!ended.stdout.contains(why), "{}", ended.stdout);
    let verbose = judge(&folder, &["--verbose"], &[]).expect(1);
    assert!(verbose.stdout.contains(why), "{}", verbose.stdout);
    // What was cut off can go on.
    let mut cut = record();
    cut["ending"] = json!({"why": "interrupted"});
    cut["launches"].as_array_mut().unwrap().truncate(2);
    let folder = results(&cut);
    let go_on = format!("gate check --resume {}", folder.path().display());
    let ended = judge(&folder, &[], &[]).expect(3);
    assert!(ended.stdout.contains(&go_on), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nINTERRUPTED"), "{}", ended.stdout);
    // `--resume` refuses a session that its budget ended.
    cut["ending"] = json!({"why": "budget"});
    let folder = results(&cut);
    let ended = judge(&folder, &[], &[]).expect(3);
    assert!(!ended.stdout.contains("--resume"), "{}", ended.stdout);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let folder = results(&record());
    let loud = judge(&folder, &["--format", "json"], &[]).expect(0);
    assert!(loud.stderr.starts_with("results: "), "{}", loud.stderr);
    let quiet = judge(&folder, &["--format", "json", "--quiet"], &[]).expect(0);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout), ("", loud.stdout));
    let wrong = gate(&["-q", "report", "nowhere"]).output().unwrap();
    let wrong = Ended::of(&wrong).expect(2);
    assert!(wrong.stderr.starts_with("error: "), "{}", wrong.stderr);
}

/// In a job of one's own, without `gate github publish`.
#[test]
fn a_job_on_github_gets_annotations_and_a_summary() {
    let folder = results(&regressed());
    let summary = folder.path().join("summary.md");
    let environment = [("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())];
    let ended = judge(&folder, &[], &environment).expect(1);
    let commands: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("::"))
        .collect();
    assert_eq!(commands.len(), 1, "{}", ended.stdout);
    let begin = "::error file=gates/tpot.toml,line=1,title=tpot/regression%3A fail::TPOT ";
    assert!(commands[0].starts_with(begin), "{}", commands[0]);
    let summary = fs::read_to_string(&summary).unwrap();
    assert!(summary.contains("## ❌ Fail: Decoding is "), "{summary}");
    // An engine's words are no command of the runner's.
    let mut hostile = regressed();
    let text = "a\n::error::b";
    hostile["launches"][7]["exit"] = json!({"how": "crashed", "detail": text, "log_tail": text});
    let ended = judge(&results(&hostile), &[], &environment).expect(1);
    assert!(!ended.stdout.contains("\n::error::b"), "{}", ended.stdout);
}

/// A secret in quotes is shown without them, so that what follows would be the shell's.
#[test]
fn no_command_is_shown_in_part() {
    let mut slower = regressed();
    let words = slower["builds"][1]["command"].as_array_mut().unwrap();
    words.extend(["bearer", ";touch pwned #"].map(|word| json!(word)));
    let folder = results(&slower);
    for form in ["html", "comment"] {
        let text = judge(&folder, &["--format", form], &[]).expect(1).stdout;
        assert!(!text.contains("--head-arg"), "{form}: {text}");
    }
}

#[test]
fn the_value_of_an_option_for_a_secret_is_shown_nowhere() {
    let mut slower = regressed();
    let words = slower["builds"][1]["command"].as_array_mut().unwrap();
    words.extend(["--api-key=hunter2-internal", "--hf-token", "hunter2"].map(|word| json!(word)));
    let folder = results(&slower);
    for form in ["text", "markdown", "html", "comment"] {
        let text = judge(&folder, &["--format", form], &[]).expect(1).stdout;
        assert!(!text.contains("hunter2"), "{form}: {text}");
        assert!(text.contains("--api-key=FILL-IN"), "{form}: {text}");
    }
}

#[test]
fn the_command_that_measures_again_has_the_arms_own_arguments() {
    let mut slower = regressed();
    let builds = slower["builds"].as_array_mut().unwrap();
    let words = builds[1]["command"].as_array_mut().unwrap();
    words.extend(["--fault", "decode-delay=60%", "it's"].map(|word| json!(word)));
    let folder = results(&slower);
    for form in ["html", "comment"] {
        let text = judge(&folder, &["--format", form], &[]).expect(1).stdout;
        let text = text.replace("&#x27;", "'").replace("&#x2f;", "/");
        let again = r"--head-arg=--fault --head-arg=decode-delay=60% '--head-arg=it'\''s'";
        assert!(text.contains(again), "{form}: {text}");
    }
}
