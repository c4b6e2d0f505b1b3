//! `scripts/gpu-check` rehearsed, with shell programs in place of the parity tests and NVIDIA's tools.
//!
//! Without python3 tests are skipped with a line, or fail with `INFERGATE_REQUIRE_CLIENTS=1`.

use fixture::skip::skip;
use fixture::{Ended, repository};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
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

    fn rehearse(&self, steps: &[&str]) -> Ended {
        self.rehearse_with(Path::new(env!("CARGO_BIN_EXE_gate")), steps)
    }

    fn rehearse_with(&self, gate: &Path, steps: &[&str]) -> Ended {
        let mut command = self.script(gate);
        command
            .arg("--rehearse")
            .args(["--out".as_ref(), self.path("out").as_os_str()])
            .args(steps.iter().flat_map(|step| ["--only", step]));
        Ended::of(&command.output().unwrap())
    }

    /// The script with this folder's programs.
    fn script(&self, gate: &Path) -> Command {
        let mut command = Command::new("bash");
        command
            .arg(repository().join("scripts/gpu-check"))
            .args(["--gate".as_ref(), gate.as_os_str()])
            .args(["--parity".as_ref(), self.path("parity").as_os_str()]);
        self.surround(&mut command);
        command
    }

    /// Runs Python with the script's modules.
    fn python(&self, lines: &str) {
        let found = "import sys\nsys.path.insert(0, sys.argv[1])";
        let mut command = Command::new("python3");
        command
            .args(["-c", &format!("{found}\n{lines}")])
            .arg(repository().join("scripts/gpu_check"));
        self.surround(&mut command);
        Ended::of(&command.output().unwrap()).expect(0);
    }

    /// This folder's programs first; no home directory and no kernel cache.
    fn surround(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        command
            .env("PATH", format!("{}:{path}", self.0.path().display()))
            .env_remove("HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("INFERGATE_KERNEL_CACHE");
    }

    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.path("out").join(name)).unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_str(&self.written("gpu-check.json")).unwrap()
    }

    fn step(&self, name: &str) -> Value {
        self.result()["steps"][name].clone()
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
    let Some(check) = Check::new() else {
        return;
    };
    check.python(
        r#"
import subprocess
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
"#,
    );
}

#[test]
fn a_hung_step_is_cut_off_and_the_next_one_runs() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("hangs", "exec sleep 600");
    check.python(
        r#"
import programs
from steps import Step, Steps
hung = Step("hung", 5, lambda limit: programs.figures(["hangs"], limit / 100))
class Logs:
    def keep(*_):
        return None
steps = Steps([hung, Step("next", 5, lambda limit: {"limit": limit})], 12, Logs(), lambda: None)
steps.run()
assert steps.outcome() == "failed: hung", steps.outcome()
assert steps.results["hung"]["failed"].startswith("not done in"), steps.results
assert steps.results["next"]["limit"] > 11, steps.results
"#,
    );
}

#[test]
fn a_sanitizer_that_refuses_the_gpu_is_skipped_with_its_reason() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    for refusal in [
        "Device not supported. Please refer to the \"Supported Devices\" section",
        "Unable to initialize the debugger interface",
        "The user does not have permission to debug this device",
    ] {
        let says = format!("echo '========= Error: {refusal}'");
        let ends = "echo '========= ERROR SUMMARY: 2 errors'\nexit 1";
        check.program("compute-sanitizer", &format!("{says}\n{ends}"));
        let ended = check.rehearse(&["memcheck"]).expect(1);
        assert!(
            ended.stdout.starts_with("memcheck: skipped"),
            "{}",
            ended.stdout
        );
        let step = check.step("memcheck");
        assert_eq!(step["passed"], Value::Null);
        assert_eq!(step["skipped"], format!("Error: {refusal}"));
    }

    // A test that prints such words is no refusal.
    let says = "echo 'Device not supported'\necho '========= ERROR SUMMARY: 0 errors'";
    check.program("compute-sanitizer", says);
    check.rehearse(&["memcheck"]).expect(0);
}

#[test]
fn a_sanitizer_sees_one_data_type_and_one_test_at_a_time() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program(
        "compute-sanitizer",
        r#"echo "$KERNEL_PARITY_ON_GPU: $*"; exit 9"#,
    );
    check.python(
        r#"
import processes, programs
try:
    programs.sanitize("parity", ".", "racecheck", 60, rehearse=False)
except processes.Failed as failed:
    said = failed.output
assert said.startswith("bf16: --tool racecheck "), said
assert " --test-threads 1" in said and " --skip elementwise::swiglu " in said, said
"#,
    );
}

/// `lone` fails by itself too, `follower` only beside it. Both runs have the same seed.
const FAILING: &str = r#"
case "$*" in
*lone*--exact*)
    echo "thread 'lone' panicked at tests/gpu/kernel_parity/lab.rs:256:9:"
    echo "gemv: 1.5 where 2 is wanted, at 7"
    exit 101 ;;
*follower*--exact*)
    [ "$CUDA_LAUNCH_BLOCKING$INFERGATE_CUDA_IN_ORDER" = 11 ] || exit 1
    [ "$KERNEL_PARITY_SEED" = "$(cat "$0.seed")" ] || exit 1
    exit 0 ;;
esac
echo "$KERNEL_PARITY_SEED" > "$0.seed"
echo "gemv: 1.5 where 2 is wanted, at 7"
echo "norms: NaN where 3 is wanted, at 0"
"#;

const FAILURES: &str = r#"
printf '\nfailures:\n    kernel_parity::lone\n    kernel_parity::follower\n\n'
echo 'test result: FAILED. 3 passed; 2 failed'
exit 101
"#;

#[test]
fn failing_parity_tests_run_again_by_themselves() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", &format!("{FAILING}{FAILURES}"));
    check.rehearse(&["parity"]).expect(1);
    let step = check.step("parity");
    let alone = serde_json::json!({
        "kernel_parity::lone": "fails alone: gemv: 1.5 where 2 is wanted, at 7",
        "kernel_parity::follower": "passes alone",
    });
    assert_eq!(step["alone"], alone);
    let errors = [
        "gemv: 1.5 where 2 is wanted, at 7",
        "norms: NaN where 3 is wanted, at 0",
    ];
    assert_eq!(step["errors"], serde_json::json!(errors));
    let first = "ended with 101; 2 tests did not pass, fails alone: 1, passes alone: 1\n";
    let failed = step["failed"].as_str().unwrap();
    assert!(failed.starts_with(first), "{failed}");
    let log = check.written("parity.log");
    assert!(log.contains("=== kernel_parity::lone by itself\n"), "{log}");
    let page = check.written("gpu-check.md");
    assert!(
        page.contains("| kernel_parity::follower | passes alone |\n"),
        "{page}"
    );
}

/// A program that crashes names no failing test.
#[test]
fn after_a_crash_each_test_that_did_not_pass_runs_by_itself() {
    let Some(check) = Check::new() else {
        return;
    };
    let listed = "lone follower done".split(' ');
    let listed: String = listed
        .map(|name| format!("    echo 'kernel_parity::{name}: test'\n"))
        .collect();
    let list = format!("case \"$*\" in *--list*)\n{listed}    exit ;;\nesac");
    let crash = "echo 'test kernel_parity::done ... ok'\nkill -9 $$";
    check.program("parity", &format!("{list}\n{FAILING}{crash}"));
    check.rehearse(&["parity"]).expect(1);
    let alone = check.step("parity")["alone"].clone();
    let ends = serde_json::json!({
        "kernel_parity::lone": "fails alone: gemv: 1.5 where 2 is wanted, at 7",
        "kernel_parity::follower": "passes alone",
    });
    assert_eq!(alone, ends);
}

#[test]
fn throttling_between_the_readings_is_reported() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    check.program("nvidia-smi", &nvidia_smi());
    check.rehearse(&["facts", "facts after"]).expect(0);
    let facts = check.result()["facts"].clone();
    assert_eq!(facts["before"]["Driver Version"], "580.159.04");
    assert_eq!(
        facts["after"]["GPU Power Readings"]["Current Power Limit"],
        "700.00 W"
    );
    assert!(
        facts["runtime"].is_string() && facts["libraries"]["NVRTC"].is_string(),
        "{facts}"
    );
    let page = check.written("gpu-check.md");
    for line in [
        "driver 580.159.04.",
        "| SM clock | 1980 MHz of 1980 MHz | 1980 MHz of 1980 MHz |",
        "| power | 650.25 W of 700.00 W | 650.25 W of 700.00 W |",
        "| temperature | 41 C | 41 C |",
        "| throttled by | SW Power Cap | SW Power Cap |",
        "Throttled between the two readings: SW Power Capping 250 ms.",
    ] {
        assert!(page.contains(line), "{line} is not in:\n{page}");
    }
}

/// The words of driver 580 for one GPU. Its counter has grown by 250 ms at the second call.
fn nvidia_smi() -> String {
    let said = "
==============NVSMI LOG==============

Driver Version                            : 580.159.04
CUDA Version                              : 13.0

Attached GPUs                             : 1
GPU 00000000:00:06.0
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : ${spent:-0} us
        HW Thermal Slowdown               : 0 us
    Temperature
        GPU Current Temp                  : 41 C
    GPU Power Readings
        Average Power Draw                : 600.00 W
        Instantaneous Power Draw          : 650.25 W
        Current Power Limit               : 700.00 W
    Clocks
        SM                                : 1980 MHz
        Memory                            : 3201 MHz
    Max Clocks
        SM                                : 1980 MHz
        Memory                            : 3201 MHz
";
    let spent = r#"[ -e "$0.called" ] && spent=250000; touch "$0.called""#;
    format!("{spent}\ncat <<END{said}END")
}

#[test]
fn without_nvidia_smi_the_facts_say_so() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    check.program("nvidia-smi", "echo 'no devices were found'; exit 6");
    check.rehearse(&["facts"]).expect(0);
    let missing = "nvidia-smi: ended with 6 no devices were found";
    assert_eq!(check.result()["facts"]["before"]["missing"], missing);
    assert!(check.written("gpu-check.md").contains(missing));
}

#[test]
fn packed_kernels_fill_the_cache_of_the_run() {
    let Some(check) = Check::new() else {
        return;
    };
    let packed = check.path("packed");
    fs::create_dir_all(packed.join("kernels")).unwrap();
    check.program("packed/gate", "exit 1");
    fs::write(packed.join("kernels/gemv-bf16.kernels"), "machine code").unwrap();
    check.program(
        "parity",
        r#"echo "test result: ok. 1 passed; $(cat "$INFERGATE_KERNEL_CACHE"/*)"; touch "$INFERGATE_KERNEL_CACHE/more.kernels""#,
    );
    check
        .rehearse_with(&packed.join("gate"), &["parity"])
        .expect(0);
    let summary = "test result: ok. 1 passed; machine code";
    assert_eq!(check.step("parity")["summary"], summary);
    let kept: Vec<_> = fs::read_dir(packed.join("kernels")).unwrap().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
}

#[test]
fn no_parity_test_is_no_pass() {
    let Some(check) = Check::new() else {
        return;
    };
    for says in ["exit 0", "echo 'test result: ok. 0 passed; 0 failed'"] {
        check.program("parity", says);
        check.rehearse(&["parity"]).expect(1);
        let failed = check.step("parity")["failed"].as_str().unwrap().to_owned();
        assert!(failed.starts_with("no test has run"), "{failed}");
    }
}

#[test]
fn a_pack_has_kernels_where_there_is_a_compiler() {
    let Some(check) = Check::new() else {
        return;
    };
    check.program("parity", "exit 0");
    check.program("strip", "[ \"$1\" = -o ] && cp \"$3\" \"$2\"");
    let compiles = "[ \"$*\" = \"kernels build --arch sm_90 --output $6 --format json\" ] || exit 2\n\
                    mkdir -p \"$6\" && touch \"$6/gemv.kernels\"";
    let missing = "echo 'no CUDA compiler' >&2; exit 5";
    for (name, gate, code) in [
        ("compiler", compiles, 0),
        ("missing", missing, 0),
        ("broken", "exit 3", 1),
    ] {
        check.program("gate", gate);
        let mut command = check.script(&check.path("gate"));
        command.args(["--pack".as_ref(), check.path(name).as_os_str()]);
        let ended = Ended::of(&command.output().unwrap()).expect(code);
        assert!(check.path(name).join("gpu").exists());
        let has_kernels = check.path(name).join("kernels/gemv.kernels").exists();
        assert_eq!(has_kernels, name == "compiler", "{}", ended.stderr);
        let says = ended.stdout.contains("no kernels packed");
        assert_eq!(says, name == "missing", "{}", ended.stdout);
    }
}

#[test]
fn gpu_memory_may_grow_by_loaded_code_but_not_in_each_part() {
    let Some(check) = Check::new() else {
        return;
    };
    check.python(
        r#"
import serving
rest = {"resident_bytes": 0, "captures": 3, "replays": 0, "cancelled": 0}
def judged(*megabytes):
    seen = [{**rest, "gpu_bytes": None if of is None else of << 20} for of in megabytes]
    seen[-1]["replays"] = 1
    try:
        return serving.judge(seen, 0, on_gpu=True)["growth"].partition(",")[0]
    except AssertionError as error:
        return str(error).partition(" by")[0]
assert judged(100, 300, 300, 300, 300) == "GPU memory 0 bytes"
assert judged(100, 300, 364, 364, 364) == "GPU memory 67108864 bytes"
assert judged(100, 300, 364, 366, 366) == "GPU memory grew"
assert judged(100, 300, 302, 304, 306) == "GPU memory grew in each part of the requests,"
assert judged(100, None, 300, 300, 300) == "GPU memory not measured"
"#,
    );
}
