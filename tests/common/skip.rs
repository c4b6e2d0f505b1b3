//! Tests that need what not every machine has.

use std::io::Write as _;

/// Says that a test does not run, and why. With `INFERGATE_REQUIRE_CLIENTS=1`, which promises that all that
/// tests can use is here, that is a failure.
#[track_caller]
pub(crate) fn skip(why: &str) {
    let required = std::env::var_os("INFERGATE_REQUIRE_CLIENTS").is_some_and(|value| value == "1");
    assert!(!required, "required, and not to be had: {why}");
    say(why);
}

/// The line alone, for what is here where another machine's tests need it not to be.
pub(crate) fn say(why: &str) {
    // Not by a macro: those lines are shown of failed tests alone.
    writeln!(std::io::stderr().lock(), "SKIPPED: {why}").expect("standard error takes a line");
}
