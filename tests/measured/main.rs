//! Sessions that measure: they run one at a time, with nothing beside them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod bisect;
mod calibrate;
mod check;
mod resume;
