//! `scripts/gpu-check` rehearsed, with programs in the place of the parity tests and of compute-sanitizer.
//!
//! Where there is no python3, tests are skipped with a line, or fail with `INFERGATE_REQUIRE_CLIENTS=1`.

use fixture::skip::skip;
use fixture::{Ended, repository};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with a program for each name, and what the script writes.
struct Check(TempDir);

impl Check {
    /// `None`, with a line, where there is no python3.
    fn new() -> Option<Self> {
        match Command::new("python3").arg("--version").output() {
            Ok(_) => Some(Self(tempfile::tempdir().unwrap())),
            Err(error) => {
                skip(&format!("python3 cannot be run: {error}"));
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, lines: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Without a home directory and a cache of kernels.
    fn rehearse(&self, steps: &[&str]) -> Ended {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .arg(repository().join("scripts/gpu-check"))
            .args(["--rehearse", "--gate", env!("CARGO_BIN_EXE_gate")])
            .args(["--parity".as_ref(), self.path("parity").as_os_str()])
            .args(["--out".as_ref(), self.path("out").as_os_str()])
            .args(steps.iter().flat_map(|step| ["--only", step]))
            .env("PATH", format!("{}:{path}", self.0.path().display()))
            .env_remove("HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("INFERGATE_KERNEL_CACHE");
        Ended::of(&command.output().unwrap())
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.path("out").join(name)).unwrap()
    }

    fn step(&self, name: &str) -> Value {
        let told: Value = serde_json::from_str(&self.written("gpu-check.json")).unwrap();
        told["steps"][name].clone()
    }
}

/// More than the result holds of it.
const MANY_LINES: &str = "seq -f 'line %05g' 2000";

#[test]
fn what_a_failed_step_wrote_is_kept_whole() {
    let Some(check) = Check::new() else {
        return;
    };
    let cache = r#"echo "kernels in $INFERGATE_KERNEL_CACHE"; [ -d "$INFERGATE_KERNEL_CACHE" ] || echo nowhere"#;
    check.program(
        "parity",
        &format!("{cache}\n{MANY_LINES}\necho the cause >&2\nexit 101"),
    );
    let ended = check.rehearse(&["parity"]).expect(1);
    assert!(ended.stdout.contains("    the cause\n"), "{}", ended.stdout);
    let log = check.written("parity.log");
    assert!(
        log.starts_with("kernels in /") && !log.contains("nowhere"),
        "{log}"
    );
    assert!(log.ends_with("line 02000\nthe cause\n"), "{log}");
    let step = check.step("parity");
    assert_eq!(step["log"], "parity.log");
    let failed = step["failed"].as_str().unwrap();
    assert!(
        failed.starts_with("ended with 101\n") && failed.ends_with("line 02000\nthe cause\n"),
        "{failed}"
    );
    assert!(
        check
            .written("gpu-check.md")
            .contains("line 02000 the cause")
    );

    // What an earlier run left is not taken for this one's.
    check.program("parity", "echo 'test result: ok. 1 passed'");
    check.rehearse(&["parity"]).expect(0);
    assert!(!check.path("out").join("parity.log").exists());
}

#[test]
fn a_sanitizer_that_does_not_say_that_all_is_clean_has_not_passed() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    for (tool, says, passes) in [
        ("memcheck", "ERROR SUMMARY: 0 errors", true),
        ("memcheck", "ERROR SUMMARY: 3 errors", false),
        ("memcheck", "Target application returned", false),
        (
            "racecheck",
            "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
            true,
        ),
        (
            "racecheck",
            "RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)",
            false,
        ),
    ] {
        check.program("compute-sanitizer", &format!("echo '========= {says}'"));
        let ended = check.rehearse(&[tool]).expect(i32::from(!passes));
        assert_eq!(
            check.step(tool)["passed"],
            passes,
            "{says}: {}",
            ended.stdout
        );
    }
}

/// 1.2 GB are written for a GPU; here the embedded model's shape.
#[test]
fn weights_from_files_are_held_against_the_cpu() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    check.rehearse(&["from files"]).expect(0);
    let step = check.step("from files");
    assert_eq!(step["tokens"], 144);
    let stages = &step["starts"]["weights from files, cpu"];
    assert!(stages["weights_upload"].as_f64().unwrap() > 0.0, "{step}");
}

/// A program that is asked to end before it is killed writes what it holds back.
#[test]
fn what_a_late_program_holds_back_is_kept() {
    if Check::new().is_none() {
        return;
    }
    let script = r#"
import subprocess, sys
sys.path.insert(0, sys.argv[1])
import processes
processes.ASKED_S = 600
program = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit("held back"))
print("ready", flush=True)
while True:
    signal.pause()
"""
command = [sys.executable, "-c", program]
process = processes.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
assert process.stdout.readline() == "ready\n"
ended = processes.ended(process, 0)
assert ended == (None, "held back\n", None), ended
"#;
    let mut command = Command::new("python3");
    command
        .args(["-c", script])
        .arg(repository().join("scripts/gpu_check"));
    Ended::of(&command.output().unwrap()).expect(0);
}
