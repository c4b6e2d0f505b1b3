//! `gate serve` as its users meet it: many at once, slow ones, ones that go away, and benchmark clients.
//!
//! What an answer holds is the business of `tests/serve/`; here it must be the same whatever happens beside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answer;
mod bench_client;
mod cancel_storm;
#[path = "../serve/http.rs"]
#[allow(dead_code, reason = "the server's own tests use the rest")]
mod http;
mod matrix;
#[path = "../serve/process.rs"]
#[allow(dead_code, reason = "the server's own tests use the rest")]
mod process;
mod random;
mod rest;
mod slow_readers;
