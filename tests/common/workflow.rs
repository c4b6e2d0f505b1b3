//! Steps of this repository's workflows, run as Actions runs them, but here.

use super::{repository, set_up_like};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The script of a step, with the environment and the folder of `like`, and this `gate` on the path.
pub(crate) fn step(workflow: &str, name: &str, like: &Command) -> Command {
    let mut command = Command::new("bash");
    command.args(["-e", "-c", &script(workflow, name)]);
    set_up_like(&mut command, like);
    let gate = Path::new(env!("CARGO_BIN_EXE_gate")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", gate.display()));
    command
}

/// What stands behind `run:`, on one line or in a block.
fn script(workflow: &str, name: &str) -> String {
    let file = repository().join(".github/workflows").join(workflow);
    let text = fs::read_to_string(file).unwrap();
    let (_, step) = text.split_once(&format!("- name: {name}\n")).unwrap();
    let (_, run) = step.split_once("        run: ").unwrap();
    let mut lines = run.lines();
    match lines.next().unwrap() {
        "|" => lines
            .map_while(|line| line.strip_prefix("          "))
            .map(|line| format!("{line}\n"))
            .collect(),
        line => line.to_owned(),
    }
}
