//! `gate serve` as its users meet it: many at once, slow ones, ones that go away, and benchmark clients.
//!
//! What an answer holds is the business of `tests/it/serve/`; here it must be the same whatever happens beside.

mod answer;
mod bench_client;
mod cancel_storm;
mod matrix;
mod random;
mod rest;
mod slow_readers;
