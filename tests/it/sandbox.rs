//! The launcher of a sandboxed child, `gate sandbox`, killed at any moment of its start.

use fixture::skip::skip;
use fixture::{Project, TICK};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Moments between the start of the launcher and its death.
const MOMENTS: u32 = 80;

/// From one moment to the next; the last is beyond the start of the command.
const STEP: Duration = Duration::from_micros(250);

const DEADLINE: Duration = Duration::from_secs(20);

/// The command under one layer, which writes into the project's folder alone.
fn launcher(place: &Project, layer: &str, command: &[&str]) -> Command {
    let folder = place.path(".");
    let policy = format!(
        r#"{{"layers":["{layer}"],"read":["/"],"write":["/dev/null","{}"],"list":[],"hidden":[]}}"#,
        folder.display()
    );
    let mut launcher = place.command(&[&["sandbox", &policy, "--"], command].concat());
    launcher.stdin(Stdio::null()).process_group(0);
    launcher
}

#[test]
fn a_child_whose_launcher_is_killed_at_any_moment_ends_with_it() {
    for layer in ["namespaces", "landlock"] {
        let place = Project::empty();
        let tried = launcher(&place, layer, &["true"]).output().unwrap();
        if !tried.status.success() {
            skip(&format!("this machine has no {layer}: {tried:?}"));
            continue;
        }
        for moment in 0..MOMENTS {
            let mut child = launcher(&place, layer, &["sleep", "600"]).spawn().unwrap();
            std::thread::sleep(STEP * moment);
            let group = Pid::from_raw(child.id().cast_signed());
            killpg(group, Signal::SIGKILL).unwrap();
            child.wait().unwrap();
            let begun = Instant::now();
            while !place.leftovers().is_empty() {
                assert!(
                    begun.elapsed() < DEADLINE,
                    "{layer}: {:?} outlive a launcher killed after {:?}",
                    place.leftovers(),
                    STEP * moment
                );
                std::thread::sleep(TICK);
            }
        }
    }
}
