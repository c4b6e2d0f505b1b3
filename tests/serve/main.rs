//! `gate serve` through the binary and a plain socket.
//!
//! Forms, counts, refusals, start and end. Of the embedded model they ask only that it answers a chat with
//! text and ends by itself; whether the text is
//! right is the business of the parity tests.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

mod answers;
mod backends;
mod choices;
mod connections;
#[path = "../common/embedded.rs"]
mod embedded;
mod http;
mod lifecycle;
mod logprobs;
mod models;
mod observability;
mod process;
mod refusals;
mod sampling;
mod start;
mod stops;
