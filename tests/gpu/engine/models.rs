//! Models from a directory: sound ones, and spoilt ones that are refused.

use std::fs;
use std::path::Path;

use engine::{Engine, ModelSource, Options, StartError};

use super::{engine, prompt, request, run};
use fixture::embedded::copied;

fn load(directory: &Path) -> Result<Engine, StartError> {
    let model = ModelSource::Directory(directory.to_path_buf());
    Engine::start(
        Options {
            model,
            threads: 1,
            ..Options::default()
        },
        &mut |_| {},
    )
}

#[track_caller]
fn refuses(spoil: impl FnOnce(&Path), parts: &[&str]) {
    let directory = copied();
    spoil(directory.path());
    let message = load(directory.path())
        .err()
        .expect("it was loaded")
        .to_string();
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("it is text");
    assert!(text.contains(from), "{} lacks {from}", file.display());
    fs::write(file, text.replace(from, to)).expect("it is written");
}

#[test]
fn a_model_that_cannot_be_served_is_refused_with_cause_and_remedy() {
    refuses(
        |at| fs::remove_dir_all(at).expect("gone"),
        &["does not exist", "on this machine", "hub's name"],
    );
    refuses(
        |at| fs::remove_file(at.join("config.json")).expect("gone"),
        &["is no model directory", "config.json", "give the folder"],
    );
    let directory = copied();
    let message = load(&directory.path().join("config.json")).err();
    let message = message.expect("it was loaded").to_string();
    assert!(
        message.contains("is a file; give the model directory"),
        "{message}"
    );
    for file in ["tokenizer.json", "model.safetensors"] {
        refuses(
            |at| fs::remove_file(at.join(file)).expect("gone"),
            &[file, "is missing", "download"],
        );
    }
    refuses(
        |at| {
            let weights = at.join("model.safetensors");
            let bytes = fs::read(&weights).expect("it is read");
            fs::write(&weights, &bytes[..bytes.len() / 2]).expect("it is cut");
        },
        &[
            "model.safetensors",
            "truncated or damaged",
            "download it again",
        ],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "Qwen3ForCausalLM",
                "GemmaForCausalLM",
            )
        },
        &["GemmaForCausalLM", "not supported"],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"intermediate_size\": 384",
                "\"intermediate_size\": 400",
            )
        },
        &[
            "gate_proj",
            "[384, 128]",
            "[400, 128]",
            "do not belong together",
        ],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"vocab_size\": 448",
                "\"vocab_size\": 500",
            )
        },
        &["embed_tokens", "[448, 128]", "[500, 128]"],
    );
    refuses(
        |at| {
            edit(
                &at.join("config.json"),
                "\"tie_word_embeddings\": true",
                "\"tie_word_embeddings\": false",
            )
        },
        &["lm_head.weight", "is missing"],
    );
    refuses(
        |at| fs::write(at.join("config.json"), "{").expect("cut"),
        &["config.json", "JSON"],
    );
}

/// NaN in the weights must never become a token.
#[test]
fn what_is_not_a_number_fails_the_start() {
    let directory = copied();
    let weights = directory.path().join("model.safetensors");
    let mut bytes = fs::read(&weights).expect("it is read");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    fs::write(&weights, bytes).expect("it is written");
    let error = load(directory.path())
        .err()
        .expect("it was loaded")
        .to_string();
    assert!(error.contains("not a number"), "{error}");
}

#[test]
fn a_directory_serves_as_the_embedded_copy_does() {
    let directory = copied();
    let from_files = load(directory.path()).expect("it loads");
    let prompt = prompt(70, 3);
    let (one, two) = (
        run(&from_files, request(&prompt, 8)),
        run(&engine(), request(&prompt, 8)),
    );
    assert_eq!(one.tokens, two.tokens);
    let name = directory
        .path()
        .file_name()
        .expect("it has one")
        .to_string_lossy()
        .into_owned();
    assert_eq!(from_files.model_info().name, name);
}
