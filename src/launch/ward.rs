//! Who ends a child when the gate can not: after `SIGKILL` nothing of ours runs any more, and an engine that
//! lived on would keep its port and its GPU memory from the session that resumes.
//!
//! Main type: [`Ward`], a shell that waits for the end of a pipe of which the gate holds the other end; the
//! kernel closes that whatever the gate dies of. Refuses to know: what the child is.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Nothing more comes after the group's number; the second `read` returns at the pipe's end.
const SCRIPT: &str = r#"read -r group && { read -r _; kill -s KILL -- "-$group"; }"#;

#[derive(Debug)]
pub(super) struct Ward {
    shell: Child,
    /// Its end is the gate's.
    gate_lives: ChildStdin,
}

impl Ward {
    /// Starts it before its child, so that no part of a start is disturbed by it.
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env_clear()
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let gate_lives = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { shell, gate_lives })
    }

    /// Names the process group to be killed.
    pub(super) fn watch(&mut self, group: i32) -> io::Result<()> {
        writeln!(self.gate_lives, "{group}")
    }
}

impl Drop for Ward {
    /// The child's end is somebody else's work from here on: the number may be another's soon.
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
