//! A client's own words as a message repeats them: whole if short.
//!
//! A name of megabytes must not come back as megabytes, so every name, model, role or value that an error
//! echoes passes [`shorten`].

use std::borrow::Cow;

/// Characters of an echoed text; no name of the API is longer.
const SHOWN: usize = 64;

/// The text, or its beginning with `…` behind it.
pub fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        let check = |text: &str, expect: &str| assert_eq!(shorten(text), expect);
        check("", "");
        check("temprature", "temprature");
        check(&"é".repeat(64), &"é".repeat(64));
        check(&"é".repeat(65), &format!("{}…", "é".repeat(64)));
    }
}
