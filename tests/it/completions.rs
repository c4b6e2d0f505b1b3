//! `gate completions`: what a release ships beside the program.

use fixture::{Ended, gate};
use std::fs;
use std::process::Command;

#[test]
fn bash_takes_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    let ended = Ended::of(&gate(&["completions", "bash"]).output().unwrap()).expect(0);
    fs::write(folder.path().join("gate"), &ended.stdout).unwrap();
    // Completes `gate dem`.
    let script = "source ./gate && COMP_WORDS=(gate dem) COMP_CWORD=1 && _gate gate dem gate && echo ${COMPREPLY[*]}";
    let mut bash = Command::new("bash");
    let output = bash
        .args(["-c", script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "demo",
        "{output:?}"
    );
    for (shell, begins) in [("fish", "#"), ("zsh", "#compdef gate")] {
        let ended = Ended::of(&gate(&["completions", shell]).output().unwrap()).expect(0);
        assert!(ended.stdout.starts_with(begins), "{}", ended.stdout);
    }
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let man = folder.path().join("man");
    let command = ["completions", "man", man.to_str().unwrap()];
    Ended::of(&gate(&command).output().unwrap()).expect(0);
    for page in ["gate.1", "gate-check.1", "gate-baseline-record.1"] {
        let text = fs::read_to_string(man.join(page)).unwrap();
        assert!(text.contains(".TH "), "{page}: {text}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let onto = ["completions", "man", file.to_str().unwrap()];
    let ended = Ended::of(&gate(&onto).output().unwrap()).expect(5);
    ended.says(&["cannot write man pages into"]);
}
