//! What is said on standard output and standard error. A reader that went away, or a full disk behind a
//! redirection, must not end a session in a panic: results are on disk by then.

use std::io::{self, Write};

/// Writes a result to standard output. Colours are left out where nobody sees them.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `gate judge … | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line about what happens to standard error; nothing depends on it.
pub(super) fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
