//! `gate doctor` through the binary: what the project asks of a machine, and what is said where it is not there.

use fixture::{Ended, Project};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A project that asks for this.
fn asking(host: &str) -> Project {
    let project = Project::without_build();
    let config = project.read("gates/gate.toml");
    project.write("gates/gate.toml", &format!("{config}\n{host}"));
    project
}

fn finding(ended: &Ended, what: &str) -> serde_json::Value {
    let told = ended.json();
    let findings = told["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == what);
    found
        .unwrap_or_else(|| panic!("no `{what}` in {told}"))
        .clone()
}

#[test]
fn a_machine_that_has_what_is_asked_is_fit() {
    let project = asking(
        "[host]\ncores = 1\nmemory = \"1 MiB\"\ndisk = \"1 MiB\"\nprograms = [\"sh\"]\n\
         [[host.cache]]\npath = \"weights\"\nbytes = \"1 KiB\"\nwarm = \"fetch-weights\"\n",
    );
    fs::create_dir_all(project.path("weights/shards")).unwrap();
    project.write("weights/shards/one", &"x".repeat(600));
    project.write("weights/two", &"x".repeat(424));
    let ended = project.run(&["doctor", "--format", "json"]).expect(0);
    assert_eq!(finding(&ended, "sh")["fitness"], "fit");
    assert_eq!(finding(&ended, "weights")["fitness"], "fit");
    assert_ne!(ended.json()["fitness"], "unfit");
    let text = project.run(&["doctor"]).expect(0).stdout;
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text.contains("FIT"), "{text}");
}

#[test]
fn what_is_left_to_fill_in_is_unfit() {
    let project = asking("# FILL IN: the command\n");
    let ended = project.run(&["doctor"]).expect(5);
    let told = "gates/gate.toml: complete what is marked in line ";
    assert!(
        ended.stdout.contains("1 line marked FILL IN"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
}

#[test]
fn the_engines_program_is_looked_for_where_it_would_be_started_from() {
    let project = asking("[engine.env]\nPATH = \"venv/bin\"\n");
    let serve = format!("serve = [\"{}\"", env!("CARGO_BIN_EXE_gate"));
    project.edit("gates/gate.toml", &serve, "serve = [\"own-engine\"");
    let fitness = |code| {
        let ended = project.run(&["doctor", "--format", "json"]).expect(code);
        finding(&ended, "own-engine")["fitness"].clone()
    };
    fs::create_dir_all(project.path("venv/bin")).unwrap();
    project.write("venv/bin/own-engine", "");
    assert_eq!(fitness(5), "unfit");
    let may_run = fs::Permissions::from_mode(0o755);
    fs::set_permissions(project.path("venv/bin/own-engine"), may_run).unwrap();
    assert_eq!(fitness(0), "fit");
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let cache = "[[host.cache]]\npath = \"~/no-such-weights\"\nwarm = \"fetch-weights --all\"\n";
    let check = |host: &str, what: &str, says: &str| {
        let project = asking(host);
        let ended = project.run(&["doctor", "--format", "json"]).expect(5);
        let finding = finding(&ended, what);
        assert_eq!(finding["fitness"], "unfit", "{finding}");
        let remedy = finding["remedy"].as_str().unwrap();
        let found = finding["found"].as_str().unwrap();
        assert!(format!("{found} {remedy}").contains(says), "{finding}");
        let text = project.run(&["doctor"]).expect(5).stdout;
        assert!(text.contains("UNFIT"), "{text}");
    };
    check(cache, "~/no-such-weights", "fetch-weights --all");
    check("[host]\ncores = 90000\n", "processors", "90000");
    check("[host]\nmemory = \"900000 GiB\"\n", "memory", "required");
    check("[host]\ndisk = \"9000000 GiB\"\n", "free disk", "required");
    check("[host]\ngpus = 900\n", "GPUs", "nvidia-smi");
    check(
        "[host]\nprograms = [\"no-such-program\"]\n",
        "no-such-program",
        "install",
    );
}

#[test]
fn wrong_demands_are_refused_with_their_place() {
    let check = |host: &str, says: &str| {
        asking(host)
            .run(&["doctor"])
            .expect(2)
            .says(&["gates/gate.toml", says]);
    };
    check("[host]\ngpu_count = 1\n", "gpu_count");
    check("[host]\nmemory = 16\n", "a number and its unit");
    check("[[host.cache]]\npath = \"x\"\n", "warm");
}
