//! Characters that a reader does not see, made visible.
//!
//! Main functions: [`visible`], [`is_unseen`].

use super::is_ignorable;
use std::borrow::Cow;

/// True for a character that shows no mark of its own or steers what shows it: control characters, directions of
/// writing, joiners, line and paragraph separators.
pub fn is_unseen(c: char) -> bool {
    c.is_control() || is_ignorable(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text in one line, with each unseen character as its escape: `\n`, `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unseen(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn unseen_characters_are_shown_by_their_escapes() {
        for (text, expect) in [
            ("plain é 漢 ✓", "plain é 漢 ✓"),
            (
                "a\u{202e}b\u{200b}\u{feff}",
                "a\\u{202e}b\\u{200b}\\u{feff}",
            ),
            ("\u{1b}[2J\n\t", "\\u{1b}[2J\\n\\t"),
            ("\u{2028}", "\\u{2028}"),
            ("", ""),
        ] {
            assert_eq!(visible(text), expect);
        }
    }
}
