//! A running `gate dev proxy`, ended on drop.

use fixture::http::DEADLINE;
use fixture::process::gate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Instant;

pub(crate) struct Proxy {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
}

impl Proxy {
    /// Before a server that runs already.
    pub(crate) fn before(upstream: SocketAddr, faults: &[&str]) -> Self {
        let upstream = upstream.to_string();
        let mut arguments = vec!["--upstream", &upstream];
        arguments.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
        Self::start(&arguments)
    }

    /// With these arguments after `--port 0`; waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = gate(&["dev", "proxy", "--port", "0"]);
        command.args(arguments);
        Self::of(command)
    }

    /// What this command becomes; waits until it listens.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            if stderr.read_line(&mut said).unwrap() == 0 {
                panic!("the proxy never listened; it printed:\n{said}");
            }
            // Its engine writes there too, and may have begun the line.
            let address = said.split_once("proxy on http://");
            if let Some(address) = address.and_then(|(_, rest)| rest.split(' ').next()) {
                break address.parse().unwrap();
            }
        };
        Self {
            child,
            stderr,
            address,
        }
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id()), signal).unwrap();
    }

    /// Waits for the end; gives the exit code and what was printed since it listened.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(begun.elapsed() < DEADLINE, "the proxy did not end");
            std::thread::sleep(fixture::TICK);
        };
        let said = self.stderr.by_ref().lines().map_while(Result::ok);
        (code, said.map(|line| line + "\n").collect())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
