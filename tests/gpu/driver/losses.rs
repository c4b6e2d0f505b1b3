//! A GPU that fails while it serves.

use crate::driver::fake::FakeGpu;
use crate::driver::start;
use fixture::process::Server;
use serde_json::json;

/// Beyond those of the start.
const A_LATER_REPLAY: &str = "cuGraphLaunch:30:";

fn server(gpu: &FakeGpu, failure: &str) -> Server {
    let failure = [A_LATER_REPLAY, failure].concat();
    let flags = [
        "--backend",
        "cuda",
        "--max-running",
        "1",
        "--kv-tokens",
        "512",
        "--step-tokens",
        "48",
    ];
    start::server(gpu, &flags, &[("FAKE_CUDA_FAIL", &failure)])
}

/// After an illegal access the driver refuses every call: the server says that it is dead, and why, and answers nothing
/// more, so that whoever watches it starts another.
#[test]
fn a_gpu_that_is_lost_is_told_by_health() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let server = server(&gpu, "700");
    let body = json!({"prompt": [5, 6, 7], "max_tokens": 60, "ignore_eos": true});
    let failed = server.post("/v1/completions", &body);
    assert_eq!(failed.status, 500);
    let why =
        "cuGraphLaunch: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)";
    assert!(failed.text().contains(why));
    server.await_refusal();
    for path in ["/health", "/ready"] {
        let sick = server.get(path);
        assert_eq!(sick.status, 503, "{path}");
        let message = sick.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains("its worker has died") && message.contains(why),
            "{message}"
        );
    }
    assert_eq!(server.post("/v1/completions", &body).status, 503);
    start::end(server);
}

/// A call that was refused leaves the GPU as it was: one request is lost.
#[test]
fn a_call_that_fails_is_one_requests_matter() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let server = server(&gpu, "1");
    let body = json!({"prompt": [5, 6, 7], "max_tokens": 60, "ignore_eos": true});
    let failed = server.post("/v1/completions", &body);
    assert_eq!(failed.status, 500);
    assert!(failed.text().contains("CUDA_ERROR_INVALID_VALUE"));
    assert_eq!(server.get("/health").status, 200);
    let answer = server.complete(json!({"prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": true}));
    assert_eq!(answer["usage"]["completion_tokens"], 4);
    start::end(server);
    gpu.report().is_clean();
}
