//! `gate proxy` through the binary: what passes unchanged, what each fault makes of it, and that nothing stays
//! behind. Upstream is a script where bytes count, and `gate serve` where an engine does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![allow(
    dead_code,
    reason = "the plain client and the server are shared with tests/serve"
)]

#[path = "../serve/http.rs"]
mod http;
#[path = "../serve/process.rs"]
mod process;

mod endings;
mod faults;
mod passing;
mod proxy;
mod recording;
mod upstream;
