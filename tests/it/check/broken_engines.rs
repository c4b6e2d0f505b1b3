//! Engines that die, hang or never start: who is blamed, what is shown, and that nothing stays behind.

use fixture::{Ended, Project, gates_that};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn head_that_dies_at_its_start_fails_by_reliability() {
    let project = Project::without_build();
    project.shorten();
    let ended = project
        .run(&[
            "check",
            "--format",
            "json",
            "--gate",
            "tpot",
            "--head-arg",
            "--fault=die-at-start",
        ])
        .expect(1);
    assert_eq!(gates_that(&ended.json(), "fail"), ["tpot"]);
    assert!(ended.stdout.contains("\"reliability\""), "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn an_engine_that_dies_at_its_start_in_both_arms_is_invalid() {
    let project = Project::without_build();
    let fault = "--fault=die-at-start";
    let ended = project
        .run(&[
            "check",
            "--gate",
            "tpot",
            "--head-arg",
            fault,
            "--base-arg",
            fault,
        ])
        .expect(4);
    assert!(
        ended
            .stdout
            .contains("| error: start-up ended by a planted fault"),
        "the log's end is missing:\n{}",
        ended.stdout
    );
    assert_eq!(project.leftovers(), [0; 0]);
}

/// The engine answers: waiting until `ready_timeout` would not help.
#[test]
fn a_model_that_is_not_served_ends_the_start() {
    let project = Project::without_build();
    project.edit(
        "gates/gate.toml",
        "model = \"tiny-qwen3\"",
        "model = \"other\"",
    );
    project.edit(
        "gates/gate.toml",
        "ready_timeout = \"60 s\"",
        "ready_timeout = \"1 h\"",
    );
    let ended = project.run(&["check", "--gate", "tpot"]).expect(4);
    let said = fixture::unwrapped(&ended.stdout);
    assert!(
        said.contains("the engine serves `tiny-qwen3`, not `other`: set engine.model (status 404"),
        "{said}"
    );
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn head_that_serves_another_model_fails_by_reliability() {
    let project = Project::without_build();
    let mut check = vec!["check", "--format", "json", "--gate", "tpot"];
    check.extend(["--head-arg", "--served-model-name", "--head-arg", "other"]);
    let ended = project.run(&check).expect(1);
    assert_eq!(gates_that(&ended.json(), "fail"), ["tpot"]);
    assert!(ended.stdout.contains("\"reliability\""), "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn head_that_hangs_in_the_middle_of_a_stream_fails_by_reliability() {
    let project = Project::without_build();
    project.shorten();
    project.edit(
        "gates/gate.toml",
        "request_timeout = \"20 s\"",
        "request_timeout = \"1 s\"",
    );
    let ended = project
        .run(&[
            "check",
            "--format",
            "json",
            "--gate",
            "tpot",
            "--head-arg",
            "--fault=hang-after=500",
        ])
        .expect(1);
    assert!(ended.stdout.contains("\"reliability\""), "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn an_engine_whose_connections_end_before_it_does_has_ended_and_does_not_hang() {
    let project = Project::without_build();
    project.edit(
        "gates/gate.toml",
        "[profile.quick]\n",
        "[profile.quick]\ncheckpoint_every = \"10 ms\"\n",
    );
    // Head's server is gone once it has answered; the process that the gate started goes a moment later.
    project.wrap_engine(
        "case \"$*\" in *decode-delay*) ;; *) exec \"$@\" ;; esac\n\"$@\" &\n\
         until ls result/launches/*.partial.json > /dev/null 2>&1; do sleep 0.01; done\n\
         kill -9 $!\nsleep 0.2\nexit 3\n",
    );
    let mut check = vec!["check", "--format", "json", "--gate", "tpot"];
    check.extend(["--out", "result", "--head-arg", "--fault=decode-delay=1ms"]);
    let ended = project.run(&check).expect(1);
    assert_eq!(gates_that(&ended.json(), "fail"), ["tpot"]);
    let said = "(head) crashed: the engine exited during the run (exit status: 3)";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// A server of files is the engine: it takes no POST.
fn serve_files(project: &Project) {
    serve(
        project,
        r#"["python3", "-m", "http.server", "{port}", "--bind", "127.0.0.1"]"#,
    );
}

fn serve(project: &Project, words: &str) {
    let config = project.read("gates/gate.toml");
    let serve = config.lines().find(|l| l.starts_with("serve = ")).unwrap();
    let words = format!("serve = {words}");
    project.write("gates/gate.toml", &config.replace(serve, &words));
}

#[test]
fn an_engine_that_takes_another_port_is_told_which() {
    // A busy machine may need longer until the server listens.
    let heard = [2, 8, 32, 128].iter().any(|seconds| {
        let project = Project::without_build();
        project.edit(
            "gates/gate.toml",
            "ready_timeout = \"60 s\"",
            &format!("ready_timeout = \"{seconds} s\""),
        );
        serve(
            &project,
            r#"["sh", "-c", "exec python3 -u -m http.server 0 --bind 127.0.0.1", "{port}"]"#,
        );
        let ended = project.run(&["check", "--gate", "tpot"]).expect(4);
        assert_eq!(project.leftovers(), [0; 0]);
        let said = fixture::unwrapped(&ended.stdout);
        let Some((_, port)) = said.split_once("| Serving HTTP on 127.0.0.1 port ") else {
            return false;
        };
        let port = port.split(' ').next().unwrap();
        let told = format!("so far; the engine, or a part of it, listens on port {port}");
        assert!(
            said.contains("nothing listens on 127.0.0.1:") && said.contains(&told),
            "{said}"
        );
        true
    });
    assert!(heard, "the server never listened");
}

#[test]
fn an_engine_that_listens_but_generates_nothing_is_not_ready() {
    let project = Project::without_build();
    project.edit(
        "gates/gate.toml",
        "ready_timeout = \"60 s\"",
        "ready_timeout = \"2 s\"",
    );
    serve_files(&project);
    let ended = project.run(&["check", "--gate", "tpot"]).expect(4);
    let said = fixture::unwrapped(&ended.stdout);
    for part in [
        "generated no token within 2 s (engine.ready_timeout)",
        "status 501",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn what_an_engine_said_at_its_start_outlives_a_budget_that_ends_before() {
    // A busy machine may need longer until the server listens.
    let heard = [2, 8, 32, 128].iter().any(|seconds| {
        let project = Project::without_build();
        serve_files(&project);
        let config = project.read("gates/gate.toml");
        let quick = config.find("[profile.quick]").unwrap();
        let (engine, profiles) = config.split_at(quick);
        let budget = profiles.lines().find(|l| l.starts_with("budget")).unwrap();
        let profiles = profiles.replacen(budget, &format!("budget = \"{seconds} s\""), 1);
        let config = engine.replace("ready_timeout = \"60 s\"", "ready_timeout = \"10 min\"");
        project.write("gates/gate.toml", &(config + &profiles));
        let ended = project.run(&["check", "--gate", "tpot"]).expect(3);
        assert!(
            ended.stdout.contains("had generated no token yet"),
            "{}",
            ended.stdout
        );
        assert_eq!(project.leftovers(), [0; 0]);
        ended.stdout.contains("status 501")
    });
    assert!(heard, "what the server answered is lost");
}

#[test]
fn a_child_that_left_its_dead_parent_is_found_and_ended() {
    let project = Project::without_build();
    let config = project.read("gates/gate.toml");
    let serve = config.lines().find(|l| l.starts_with("serve = ")).unwrap();
    let forking = r#"serve = ["sh", "-c", "setsid sleep 1000 & exit 1", "{port}"]"#;
    project.write("gates/gate.toml", &config.replace(serve, forking));
    project.run(&["check", "--gate", "tpot"]).expect(4);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn what_a_shell_left_running_when_it_became_the_gate_lives_on() {
    let project = Project::without_build();
    let script = "sleep 1000 > job.log 2>&1 & echo $! > job";
    let fault = "--fault=die-at-start";
    let both = ["--head-arg", fault, "--base-arg", fault];
    let arguments = [&["check", "--gate", "tpot"][..], &both].concat();
    let mut command = project.command_after(script, &arguments);
    Ended::of(&command.output().unwrap()).expect(4);
    let job: u32 = project.read("job").trim().parse().unwrap();
    let left = project.leftovers();
    let _ = kill(Pid::from_raw(job.cast_signed()), Signal::SIGKILL);
    assert_eq!(left, [job]);
}

#[test]
fn an_engine_inherits_no_secret() {
    let project = Project::without_build();
    let config = project.read("gates/gate.toml");
    let serve = config.lines().find(|l| l.starts_with("serve = ")).unwrap();
    let spy = r#"serve = ["sh", "-c", "env; exit 1", "{port}"]"#;
    project.write("gates/gate.toml", &config.replace(serve, spy));
    let mut command = project.command(&["check", "--gate", "tpot"]);
    command
        .env("GITHUB_TOKEN", "s3cret")
        .env("MY_API_KEY", "s3cret")
        .env("ZZ_HARMLESS", "seen");
    let ended = Ended::of(&command.output().unwrap()).expect(4);
    assert!(!ended.stdout.contains("s3cret"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    // A coin says which arm is first.
    let log = ended.stdout.split_once("the log of launch 0 (");
    let log = log.and_then(|(_, rest)| rest.split_once(") ends:\n  | "));
    assert!(log.is_some(), "{}", ended.stdout);
}
