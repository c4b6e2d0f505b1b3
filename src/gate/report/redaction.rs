//! Secrets in what an engine said: known shapes of tokens are blotted out before a text goes anywhere.
//!
//! Main function: [`redact`]. Refuses to know: whether a token is valid. A secret of no known shape is not seen;
//! that children inherit none of ours is `launch`'s work.

use std::borrow::Cow;

/// What stands in a secret's place.
const BLOT: &str = "[redacted]";

/// A kind of token: how it begins, what goes on, and the fewest characters of that.
struct Shape {
    prefix: &'static str,
    is_part: fn(char) -> bool,
    least: usize,
}

/// GitHub's tokens ("About authentication to GitHub"), AWS access key ids, Hugging Face, and what
/// OpenAI and others begin with `sk-`.
const SHAPES: [Shape; 11] = [
    shape("github_pat_", 20),
    shape("ghp_", 20),
    shape("gho_", 20),
    shape("ghu_", 20),
    shape("ghs_", 20),
    shape("ghr_", 20),
    shape("hf_", 16),
    Shape {
        prefix: "AKIA",
        is_part: |c| c.is_ascii_uppercase() || c.is_ascii_digit(),
        least: 16,
    },
    Shape {
        prefix: "ASIA",
        is_part: |c| c.is_ascii_uppercase() || c.is_ascii_digit(),
        least: 16,
    },
    Shape {
        prefix: "sk-",
        is_part: |c| is_word(c) || c == '-',
        least: 20,
    },
    // Three parts of base64url, the first of which is a JSON object: a JSON web token.
    Shape {
        prefix: "eyJ",
        is_part: |c| is_word(c) || c == '-' || c == '.',
        least: 20,
    },
];

/// What follows one of these is a secret, whatever its shape.
const INTRODUCTIONS: [&str; 3] = ["bearer ", "authorization: basic ", "authorization: token "];

const fn shape(prefix: &'static str, least: usize) -> Shape {
    Shape {
        prefix,
        is_part: is_word,
        least,
    }
}

const fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The text without anything that looks like a secret. Works on text before it is escaped: afterwards a token may
/// look like none.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let before = text[..at].chars().next_back();
        let secret = match before {
            Some(before) if before.is_ascii_alphanumeric() => None,
            _ => secret_at(&text[at..]),
        };
        let Some((kept, length)) = secret else {
            at += c.len_utf8();
            continue;
        };
        out.push_str(&text[copied..at + kept]);
        out.push_str(BLOT);
        at += kept + length;
        copied = at;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Bytes to keep, and bytes of the secret behind them, where one begins here.
fn secret_at(text: &str) -> Option<(usize, usize)> {
    let length =
        |text: &str, is_part: fn(char) -> bool| text.find(|c| !is_part(c)).unwrap_or(text.len());
    for shape in &SHAPES {
        if let Some(rest) = text.strip_prefix(shape.prefix) {
            let found = length(rest, shape.is_part);
            let is_whole = shape.prefix != "eyJ" || rest[..found].matches('.').count() == 2;
            if found >= shape.least && is_whole {
                return Some((0, shape.prefix.len() + found));
            }
        }
    }
    for introduction in INTRODUCTIONS {
        let head = text.get(..introduction.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(introduction)) {
            let found = length(&text[introduction.len()..], |c| c.is_ascii_graphic());
            if found >= 8 {
                return Some((introduction.len(), found));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_shapes_are_blotted_out() {
        let body = "0123456789abcdefABCDEF0123456789abcd";
        let upper = "ABCDEFGHIJKLMNOP";
        let check = |text: &str, expect: &str| assert_eq!(redact(text), expect, "{text}");
        for prefix in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "hf_"] {
            check(
                &format!("token={prefix}{body}, next"),
                "token=[redacted], next",
            );
            check(&format!("{prefix}{body}"), "[redacted]");
            // A name that begins alike is none.
            check(&format!("{prefix}short"), &format!("{prefix}short"));
        }
        check(&format!("AKIA{upper}."), "[redacted].");
        check(&format!("'sk-proj-{body}'"), "'[redacted]'");
        check(
            &format!("x eyJhbGciOi.eyJzdWIiOiIx.{body} y"),
            "x [redacted] y",
        );
        check(
            "eyJhbGciOiJIUzI1NiIsInR5cCI6",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6",
        );
        check(
            "Authorization: Bearer abcdefgh1",
            "Authorization: Bearer [redacted]",
        );
        check(
            "authorization: basic dXNlcjpwYXNz",
            "authorization: basic [redacted]",
        );
        check(
            &format!("https://x:ghs_{body}@host"),
            "https://x:[redacted]@host",
        );
        check(
            &format!("a ghp_{body} b ghs_{body}"),
            "a [redacted] b [redacted]",
        );
        check(
            "nothing here: task-1, disk-space, risk-free-of-any-secret",
            "nothing here: task-1, disk-space, risk-free-of-any-secret",
        );
        check("ünïcödé ✓", "ünïcödé ✓");
        check("", "");
    }
}
