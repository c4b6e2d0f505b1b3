//! The launcher of a sandboxed child, `gate sandbox`, killed at any moment of its start.

use fixture::skip::skip;
use fixture::{Project, TICK};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Moments between the start of the launcher and its death.
const MOMENTS: u32 = 80;

/// From one moment to the next; the last is beyond the start of the command.
const STEP: Duration = Duration::from_micros(100);

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

/// The launcher ends as its command did, also by a real-time signal, and an orphan that dies so ends nothing.
#[test]
fn the_launcher_ends_as_the_command_does() {
    for layer in ["namespaces", "landlock"] {
        let place = Project::empty();
        let end = |script: &str| {
            let status = launcher(&place, layer, &["sh", "-c", script])
                .status()
                .unwrap();
            (status.code(), status.signal())
        };
        if end("exit 0") != (Some(0), None) {
            skip(&format!("this machine has no {layer}"));
            continue;
        }
        assert_eq!(end("exit 7"), (Some(7), None), "{layer}");
        assert_eq!(end("kill -9 $$"), (None, Some(9)), "{layer}");
        assert_eq!(end("kill -34 $$"), (Some(162), None), "{layer}");
        assert_eq!(
            end("(sh -c 'kill -34 $$' &); sleep 0.2; exit 7"),
            (Some(7), None),
            "{layer}"
        );
        // Nothing of the launcher's is open in it.
        let open = ["sh", "-c", "ls /proc/self/fd"];
        let inside = launcher(&place, layer, &open).output().unwrap();
        let bare = Command::new(open[0])
            .args(&open[1..])
            .stdin(Stdio::null())
            .output();
        assert_eq!(inside.stdout, bare.unwrap().stdout, "{layer}");
    }
}
