//! How a proxy ends, what it refuses, and that its engine ends with it.

use super::running::Proxy;
use fixture::http;
use fixture::process::gate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;

const ENGINE: [&str; 6] = [
    env!("CARGO_BIN_EXE_gate"),
    "serve",
    "--threads",
    "1",
    "--port",
    "{engine_port}",
];

fn with_engine() -> Proxy {
    let arguments: Vec<&str> = ["--"].into_iter().chain(ENGINE).collect();
    let proxy = Proxy::start(&arguments);
    assert_eq!(http::get(proxy.address, "/health").status, 200);
    proxy
}

/// The process that the proxy started.
fn child_of(proxy: &Proxy) -> Pid {
    let path = format!("/proc/{0}/task/{0}/children", proxy.id());
    let children = fs::read_to_string(path).unwrap();
    Pid::from_raw(children.trim().parse().unwrap())
}

#[test]
fn its_engine_ends_with_it() {
    let proxy = with_engine();
    let engine = child_of(&proxy);
    proxy.signal(Signal::SIGTERM);
    let (code, said) = proxy.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(kill(engine, None).is_err(), "the engine lives on");
}

#[test]
fn it_ends_with_its_engine_and_says_so() {
    let proxy = with_engine();
    kill(child_of(&proxy), Signal::SIGKILL).unwrap();
    let (code, said) = proxy.ended();
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("the engine behind the proxy ended (signal: 9"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |arguments: &[&str], code: i32, told: &str| {
        let output = gate(&["dev", "proxy", "--port", "0"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(told), "{told} is missing in:\n{said}");
    };
    check(&[], 2, "<--upstream <IP:PORT>|-- <COMMAND>...>");
    let both = ["--upstream", "127.0.0.1:1", "--", "sleep", "{engine_port}"];
    check(&both, 2, "cannot be used with");
    check(&["--upstream", "here"], 2, "invalid socket address");
    let fault = ["--upstream", "127.0.0.1:1", "--fault", "slow=1"];
    check(
        &fault,
        2,
        "there is no fault `slow`; the faults are: decode-delay=200us",
    );
    check(&["--", "sleep", "1"], 2, "never says {engine_port}");
    check(
        &["--", "/no/such/engine", "{engine_port}"],
        5,
        "cannot start `/no/such/engine",
    );
    check(
        &["--", "sh", "-c", "exit 3", "{engine_port}"],
        5,
        "ended (exit status: 3)",
    );
}
