//! `gate kernels build`, `gate roofline` and `gate serve --synthetic` through the binary.
//!
//! The first wants NVRTC, which comes as a package: where none is to be had, what needs it prints
//! `SKIPPED:` and passes, and fails with `INFERGATE_REQUIRE_CLIENTS=1`, which `.ci/run` sets.

mod gpu_check;

use fixture::embedded;
use fixture::skip::{self, skip};
use fixture::{Ended, gate, scratch};
use infergate::roofline::{Machine, Shape, plausible};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

fn build(arguments: &[&str], output: &Path) -> Ended {
    let mut command = gate(&["kernels", "build", "--output"]);
    Ended::of(&command.arg(output).args(arguments).output().unwrap())
}

/// False, with the reason printed, where there is no NVRTC and none is required.
fn has_nvrtc(ended: &Ended) -> bool {
    if ended.code != Some(5) || !ended.stderr.contains("no CUDA compiler") {
        return true;
    }
    skip(ended.stderr.trim());
    false
}

/// A minute of compiling: what was compiled is kept from one run to the next, for all tests, and `.ci/run` compiles ahead of
/// them.
#[test]
fn every_kernel_is_compiled_once_and_what_it_takes_is_told() {
    let kept = scratch().join("kernels");
    let arguments = ["--arch", "sm_90", "--format", "json"];
    let ended = build(&arguments, &kept);
    if !has_nvrtc(&ended) {
        return;
    }
    let told = ended.expect(0).json();
    assert_eq!(told["refused"], 0);
    let kernels = told["kernels"].as_array().unwrap();
    let has = |source: &str| kernels.iter().any(|kernel| kernel["source"] == source);
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "cu") {
            let source = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(has(&source), "{source} is not in the table");
        }
    }
    for kernel in kernels {
        assert!(kernel["registers"].as_u64().unwrap() > 0, "{kernel}");
        assert_eq!(kernel["arch"], "sm_90");
    }
    assert_eq!(artifact(&kept), told);

    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&kept).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let second = build(&arguments, folder.path())
        .expect(0)
        .says(&["0 files compiled"]);
    assert_eq!(second.json(), told);

    let read = newest(&kept, told["nvrtc"].as_str().unwrap());
    let read = folder.path().join(read);
    damage(&read);
    build(&arguments, folder.path())
        .expect(0)
        .says(&["1 files compiled"]);

    let kernel = make_one_spill(&read);
    let spills = format!("{kernel} (");
    let refused = build(&arguments, folder.path())
        .expect(1)
        .says(&[&spills, "spills 64 bytes", "allowed_spills.json"])
        .json();
    assert_eq!(refused["refused"], 1);
    assert_eq!(artifact(folder.path()), refused);
}

fn artifact(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("kernels.json")).unwrap()).unwrap()
}

/// The name of the cache's newest entry for sm_90 by this compiler: one of the sources as they are now.
fn newest(cache: &Path, nvrtc: &str) -> OsString {
    let ending = format!("-nvrtc{nvrtc}.kernels");
    let entries = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap());
    let kept = entries.filter(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.contains("-sm_90-") && name.ends_with(&ending)
    });
    let newest = kept.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest.unwrap().file_name()
}

/// Changes one byte of an entry's machine code.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Has an entry say that its first kernel spills, as a compiler would that is short of registers; which one.
fn make_one_spill(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let [format, _, usage, cubin] = std::array::from_fn(|_| lines.next().unwrap());
    let mut usage: Value = serde_json::from_slice(usage).unwrap();
    usage[0]["spill_store_bytes"] = 64.into();
    let body = [usage.to_string().as_bytes(), b"\n", cubin].concat();
    let digest = hex::encode(Sha256::digest(&body));
    fs::write(path, [format, digest.as_bytes(), &body].join(&b'\n')).unwrap();
    usage[0]["kernel"].as_str().unwrap().to_owned()
}

#[test]
fn a_missing_compiler_is_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = gate(&["kernels", "build", "--output"]);
    let output = folder.path().join("kernels");
    command.arg(&output).env_remove("LD_LIBRARY_PATH");
    let ended = Ended::of(&command.output().unwrap());
    if ended.code == Some(0) {
        skip::say("NVRTC is installed where every program finds it");
        return;
    }
    let ended = ended.expect(5);
    assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    ended.says(&[
        "libnvrtc.so was not found",
        "pip install",
        "LD_LIBRARY_PATH",
    ]);
    assert!(!output.exists());
}

#[test]
fn architectures_that_cannot_be_are_refused() {
    for (arch, says) in [("sm_75", "sm_80 or newer"), ("90", "write it as sm_90")] {
        let ended = gate(&["kernels", "build", "--arch", arch])
            .output()
            .unwrap();
        Ended::of(&ended).expect(2).says(&[says]);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for (place, named) in [(file.clone(), "file;"), (file.join("below"), "below;")] {
        let ended = build(&["--arch", "sm_90"], &place);
        if !has_nvrtc(&ended) {
            return;
        }
        let ended = ended.expect(5).says(&[named, "--output"]);
        assert!(!ended.stderr.contains("files compiled"), "{}", ended.stderr);
    }
}

#[test]
fn without_any_place_for_kernels_one_is_asked_for() {
    let mut command = gate(&["kernels", "build", "--arch", "sm_90"]);
    for name in ["INFERGATE_KERNEL_CACHE", "XDG_CACHE_HOME", "HOME"] {
        command.env_remove(name);
    }
    let ended = Ended::of(&command.output().unwrap()).expect(2);
    ended.says(&["HOME", "--output"]);
}

/// The embedded model, made for so many positions.
fn model_of_context(positions: u32) -> tempfile::TempDir {
    let folder = embedded::copied();
    let path = folder.path().join("config.json");
    let config = fs::read(&path).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config["max_position_embeddings"] = positions.into();
    fs::write(&path, config.to_string()).unwrap();
    folder
}

fn roofline(model: &Path, arguments: &[&str]) -> Ended {
    let mut command = gate(&["roofline", "--backend", "cpu", "--threads", "1", "--model"]);
    Ended::of(&command.arg(model).args(arguments).output().unwrap())
}

/// One token too many each; the next test takes what just fits.
#[test]
fn prompts_beyond_the_models_context_are_refused_by_their_flag() {
    let model = model_of_context(200);
    for (arguments, says) in [
        (["--context", "1,136"], "--context 136"),
        (["--prefill", "64,200"], "--prefill 200"),
        (["--context", "65528"], "1..=65527"),
    ] {
        let refused = roofline(model.path(), &arguments).expect(2);
        refused.says(&[says]);
    }
}

#[test]
fn kernels_can_be_timed_on_a_gpu_alone() {
    let model = model_of_context(200);
    let refused = roofline(model.path(), &["--kernels"]).expect(2);
    refused.says(&["--kernels", "--backend cuda"]);
}

#[test]
fn a_roofline_times_all_that_the_models_context_holds() {
    let _alone = fixture::alone();
    let model = model_of_context(200);
    let longest = ["--context", "135", "--prefill", "199"];
    let arguments = [&longest[..], &["--repeats", "1", "--format", "json"]].concat();
    let told = roofline(model.path(), &arguments).expect(0).json();
    for (what, tokens) in [("decode", 135), ("prefill", 199)] {
        assert_eq!(told[what].as_array().unwrap().len(), 1, "{told:#}");
        assert_eq!(told[what][0]["tokens"], tokens, "{told:#}");
    }
}

/// Without lengths those that the model's context holds.
#[test]
fn a_roofline_is_a_page() {
    let _alone = fixture::alone();
    let model = model_of_context(200);
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join(fixture::MARKUP);
    std::os::unix::fs::symlink(model.path(), &named).unwrap();
    let page = roofline(&named, &["--repeats", "1", "--format", "html"]).expect(0);
    fixture::check_sheet(
        &page.stdout,
        &[
            "Share of the limit",
            "TPOT, 1 prompt tokens",
            "TTFT, 128 prompt tokens",
        ],
    );
}

/// As if it were unset.
#[test]
fn an_empty_variable_for_the_backend_says_nothing() {
    let model = model_of_context(200);
    let mut command = gate(&["roofline", "--context", "200", "--model"]);
    command.arg(model.path()).env("INFERGATE_BACKEND", "");
    let ended = Ended::of(&command.output().unwrap()).expect(2);
    ended.says(&["--context 200"]);
}

#[test]
fn the_roofline_of_the_embedded_model_has_floors_below_what_was_measured() {
    let _alone = fixture::alone();
    let arguments = [
        "roofline",
        "--backend",
        "cpu",
        "--threads",
        "2",
        "--context",
        "1,64",
        "--prefill",
        "32",
        "--repeats",
        "1",
        "--answer",
        "9",
        "--format",
        "json",
    ];
    let told = Ended::of(&gate(&arguments).output().unwrap())
        .expect(0)
        .json();
    assert_eq!(told["machine"]["memory"], "read");
    assert!(told["machine"]["bytes_per_second"].as_f64().unwrap() > 1e8);
    assert!(told["machine"]["operations_per_second"].as_f64().unwrap() > 1e8);
    let rows = |what: &str| told[what].as_array().unwrap().clone();
    assert_eq!((rows("decode").len(), rows("prefill").len()), (2, 1));
    for row in rows("decode").iter().chain(&rows("prefill")) {
        let number = |of: &Value| of.as_f64().unwrap();
        let (floor, median) = (
            number(&row["floor"]["milliseconds"]),
            number(&row["measured_ms"]["median"]),
        );
        assert!(floor > 0.0 && median > 0.0, "{row}");
        assert!((number(&row["times_floor"]) - median / floor).abs() < 1e-9 * median / floor);
    }
    // More positions, more bytes of keys and values: 5 layers, 2 heads of 48, keys and values, f32.
    let bytes = |row: &Value| row["floor"]["bytes"].as_u64().unwrap();
    let decode = rows("decode");
    assert_eq!(
        bytes(&decode[1]) - bytes(&decode[0]),
        63 * 2 * 5 * 2 * 48 * 4
    );
    // It fits a processor's cache, so that memory is no bound to hold answers against.
    assert_eq!(told["plausible"], Value::Null);
}

/// What it prints for gates/gate.toml is what that file takes.
#[test]
fn a_plausible_line_is_understood_by_gates() {
    let shape = Shape {
        hidden: 2560,
        attention_layers: 36,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        layer_numbers: 3_633_315_840,
        state_numbers: 0,
        vocab: 151_936,
        weight_bytes: 2,
        kv_bytes: 2,
    };
    let machine = Machine {
        bytes_per_second: 4.3e12,
        operations_per_second: 700e12,
    };
    let project = fixture::Project::without_build();
    let config = project.read("gates/gate.toml");
    let line = format!(
        "[engine]\n{}\n",
        plausible(&shape, &machine).unwrap().toml()
    );
    project.write("gates/gate.toml", &config.replacen("[engine]\n", &line, 1));
    project.run(&["shard", "plan"]).expect(0);
}

#[test]
fn synthetic_models_are_named_and_exclude_others() {
    let ended = gate(&["serve", "--synthetic", "qwen3-5b"])
        .output()
        .unwrap();
    Ended::of(&ended)
        .expect(2)
        .says(&["qwen3-0.6b", "qwen3-8b"]);
    let both = ["serve", "--synthetic", "qwen3-4b", "--model", "."];
    let ended = gate(&both).output().unwrap();
    Ended::of(&ended).expect(2).says(&["cannot be used with"]);
}
