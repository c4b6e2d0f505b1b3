//! Base and head as commits: builds that are kept, and what is compared with what.

use fixture::{Project, START, gates_that};
use std::fs;

/// Commits whose sessions are short.
fn short() -> Project {
    let project = Project::with_commits();
    project.shorten();
    project.commit("short sessions");
    project
}

#[test]
fn a_regression_between_commits_is_found_and_the_base_build_is_kept() {
    let project = short();
    project.git(&["checkout", "--quiet", "-b", "slow"]);
    project.write("flags", "--fault=wrong-token=50");
    project.commit("a planted fault");
    let arguments = ["check", "--format", "json", "--gate", "e2e"];
    let ended = project
        .run(&arguments)
        .expect(1)
        .says(&["building base", "built base"]);
    assert_eq!(ended.json()["comparison"], "interleaved");
    assert_eq!(gates_that(&ended.json(), "fail"), ["e2e"]);
    // The second time, main's engine is there already.
    project
        .run(&arguments)
        .expect(1)
        .says(&["using the earlier build"]);
}

#[test]
fn a_clean_tree_at_main_is_measured_against_itself_with_one_build() {
    let project = short();
    let ended = project
        .run(&["check", "--format", "json", "--gate", "e2e"])
        .expect(0)
        .says(&["measuring: up to 1 block of 2 launches"]);
    assert_eq!(ended.json()["comparison"], "same-build");
    assert!(!ended.stderr.contains("building base"), "{}", ended.stderr);
    let text = project.run(&["check", "--gate", "e2e"]).expect(0).stdout;
    let text = fixture::unwrapped(&text);
    for part in [
        "A/A run: base and head are one build (",
        "so this shows noise, not a change",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_result_directory_in_the_tree_is_no_change_of_it() {
    let project = short();
    fs::create_dir(project.path("empty")).unwrap();
    for out in ["result", "more/result", "empty"] {
        let check = ["check", "--format", "json", "--gate", "e2e", "--out", out];
        let ended = project.run(&check).expect(0);
        assert_eq!(ended.json()["comparison"], "same-build", "before {out}");
        assert_eq!(ended.json()["commits"][1]["dirty"], false, "before {out}");
    }
    // What stands in a directory of the user's own is theirs to ignore.
    fs::create_dir(project.path("mine")).unwrap();
    project.write("mine/notes", "");
    let check = ["check", "--gate", "e2e", "--same-build", "--out", "mine"];
    project.run(&check).expect(0);
    assert!(!project.path("mine/.gitignore").exists());
}

#[test]
fn uncommitted_changes_are_measured_against_their_commit() {
    let project = short();
    project.write("flags", "--fault=wrong-token=50");
    let ended = project
        .run(&["check", "--format", "json", "--gate", "e2e"])
        .expect(1);
    let commits = &ended.json()["commits"];
    assert_eq!(commits[0]["commit"], commits[1]["commit"]);
    assert_eq!(commits[1]["dirty"], true);
}

#[test]
fn a_named_commit_is_measured_with_the_gates_of_this_tree() {
    let project = short();
    project.git(&["checkout", "--quiet", "-b", "proposed"]);
    project.write("flags", "--fault=wrong-token=50");
    // What it says about gates counts only once it is merged.
    project.write("gates/e2e.toml", "title = \"nothing to see here\"\n");
    project.commit("a planted fault, and no gate that would see it");
    project.git(&["checkout", "--quiet", "main"]);
    let check = ["check", "--format", "json", "--gate", "e2e", "--head"];
    let ended = project
        .run(&[&check[..], &["proposed"]].concat())
        .expect(1)
        .says(&["building head", "building base"]);
    let proposed = project.read(".git/refs/heads/proposed");
    let head = &ended.json()["commits"][1];
    assert_eq!(head["commit"], proposed.trim());
    assert_eq!(head["dirty"], false);
    assert_eq!(gates_that(&ended.json(), "fail"), ["e2e"]);
    let unknown = project.run(&[&check[..], &["no-such-ref"]].concat());
    unknown.expect(2).says(&["no-such-ref"]);
}

#[test]
fn where_nothing_could_be_measured_the_result_directory_says_why() {
    let project = Project::with_commits();
    project.git(&["checkout", "--quiet", "-b", "broken"]);
    project.write("build.sh", "echo does not compile; exit 1\n");
    project.commit("broken");
    project.git(&["checkout", "--quiet", "main"]);
    let check = |project: &Project| {
        project.run(&[
            "check", "--gate", "e2e", "--head", "broken", "--out", "result",
        ])
    };
    check(&project).expect(5).says(&["does not compile"]);
    let told = project.read("result/failure.txt");
    assert!(told.contains("does not compile"), "{told}");
    assert!(!project.path("result/run.json").exists());
    // A directory with a session in it keeps what it has.
    project.write("result/run.json", "{}");
    project.write("result/failure.txt", "kept");
    check(&project).expect(2);
    assert_eq!(project.read("result/failure.txt"), "kept");
}

#[test]
fn without_a_build_no_commit_can_be_named() {
    let project = Project::without_build();
    for (command, option) in [
        (&["check"][..], "--head"),
        (&["check"], "--base"),
        (&["baseline", "record"], "--base"),
        (&["baseline", "record"], "--anchor"),
    ] {
        let ended = project.run(&[command, &[option, "v9.9-typo"]].concat());
        let leave = format!("leave {option}");
        ended.expect(2).says(&[option, "engine.build", &leave]);
    }
}

/// A change to a Python engine, of which the build copies these files.
fn python_engine(env: &str, start: &str, copied: &str) -> Project {
    let project = Project::with_commits();
    project.write("gates/start.toml", START);
    project.shorten();
    let engine = "import os, sys\nprint('modules of', os.path.dirname(__file__), flush=True)\n\
                  os.execv(os.environ['GATE'], ['gate', *sys.argv[1:]])\n";
    project.write("own_engine.py", engine);
    project.write("start.py", "import own_engine\n");
    let build = format!(
        "set -e\nmkdir -p \"$1/engine\"\ncp {copied} \"$1/engine/\"\ncksum own_engine.py > \"$1/engine/of\"\n"
    );
    project.write("build.sh", &build);
    let config = project.read("gates/gate.toml");
    let config = config
        .replacen("GATE = ", &format!("{env}GATE = "), 1)
        .replace("serve = [\"{artifact}\", ", &format!("serve = [{start}, "));
    project.write("gates/gate.toml", &config);
    project.commit("engine of modules");
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.write("own_engine.py", &format!("{engine}# changed\n"));
    project.commit("change");
    project
}

/// The folder of the module `own_engine` that each launch imports; the working directory, where the tree lies, has one too.
fn folders_of_modules(env: &str, start: &str) -> Vec<String> {
    let project = python_engine(env, start, "*.py");
    project
        .run(&["check", "--gate", "start", "--out", "result"])
        .expect(0);
    let logs = fs::read_dir(project.path("result/logs")).unwrap();
    let logs = logs.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    logs.filter(|log| log.contains("modules of")).collect()
}

#[test]
fn modules_of_the_working_tree_are_not_those_of_both_arms() {
    let by_name = folders_of_modules(
        "PYTHONPATH = \"{artifact}\", ",
        r#""python3", "-m", "own_engine""#,
    );
    // A script has its own folder's.
    let by_script = folders_of_modules("", r#""python3", "{artifact}/start.py""#);
    for logs in [by_name, by_script] {
        assert!(logs.len() >= 2, "{logs:?}");
        for log in logs {
            assert!(log.contains("/.gate/artifacts/"), "{log}");
        }
    }
}

#[test]
fn an_engine_that_runs_the_working_trees_code_in_both_arms_does_not_pass() {
    let start = r#""python3", "{artifact}/start.py""#;
    let project = python_engine("PYTHONPATH = \".\", ", start, "start.py");
    let ceiling = "rule = \"ceiling\"\nlimit = \"60 s\"";
    let regression = "rule = \"regression\"\nmargin = \"900 %\"\nceiling = \"9000 %\"";
    project.edit("gates/start.toml", ceiling, regression);
    let check = ["check", "--gate", "start", "--out", "result"];
    let ended = project.run(&[&check[..], &["--format", "json"]].concat());
    let verdict = ended.expect(3).json();
    let reason = &verdict["gates"][0]["checks"][0]["reason"];
    let said = "base's engine read `own_engine.py` of the working tree while it started";
    assert!(reason.as_str().unwrap().contains(said), "{reason}");
}

/// A commit is built in a folder of the working tree, and Cargo joins the settings of all folders around a package.
#[test]
fn settings_of_the_working_tree_that_a_commit_was_built_with_are_no_pass() {
    let project = Project::with_commits();
    let ceiling = "rule = \"ceiling\"\nlimit = \"60 s\"";
    let regression = "rule = \"regression\"\nmargin = \"900 %\"\nceiling = \"9000 %\"";
    project.write("gates/start.toml", &START.replace(ceiling, regression));
    fs::create_dir(project.path(".cargo")).unwrap();
    let settings = |text: &str| project.write(".cargo/config.toml", text);
    settings("[profile.release]\nlto = \"fat\"\n");
    project.commit("settings of its own");
    let check = ["check", "--gate", "start", "--format", "json"];
    let reason = |code| {
        let verdict = project.run(&check).expect(code).json();
        verdict["gates"][0]["checks"][0]["reason"].to_string()
    };
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.write("flags", "--fault=decode-delay=1ms");
    project.commit("another engine");
    let passed = reason(0);
    assert!(!passed.contains(".cargo"), "{passed}");
    settings("[profile.release]\nlto = \"off\"\n");
    let said = reason(3);
    let part = "base's build also took `.cargo/config.toml` from the working tree";
    assert!(said.contains(part), "{said}");
}
