//! Every gate of `gates/` that no profile runs by itself measures what its checks read, on the embedded engine: none is
//! invalid, and what does not depend on how busy the machine is passes. Clocks are scaled ([`scale`]).

use super::profiles::run_by_profiles;
use super::scaled::scale;
use fixture::{Project, alone, gate_program, repository};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// What holds on any machine: answers, counts, bounds in bytes.
const SURE: [&str; 7] = [
    "answers-hybrid/same",
    "answers/same",
    "matrix/answers",
    "matrix/cells",
    "staggered/answers",
    "stream-parity/answers",
    "stream-parity/texts",
];

/// What the rules `ambiguous-events` and `client-late` say.
const DISTURBED: [&str; 3] = [
    "arrived together with a later one",
    "after the first arrived together with it",
    "the load client was late",
];

#[test]
fn one_block_of_every_other_gate_gives_every_check_its_value() {
    let _alone = alone();
    let project = Project::without_build();
    project.copy_hybrid();
    project.edit("gates/gate.toml", "budget = \"75 s\"", "budget = \"9 min\"");
    // The program that runs here stays in memory; a cold start needs one of its own.
    let engine = project.path("engine");
    fs::copy(gate_program(), &engine).unwrap();
    let config = project.read("gates/gate.toml");
    let engine = engine.to_str().unwrap();
    let config = config.replace(&gate_program(), engine);
    project.write("gates/gate.toml", &config);
    let names = names();
    names.iter().for_each(|name| scale(&project, name));
    let mut arguments = vec!["check", "--seed", "1", "--out", "result"];
    arguments.extend(names.iter().flat_map(|name| ["--gate", name]));
    let said = until_the_first_block_is_judged(&project, &arguments);
    assert!(project.path("result/verdict.json").is_file(), "{said}");
    let text = project.read("result/verdict.json");
    let verdict: Value = serde_json::from_str(&text).unwrap();
    let mut seen = 0;
    for gate in verdict["gates"].as_array().unwrap() {
        for check in gate["checks"].as_array().unwrap() {
            let id = check["id"].as_str().unwrap();
            // A busy machine may fail a limit on time, or keep the client from seeing tokens of a tenth of a
            // millisecond one by one. It cannot take a value away.
            let reason = check["reason"].as_str().unwrap();
            let disturbed = DISTURBED.iter().any(|words| reason.contains(words));
            let invalid = check["verdict"] == "invalid" && !disturbed;
            assert!(!invalid, "{id}: {text}");
            if SURE.contains(&id) {
                assert_ne!(check["verdict"], "fail", "{id}: {text}");
                assert!(check["head"].is_number(), "{id}: {text}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, SURE.len(), "{said}\n{text}");
    assert_eq!(verdict["gates"].as_array().unwrap().len(), names.len());
    assert_eq!(project.leftovers(), [0; 0]);
}

/// One block is no basis for a verdict on time, and enough for every value to be there: the session is
/// interrupted after it.
fn until_the_first_block_is_judged(project: &Project, arguments: &[&str]) -> String {
    let mut command = project.command(arguments);
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.starts_with("block 1:") {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
        }
        said += &(line + "\n");
    }
    child.wait().unwrap();
    said
}

/// The files of `gates/` that are gates which no profile runs by itself.
fn names() -> Vec<String> {
    let run = run_by_profiles();
    let files = fs::read_dir(repository().join("gates")).unwrap();
    let names = files.filter_map(|file| {
        let path = file.unwrap().path();
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_gate = path.extension()? == "toml" && name != "gate";
        (is_gate && !run.contains(&name)).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
