//! Bad input to `gate check` and `gate report`: each gives a message that names the place, the cause and the
//! remedy, the documented exit code, and starts nothing.

mod budget;
mod never;
mod records;
mod waivers;

use fixture::Project;

/// Edits one gate file and expects a refusal that says all of `parts`.
#[track_caller]
fn refuses(file: &str, from: &str, to: &str, parts: &[&str]) {
    let project = Project::without_build();
    project.edit(file, from, to);
    project.run(&["check"]).expect(2).says(parts);
    assert_eq!(project.leftovers(), [0; 0]);
}

const TPOT: &str = "gates/tpot.toml";
const CONFIG: &str = "gates/gate.toml";

#[test]
fn malformed_toml() {
    refuses(
        TPOT,
        "[workload.decode]",
        "[workload.decode",
        &["this is not TOML", "gates/tpot.toml:5"],
    );
}

#[test]
fn an_unknown_key_is_shown_with_its_caret_and_the_right_name() {
    let project = Project::without_build();
    project.edit(TPOT, "margin = \"1 %\"", "margn = \"1 %\"");
    let ended = project.run(&["check"]).expect(2);
    insta::assert_snapshot!(ended.stderr.trim_end(), @r#"
    error: unknown key `check[0].margn`
      --> gates/tpot.toml:21:1
       |
    21 | margn = "1 %"
       | ^^^^^
       |
       = help: did you mean `margin`?
    "#);
}

#[test]
fn a_missing_key_is_not_sought_under_the_name_of_another() {
    let project = Project::without_build();
    project.edit(CONFIG, "false_alarm = \"2 %\"", "");
    let ended = project.run(&["check"]).expect(2);
    assert!(!ended.stderr.contains("unknown key"), "{}", ended.stderr);
    ended.says(&["`errors.false_alarm` is missing", CONFIG, "^"]);
    // Mistyped it is still found.
    refuses(
        CONFIG,
        "false_alarm = \"2 %\"",
        "false_alrm = \"2 %\"",
        &[
            "unknown key `errors.false_alrm`",
            "did you mean `false_alarm`?",
        ],
    );
}

#[test]
fn a_value_for_a_profile_that_is_not_there() {
    refuses(
        TPOT,
        "requests = { quick = 100, full = 80 }",
        "requests = { quick = 100, fulll = 80 }",
        &[
            "`workload.decode.requests`: unknown profile `fulll`",
            "gates/tpot.toml:8",
            "^^^^^",
            "did you mean `full`?",
        ],
    );
    refuses(
        TPOT,
        "ceiling = { quick = \"5 %\", full = \"3 %\" }",
        "ceiling = { quick = \"5 %\", full = \"3 %\", weekly = \"2 %\" }",
        &["unknown profile `weekly`", "available: `quick`, `full`"],
    );
}

#[test]
fn names_that_no_report_can_show() {
    for name in ["", " ceiling", "two\\nlines", "bell\\u0007"] {
        refuses(
            TPOT,
            "name = \"ceiling\"",
            &format!("name = \"{name}\""),
            &[
                "`check[1].name` is no name",
                "gates/tpot.toml:",
                "^^",
                "at least one character",
            ],
        );
    }
}

#[test]
fn a_gate_file_that_no_argument_can_name() {
    for name in ["My Gate", "a,b"] {
        let project = Project::without_build();
        let tpot = project.read(TPOT);
        project.write(&format!("gates/{name}.toml"), &tpot);
        project.run(&["check"]).expect(2).says(&[
            &format!("\"{name}\" cannot be a gate's name"),
            &format!("gates/{name}.toml:1:1"),
            "^",
            "rename the file",
        ]);
        assert_eq!(project.leftovers(), [0; 0]);
    }
}

#[test]
fn names_with_unseen_characters_are_refused_with_the_character() {
    for (name, character) in [("my\u{202e}gate", "U+202E"), ("a\u{200b}", "U+200B")] {
        let project = Project::without_build();
        // Unreadable as a gate, and not read.
        project.write(&format!("gates/{name}.toml"), "[");
        project.run(&["check"]).expect(2).says(&[
            &format!("{name:?} cannot be a gate's name"),
            character,
            "rename the file",
        ]);
        let to = format!("name = \"{name}\"");
        let parts = ["`check[1].name` is no name", character];
        refuses(TPOT, "name = \"ceiling\"", &to, &parts);
    }
}

#[test]
fn the_line_of_a_refusal_steers_no_terminal() {
    for (from, to, shown) in [
        ("\"15 ms\"", "\"\u{202e}15 ms\"", "\\u{202e}15 ms"),
        ("\"15 ms\"", "\"15 ms\" # \u{1b}[2J", "\\u{1b}[2J"),
    ] {
        let project = Project::without_build();
        project.edit(TPOT, from, to);
        let ended = project.run(&["check"]).expect(2);
        let is_hidden = |c: char| c != '\n' && verdict::record::is_unseen(c);
        assert!(!ended.stderr.contains(is_hidden), "{:?}", ended.stderr);
        ended.says(&["gates/tpot.toml:", shown, "^"]);
    }
}

/// A pipe would be waited for, and a file elsewhere may be nobody's to show.
#[test]
fn gate_files_are_regular_files_of_the_project() {
    let project = Project::without_build();
    let pipe = project.path("gates/pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let check = |part: &str| {
        let ended = project.run(&["check", "--gate", "pipe"]).expect(2);
        assert!(!ended.stderr.contains("root:"), "{}", ended.stderr);
        ended.says(&["gates/pipe.toml", part]);
    };
    check("no regular file");
    std::fs::remove_file(&pipe).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &pipe).unwrap();
    check("leads out of the project");
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_duration_that_would_end_nothing() {
    let project = Project::without_build();
    project.edit(
        "gates/soak.toml",
        "arrivals = \"poisson\"\nrate = { quick = \"30 requests/s\", full = \"10 requests/s\" }",
        "concurrency = 4",
    );
    let ended = project.run(&["check", "--gate", "soak"]).expect(2);
    ended.says(&["a closed loop ends with its last request", "duration"]);
}

#[test]
fn impossible_units_and_numbers() {
    refuses(
        TPOT,
        "\"15 ms\"",
        "\"15 parsecs\"",
        &["`parsecs` is no unit of a time", "\"15 ms\"", "^^^"],
    );
    refuses(
        TPOT,
        "\"15 ms\"",
        "15",
        &["must be a string that holds a number and its unit"],
    );
    refuses(TPOT, "\"15 ms\"", "\"-3 ms\"", &["negative"]);
    refuses(
        TPOT,
        "concurrency = 1",
        "concurrency = 0",
        &["between 1 and 4096"],
    );
    refuses(
        TPOT,
        "concurrency = 1",
        "concurrency = 1.5",
        &["a whole number, not a decimal"],
    );
    refuses(
        CONFIG,
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [4, 4]",
        &["rising numbers of blocks"],
    );
    refuses(
        CONFIG,
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [2]",
        &["between 3 and 1000"],
    );
    refuses(
        CONFIG,
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [3]",
        &["the last of `looks` must be 4 blocks or more"],
    );
    refuses(
        CONFIG,
        "false_alarm = \"2 %\"",
        "false_alarm = \"80 %\"",
        &["above 0 % and below 50 %"],
    );
    refuses(
        CONFIG,
        "false_alarm = \"2 %\"",
        "false_alarm = \"0 %\"",
        &["`errors.false_alarm` must lie above 0 %", "^^^"],
    );
}

#[test]
fn rules_that_make_no_sense() {
    refuses(
        TPOT,
        "ceiling = { quick = \"5 %\", full = \"3 %\" }",
        "ceiling = \"1 %\"",
        &["must lie above the margin"],
    );
    refuses(
        TPOT,
        "requests = { quick = 100, full = 80 }",
        "requests = 10",
        &["needs 30 samples", "sends 10"],
    );
    refuses(
        TPOT,
        "requests = { quick = 100, full = 80 }",
        "requests = { full = 80 }",
        &["no value for the profile `quick`"],
    );
    refuses(
        "gates/prefill-drift.toml",
        "name = \"drift\"\nmetric = \"prefill_drift\"",
        "name = \"drift\"\nmetric = \"accuracy\"",
        &["cannot be measured on the workload"],
    );
    refuses(
        "gates/prefill-drift.toml",
        "name = \"drift\"\nmetric = \"prefill_drift\"",
        "name = \"drift\"\nmetric = \"prefill_drfit\"",
        &["did you mean `prefill_drift`?"],
    );
    refuses(
        "gates/tpot.toml",
        "\nconcurrency = ",
        "\nconcurency = ",
        &["unknown key", "did you mean `concurrency`?"],
    );
    refuses(
        "gates/e2e.toml",
        "limit = \"90 %\"",
        "limit = \"190 %\"",
        &["`accuracy` is a share", "^^^"],
    );
    refuses(
        "gates/e2e.toml",
        "workload = \"tasks\"",
        "workload = \"task\"",
        &["no workload `task`", "did you mean `tasks`?"],
    );
    refuses(
        "gates/e2e.toml",
        "data/tiny-qwen3/tasks.jsonl",
        "data/none.jsonl",
        &["cannot read `gates/data/none.jsonl`"],
    );
    refuses(
        "gates/e2e.toml",
        "data/tiny-qwen3/tasks.jsonl",
        "../../etc/passwd",
        &["leaves the folder"],
    );
    refuses(CONFIG, "\"{port}\"", "\"8000\"", &["never says `{port}`"]);
    let build =
        "[engine.build]\ncommand = [\"make\"]\nartifact = \"engine\"\ntimeout = \"1 min\"\n";
    let same = "never says `{artifact}`: head and base would both start the same program";
    refuses(
        CONFIG,
        "[profile.quick]",
        &format!("{build}\n[profile.quick]"),
        &[same, "as an argument"],
    );
}

#[test]
fn data_files_that_do_not_read() {
    let project = Project::without_build();
    project.write("gates/data/tiny-qwen3/tasks.jsonl", "{\"id\": 1}\n");
    project
        .run(&["check"])
        .expect(2)
        .says(&["tasks.jsonl", "line 1"]);
    project.write(
        "gates/data/tiny-qwen3/goldens.json",
        "{\"format\": \"x\", \"cases\": [], \"texts\": {}}",
    );
    project
        .run(&["check"])
        .expect(2)
        .says(&["its format is `x`"]);
}

#[test]
fn cases_that_no_answer_could_be_held_against() {
    let project = Project::without_build();
    let check = |file: &str, text: &str, parts: &[&str]| {
        let right = project.read(file);
        project.write(file, text);
        let ended = project.run(&["check", "--gate", "e2e"]).expect(2);
        ended.says(parts).says(&["gates/e2e.toml:", "^^^", file]);
        project.write(file, &right);
    };
    let tasks = "gates/data/tiny-qwen3/tasks.jsonl";
    let text = project.read(tasks);
    let twice = text.replacen("add-002", "add-000", 1);
    let parts = ["line 3: the id `add-000` is that of line 1", "of its own"];
    check(tasks, &twice, &parts);
    let goldens = "gates/data/tiny-qwen3/goldens.json";
    let text = project.read(goldens);
    let mut parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    parsed["cases"][4]["id"] = parsed["cases"][1]["id"].clone();
    let parts = ["case 5: the id `", "is that of case 2", "of its own"];
    check(goldens, &parsed.to_string(), &parts);
    let mut parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    parsed["cases"][0]["finish"] = "eos".into();
    let parts = ["its `finish` is `eos`", "write `stop` or `length`"];
    check(goldens, &parsed.to_string(), &parts);
}

#[test]
fn names_that_do_not_exist() {
    let project = Project::without_build();
    project
        .run(&["check", "--gate", "tpto"])
        .expect(2)
        .says(&["unknown gate `tpto`", "did you mean `tpot`?"]);
    project
        .run(&["check", "--profile", "ful"])
        .expect(2)
        .says(&["unknown profile `ful`", "did you mean `full`?"]);
    project
        .run(&["check", "--frmat", "json"])
        .expect(2)
        .says(&["--format"]);
    project
        .run(&["report", "nowhere"])
        .expect(2)
        .says(&["nowhere/run.json", "name a result directory"]);
    // Where something else was meant, a result directory is no remedy.
    project
        .run(&["dev", "replay", "nowhere"])
        .expect(2)
        .says(&["nowhere is no replay set", "scripts/replay/gen.py"]);
    for arguments in [
        &["dev", "import", "no.json"][..],
        &["compare", "no.json", "nor.json"],
    ] {
        let ended = project.run(arguments).expect(2);
        assert!(!ended.stderr.contains("hint"), "{}", ended.stderr);
        ended.says(&["cannot read no.json"]);
    }
    project.edit(
        "gates/gate.toml",
        "gates = [\"e2e\", \"prefill-drift\", \"tpot\"]\nlooks",
        "gates = [\"e2\", \"prefill-drift\", \"tpot\"]\nlooks",
    );
    project.run(&["check"]).expect(2).says(&[
        "unknown gate `e2`",
        "gates/gate.toml:",
        "^^^^",
        "did you mean `e2e`?",
    ]);
}

#[test]
fn places_without_project_repository_or_main() {
    let folder = tempfile::tempdir().unwrap();
    let output = fixture::gate(&["check"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    fixture::Ended::of(&output).expect(2).says(&[
        "no gates/gate.toml",
        "hint",
        "`gate init`",
        "--head BRANCH",
    ]);

    let project = Project::with_commits();
    project
        .run(&["check", "--base", "v9"])
        .expect(2)
        .says(&["unknown commit `v9`"]);
    project
        .run(&["check", "--base=--help"])
        .expect(2)
        .says(&["unknown commit"]);
    project.git(&["branch", "--move", "trunk"]);
    project
        .run(&["check"])
        .expect(2)
        .says(&["cannot find the default branch", "--base"]);
    std::fs::remove_dir_all(project.path(".git")).unwrap();
    project
        .run(&["check"])
        .expect(2)
        .says(&["not inside a git repository"]);
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["not inside a git repository", "`gate check --base stored`"]);
}

#[test]
fn a_repository_that_git_refuses_is_told_in_gits_words() {
    let project = Project::with_commits();
    for base in ["main", "stored"] {
        let mut command = project.command(&["check", "--base", base]);
        command
            .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        fixture::Ended::of(&command.output().unwrap())
            .expect(5)
            .says(&["dubious ownership", "safe.directory"]);
    }
}

#[test]
fn builds_that_fail() {
    let project = Project::with_commits();
    project.write("build.sh", "echo the compiler says no >&2; exit 1");
    project
        .run(&["check"])
        .expect(5)
        .says(&["the build of head failed", "the compiler says no"]);
    project.write("build.sh", "true");
    project
        .run(&["check"])
        .expect(5)
        .says(&["engine.build.artifact"]);
    project.edit(
        "gates/gate.toml",
        "\"sh\", \"build.sh\"",
        "\"no-such-compiler\"",
    );
    project
        .run(&["check"])
        .expect(5)
        .says(&["cannot start the build", "`no-such-compiler"]);
    project.edit(
        "gates/gate.toml",
        "\"no-such-compiler\"",
        "\"sh\", \"-c\", \"sleep 1000 & wait\"",
    );
    project.edit(
        "gates/gate.toml",
        "timeout = \"30 min\"",
        "timeout = \"100 ms\"",
    );
    project.edit("gates/gate.toml", ", \"{target}\"]", "]");
    project
        .run(&["check"])
        .expect(5)
        .says(&["took longer than"]);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn an_engine_that_cannot_be_started() {
    let project = Project::without_build();
    let binary = env!("CARGO_BIN_EXE_gate");
    let serve = |binary| format!("serve = [\"{binary}\"");
    project.edit("gates/gate.toml", &serve(binary), &serve("/no/such/engine"));
    project.run(&["check"]).expect(5).says(&[
        "cannot start `/no/such/engine",
        "caused by",
        "PATH",
        "engine.serve",
    ]);
}
