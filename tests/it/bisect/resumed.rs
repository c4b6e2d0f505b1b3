//! A search that is cut off goes on where it was.

use super::{LEAKING, Made, history, trials, tried};
use fixture::{Ended, Project};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, mkfifo};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

/// Starts a search and sends the signal once its second session is about to begin, in the build of a commit that
/// waits for us.
fn cut_off(project: &Project, signal: Signal) -> Ended {
    let hold = project.path("hold");
    let _ = fs::remove_file(&hold);
    mkfifo(&hold, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let arguments = ["bisect", "c0", "c4", "--gate", "leak", "--out", "result"];
    let mut command = project.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let begun = lines
        .by_ref()
        .find(|line| line.as_ref().unwrap().contains("trying"));
    assert!(begun.is_some(), "nothing was tried");
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let stderr: Vec<String> = lines.map(Result::unwrap).collect();
    let mut stdout = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    let ended = Ended {
        code: child.wait().unwrap().code(),
        stdout,
        stderr: stderr.join("\n"),
    };
    // From here on the build goes through.
    fs::remove_file(&hold).unwrap();
    fs::write(&hold, "").unwrap();
    ended
}

fn project() -> Project {
    history(&[
        Made::With(""),
        Made::With(""),
        Made::Held(""),
        Made::With(LEAKING),
        Made::With(LEAKING),
    ])
}

fn journal(project: &Project) -> Value {
    serde_json::from_str(&project.read("result/bisect.json")).unwrap()
}

#[test]
fn an_interrupted_search_tells_its_candidates_and_goes_on() {
    let project = project();
    let ended = cut_off(&project, Signal::SIGINT).expect(130);
    for part in ["UNFINISHED", "one of these 4", "commit 1", "--resume"] {
        assert!(
            ended.stdout.contains(part),
            "`{part}` is missing in\n{}",
            ended.stdout
        );
    }
    assert_eq!(project.leftovers(), [0; 0]);
    let before = journal(&project);
    assert_eq!(trials(&before), [tried(4, "confirm", "bad")]);

    let again = ["bisect", "c0", "c4", "--gate", "leak", "--out", "result"];
    project
        .run(&again)
        .expect(2)
        .says(&["bisect.json already", "--resume"]);

    let ended = project
        .run(&["bisect", "--resume", "result", "--format", "json"])
        .expect(1);
    let found = ended.json();
    assert_eq!(found["conclusion"], json!({"is": "culprit", "commit": 3}));
    assert_eq!(found["trials"][0], before["trials"][0]);
    assert_eq!(found["seed"], before["seed"]);
    assert_eq!(
        trials(&found)[1..],
        [
            tried(2, "search", "good"),
            tried(3, "search", "bad"),
            tried(3, "jump", "bad"),
        ]
    );
    project
        .run(&["bisect", "--resume", "result"])
        .expect(2)
        .says(&["is finished"]);
}

#[test]
fn a_killed_search_goes_on_unless_its_gate_has_changed() {
    let project = project();
    let ended = cut_off(&project, Signal::SIGKILL);
    assert_eq!(ended.code, None);
    project.edit(
        "gates/leak.toml",
        "limit = \"16 tokens\"",
        "limit = \"17 tokens\"",
    );
    let resume = ["bisect", "--resume", "result", "--format", "json"];
    project
        .run(&resume)
        .expect(2)
        .says(&["17 tokens", "gates/leak.toml (now)"]);
    project.edit(
        "gates/leak.toml",
        "limit = \"17 tokens\"",
        "limit = \"16 tokens\"",
    );
    let found = project.run(&resume).expect(1).json();
    assert_eq!(found["conclusion"], json!({"is": "culprit", "commit": 3}));
    project
        .run(&["bisect", "--resume", "nowhere"])
        .expect(2)
        .says(&["nowhere/bisect.json"]);
}
