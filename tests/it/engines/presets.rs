//! `gate init`: every preset reads as a plan, and nothing is overwritten.

use fixture::process::Server;
use fixture::{Ended, gate, skip};
use infergate::presets::ALL;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use verdict::plan::{self, Selection};
use verdict::record::Comparison;

fn init(engine: &str, model: &str, dir: &Path) -> Ended {
    let dir = dir.to_str().unwrap();
    let arguments = ["init", "--engine", engine, "--model", model, "--dir", dir];
    Ended::of(&gate(&arguments).output().unwrap())
}

const GOLDENS: &str = r#"{"format": "infergate-goldens/1", "cases": [
{"id": "a", "prompt_text": "p", "max_tokens": 4, "text": "x", "finish": "length"}]}"#;

#[test]
fn every_preset_is_a_session_that_can_be_planned() {
    for preset in ALL {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir_all(folder.join("a/model")).unwrap();
        let ended = init(preset.name, "a/model", folder).expect(0);
        let written: Vec<&str> = ended.stdout.lines().collect();
        assert!(written[0].ends_with("gates/gate.toml"), "{written:?}");
        let gates = written[1..]
            .iter()
            .map(|path| Path::new(path).file_stem().unwrap());
        let gates: Vec<String> = gates
            .map(|name| name.to_str().unwrap().to_owned())
            .collect();
        let planned = |profile: &str, gates: &[String]| {
            let selection = Selection {
                profile: profile.to_owned(),
                gates: gates.to_vec(),
            };
            let (plan, inputs) = plan::from_directory(folder, &selection)?;
            plan::refuse_too_long(&plan, Comparison::Interleaved).unwrap();
            Ok::<_, plan::PlanError>((plan, inputs.len()))
        };
        for profile in ["quick", "full"] {
            // What runs by default needs no more than what the engine is said to be able to.
            let (plan, _) = planned(profile, &[])
                .unwrap_or_else(|refusal| panic!("{}: {refusal}", preset.name));
            let streams = plan.gates.iter().any(|gate| gate.name == "latency");
            assert_eq!(streams, plan.engine.stream_usage, "{}", preset.name);
        }
        for name in ["e2e", "matrix", "soak"] {
            assert!(
                gates.iter().any(|gate| gate == name),
                "{}: {name}",
                preset.name
            );
        }
        let missing = planned("quick", &gates).unwrap_err().to_string();
        assert!(missing.contains("gate golden make --engine"), "{missing}");
        std::fs::create_dir(folder.join("gates/data")).unwrap();
        std::fs::write(folder.join("gates/data/goldens.json"), GOLDENS).unwrap();
        for profile in ["quick", "full"] {
            let (plan, read) = planned(profile, &gates)
                .unwrap_or_else(|refusal| panic!("{}: {refusal}", preset.name));
            // A directory's path is no name.
            let name = if preset.name == "infergate" {
                "model"
            } else {
                "a/model"
            };
            assert_eq!(plan.engine.model, name);
            assert_eq!(read, written.len() + 1);
            assert!(plan.gates.iter().all(|gate| !gate.checks.is_empty()));
        }
    }
}

#[test]
fn the_next_step_names_the_command_that_makes_goldens() {
    for (engine, model, command) in [
        (
            "vllm",
            "Qwen/Qwen3-0.6B",
            "`gate golden make --model Qwen/Qwen3-0.6B`",
        ),
        ("ollama", "qwen2.5:0.5b", "`gate golden make --engine`"),
        ("infergate", "tiny-qwen3", "`gate golden make --engine`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        init(engine, model, folder.path())
            .expect(0)
            .says(&[command]);
    }
}

#[test]
fn an_engine_of_ones_own_is_filled_in_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    init("custom", "m", folder.path()).expect(0).says(&[
        "FILL IN",
        "gate init --port PORT",
        "gate golden make",
    ]);
    let config = std::fs::read_to_string(folder.path().join("gates/gate.toml")).unwrap();
    for part in [
        "FILL IN",
        "forces_length = false",
        "gates = [\"matrix\", \"whole\"]",
    ] {
        assert!(config.contains(part), "`{part}` in:\n{config}");
    }
}

#[test]
fn what_is_not_filled_in_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    init("custom", "m", folder.path()).expect(0);
    let path = folder.path().join("gates/gate.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let lines = || config.lines().zip(1..);
    let (_, line) = lines().find(|(line, _)| line.contains("FILL IN")).unwrap();
    let check = |arguments: &[&str]| {
        Ended::of(&gate(arguments).current_dir(folder.path()).output().unwrap())
    };
    let place = format!("gates/gate.toml:{line}:");
    let remedy = "delete the words `FILL IN`";
    for arguments in [&["check"][..], &["check", "--dry-run"]] {
        check(arguments)
            .expect(2)
            .says(&[&place, "fill in this value", remedy]);
    }
    std::fs::write(
        &path,
        config.replace("FILL IN (then delete these two words): ", ""),
    )
    .unwrap();
    let ended = check(&["check"]);
    assert!(!ended.stderr.contains("fill in"), "{}", ended.stderr);
}

#[test]
fn further_keys_of_requests_are_none_of_the_clients_own() {
    let folder = tempfile::tempdir().unwrap();
    init("llama-cpp-python", "m", folder.path()).expect(0);
    let path = folder.path().join("gates/gate.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let own = "request = { repeat_penalty = 1.0 }";
    assert!(config.contains(own), "{config}");
    for (wrong, says) in [
        (
            "request = { temperature = 1 }",
            "`temperature` is set by the workload",
        ),
        (
            "request = { penalty = [nan] }",
            "no number that is not finite, and no whole one of over 64 bits",
        ),
        ("headers = { Host = \"a\" }", "`Host` is set by the client"),
        ("headers = { \"a b\" = \"c\" }", "no name of a header"),
        ("headers = { a = \"1\", A = \"2\" }", "is there twice"),
        ("headers = { a = \"x\\ny\" }", "visible ASCII"),
        (
            "chat = true\nprompt_ids = { from = 3, to = 9 }",
            "a chat's prompt is text",
        ),
    ] {
        std::fs::write(&path, config.replace(own, wrong)).unwrap();
        let mut plan = gate(&["shard", "plan"]);
        let ended = Ended::of(&plan.current_dir(folder.path()).output().unwrap());
        ended.expect(2).says(&[says]);
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// No server on a usual port, no tree of an engine: it is one's own.
#[test]
fn an_engine_is_found_or_ones_own() {
    const PORT: u16 = 30_000;
    let run = |folder: &Path| {
        let mut init = gate(&["init"]);
        // No engine is installed there.
        init.current_dir(folder).env("PATH", "/nowhere");
        Ended::of(&init.output().unwrap()).expect(0)
    };
    let usual = [8000, 8080, PORT, 11434, 1234, 5000, 8001, 3000];
    let is_taken = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
    if usual.into_iter().any(is_taken) {
        return skip::skip("gate init: a server answers on a usual port");
    }
    let folder = tempfile::tempdir().unwrap();
    run(folder.path()).says(&["engine: custom", "FILL IN"]);
    let serve = ["serve", "--port", &PORT.to_string(), "--threads", "1"];
    let mut server = gate(&serve);
    let server = server.stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Killed(server.spawn().unwrap());
    while !is_taken(PORT) && server.0.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path());
    ended.says(&[
        "engine: infergate",
        "port 30000",
        "`tiny-qwen3`",
        "--port {port}",
    ]);
    let config = std::fs::read_to_string(folder.path().join("gates/gate.toml")).unwrap();
    assert!(config.contains("model = \"tiny-qwen3\""), "{config}");
}

#[test]
fn an_engine_is_asked_on_the_port_that_the_user_names() {
    let server = Server::start(&["--threads", "1"]);
    let port = server.address.port().to_string();
    let run = |port: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut init = gate(&["init", "--port", port]);
        let ended = init.current_dir(&folder).output().unwrap();
        (Ended::of(&ended), folder)
    };
    let (ended, folder) = run(&port);
    ended
        .expect(0)
        .says(&["engine: infergate", &format!("port {port}")]);
    let config = std::fs::read_to_string(folder.path().join("gates/gate.toml")).unwrap();
    assert!(config.contains("--port\", \"{port}\""), "{config}");
    let (ended, folder) = run("1");
    ended
        .expect(2)
        .says(&["no server on port 1 ", "/v1/models"]);
    assert!(!folder.path().join("gates").exists());
}

/// Its abilities are asked for, and its connections are tried.
#[test]
fn a_known_engine_may_be_taken_for_ones_own() {
    let server = Server::start(&["--threads", "1"]);
    let port = server.address.port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let mut init = gate(&["init", "--engine", "custom", "--port", &port]);
    let ended = init.current_dir(&folder).output().unwrap();
    Ended::of(&ended)
        .expect(0)
        .says(&["engine: custom, found on port", "kept connections"]);
    let read = |file: &str| std::fs::read_to_string(folder.path().join("gates").join(file));
    let config = read("gate.toml").unwrap();
    for line in ["keep_alive = true", "forces_length = true"] {
        assert!(config.lines().any(|it| it == line), "{config}");
    }
    assert!(read("answers.toml").unwrap().contains("\ntop_k = 5\n"));
}

/// A server that says that it is vLLM, with a vocabulary of 400 tokens and a cache of pages of 128.
const VLLM: &str = r#"
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *arguments):
        pass
    def send(self, status, body, kind="application/json"):
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/metrics":
            return self.send(404, "")
        self.send(200, json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": int(os.environ.get("CONTEXT", 4096))}]}))
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = asked.get("prompt")
        if isinstance(prompt, list) and max(prompt) >= 400:
            return self.send(400, json.dumps({"error": {"message": "out of vocabulary"}}))
        cached = 128 if isinstance(prompt, list) and len(prompt) == 255 else 0
        if "SLOW" in os.environ and isinstance(prompt, list) and len(prompt) > 2000:
            time.sleep(0.3)
        most, ends_at = asked.get("max_tokens", 16), int(os.environ.get("ENDS_AT", 9))
        tokens = most if "OBEYS" in os.environ and asked.get("ignore_eos") else min(most, ends_at)
        counts = {"prompt_tokens": len(prompt) if isinstance(prompt, list) else 1, "completion_tokens": tokens}
        usage = {**counts, "prompt_tokens_details": {"cached_tokens": cached}}
        answer = json.dumps({"choices": [{"text": "a", "message": {"content": "a"}}], "usage": usage})
        if asked.get("stream"):
            return self.send(200, f"data: {answer}\n\ndata: [DONE]\n\n", "text/event-stream")
        self.send(200, answer)
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler)
server.serve_forever()
"#;

/// The server runs in this folder by this Python, with this environment. Returns its process and port.
fn started(folder: &Path, python: &str, environment: &[(&str, &str)]) -> (Killed, String) {
    let program = folder.join("vllm");
    std::fs::write(&program, VLLM).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut server = Command::new(python);
    server.arg(program);
    server.args(["serve", "m", "--enforce-eager", "--port", &port]);
    server.envs(environment.iter().copied());
    let mut server = Killed(server.spawn().unwrap());
    let is_up = || TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
    while !is_up() && server.0.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(20));
    }
    (server, port)
}

/// An end of sequence that is rare shows by itself whether the engine goes on where that is asked for.
#[test]
fn a_forced_length_is_believed_where_an_answer_was_seen_to_end() {
    let (yes, no) = ("forces_length = true", "forces_length = false");
    for (environment, said, line) in [
        (
            &[("ENDS_AT", "200"), ("OBEYS", "1")][..],
            "forced length, prompts",
            yes,
        ),
        (&[("ENDS_AT", "200")], "not supported: forced length", no),
        (&[("ENDS_AT", "999")], "not known: forced length", no),
    ] {
        let (said_all, read) = set_up(environment);
        assert!(said_all.contains(said), "{said_all}");
        assert!(read("gate.toml").lines().any(|it| it == line));
    }
}

/// A prompt is as long as the context has room for, and as a server computes at once.
#[test]
fn a_quick_server_is_sent_long_prompts() {
    for (environment, tokens) in [
        (&[][..], 1024),
        (&[("CONTEXT", "8192")], 4096),
        (&[("CONTEXT", "14000")], 4096),
        (&[("CONTEXT", "40000")], 12_288),
        (&[("CONTEXT", "40000"), ("SLOW", "1")], 1024),
    ] {
        let (said, read) = set_up(environment);
        let is_said = said.contains(&format!("long prompts ({tokens} tokens)"));
        assert_eq!(is_said, tokens > 1024, "{environment:?}: {said}");
        let beside = match tokens {
            1024 => "beside_tokens = { quick = 512, full = 1024 }".to_owned(),
            _ => format!("beside_tokens = {tokens}"),
        };
        let lines = [
            ("long-prompts.toml", format!("prompt_tokens = {tokens}")),
            ("answers.toml", beside),
            ("matrix.toml", "contexts = [128, 1024]".to_owned()),
        ];
        for (file, line) in lines {
            let text = read(file);
            assert!(
                text.lines().any(|it| it == line),
                "{environment:?} {file}: {text}"
            );
        }
    }
}

/// Runs `gate init --engine custom` on the server; returns its messages, and a reader of the files it wrote.
fn set_up(environment: &[(&str, &str)]) -> (String, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let (_server, port) = started(folder.path(), "python3", environment);
    let mut init = gate(&["init", "--engine", "custom", "--port", &port]);
    let ended = Ended::of(&init.current_dir(&folder).output().unwrap()).expect(0);
    let read =
        move |file: &str| std::fs::read_to_string(folder.path().join("gates").join(file)).unwrap();
    (ended.stderr, read)
}

/// As it runs here, with its options; from the build in its own tree.
#[test]
fn a_known_engine_is_started_as_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    // As /proc names it.
    let python = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    let python = python.trim();
    let (_server, port) = started(folder.path(), python, &[("OBEYS", "1")]);
    let program = folder.path().join("vllm");
    let (program, port) = (program.to_str().unwrap(), &port);
    let rest = r#""serve", "m", "--enforce-eager", "--port", "{port}"]"#;
    let project = "[project]\nname = \"vllm\"\n";
    let built = format!(
        "\"env\", \"PYTHONPATH={{artifact}}\", \"{python}\", \"-m\", \"vllm.entrypoints.cli.main\", "
    );
    let pip = format!("{python} -m pip install");
    let as_is = format!("\"{python}\", \"{program}\", ");
    for (pyproject, begin, build) in [(project, &built, pip.as_str()), ("", &as_is, "FILL IN")] {
        let tree = tempfile::tempdir().unwrap();
        let git = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(&tree)
            .status();
        assert!(git.unwrap().success());
        std::fs::write(tree.path().join("pyproject.toml"), pyproject).unwrap();
        let mut init = gate(&["init", "--port", port]);
        let ended = Ended::of(&init.current_dir(&tree).output().unwrap()).expect(0);
        let ended = ended.says(&["engine: vllm, found on port"]);
        assert!(!ended.stderr.contains("leaves out"), "{}", ended.stderr);
        let config = std::fs::read_to_string(tree.path().join("gates/gate.toml")).unwrap();
        let serve = format!("serve = [{begin}{rest}");
        for line in [serve.as_str(), "prompt_ids = { from = 3, to = 300 }"] {
            assert!(config.lines().any(|it| it == line), "{line}: {config}");
        }
        let drift = std::fs::read_to_string(tree.path().join("gates/prefill-drift.toml"));
        assert!(drift.unwrap().contains("limit = \"128 tokens\""));
        assert!(
            config.contains(build)
                && config.contains("\n# kv_usage = \"vllm:kv_cache_usage_perc\""),
            "{config}"
        );
    }
}

/// Files to be completed by hand give way to what a server tells, unless somebody has begun.
#[test]
fn templates_that_nobody_completed_are_replaced() {
    let server = Server::start(&["--threads", "1"]);
    let port = server.address.port().to_string();
    for is_begun in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| {
            let mut init = gate(arguments);
            Ended::of(&init.current_dir(&folder).output().unwrap())
        };
        run(&["init", "--engine", "custom"]).expect(0);
        let path = folder.path().join("gates/soak.toml");
        let mut text = std::fs::read_to_string(&path).unwrap();
        if is_begun {
            text += "# mine\n";
            std::fs::write(&path, &text).unwrap();
        }
        let ended = run(&["init", "--port", &port]);
        match is_begun {
            false => ended.expect(0).says(&["engine: infergate", "replaced:"]),
            true => ended.expect(2).says(&["already exist"]),
        };
        if is_begun {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}

#[test]
fn what_is_there_is_not_overwritten_and_named() {
    let folder = tempfile::tempdir().unwrap();
    init("vllm", "m", folder.path()).expect(0);
    let before = std::fs::read(folder.path().join("gates/gate.toml")).unwrap();
    let gate = folder.path().join("gates/gate.toml");
    let in_the_way = format!("{} and ", gate.display());
    let ended = init("sglang", "m", folder.path()).expect(2).says(&[
        &in_the_way,
        "more files already exist; nothing was written",
        "--dir",
    ]);
    assert!(!ended.stderr.contains("engine: "), "{}", ended.stderr);
    let after = std::fs::read(folder.path().join("gates/gate.toml")).unwrap();
    assert_eq!(before, after);
}

#[test]
fn nothing_is_written_where_one_file_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("gates")).unwrap();
    std::fs::write(folder.path().join("gates/latency.toml"), "").unwrap();
    init("ollama", "m", folder.path()).expect(2);
    assert!(!folder.path().join("gates/gate.toml").exists());
}

#[test]
fn an_engine_with_a_model_of_its_own_takes_no_name_that_it_would_serve_that_one_under() {
    let folder = tempfile::tempdir().unwrap();
    init("infergate", "Qwen/Qwen3-0.6B", folder.path())
        .expect(2)
        .says(&["no directory", "Qwen/Qwen3-0.6B", "small model"]);
    init("infergate", "tiny-qwen3", folder.path()).expect(0);
}

#[test]
fn an_unknown_engine_is_refused_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    init("vlm", "m", folder.path())
        .expect(2)
        .says(&["vllm", "llama.cpp", "transformers"]);
}
