//! `gate selftest` through the binary, from an empty directory and in a project: some faults. The whole table is in
//! docs/selftest.md.

use fixture::{Ended, Project};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything waited for takes; reaching it is a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs it where there is no project, with its own files in this folder.
fn selftest(place: &Project, arguments: &[&str]) -> Ended {
    let mut command = place.command(&[&["selftest"], arguments].concat());
    command.env("TMPDIR", place.path("."));
    Ended::of(&command.output().unwrap())
}

/// Tries these faults on the project's own gate `e2e`.
fn selftest_project(project: &Project, faults: &[&str]) -> Ended {
    let arguments = ["selftest", "--project", "--gate", "e2e", "--format", "json"];
    let faults = faults.iter().flat_map(|fault| ["--fault", fault]);
    project.run(&arguments.into_iter().chain(faults).collect::<Vec<_>>())
}

fn result(fault: &str, result: &str) -> (String, String) {
    (fault.to_owned(), result.to_owned())
}

fn results(table: &Value) -> Vec<(String, String)> {
    let rows = rows(table).into_iter();
    rows.map(|(fault, result, _)| (fault, result)).collect()
}

fn rows(table: &Value) -> Vec<(String, String, Vec<String>)> {
    let of = |row: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let seen = row["caught_by"].as_array().unwrap().iter();
        let seen = seen.map(|it| {
            format!(
                "{} {} {}",
                text(&it["check"]),
                text(&it["verdict"]),
                text(&it["rule"])
            )
        });
        (text(&row["fault"]), text(&row["result"]), seen.collect())
    };
    table["rows"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn faults_of_the_proxy_and_of_telemetry_are_caught() {
    let place = Project::empty();
    let ended = selftest(
        &place,
        &[
            "--format", "json", "--fault", "throttle", "--fault", "usage",
        ],
    )
    .expect(0);
    let table = ended.json();
    assert_eq!(table["format"], "infergate-selftest/1");
    let row = |fault: &str, seen: &[&str]| {
        let seen = seen.iter().map(|it| (*it).to_owned()).collect();
        (fault.to_owned(), "caught".to_owned(), seen)
    };
    let expect = [
        row("usage", &["decode/tpot fail reliability"]),
        row(
            "throttle",
            &[
                "prefill/ttft invalid head-throttles",
                "start/ready invalid head-throttles",
            ],
        ),
    ];
    assert_eq!(rows(&table), expect, "{}", ended.stdout);
    let reds = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["false_reds"]);
    assert!(
        reds.clone().all(|reds| *reds == serde_json::json!([])),
        "{}",
        ended.stdout
    );
    assert_eq!(place.leftovers(), [0; 0]);
    let left = fs::read_dir(place.path(".")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["gates"], "a selftest leaves nothing behind");
}

#[test]
fn the_table_fits_a_terminal_and_kept_sessions_can_be_judged_again() {
    let place = Project::empty();
    let ended = selftest(&place, &["--fault", "history", "--keep"]).expect(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{}",
        ended.stdout
    );
    let row = lines
        .iter()
        .find(|line| line.starts_with("caught  history  "));
    // Where a cell is too narrow its words go on in the next line.
    let row = row.unwrap();
    assert!(
        row.contains("session/history:") && row.contains("  none  "),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("fail"), "{}", ended.stdout);
    assert!(
        lines
            .last()
            .unwrap()
            .starts_with("1 of 1 faults caught, nothing else red; "),
        "{}",
        ended.stdout
    );
    let kept = ended
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("results: "))
        .unwrap();
    let verdict = place
        .run(&["report", &format!("{kept}/history"), "--format", "json"])
        .expect(1);
    let gates = verdict.json()["gates"].clone();
    let session = gates
        .as_array()
        .unwrap()
        .iter()
        .find(|gate| gate["gate"] == "session")
        .unwrap();
    assert_eq!(session["verdict"], "fail");
}

#[test]
fn a_projects_gates_are_tried_and_what_they_cannot_see_is_told() {
    let project = Project::without_build();
    let faults = ["none-proxied", "wrong-token", "kv-zero", "boot-slow"];
    let ended = selftest_project(&project, &faults).expect(1);
    let table = ended.json();
    let expect = [
        result("none-proxied", "clean"),
        result("wrong-token", "caught"),
        result("boot-slow", "not-covered"),
        result("kv-zero", "not-covered"),
    ];
    assert_eq!(results(&table), expect, "{}", ended.stdout);
    assert!(
        rows(&table)[1]
            .2
            .contains(&"e2e/greedy fail ceiling".to_owned()),
        "{}",
        ended.stdout
    );
    assert_eq!(table["rows"][3]["advice"], "gates/kv-bounded.toml");
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_check_that_is_red_without_the_fault_catches_nothing() {
    let project = Project::without_build();
    project.wrap_engine("exec \"$@\" --fault=wrong-token=50\n");
    // The gate's requests come one after another: none ever stands beside another.
    let ended = selftest_project(&project, &["empty-output"]).expect(1);
    let expect = [
        result("none-proxied", "clean"),
        result("empty-output", "missed"),
    ];
    assert_eq!(results(&ended.json()), expect, "{}", ended.stdout);
}

#[test]
fn a_projects_engine_that_does_not_start_is_no_fault_caught() {
    for (script, rows_before) in [
        ("exec \"$@\" --fault=die-at-start\n", 0),
        // From the fault's own session on.
        (
            "ls -d .gate/selftest/*/wrong-token && exit 1\nexec \"$@\"\n",
            1,
        ),
    ] {
        let project = Project::without_build();
        project.wrap_engine(script);
        let ended = selftest_project(&project, &["wrong-token"])
            .expect(5)
            .says(&["the engine does not start without a fault"]);
        assert_eq!(rows(&ended.json()).len(), rows_before + 1);
        assert_eq!(project.leftovers(), [0; 0]);
    }
}

#[test]
fn the_list_names_every_fault_and_unknown_ones_are_refused() {
    let place = Project::empty();
    let list = selftest(&place, &["--list"]).expect(0).stdout;
    for name in [
        "decode-slow",
        "history",
        "throttle",
        "kv-zero",
        "gates/kv-bounded.toml",
    ] {
        assert!(list.contains(name), "{name} is missing in:\n{list}");
    }
    assert!(
        list.lines().all(|line| line.chars().count() <= 80),
        "{list}"
    );
    selftest(&place, &["--fault", "slowness"])
        .expect(2)
        .says(&["there is no such fault; there are none,", "kv-zero"]);
    selftest(&place, &["--gate", "tpot"])
        .expect(2)
        .says(&["--project"]);
    let project = Project::without_build();
    selftest(&project, &["--project", "--fault", "history"])
        .expect(2)
        .says(&["no proxy can plant"]);
    selftest(&place, &["--project"])
        .expect(2)
        .says(&["no gates/gate.toml"]);
}

/// Starts a session behind a proxy and waits until proxy and engine run.
fn running(place: &Project) -> Child {
    let mut command = place.command(&["selftest", "--fault", "none-proxied"]);
    command.env("TMPDIR", place.path("."));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    // The gate itself, the shell that wards, the proxy, the engine.
    until("proxy and engine run", || place.leftovers().len() >= 4);
    child
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(fixture::TICK);
    }
}

#[test]
fn proxy_and_engine_end_with_the_gate_however_it_ends() {
    for (signal, code) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        let place = Project::empty();
        let mut child = running(&place);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        until("nothing is left", || place.leftovers().is_empty());
    }
}
