//! Words from outside as parts of a route.

use std::fmt::Write;

/// The text as one segment of a path, or one value of a query: everything that is not a letter, a digit or one
/// of `-._~` is percent-encoded (RFC 3986, section 2.3).
pub fn segment(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn nothing_leaves_its_segment() {
        for (text, expect) in [
            ("needs-gpu", "needs-gpu"),
            ("needs gpu", "needs%20gpu"),
            ("a/../b?c#d", "a%2F..%2Fb%3Fc%23d"),
            ("größe", "gr%C3%B6%C3%9Fe"),
            ("100%", "100%25"),
        ] {
            assert_eq!(segment(text), expect);
        }
    }
}
