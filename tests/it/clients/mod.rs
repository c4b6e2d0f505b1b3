//! `gate serve` under the official clients of OpenAI's API, for Python and for Node.
//!
//! Each client is one script with a table of checks; it is started here against two servers, a fast one
//! and one that is slow and takes two requests. Where Python, Node or the registry is missing, the test says
//! so in one line and passes; with `INFERGATE_REQUIRE_CLIENTS=1` it fails.

use fixture::install::{self, Missing};
use fixture::process::Server;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn python() {
    check("the official Python client", install::python(), |command| {
        command.arg(script("openai_client.py"))
    });
}

#[test]
fn node() {
    check("the official Node client", install::node(), |command| {
        command.arg(script("openai_client.cjs"))
    });
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/clients")
        .join(name)
}

fn check(
    what: &str,
    installed: Result<install::Client, Missing>,
    script: impl FnOnce(&mut Command) -> &mut Command,
) {
    let Some(client) = install::or_skip(what, installed) else {
        return;
    };
    let fast = Server::start(&[]);
    let slow = Server::start(&[
        "--fault",
        "decode-delay=20ms",
        "--max-running",
        "1",
        "--queue",
        "1",
    ]);
    let mut command = Command::new(&client.program);
    for (name, _) in std::env::vars_os() {
        let shown = name.to_string_lossy().to_ascii_lowercase();
        // A proxy would stand between the client and this machine; a key or an address would be sent.
        if shown.ends_with("_proxy") || shown.starts_with("openai_") {
            command.env_remove(name);
        }
    }
    script(&mut command)
        .args(client.arguments)
        .arg(format!("http://{}", fast.address))
        .arg(format!("http://{}", slow.address))
        .arg(format!("http://{}", nobody()));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}:\n{said}{errors}");
    // A script that runs no check must not pass.
    assert!(
        said.lines().filter(|line| line.starts_with("ok ")).count() > 20,
        "{said}"
    );
}

/// An address on which nobody listens.
fn nobody() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}
