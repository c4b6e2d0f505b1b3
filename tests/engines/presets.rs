//! `gate init`: every preset reads as a plan, and nothing is overwritten.

use crate::common::{Ended, gate};
use infergate::plan::{self, Selection};
use infergate::presets::ALL;
use std::path::Path;

fn init(engine: &str, model: &str, dir: &Path) -> Ended {
    let dir = dir.to_str().unwrap();
    let arguments = ["init", "--engine", engine, "--model", model, "--dir", dir];
    Ended::of(&gate(&arguments).output().unwrap())
}

#[test]
fn every_preset_is_a_session_that_can_be_planned() {
    for preset in ALL {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/model")).unwrap();
        let ended = init(preset.name, "a/model", folder.path()).expect(0);
        let written: Vec<&str> = ended.stdout.lines().collect();
        assert!(written[0].ends_with("gates/gate.toml"), "{written:?}");
        for profile in ["quick", "full"] {
            let selection = Selection {
                profile: profile.to_owned(),
                gates: vec![],
            };
            let (plan, inputs) = plan::from_directory(folder.path(), &selection)
                .unwrap_or_else(|refusal| panic!("{}: {refusal}", preset.name));
            assert_eq!(plan.engine.model, "a/model");
            assert_eq!(inputs.len(), written.len());
            assert!(plan.gates.iter().all(|gate| !gate.checks.is_empty()));
            // What cannot be counted must not be gated: a stream without usage and without a tokenizer.
            let streams = plan.gates.iter().any(|gate| gate.name == "latency");
            assert!(!streams || plan.engine.stream_usage, "{}", preset.name);
        }
    }
}

#[test]
fn what_is_there_is_not_overwritten_and_named() {
    let folder = tempfile::tempdir().unwrap();
    init("vllm", "m", folder.path()).expect(0);
    let before = std::fs::read(folder.path().join("gates/gate.toml")).unwrap();
    let [gate, latency] = ["gate", "latency"].map(|name| format!("gates/{name}.toml"));
    let [gate, latency] = [gate, latency].map(|path| folder.path().join(path));
    let in_the_way = format!("{}, {}", gate.display(), latency.display());
    init("sglang", "m", folder.path())
        .expect(2)
        .says(&[&in_the_way, "--dir"]);
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
