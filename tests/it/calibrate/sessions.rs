//! What is measured, kept and continued.

use super::{certificate, small};
use fixture::{Ended, MARKUP, Project, check_sheet};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

const CALIBRATE: [&str; 5] = ["calibrate", "--gate", "start", "--out", "cal"];

/// Verdicts of the certificate's measured sessions, all together.
fn total(made: &Value) -> u64 {
    let verdicts = &made["sessions"]["verdicts"];
    let names = ["pass", "fail", "inconclusive", "invalid"];
    names
        .map(|name| verdicts[name].as_u64().unwrap())
        .iter()
        .sum()
}

#[test]
fn sessions_are_measured_counted_and_kept() {
    let project = small();
    // Nor does a waiver that is over decide what is measured of the machine.
    project.waive("start/regression", "2020-01-31");
    // Whether this machine resolves 5 % by starts is its own affair. A false alarm is not excluded
    // either; one of two would be too many for sure, one of one as well: exit code 1.
    let calibrate = |out: &str, sessions: &str| {
        let ended = project.run(&[
            "calibrate",
            "--gate",
            "start",
            "--out",
            out,
            "--sessions",
            sessions,
        ]);
        assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
        ended
    };
    let ended = calibrate("cal", "1");
    let (_, made) = certificate(&project);
    assert_eq!(total(&made), 1);
    assert_eq!(made["checks"][0]["id"], "start/regression");
    let noise = &made["checks"][0]["noise"];
    assert!(noise["launch_sd"].as_f64().unwrap() > 0.0, "{made}");
    assert_eq!(made["checks"][0]["effects"].as_array().unwrap().len(), 1);
    assert!(ended.stdout.contains("false alarms: "), "{}", ended.stdout);
    for line in ended.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // Called again, a whole session is kept; one more is measured.
    let first = project.read("cal/session-001/run.json");
    calibrate("cal", "2").says(&["session 2 of 2"]);
    assert_eq!(total(&certificate(&project).1), 2);
    assert_eq!(project.read("cal/session-001/run.json"), first);
    // In another directory those are history: counted apart.
    fs::rename(project.path("cal"), project.path(".gate/runs/earlier")).unwrap();
    keep_what_does_not_count(&project);
    let text = calibrate("other", "1").says(&["certificate: "]).stdout;
    let (_, made) = certificate(&project);
    assert_eq!((total(&made), &made["drawn"]["kept"]), (1, &2.into()));
    let drawn = &made["checks"][0]["drawn"];
    let drawn = ["pass", "fail", "inconclusive"].map(|name| drawn[name].as_u64().unwrap());
    assert_eq!(drawn.iter().sum::<u64>(), 2, "{made}");
    assert!(text.contains("measured: 1 A/A session,"), "{text}");
    assert!(text.contains("2 kept A/A sessions"), "{text}");
    // Sessions of another gate are not counted with these.
    project.edit("gates/start.toml", "margin = \"1 %\"", "margin = \"2 %\"");
    project
        .run(&["calibrate", "--gate", "start", "--out", "other"])
        .expect(2)
        .says(&[
            "session-001",
            "-margin = \"1 %\"",
            "+margin = \"2 %\"",
            "--out",
        ]);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// A kept session as it would be with other arguments, without its end, and as no measurement.
fn keep_what_does_not_count(project: &Project) {
    let text = project.read(".gate/runs/earlier/session-001/run.json");
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 3] = [
        ("with-arguments", |record| {
            for build in record["builds"].as_array_mut().unwrap() {
                let command = build["command"].as_array_mut().unwrap();
                command.push("--fault=decode-delay=1ms".into());
            }
        }),
        ("interrupted", |record| {
            record["ending"] = json!({"why": "interrupted"});
        }),
        ("invalid", |record| {
            record["launches"][1]["fingerprint"] = "another".into();
        }),
    ];
    for (name, change) in changes {
        let mut record: Value = serde_json::from_str(&text).unwrap();
        change(&mut record);
        fs::create_dir(project.path(&format!(".gate/runs/{name}"))).unwrap();
        project.write(&format!(".gate/runs/{name}/run.json"), &record.to_string());
    }
}

#[test]
fn a_calibration_that_was_cut_off_certifies_what_is_whole_and_goes_on() {
    let project = small();
    let mut arguments = CALIBRATE.to_vec();
    arguments.extend(["--sessions", "2"]);
    // A kill leaves no time for a certificate; what is finished of the session is kept.
    let killed = ended_by(Signal::SIGKILL, "block 1:", &project, &arguments);
    assert_eq!(killed.code, None, "{killed:?}");
    let ended = ended_by(Signal::SIGINT, "session 2 of 2", &project, &arguments);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let ended = ended.says(&["--out cal goes on from here"]);
    let (_, made) = certificate(&project);
    assert_eq!(total(&made), 1);
    assert!(
        ended.stdout.contains("measured: 1 A/A session,"),
        "{}",
        ended.stdout
    );
    let ended = project.run(&arguments);
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    assert_eq!(total(&certificate(&project).1), 2);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// Runs until a line of standard error begins so, then sends the signal.
fn ended_by(signal: Signal, line: &str, project: &Project, arguments: &[&str]) -> Ended {
    let mut command = project.command(arguments);
    let command = command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = String::new();
    for said in BufReader::new(child.stderr.take().unwrap()).lines() {
        let said = said.unwrap();
        if said.starts_with(line) {
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
        }
        stderr += &(said + "\n");
    }
    let mut stdout = String::new();
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_to_string(&mut stdout).unwrap();
    let code = child.wait().unwrap().code();
    Ended {
        code,
        stdout,
        stderr,
    }
}

#[test]
fn an_engine_that_never_starts_makes_no_certificate() {
    let project = small();
    let config = project.read("gates/gate.toml");
    let serve = config.lines().find(|l| l.starts_with("serve = ")).unwrap();
    let broken = r#"serve = ["sh", "-c", "echo no weights; exit 1", "{port}"]"#;
    project.write("gates/gate.toml", &config.replace(serve, broken));
    let ended = project.run(&CALIBRATE).expect(4).says(&["no certificate"]);
    assert!(ended.stdout.contains("no weights"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("session 2 of"), "{}", ended.stderr);
    assert!(!project.path(".gate/calibration").exists());
}

#[test]
fn bad_numbers_are_refused() {
    let project = small();
    project.run(&["calibrate", "--sessions", "0"]).expect(2);
    project
        .run(&["calibrate", "--gate", "startt"])
        .expect(2)
        .says(&["unknown gate `startt`"]);
}

#[test]
fn a_page_shows_each_sessions_change() {
    let project = small();
    let arguments = ["calibrate", "--gate", "start", "--sessions", "2"];
    let ended = project.run(&[&arguments[..], &["--out", MARKUP, "--format", "html"]].concat());
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    check_sheet(
        &ended.stdout,
        &[
            "start/regression: change in each session",
            "session 2",
            "margin 1 %",
            "Smallest change found",
            "A/A sessions",
        ],
    );
}
