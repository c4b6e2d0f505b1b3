//! A server at rest: what it says of itself when nobody asks anything of it.

use fixture::process::Server;

/// Waits until nothing runs, waits or holds keys and values; then gives how many requests were cut short.
pub(crate) fn aborted_once_at_rest(server: &Server) -> f64 {
    for name in [
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "infergate_kv_bytes_used",
    ] {
        server.await_metric(name, 0.0);
    }
    server.metric("vllm:request_success_total", "finished_reason=\"abort\"")
}
