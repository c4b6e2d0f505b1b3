//! `gate init --github`: workflows, gates and label rules for the engine that a tree holds.

use fixture::{Ended, Project, gate, repository, workflow};
use infergate::presets;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use verdict::plan;

const ACTION: &str = "owner/infergate@0123456789abcdef0123456789abcdef01234567";

fn init(folder: &Path, further: &[&str]) -> Ended {
    let arguments = [&["init", "--github"], further].concat();
    let output = gate(&arguments).current_dir(folder).output().unwrap();
    Ended::of(&output)
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_known_engines_tree_gets_everything() {
    for (file, text, engine, program) in [
        (
            "Cargo.toml",
            "[package]\nname = \"infergate\"\n",
            "infergate",
            "cargo",
        ),
        (
            "pyproject.toml",
            "[project]\nname = \"vllm\"\n",
            "vllm",
            "pip install",
        ),
        (
            "CMakeLists.txt",
            "project(\"llama.cpp\" C CXX)\n",
            "llama.cpp",
            "cmake",
        ),
    ] {
        let folder = tree(&[(file, text)]);
        let folder = folder.path();
        init(folder, &["--action", ACTION]).expect(0);
        let config = read(folder, "gates/gate.toml");
        for part in [
            "[engine.build]",
            program,
            "{artifact}",
            "[[label]]",
            "infergate-gate.yml",
        ] {
            assert!(config.contains(part), "`{part}` for {engine} in:\n{config}");
        }
        for name in ["label", "gate", "baseline"] {
            let workflow = read(folder, &format!(".github/workflows/infergate-{name}.yml"));
            assert!(
                workflow.contains("owner/infergate/.github/actions/gate@0123"),
                "{workflow}"
            );
            assert!(!workflow.contains("uses: $/"), "{workflow}");
        }
        // What was written is read again: refused gates would be exit code 2, and there is no GPU here.
        let told = gate(&["doctor", "--format", "json"])
            .current_dir(folder)
            .output()
            .unwrap();
        let told = Ended::of(&told);
        assert!(matches!(told.code, Some(0 | 5)), "{told:?}");
        let again = init(folder, &["--action", ACTION]).expect(2);
        again.says(&["infergate-label.yml", "already exist"]);
    }
}

/// `timeout-minutes` of a job.
fn minutes(workflow: &str, job: &str) -> u64 {
    let (_, job) = workflow.split_once(&format!("\n  {job}:\n")).unwrap();
    let (_, after) = job.split_once("    timeout-minutes: ").unwrap();
    let digits = after.split(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

#[test]
fn jobs_have_time_for_two_builds_and_the_budget() {
    for preset in presets::ALL {
        let folder = tree(&[]);
        let folder = folder.path();
        init(folder, &["--action", ACTION, "--engine", preset.name]).expect(0);
        let selection = plan::Selection {
            profile: "full".into(),
            gates: Vec::new(),
        };
        let (plan, _) = plan::from_directory(folder, &selection).unwrap();
        let build = plan.engine.build.map(|build| build.timeout);
        let build = build.unwrap_or_default().as_secs() / 60;
        let session = 2 * build + plan.design.budget.as_secs() / 60;
        // Checkouts, the build of `gate`, artifacts.
        let rest = 60;
        let gate = read(folder, ".github/workflows/infergate-gate.yml");
        let baseline = read(folder, ".github/workflows/infergate-baseline.yml");
        let name = preset.name;
        assert!(minutes(&gate, "gpu") >= session + rest, "{name}");
        assert!(minutes(&baseline, "record") >= session + rest, "{name}");
        // By night a soak, and twelve sessions of one build.
        let night = session + build + 12 * plan.design.budget.as_secs() / 60;
        assert!(minutes(&baseline, "night") >= night + rest, "{name}");
    }
}

#[test]
fn mains_records_have_a_place() {
    let project = Project::empty();
    project.write("pyproject.toml", "[project]\nname = \"vllm\"\n");
    init(&project.path(""), &["--action", ACTION])
        .expect(0)
        .says(&["INFERGATE_BASELINE_KEY"]);
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.git(&["init", "--quiet", "--bare", "origin.git"]);
    project.git(&["remote", "add", "origin", "origin.git"]);
    // As the job `store` calls them.
    for word in ["push", "pull"] {
        project.run(&["baseline", word]).expect(0);
    }
}

#[test]
fn the_night_measures_what_takes_hours_where_there_is_a_profile_for_it() {
    let folder = tree(&[]);
    let folder = folder.path();
    init(folder, &["--action", ACTION, "--engine", "vllm"]).expect(0);
    assert!(!read(folder, "gates/gate.toml").contains("[profile.nightly]"));
    let mut command = gate(&[]);
    command.current_dir(folder);
    let mut step = workflow::step("baseline.yml", "Does main endure?", &command);
    let ended = Ended::of(&step.output().unwrap()).expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    // An unknown key is refused before anything is measured: so it is read.
    let config = read(folder, "gates/gate.toml");
    let config = config + "\n[profile.nightly]\nlike = \"full\"\nhours = 4\n";
    fs::write(folder.join("gates/gate.toml"), config).unwrap();
    let mut step = workflow::step("baseline.yml", "Does main endure?", &command);
    let ended = Ended::of(&step.output().unwrap()).expect(2);
    ended.says(&["profile.nightly"]);
}

#[test]
fn gates_that_are_there_keep_their_words() {
    let folder = tree(&[("go.mod", "module example.org/engine\n")]);
    let folder = folder.path();
    let first = gate(&["init", "--engine", "infergate"])
        .current_dir(folder)
        .output()
        .unwrap();
    Ended::of(&first).expect(0);
    let before = read(folder, "gates/gate.toml");
    init(folder, &["--action", ACTION]).expect(0);
    let after = read(folder, "gates/gate.toml");
    assert!(after.starts_with(&before), "{after}");
    assert!(after.contains("\"!docs/**\""), "{after}");
    assert!(after.contains("include_str!"), "{after}");
    fs::remove_dir_all(folder.join(".github")).unwrap();
    init(folder, &["--action", ACTION])
        .expect(0)
        .says(&["stays as it is"]);
    assert_eq!(read(folder, "gates/gate.toml"), after);
}

#[test]
fn what_is_wrong_is_refused_and_nothing_is_written() {
    let folder = tree(&[("README.md", "# hello\n")]);
    let folder = folder.path();
    init(folder, &["--action", ACTION])
        .expect(2)
        .says(&["--engine custom"]);
    init(folder, &[]).expect(2).says(&["--action"]);
    let without = ["init", "--engine", "vllm", "--action", ACTION];
    let output = gate(&without).current_dir(folder).output().unwrap();
    Ended::of(&output).expect(2).says(&["--github"]);
    for action in [
        "owner/infergate",
        "owner/infergate@v1",
        "infergate@0123",
        "a b/c@0123456789abcdef0123456789abcdef01234567",
    ] {
        init(folder, &["--action", action])
            .expect(2)
            .says(&["40 digits"]);
    }
    assert!(!folder.join(".github").exists() && !folder.join("gates").exists());
}

#[test]
fn github_reads_workflows_at_the_root_alone() {
    let project = Project::empty();
    fs::create_dir(project.path("engine")).unwrap();
    project.write("engine/pyproject.toml", "[project]\nname = \"vllm\"\n");
    project.git(&["init", "--quiet"]);
    let engine = project.path("engine");
    init(&engine, &["--action", ACTION])
        .expect(2)
        .says(&["not the root of its repository", "run this in"]);
    assert!(!engine.join(".github").exists() && !engine.join("gates").exists());
    let further = [
        "--action",
        ACTION,
        "--engine",
        "vllm",
        "--dir",
        "engine/new",
    ];
    init(&project.path(""), &further)
        .expect(2)
        .says(&["not the root of its repository"]);
    assert!(!engine.join("new").exists());
}

#[test]
fn gates_that_are_there_are_read_before_anything_is_written() {
    let bare = "[engine]\nserve = [\"engine\"]\n";
    for (config, further, code, says) in [
        ("[engine", [].as_slice(), 2, "is no TOML"),
        (bare, &["--engine", "vllm"], 2, "keeps its engine"),
        (bare, &["--model", "foo/bar"], 2, "keeps its engine"),
        (bare, &[], 0, "ends with exit code 2"),
    ] {
        let folder = tree(&[("gates/gate.toml", config)]);
        let folder = folder.path();
        init(folder, &[&["--action", ACTION], further].concat())
            .expect(code)
            .says(&[says]);
        let is_kept = read(folder, "gates/gate.toml") == config;
        assert_eq!(is_kept, code == 2, "{config}");
    }
}

#[test]
fn the_action_installs_a_named_binary_and_refuses_one_that_is_not_there() {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/gate/install");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path");
    let run = |binary: &str| {
        let mut command = Command::new(&install);
        command
            .env("RUNNER_TEMP", folder.path())
            .env("GITHUB_PATH", &path)
            .env("BINARY", binary);
        Ended::of(&command.output().unwrap())
    };
    let ended = run(env!("CARGO_BIN_EXE_gate")).expect(0);
    assert!(ended.stdout.starts_with("infergate ") || ended.stdout.starts_with("gate "));
    let bin = fs::read_to_string(&path).unwrap();
    assert!(Path::new(bin.trim()).join("gate").exists(), "{bin}");
    let refused = run("/no/such/gate").expect(2);
    assert!(refused.stdout.contains("::error::"), "{}", refused.stdout);
}

/// Else a job with `profile: full` and no command would only install, and be green.
#[test]
fn the_action_fails_where_the_command_is_forgotten() {
    let action = fs::read_to_string(repository().join("action.yml")).unwrap();
    let (_, step) = action.split_once("- name: Run gate\n").unwrap();
    let (head, script) = step.split_once("run: |\n").unwrap();
    for input in ["command", "profile", "gate", "arguments"] {
        assert!(head.contains(&format!("inputs.{input} != ''")), "{head}");
    }
    let folder = tree(&[("gate", "#!/bin/sh\necho \"$@\"\n")]);
    let program = folder.path().join("gate");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let run = |command: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-eo", "pipefail", "-c", script])
            .env("PATH", &path)
            .env("COMMAND", command)
            .env("PROFILE", "full")
            .env("GATE_NAMES", "tpot e2e")
            .env("ARGUMENTS", "--same-build");
        Ended::of(&bash.output().unwrap())
    };
    let told = run("check").expect(0).stdout;
    assert_eq!(
        told,
        "check --profile full --gate tpot --gate e2e --same-build\n"
    );
    let told = run("").expect(2).stdout;
    assert!(
        told.contains("::error::") && told.contains("add command: check"),
        "{told}"
    );
}
