//! Text that came with another tool's file or somebody's record, fit to be shown.

use super::redaction::redact;
use verdict::record::visible;

/// Characters of one text that are shown.
const MOST: usize = 500;

/// At most 500 characters in one line, without secrets, with unseen characters by their escapes. Secrets go before the
/// cut: half a token has no shape.
pub fn foreign(text: &str) -> String {
    let text = redact(text);
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", visible(&text[..end])),
        None => visible(&text).into_owned(),
    }
}
