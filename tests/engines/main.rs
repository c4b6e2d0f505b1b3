//! Engines of others: presets that plan, results side by side, other tools' results, engines launched in turn.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set its stage must fail"
)]

#[path = "../common/mod.rs"]
mod common;

mod compare;
mod contest;
mod github;
mod golden;
#[expect(dead_code, reason = "each test program uses its part of this")]
#[path = "../serve/http.rs"]
mod http;
mod import;
mod loads;
mod presets;
#[expect(dead_code, reason = "each test program uses its part of this")]
#[path = "../serve/process.rs"]
mod process;
