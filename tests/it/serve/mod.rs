//! `gate serve` through the binary and a plain socket.
//!
//! Forms, counts, refusals, start and end. Of the embedded model they ask only that it answers a chat with
//! text and ends by itself; whether the text is
//! right is the business of the parity tests.

mod answers;
mod backends;
mod chats;
mod choices;
mod connections;
mod forms;
mod lifecycle;
mod logprobs;
mod models;
mod observability;
mod refusals;
mod sampling;
mod start;
mod stops;
