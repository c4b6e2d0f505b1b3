//! Redaction of other programs' errors: no credentials in addresses, no control
//! characters, a bounded length.

/// Bytes of a message that are shown.
const MOST: usize = 2_000;

/// The text with users, passwords and queries of addresses left out.
pub fn redact(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() && c != '\n' { ' ' } else { c })
        .take(MOST)
        .collect();
    let mut out = String::new();
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let is_end = |c: char| c.is_whitespace() || "'\"`<>()".contains(c);
        let end = after.find(is_end).unwrap_or(after.len());
        out.push_str(&redact_address(&after[..end]));
        rest = &after[end..];
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// An address behind its `://`.
fn redact_address(address: &str) -> String {
    let (place, query) = match address.find('?') {
        Some(at) => (&address[..at], "?…"),
        None => (address, ""),
    };
    // A password may hold a slash that nobody escaped: everything before the last @ goes.
    match place.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}{query}"),
        None => format!("{place}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_what_is_secret() {
        for (text, expect) in [
            ("", ""),
            ("plain words", "plain words"),
            (
                "fatal: 'https://u:p@h/r.git': no",
                "fatal: 'https://…@h/r.git': no",
            ),
            (
                "https://token@h/r and http://a:b@c",
                "https://…@h/r and http://…@c",
            ),
            ("https://u:p/w@h/r", "https://…@h/r"),
            (
                "GET (https://h/b?sig=abc&x=1): 403",
                "GET (https://h/b?…): 403",
            ),
            ("https://h/r.git", "https://h/r.git"),
            ("a\u{1b}[31mb\r\n", "a [31mb"),
        ] {
            assert_eq!(redact(text), expect);
        }
        assert!(redact(&"x".repeat(10_000)).len() <= MOST);
    }
}
