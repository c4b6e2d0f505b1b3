//! `gate calibrate` and `gate power` through the binary: what is measured and kept, what a report then cites,
//! and when a certificate no longer holds.

mod certified;
mod cited;
mod learned;
mod power;
mod sessions;

use fixture::Project;
use serde_json::Value;
use std::fs;

/// Times of the engine's start: however busy the machine is, they are there.
const START: &str = r#"
title = "Start"

[workload.first]
kind = "first-request"
prompt_tokens = 32
output_tokens = 8

[[check]]
name = "regression"
metric = "ready"
rule = "regression"
margin = "1 %"
ceiling = "5 %"

[[check]]
name = "ceiling"
metric = "port_open"
rule = "ceiling"
limit = "60 s"
"#;

/// A project with a gate `start`, a comparison and a limit, and two looks.
fn small() -> Project {
    let project = Project::without_build();
    project.write("gates/start.toml", START);
    project.edit(
        "gates/gate.toml",
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [4, 5]",
    );
    project
}

/// The project's only certificate: its file's name and what it holds.
fn certificate(project: &Project) -> (String, Value) {
    let files = fs::read_dir(project.path(".gate/calibration")).unwrap();
    let names: Vec<String> = files
        .map(|file| file.unwrap().file_name().to_str().unwrap().to_owned())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let name = format!(".gate/calibration/{}", names[0]);
    let text = project.read(&name);
    (name, serde_json::from_str(&text).unwrap())
}

/// Writes the certificate anew with one part replaced.
#[track_caller]
fn forge(project: &Project, change: impl Fn(&mut Value)) {
    let (name, mut certificate) = certificate(project);
    change(&mut certificate);
    project.write(&name, &serde_json::to_string(&certificate).unwrap());
}
