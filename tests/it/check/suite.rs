//! A project's own tests as a gate: what passes, what is named, and what never passes by not running.

use fixture::{Ended, Project};
use std::fs;

const GATE: &str = r#"
title = "The project's own tests"

[workload.tests]
kind = "command"
command = ["bash", "tests.sh", "{junit}", "{port}", "{artifact}"]
env = { BASE_URL = "{url}/v1" }
junit = "{target}/reports/junit.xml"
timeout = "30 s"

[[check]]
name = "failed"
metric = "failed_tests"
rule = "ceiling"
limit = "1 cases"

[[check]]
name = "broken"
metric = "broken_tests"
rule = "ceiling"
limit = "0 cases"
"#;

/// A suite that writes these tests, each `name` or `name:failure` or `name:skipped`, and ends as runners do.
fn suite(tests: &[&str]) -> String {
    let case = |test: &&str| match test.split_once(':') {
        None => format!("<testcase classname=\"api\" name=\"{test}\"/>"),
        Some((name, how)) => format!(
            "<testcase classname=\"api\" name=\"{name}\"><{how} message=\"1 != 2\"/></testcase>"
        ),
    };
    let cases: String = tests.iter().map(case).collect();
    let status = i32::from(tests.iter().any(|test| test.contains(":failure")));
    format!(
        "set -e\n[ -x \"$3\" ]\n[ \"$BASE_URL\" = \"http://127.0.0.1:$2/v1\" ]\n[ -z \"$GITHUB_TOKEN\" ]\n\
         exec 3<>\"/dev/tcp/127.0.0.1/$2\"\nprintf 'GET /v1/models HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n' >&3\n\
         head -1 <&3\nmkdir -p \"$(dirname \"$1\")\"\n\
         echo '<testsuites><testsuite name=\"s\">{cases}</testsuite></testsuites>' > \"$1\"\nexit {status}\n"
    )
}

/// Base has this suite, the branch that is checked out the other one.
fn project(base: &str, head: &str) -> Project {
    let project = Project::with_commits();
    project.write("gates/tests.toml", GATE);
    project.write("tests.sh", base);
    project.commit("tests");
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.write("flags", "# changed");
    project.write("tests.sh", head);
    project.commit("a change");
    project
}

fn check(project: &Project) -> Ended {
    let arguments = [
        "check",
        "--gate",
        "tests",
        "--head",
        "HEAD",
        "--out",
        "result",
        "--verbose",
    ];
    let mut command = project.command(&arguments);
    command.env("GITHUB_TOKEN", "secret");
    Ended::of(&command.output().unwrap())
}

#[track_caller]
fn shows(ended: &Ended, parts: &[&str]) {
    // The report breaks its lines.
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let text = words.join(" ");
    for part in parts {
        assert!(
            text.contains(part),
            "`{part}` is missing in:\n{}\n{}",
            ended.stdout,
            ended.stderr
        );
    }
}

#[test]
fn tests_that_hold_pass_beside_an_engine_that_answers() {
    let project = project(
        &suite(&["a", "old:failure"]),
        &suite(&["a", "old:failure", "new"]),
    );
    let ended = check(&project).expect(0);
    shows(
        &ended,
        &["1 test fails in base too: api::old", "broken tests 0 cases"],
    );
    // One launch of each arm tells it; their tests are in the record, their output beside it.
    let record: serde_json::Value = serde_json::from_str(&project.read("result/run.json")).unwrap();
    let launches = record["launches"].as_array().unwrap();
    assert_eq!(launches.len(), 2);
    for launch in launches {
        let run = &launch["suites"][0];
        assert_eq!(run["workload"], "tests/tests");
        assert_eq!(run["tests"][1]["outcome"], "failed");
        let log = project.read(&format!("result/{}", run["log"].as_str().unwrap()));
        assert!(log.contains("HTTP/1.1 200 OK"), "{log}");
        assert_eq!(launch["exit"]["how"], "stopped");
    }
    project.run(&["report", "result"]).expect(0);
}

/// It may loosen its own limits: in CI main's gates count, here this tree's.
#[test]
fn a_change_of_gates_is_told() {
    let project = project(&suite(&["a"]), &suite(&["a"]));
    let told = "this tree's gates are used, not base's";
    let unchanged = check(&project).expect(0);
    assert!(!unchanged.stderr.contains(told), "{}", unchanged.stderr);
    project.edit(
        "gates/tests.toml",
        "limit = \"0 cases\"",
        "limit = \"9 cases\"",
    );
    fs::remove_dir_all(project.path("result")).unwrap();
    let changed = check(&project).expect(0);
    let said = format!("{told}: gates/tests.toml changed");
    assert!(changed.stderr.contains(&said), "{}", changed.stderr);
    // Whoever reads the verdict elsewhere knows it too.
    let named = "gates differ from base's: gates/tests.toml; judged by the working tree's";
    shows(&changed, &[named]);
    let markdown = project.read("result/report.md");
    let page = project.read("result/report.html");
    assert!(
        markdown.contains("gates/tests.toml; judged by"),
        "{markdown}"
    );
    assert!(page.contains("tests.toml; judged by"), "{page}");
    let comment = project.run(&["report", "result", "--format", "comment"]);
    let comment = comment.expect(0).stdout;
    assert!(
        comment.contains("; judged by the working tree"),
        "{comment}"
    );
    assert!(
        !unchanged.stdout.contains("gates differ"),
        "{}",
        unchanged.stdout
    );
}

#[test]
fn tests_that_passed_in_base_are_named() {
    let base = suite(&["a", "b", "c", "d", "old:failure"]);
    let head = suite(&["a", "b:failure", "c:skipped", "old:failure", "new:failure"]);
    let project = project(&base, &head);
    let ended = check(&project).expect(1);
    shows(
        &ended,
        &[
            "broken tests 3 cases",
            "· api::b fails (1 != 2)",
            "· api::c is skipped",
            "· api::d is missing",
            "failed tests 3 cases (base 1 case)",
            "1 test fails in base too: api::old",
        ],
    );
    let verdict = fs::read(project.path("result/verdict.json")).unwrap();
    let judged = project.run(&["report", "result"]).expect(1);
    assert_eq!(judged.stdout, ended.stdout);
    assert_eq!(
        fs::read(project.path("result/verdict.json")).unwrap(),
        verdict
    );
}

#[test]
fn a_suite_that_runs_no_test_is_never_green() {
    let sound = suite(&["a"]);
    for (head, code, said) in [
        (suite(&[]), 4, "no test ran"),
        (
            suite(&["a:skipped"]),
            4,
            "no test ran ({target}/reports/junit.xml, 1 skipped)",
        ),
        (
            "exit 0".to_owned(),
            4,
            "the command succeeded, and its JUnit file {target}/reports/junit.xml was not written",
        ),
        (
            sound.replace("</testsuites>", ""),
            4,
            "ends within an element",
        ),
        (
            format!("{sound}mv \"$1\" \"$TMPDIR/x\" && ln -s \"$TMPDIR/x\" \"$1\"")
                .replace("exit 0", ""),
            4,
            "cannot be read",
        ),
        (
            "echo '::error::mine'; exit 3".to_owned(),
            1,
            "the command failed (exit status: 3)",
        ),
        // Its tests pass, and it fails after them.
        (
            sound.replace("exit 0", "exit 7"),
            1,
            "the command failed (exit status: 7)",
        ),
    ] {
        let project = project(&sound, &head);
        let ended = check(&project).expect(code);
        shows(&ended, &[said]);
        for stream in [&ended.stdout, &ended.stderr] {
            assert!(
                !stream.lines().any(|line| line.starts_with("::")),
                "{stream}"
            );
        }
        if head.contains("mine") {
            shows(&ended, &["tests/tests: exit status: 3", "::error::mine"]);
        }
    }
    // Base's own trouble is not head's.
    let ended = check(&project("exit 3", &sound)).expect(4);
    shows(
        &ended,
        &["in base (launch ", "nothing passed that head could break"],
    );
}

/// Whoever runs the suite was killed: neither a test that failed before explains that, nor is what base did not get to
/// unbroken.
#[test]
fn a_suite_that_was_cut_off_is_no_sound_one() {
    let with = |tests: &[&str], end: &str| suite(tests).replace("exit 1", end);
    let old = suite(&["a", "old:failure"]);
    let crashes = with(&["a", "old:failure"], "kill -SEGV $$");
    let ended = check(&project(&old, &crashes)).expect(1);
    let parts = [
        "broken tests 1 case",
        "the command failed (signal: 11 (SIGSEGV))",
    ];
    shows(&ended, &parts);
    let limited = with(&["a", "old:failure"], "timeout 1 sleep 1000");
    let ended = check(&project(&old, &limited)).expect(1);
    let why = "the command failed (exit status: 124) and was cut off";
    shows(&ended, &["broken tests 1 case", why]);
    let breaks = suite(&["a", "old:failure", "b:failure"]);
    for (base, said) in [
        (crashes, "(signal: 11 (SIGSEGV)); what it did not get to"),
        (
            with(&["a", "old:failure"], "sleep 1000"),
            "(`timeout`) and was killed; what it did not get to",
        ),
    ] {
        let project = project(&base, &breaks);
        project.edit("gates/tests.toml", "\"30 s\"", "\"5 s\"");
        project.edit(
            "gates/tests.toml",
            "limit = \"1 cases\"",
            "limit = \"9 cases\"",
        );
        shows(&check(&project).expect(4), &[said]);
    }
}

/// A name that ends like a number of ours, and a disabled test of GoogleTest.
#[test]
fn no_test_hides_behind_another_one() {
    let sound = suite(&["u (2)", "u", "u"]);
    let hidden = suite(&["u (2):failure", "u", "u"]);
    let ended = check(&project(&sound, &hidden)).expect(1);
    shows(&ended, &["broken tests 1 case", "api::u (2) fails"]);
    let run = suite(&["a"]);
    let disabled = run.replace(
        "name=\"a\"",
        "name=\"a\" status=\"notrun\" result=\"suppressed\"",
    );
    let ended = check(&project(&run, &disabled)).expect(4);
    shows(
        &ended,
        &["no test ran ({target}/reports/junit.xml, 1 skipped)"],
    );
}

#[test]
fn a_suite_that_hangs_is_killed_with_all_that_it_started() {
    let hangs = format!(
        "{}setsid sleep 1000 &\nsleep 1000 &\nwait\n",
        suite(&["a"]).replace("exit 0", "")
    );
    let project = project(&suite(&["a"]), &hangs);
    project.edit("gates/tests.toml", "\"30 s\"", "\"5 s\"");
    let ended = check(&project).expect(1);
    shows(
        &ended,
        &["the command took longer than 5 s (`timeout`) and was killed"],
    );
    assert_eq!(project.leftovers(), [0; 0]);
}

/// Without a JUnit file the command is the one test. Both arms run it in the working tree where nothing is built.
#[test]
fn an_exit_status_is_a_test_too() {
    let project = Project::without_build();
    let gate = GATE.replace("junit = \"{target}/reports/junit.xml\"\n", "");
    for (command, code, said) in [
        (r#"["sh", "-c", "true"]"#, 0, "broken tests 0 cases"),
        (
            r#"["sh", "-c", "echo why; exit 9"]"#,
            4,
            "the command failed (exit status: 9); nothing passed",
        ),
        (
            r#"["no-such-program"]"#,
            4,
            "the command did not start: cannot start `no-such-program`",
        ),
    ] {
        let from = r#"["bash", "tests.sh", "{junit}", "{port}", "{artifact}"]"#;
        project.write("gates/tests.toml", &gate.replace(from, command));
        let ended = project
            .run(&["check", "--gate", "tests", "--same-build", "--verbose"])
            .expect(code);
        shows(&ended, &[said]);
    }
}

/// The launch that was cut off is measured again, its tests too.
#[test]
fn a_session_that_was_killed_in_its_tests_goes_on() {
    let waits = "while [ ! -e \"$ROOT/go\" ]; do touch \"$ROOT/waits\"; sleep 0.05; done\n";
    let suite = format!("{waits}{}", suite(&["a"]));
    let project = project(&suite, &suite);
    project.without_sandbox();
    let root = format!("env = {{ ROOT = {:?}, ", project.path(""));
    project.edit("gates/tests.toml", "env = { ", &root);
    let arguments = [
        "check",
        "--gate",
        "tests",
        "--head",
        "HEAD",
        "--out",
        "result",
        "--verbose",
    ];
    let mut gate = project.command(&arguments).spawn().unwrap();
    while !project.path("waits").exists() {
        assert_eq!(gate.try_wait().unwrap(), None, "it ended before its tests");
        std::thread::sleep(fixture::TICK);
    }
    gate.kill().unwrap();
    gate.wait().unwrap();
    project.write("go", "");
    let resume = ["check", "--resume", "result", "--head", "HEAD"];
    project.run(&resume).expect(0);
    let record: serde_json::Value = serde_json::from_str(&project.read("result/run.json")).unwrap();
    let launches = record["launches"].as_array().unwrap();
    let runs: Vec<usize> = launches
        .iter()
        .map(|launch| launch["suites"].as_array().unwrap().len())
        .collect();
    assert_eq!(runs, [1, 1]);
    // Every command reads such a session.
    for command in ["report", "explain"] {
        let mut arguments = vec![command, "result"];
        arguments.extend((command == "explain").then_some("tests/broken"));
        project.run(&arguments).expect(0);
    }
    project
        .run(&["shard", "plan", "--gate", "tests", "--shards", "2"])
        .expect(0);
}

#[test]
fn a_suite_without_base_says_what_to_compare_with() {
    let project = project(&suite(&["a"]), &suite(&["a"]));
    project.git(&["checkout", "--quiet", "main"]);
    project
        .run(&["baseline", "record", "--gate", "tests"])
        .expect(0);
    project.git(&["checkout", "--quiet", "change"]);
    let ended = project
        .run(&["check", "--gate", "tests", "--base", "stored"])
        .expect(4);
    shows(&ended, &["compare with a commit (--base REF)"]);
}

#[test]
fn what_cannot_run_is_refused_at_its_place() {
    for (from, to, said) in [
        (
            "[\"bash\", \"tests.sh\", \"{junit}\", \"{port}\", \"{artifact}\"]",
            "[]",
            "`command` is empty",
        ),
        (
            "\"{target}/reports/junit.xml\"",
            "\"../junit.xml\"",
            "`junit` must name a file in the tree",
        ),
        (
            "junit = \"{target}/reports/junit.xml\"\n",
            "",
            "`{junit}` needs `junit = \"PATH\"`",
        ),
        ("timeout = \"30 s\"\n", "", "timeout"),
        (
            "metric = \"broken_tests\"",
            "metric = \"ttft\"",
            "`ttft` cannot be measured on the workload `tests/tests`",
        ),
        (
            "metric = \"broken_tests\"\nrule = \"ceiling\"\nlimit = \"0 cases\"",
            "metric = \"broken_tests\"\nrule = \"regression\"\nmargin = \"1 %\"\nceiling = \"2 %\"",
            "`broken_tests` has no relative change",
        ),
        ("", "", "`{artifact}` needs a table `engine.build`"),
    ] {
        let project = Project::without_build();
        project.write("gates/tests.toml", &GATE.replacen(from, to, 1));
        project
            .run(&["shard", "plan", "--gate", "tests"])
            .expect(2)
            .says(&[said, "gates/tests.toml:"]);
    }
}
