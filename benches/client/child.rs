//! Processes beside the client: this very program once more, as the server or as a busy loop.
//!
//! Main type: [`Child`], which ends with its owner: the child waits for the end of its input. Refuses to
//! know: what is measured.

use crate::Outcome;
use fixture::truth::{Server, Timing};
use std::hint::spin_loop;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child as Process, Command, Stdio};

const SERVE: &str = "--as-server";
const SPIN: &str = "--as-busy-loop";

pub(crate) struct Child(Process);

impl Child {
    /// A busy loop of one thread.
    pub(crate) fn busy() -> Outcome<Self> {
        start(SPIN)
    }

    /// The server, and where it listens.
    pub(crate) fn server() -> Outcome<(Self, SocketAddr)> {
        let mut child = start(SERVE)?;
        let output = child.0.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok((child, line.trim().parse()?))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself; only its remains are collected.
        let _ended = self.0.wait();
    }
}

fn start(role: &str) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Ok(Child(command.spawn()?))
}

/// Plays the child's part, if this process is one.
pub(crate) fn play() -> Outcome<bool> {
    match std::env::args().nth(1).as_deref() {
        Some(SERVE) => {
            let server = Server::start(Timing::default(), 1)?;
            let mut output = std::io::stdout();
            writeln!(output, "{}", server.address)?;
            output.flush()?;
        }
        Some(SPIN) => {
            std::thread::spawn(|| {
                loop {
                    spin_loop();
                }
            });
        }
        _ => return Ok(false),
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(true)
}
