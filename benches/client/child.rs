//! Processes beside the client: this very program once more, as the server, as a busy loop, or as one that stops another
//! process again and again.
//!
//! Main type: [`Child`], which ends with its owner: the child waits for the end of its input. Refuses to
//! know: what is measured.

use crate::Outcome;
use fixture::truth::{Server, Timing};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::hint::spin_loop;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child as Process, Command, Stdio};
use std::time::Duration;
use verdict::splitmix;

const SERVE: &str = "--as-server";
const SPIN: &str = "--as-busy-loop";
const STOP: &str = "--as-stopper";

pub(crate) struct Child(Process);

impl Child {
    /// A busy loop of one thread.
    pub(crate) fn busy() -> Outcome<Self> {
        start(&[SPIN])
    }

    /// Stops this process for `ms`, after pauses of 1 to 19 times as long: a tenth of the time.
    pub(crate) fn stopper(process: Pid, ms: u64) -> Outcome<Self> {
        start(&[STOP, &process.to_string(), &ms.to_string()])
    }

    /// The server, and where it listens.
    pub(crate) fn server() -> Outcome<(Self, SocketAddr)> {
        let mut child = start(&[SERVE])?;
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

fn start(role: &[&str]) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(role)
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
        Some(STOP) => {
            let number = |at| std::env::args().nth(at).ok_or("a number is missing");
            let process = Pid::from_raw(number(2)?.parse()?);
            let ms = Duration::from_millis(number(3)?.parse()?);
            return stop(process, ms);
        }
        _ => return Ok(false),
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(true)
}

/// Until the owner or the process is gone; never leaves it stopped.
fn stop(process: Pid, ms: Duration) -> Outcome<bool> {
    let ending = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    for seed in 0.. {
        let factor = 1 + splitmix::mix(seed) % 19;
        std::thread::sleep(ms * u32::try_from(factor)?);
        if ending.is_finished() || kill(process, Signal::SIGSTOP).is_err() {
            break;
        }
        std::thread::sleep(ms);
        kill(process, Signal::SIGCONT)?;
    }
    Ok(true)
}
