//! `--backend`: what is missing is one line, and never a panic.
//!
//! Where there is a GPU it is hidden from the process, so that all of this holds anywhere.

use fixture::process::{Server, gate, refusal, run_to_end};
use std::process::Stdio;

const HIDE_THE_GPU: (&str, &str) = ("CUDA_VISIBLE_DEVICES", "");

#[test]
fn cuda_that_is_missing_is_one_line_and_infrastructure() {
    let output = gate(&["serve", "--port", "0", "--backend", "cuda"])
        .envs([HIDE_THE_GPU])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let line = refusal(&output);
    assert!(
        line.starts_with("error: the CUDA backend cannot be used: no "),
        "{line}"
    );
}

#[test]
fn without_cuda_auto_serves_on_the_cpu_and_says_why() {
    let server = Server::start_with(&["--backend", "auto"], &[HIDE_THE_GPU]);
    let why = "serving on the CPU: no ";
    let said: Vec<&String> = server
        .start
        .iter()
        .filter(|line| line.starts_with(why))
        .collect();
    assert_eq!(said.len(), 1, "{:#?}", server.start);
    assert!(server.start.iter().any(|line| line.contains("(cpu, ")));
    assert_eq!(server.metric("infergate_captures_total", "") as u64, 0);
}

#[test]
fn another_backend_is_a_usage_error() {
    let (code, stderr) = run_to_end(&["--backend", "opencl"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("auto, cpu, cuda"), "{stderr}");
}
