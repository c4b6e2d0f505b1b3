//! Sessions that are cut off and go on, through the binary on the embedded engine: what is kept, what is
//! refused, and what a launch is given before it starts.

mod killed;
mod page_cache;
mod refused;
mod started;

use fixture::{Ended, Project};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Far beyond any test's length: a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_secs(120);

/// Judges the directory as it is; which verdict so few launches get is chance.
fn judge(project: &Project, says: &str) -> Ended {
    let ended = project.run(&["report", "result"]);
    assert!(
        ended.stdout.contains(says),
        "`{says}` is missing in {ended:?}"
    );
    ended
}

/// Four short blocks, and time enough for them on any machine.
fn shorten(project: &Project) {
    project.shorten();
    project.edit(
        "gates/gate.toml",
        "budget = \"75 s\"",
        "budget = \"10 min\"",
    );
}

/// Starts `gate check` of the gate `tpot` with further arguments.
fn start(project: &Project, further: &[&str]) -> Child {
    let mut arguments = vec!["check", "--gate", "tpot", "--out", "result"];
    if further.contains(&"--resume") {
        arguments.truncate(1);
    }
    arguments.extend(further);
    let mut command = project.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until the launch is kept, then sends the signal; the session is in a later launch by then.
fn cut_off(project: &Project, mut child: Child, position: u32, signal: Signal) -> Ended {
    let begun = Instant::now();
    let file = project.path(&format!("result/launches/{position:03}.json"));
    while !file.exists() && child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < DEADLINE, "{} never came", file.display());
        std::thread::sleep(fixture::TICK);
    }
    // After its end the launches are in the record; one that ended early never had it.
    let came = file.exists();
    let _ = kill(Pid::from_raw(child.id() as i32), signal);
    let ended = Ended::of(&child.wait_with_output().unwrap());
    assert!(came, "{ended:?}");
    // Even after SIGKILL, in which the gate can do nothing.
    while !project.leftovers().is_empty() {
        assert!(begun.elapsed() < DEADLINE, "its engine lives on");
        std::thread::sleep(fixture::TICK);
    }
    ended
}

fn interrupt(project: &Project, position: u32) -> Value {
    cut_off(project, start(project, &[]), position, Signal::SIGINT).expect(130);
    json(project, "result/run.json")
}

fn json(project: &Project, name: &str) -> Value {
    serde_json::from_str(&project.read(name)).unwrap()
}

fn launches(record: &Value) -> &[Value] {
    record["launches"].as_array().unwrap()
}
