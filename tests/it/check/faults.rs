//! Wrong answers planted in the embedded engine: each is caught by the gate that compares answers, and by no other.

use fixture::process::Server;
use fixture::{Project, gates_that};
use serde_json::{Value, json};

#[test]
fn a_wrong_token_fails_e2e() {
    let project = Project::without_build();
    let fault = "--fault=wrong-token=50";
    let ended = project.run(&["check", "--format", "json", "--head-arg", fault]);
    let verdict = ended.json();
    let ended = ended.expect(1);
    assert_eq!(verdict["verdict"], "fail");
    assert_eq!(gates_that(&verdict, "fail"), ["e2e"], "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// Blanks under load, the answer of another user, the cache of another prompt: with log-probabilities and without.
#[test]
fn wrong_answers_under_load_fail_the_gate_that_compares_answers() {
    let faults = [
        ("blank-beside=1", "nothing but white space came"),
        ("swap-answers", " instead of "),
        ("swap-cache", " instead of "),
    ];
    for (fault, part) in faults {
        for has_logprobs in [true, false] {
            // By day only one fault is tried without them.
            if !has_logprobs && fault != "swap-answers" && !fixture::is_nightly() {
                continue;
            }
            let project = Project::without_build();
            project.shorten();
            project.edit(
                "gates/answers.toml",
                "passes = { quick = 2,",
                "passes = { quick = 1,",
            );
            project.edit(
                "gates/answers.toml",
                "beside_tokens = { quick = 512,",
                "beside_tokens = { quick = 128,",
            );
            if !has_logprobs {
                let scored = "top_k = 5\nnear_tie = \"0.01 nats\"\n";
                project.edit("gates/answers.toml", scored, "");
            }
            let fault = format!("--fault={fault}");
            let arguments = [
                "check", "--gate", "answers", "--format", "json", "--seed", "1", "--out", "result",
            ];
            let ended = project.run(&[&arguments[..], &["--head-arg", &fault]].concat());
            let check = ended.json()["gates"][0]["checks"][0].clone();
            let reason = check["reason"].as_str().unwrap();
            assert_eq!(check["verdict"], "fail", "{fault} {has_logprobs}: {reason}");
            assert!(reason.contains(part), "{fault} {has_logprobs}: {reason}");
            ended.expect(1);
            if fault.contains("swap-answers") {
                explains_an_answer(&project);
            }
        }
    }
}

/// The request that is shown is the one that base answered so.
fn explains_an_answer(project: &Project) {
    let explained = project
        .run(&["explain", "result", "--format", "json"])
        .json();
    let answer = &explained["answers"][0];
    assert_ne!(answer["said"], answer["expected"], "{explained}");
    let request = explained["request"].as_str().unwrap();
    let (route, body) = request.split_once(" -H ").unwrap();
    let route = route
        .strip_prefix("curl -s http://127.0.0.1:$PORT")
        .unwrap();
    let (_, body) = body.split_once(" -d '").unwrap();
    let mut body: Value = serde_json::from_str(body.strip_suffix('\'').unwrap()).unwrap();
    body["stream"] = json!(false);
    body.as_object_mut().unwrap().remove("stream_options");
    let name = format!("--served-model-name={}", body["model"].as_str().unwrap());
    let server = Server::start(&[&name]);
    let said = server.ok(route, body).json();
    assert_eq!(said["choices"][0]["text"], answer["expected"]);
    let shown = project.run(&["explain", "result"]).expect(0);
    for part in [
        "these answers, base's",
        "  base        \"",
        "  head        \"",
    ] {
        assert!(shown.stdout.contains(part), "{}", shown.stdout);
    }
    let is_whole = |line: &str| line == request;
    assert!(shown.stdout.lines().any(is_whole), "{}", shown.stdout);
}

/// A preempted request that continues from another token fails; an engine with room for all shows nothing, and is invalid.
#[test]
fn a_preempted_request_must_continue_where_it_was() {
    let check = |project: &Project, head: &str, exit: i32| {
        let arguments = ["check", "--gate", "preemption", "--format", "json"];
        let ended = project.run(&[&arguments[..], &["--head-arg", head]].concat());
        let verdict = ended.json();
        ended.expect(exit);
        verdict["gates"][0]["checks"].clone()
    };
    let project = Project::without_build();
    let wrong = check(&project, "--fault=wrong-resume", 1);
    assert_eq!(wrong[0]["verdict"], "fail", "{wrong}");
    project.edit("gates/preemption.toml", "\"768\"", "\"4096\"");
    let roomy = check(&project, "--chunk-tokens=40", 4);
    assert_eq!(roomy[1]["verdict"], "invalid", "{roomy}");
    let reason = roomy[1]["reason"].as_str().unwrap();
    assert!(reason.contains("the gauge is 0"), "{reason}");
}
