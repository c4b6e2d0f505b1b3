//! Watchdog that kills a child when the gate dies: after `SIGKILL` none of our code runs, and
//! a surviving engine would keep its port and its GPU memory from the session that resumes.
//!
//! Main type: [`Watchdog`], a shell that waits for the end of a pipe of which the gate holds the other end; the
//! kernel closes that whatever the gate dies of. The child is started in the shell's own process group, so there
//! is no moment at which it runs and is not watched. Refuses to know: what the child is.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Signals that ask the group to end are not meant for the shell. The first `read` takes the child's number, which
/// may never come; the second returns at the pipe's end. The child may have made a group of its own.
const SCRIPT: &str = r#"
    trap '' HUP INT TERM
    read -r child; read -r _
    [ "$child" ] && kill -s KILL -- "-$child"
    kill -s KILL 0
"#;

#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    /// Its end is the gate's.
    gate_lives: ChildStdin,
}

impl Watchdog {
    /// Starts it before its child, so that no part of a start is disturbed by it.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env_clear()
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let gate_lives = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { shell, gate_lives })
    }

    /// The process group to start the child in. Its number is nobody else's while this lives.
    pub fn group(&self) -> i32 {
        self.shell.id().cast_signed()
    }

    /// Names the child, which is found then even where it has left the group for its own.
    pub fn watch(&mut self, child: i32) -> io::Result<()> {
        writeln!(self.gate_lives, "{child}")
    }
}

impl Drop for Watchdog {
    /// The child's end is somebody else's work from here on: the number may be another's soon.
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Starts a child in this group and ends the pipe, as the gate's death does; gives what ended the child.
    fn ending(group: impl Fn(&Watchdog) -> i32, is_named: bool) -> Option<i32> {
        let here = Path::new("/");
        let mut ward = Watchdog::start(here).unwrap();
        let mut sleeper = Command::new("sleep");
        let mut child = sleeper
            .arg("600")
            .process_group(group(&ward))
            .spawn()
            .unwrap();
        if is_named {
            ward.watch(child.id().cast_signed()).unwrap();
        }
        let mut other = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        ward.gate_lives = other.stdin.take().unwrap();
        other.wait().unwrap();
        child.wait().unwrap().signal()
    }

    #[test]
    fn a_child_that_was_not_yet_named_ends_with_the_gate() {
        assert_eq!(ending(Watchdog::group, false), Some(9));
    }

    #[test]
    fn a_child_in_a_group_of_its_own_ends_with_the_gate() {
        assert_eq!(ending(|_| 0, true), Some(9));
    }
}
