//! `gate serve` as a child process, with a scrubbed environment, ended on drop.

use super::http::{self, DEADLINE, Response};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// What it printed up to the listening line, that one included.
    pub(crate) start: Vec<String>,
    lines: Receiver<String>,
}

/// `gate` with these arguments and nothing of a CI's environment. What answers are is a matter of the
/// backend: the CPU's, where nothing is said, though there be a GPU.
pub(crate) fn gate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name == "CI" || name.starts_with("GITHUB_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("INFERGATE_BACKEND", "cpu")
        .stdin(Stdio::null());
    command
}

impl Server {
    /// Serves the embedded model on a free port, by one thread where nothing is said; waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// The same with more in its environment.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = gate(&["serve", "--port", "0"]);
        command.envs(environment.iter().copied());
        if !arguments.contains(&"--threads") {
            command.args(["--threads", "1"]);
        }
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = read_lines(&mut child);
        let mut start = Vec::new();
        let begun = Instant::now();
        let address = loop {
            let Ok(line) = lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) else {
                drop(child.kill());
                panic!("the server never listened; it printed {start:#?}");
            };
            start.push(line.clone());
            if let Some(rest) = line.strip_prefix("listening on http://") {
                break rest
                    .split(' ')
                    .next()
                    .and_then(|address| address.parse().ok());
            }
        };
        Self {
            child,
            address: address.unwrap(),
            start,
            lines,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        http::get(self.address, path)
    }

    /// A completion's JSON; its status must be 200.
    pub(crate) fn complete(&self, body: Value) -> Value {
        self.ok("/v1/completions", body).json()
    }

    pub(crate) fn ok(&self, path: &str, body: Value) -> Response {
        let response = self.post(path, &body);
        if response.status != 200 {
            let status = response.status;
            panic!("{status} for {body}: {}", response.text());
        }
        response
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        http::post(self.address, path, body)
    }

    /// A stream's events as JSON, `[DONE]` left out.
    pub(crate) fn stream(&self, path: &str, mut body: Value) -> Vec<Value> {
        body["stream"] = json!(true);
        self.ok(path, body).events()
    }

    /// The value of a metric without labels of its own, or with `label="value"` as in `part`.
    pub(crate) fn metric(&self, name: &str, part: &str) -> f64 {
        let text = self.get("/metrics").text();
        let wanted = |line: &&str| line.starts_with(&format!("{name}{{")) && line.contains(part);
        let line = text
            .lines()
            .find(wanted)
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Asks until the metric has the value.
    pub(crate) fn await_metric(&self, name: &str, value: f64) {
        let begun = Instant::now();
        while self.metric(name, "").total_cmp(&value).is_ne() {
            assert!(begun.elapsed() < DEADLINE, "{name} never became {value}");
        }
    }

    /// Asks until the server says that it takes no more requests; gives that answer.
    pub(crate) fn await_refusal(&self) -> Response {
        let begun = Instant::now();
        loop {
            let ready = self.get("/ready");
            if ready.status != 200 {
                return ready;
            }
            assert!(
                begun.elapsed() < DEADLINE,
                "the server never began to shut down"
            );
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// What it printed after the listening line; waits until it has ended.
    pub(crate) fn last_words(&self) -> String {
        self.lines.iter().map(|line| line + "\n").collect()
    }

    /// Waits for the end and gives the exit code.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        wait(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs `gate serve` that must end by itself: exit code and stderr.
pub(crate) fn run_to_end(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = gate(&["serve"]);
    let mut child = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = read_lines(&mut child);
    let code = wait(&mut child);
    (code, lines.iter().map(|line| line + "\n").collect())
}

/// What it said behind its stages, where that is one line and it ended with 5.
#[track_caller]
pub(crate) fn refusal(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    let said: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.ends_with(" ms"))
        .collect();
    let [line] = said[..] else {
        panic!("{stderr}");
    };
    line.to_owned()
}

/// Lines of stderr; the channel closes when the process does.
fn read_lines(child: &mut Child) -> Receiver<String> {
    let stderr = child.stderr.take().unwrap();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // Nobody listens once the server runs; reading on keeps its pipe from filling.
            drop(sender.send(line));
        }
    });
    lines
}

fn wait(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > DEADLINE {
            drop(child.kill());
            panic!("the process did not end");
        }
        std::thread::yield_now();
    }
}
