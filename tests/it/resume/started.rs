//! A port that somebody else took between its draw and the engine's bind, and an engine that only says so.

use super::{DEADLINE, cut_off, interrupt, json, launches, shorten, start};
use fixture::Project;
use nix::sys::signal::Signal;
use std::net::TcpListener;
use std::time::Instant;

/// Ends as if its port were taken, at its first start, once `held` is there.
const LOSES: &str = "if [ ! -e lost ]; then echo \"$4\" > part; mv part lost; while [ ! -e held ]; do sleep 0.01; done; \
                     echo 'error: Address already in use (os error 98)' >&2; exit 1; fi\n\
                     [ -e won ] || echo \"$4\" > won\nexec \"$@\"\n";

#[test]
fn a_lost_port_is_no_failure_of_the_engine() {
    let project = Project::without_build();
    shorten(&project);
    project.wrap_engine(LOSES);
    let child = start(&project, &[]);
    let begun = Instant::now();
    while !project.path("lost").exists() {
        assert!(begun.elapsed() < DEADLINE, "the engine never came");
        std::thread::sleep(fixture::TICK);
    }
    let port: u16 = project.read("lost").trim().parse().unwrap();
    let _holder = TcpListener::bind(("127.0.0.1", port)).unwrap();
    project.write("held", "");
    cut_off(&project, child, 0, Signal::SIGINT).expect(130);
    let record = json(&project, "result/run.json");
    assert_eq!(launches(&record)[0]["exit"]["how"], "stopped");
    assert_ne!(project.read("lost"), project.read("won"), "another port");
}

/// Nobody has the port: an engine that dies at each first start is no engine that works.
#[test]
fn an_engine_that_only_says_that_its_port_is_taken_has_failed() {
    let project = Project::without_build();
    shorten(&project);
    project.write("held", "");
    project.wrap_engine(LOSES);
    let record = interrupt(&project, 0);
    assert_eq!(launches(&record)[0]["exit"]["how"], "never-ready");
    let detail = launches(&record)[0]["exit"]["detail"].as_str().unwrap();
    let asked =
        "is free: does `serve` hand `{port}` to the server, or is another of its ports taken?";
    assert!(detail.ends_with(asked), "{detail}");
}
