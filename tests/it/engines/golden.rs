//! `gate golden make --model`: what is asked of Python, and what becomes of its answers. A script plays Python, so that
//! no test needs PyTorch.

use fixture::{Ended, Project};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Makes an environment, installs, or runs the script, by its arguments; tells what it was asked.
const PYTHON: &str = r#"#!/bin/sh
echo "$@" >> asked
case "$2" in
  venv) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  pip) test ! -e no-network || { echo "no route to host"; exit 1; } ;;
  *)
    env > env
    cp "$2" request.json
    test ! -e refused || { echo "error: cannot load $MODEL"; exit "$(cat refused)"; }
    cp answers.json "$3"
    ;;
esac
"#;

const ANSWERS: &str = r#"{"format": "infergate-goldens/1", "texts": {"1": "b"}, "stop_ids": [2], "cases": [
{"id": "text-word", "prompt_text": "Copy", "prompt_ids": [5], "finish": "length", "text": "a",
 "tokens": [{"id": 0, "text": "a", "logprob": -0.1, "top": [[0, -0.1], [1, -3.0]]}]}]}"#;

/// A project of this repository's gates, with Python as `python3` in the folder `bin`.
fn project() -> Project {
    let project = Project::without_build();
    project.write("answers.json", ANSWERS);
    fs::create_dir(project.path("bin")).unwrap();
    let python = project.path("bin/python3");
    fs::write(&python, PYTHON).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(project.path("model")).unwrap();
    project
}

fn make(project: &Project, further: &[&str]) -> Command {
    let mut command = project.command(&[&["golden", "make", "--model"], further].concat());
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", project.path("bin").display());
    command
        .env("PATH", path)
        .env("HF_TOKEN", "secret")
        .env("HF_HOME", "/cache");
    command
}

fn run(project: &Project, further: &[&str]) -> Ended {
    Ended::of(&make(project, further).output().unwrap())
}

#[test]
fn an_environment_is_made_once_and_sees_no_secret() {
    let project = project();
    let ended = run(&project, &["model", "--tokens", "8"]).expect(0);
    let ended = ended.says(&[
        "1 case, with log-probabilities",
        "no chat template",
        ".gate/python",
    ]);
    assert!(
        ended.stdout.ends_with("gates/data/goldens.json\n"),
        "{ended:?}"
    );
    assert_eq!(project.read("gates/data/goldens.json"), ANSWERS);
    let request: serde_json::Value = serde_json::from_str(&project.read("request.json")).unwrap();
    let model = request["model"].as_str().unwrap();
    assert!(
        model.ends_with("/model") && fs::metadata(model).is_ok(),
        "{model}"
    );
    assert_eq!(
        (&request["tokens"], &request["top_k"]),
        (&8.into(), &5.into())
    );
    let prompts = request["prompts"].as_array().unwrap();
    assert!(
        prompts
            .iter()
            .any(|prompt| prompt["messages"][0]["role"] == "user")
    );
    assert!(prompts.iter().any(|prompt| prompt["text"] == "Copy"));
    let environment = project.read("env");
    assert!(environment.contains("HF_HOME=/cache") && !environment.contains("HF_TOKEN"));
    let asked = |word: &str| project.read("asked").matches(word).count();
    assert_eq!(
        (asked("venv"), asked("pip install"), asked("reference.py")),
        (1, 1, 1)
    );
    run(&project, &["Qwen/Qwen3-0.6B", "--out", "other.json"]).expect(0);
    assert_eq!(
        (asked("venv"), asked("pip install"), asked("reference.py")),
        (1, 1, 2)
    );
    assert!(project.read("request.json").contains("\"Qwen/Qwen3-0.6B\""));
    assert_eq!(project.read("other.json"), ANSWERS);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn what_fails_is_named_with_its_remedy() {
    let project = project();
    let own = ["--python", "bin/python3"];
    let with = |further: &[&str]| run(&project, &[further, own.as_slice()].concat());
    with(&["./nowhere"]).expect(2).says(&[
        "--model ./nowhere: there is no such directory",
        "Qwen/Qwen3-0.6B",
    ]);
    project.write("refused", "2");
    with(&["model"]).expect(2).says(&[
        "transformers cannot use it",
        "tokenizer.json",
        "error: cannot load",
    ]);
    project.write("refused", "1");
    with(&["model"])
        .expect(5)
        .says(&["did not answer", "network", "error: cannot load"]);
    fs::remove_file(project.path("refused")).unwrap();
    project.write("answers.json", "{}");
    with(&["model"])
        .expect(5)
        .says(&["no goldens that can be read", "format"]);
    let nowhere = ["model", "--python", "no-python"];
    run(&project, &nowhere)
        .expect(2)
        .says(&["--python no-python: there is no such program"]);
    project.write("no-network", "");
    run(&project, &["model"]).expect(5).says(&[
        "pip install failed",
        "no route to host",
        "--python",
    ]);
    let mut without = make(&project, &["model"]);
    let ended = Ended::of(&without.env("PATH", project.path("gates")).output().unwrap());
    ended.expect(5).says(&["no `python3` on PATH", "--python"]);
    assert!(!project.path("gates/data/goldens.json").exists());
    run(&project, &["model", "--engine"])
        .expect(2)
        .says(&["--engine"]);
}
