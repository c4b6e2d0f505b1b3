//! What is published of a pull request's commit: texts, hostile artifacts, and what GitHub is told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "../common/mod.rs"]
mod common;

mod artifacts;
mod comments;
#[path = "../github/fake/mod.rs"]
mod fake;
mod forms;
mod hostile;
mod posted;
mod records;
mod unmeasured;
