//! Secrets in what an engine said: known shapes of tokens are blotted out before a text goes anywhere.
//!
//! Main function: [`redact`]. Refuses to know: whether a token is valid. A secret of no known shape is not seen;
//! that children inherit none of ours is `launch`'s work.

use std::borrow::Cow;

/// What stands in a secret's place.
const BLOT: &str = "[redacted]";

/// A kind of token: how it begins, what goes on, and the fewest characters of that.
struct TokenShape {
    prefix: &'static str,
    is_part: fn(char) -> bool,
    least: usize,
}

/// GitHub's tokens ("About authentication to GitHub"), AWS access key ids, Hugging Face, Slack ("Tokens"), and what
/// OpenAI and others begin with `sk-`. JSON web tokens are found by [`web_token`].
const SHAPES: [TokenShape; 18] = [
    shape("github_pat_", 20),
    shape("ghp_", 20),
    shape("gho_", 20),
    shape("ghu_", 20),
    shape("ghs_", 20),
    shape("ghr_", 20),
    shape("hf_", 16),
    aws("AKIA"),
    aws("ASIA"),
    slack("xoxb-"),
    slack("xoxp-"),
    slack("xoxa-"),
    slack("xoxr-"),
    slack("xoxs-"),
    slack("xoxe-"),
    slack("xoxe."),
    slack("xapp-1-"),
    TokenShape {
        prefix: "sk-",
        is_part: |c| is_word(c) || c == '-',
        least: 20,
    },
];

/// What follows one of these is a secret, whatever its shape.
const INTRODUCTIONS: [&str; 3] = ["bearer ", "authorization: basic ", "authorization: token "];

const fn shape(prefix: &'static str, least: usize) -> TokenShape {
    TokenShape {
        prefix,
        is_part: is_word,
        least,
    }
}

const fn aws(prefix: &'static str) -> TokenShape {
    TokenShape {
        prefix,
        is_part: |c| c.is_ascii_uppercase() || c.is_ascii_digit(),
        least: 16,
    }
}

const fn slack(prefix: &'static str) -> TokenShape {
    TokenShape {
        prefix,
        is_part: |c| is_word(c) || c == '-' || c == '.',
        least: 10,
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
        let is_glued = before.is_some_and(|before| before.is_ascii_alphanumeric());
        let secret = secret_at(&text[at..], is_glued);
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

/// Bytes to keep, and bytes of the secret behind them, where one begins here. `is_glued`: behind a letter or a digit,
/// where a prefix may be the end of a longer word.
fn secret_at(text: &str, is_glued: bool) -> Option<(usize, usize)> {
    let of_shape = SHAPES.iter().find_map(|shape| shape.length(text, is_glued));
    if let Some(length) = of_shape.or_else(|| web_token(text, is_glued)) {
        return Some((0, length));
    }
    let mut introductions = INTRODUCTIONS.iter().filter(|_| !is_glued);
    introductions.find_map(|introduction| {
        let (head, rest) = text.split_at_checked(introduction.len())?;
        let found = head
            .eq_ignore_ascii_case(introduction)
            .then(|| run(rest, |c| c.is_ascii_graphic()))?;
        (found >= 8).then_some((introduction.len(), found))
    })
}

/// Bytes that a glued token is told by.
const TOLD_BY: usize = 128;

impl TokenShape {
    /// Bytes of the token that begins here.
    fn length(&self, text: &str, is_glued: bool) -> Option<usize> {
        let rest = text.strip_prefix(self.prefix)?;
        let first = rest.get(..TOLD_BY).unwrap_or(rest);
        let first = &first[..run(first, self.is_part)];
        if first.len() < self.least || (is_glued && !self.is_random(first)) {
            return None;
        }
        Some(self.prefix.len() + run(rest, self.is_part))
    }

    /// True if this looks drawn at random, not like words of a name: a long run of letters and digits. Of `sk-`, which
    /// ends many words (`task-`), the run holds capitals, small letters and digits.
    fn is_random(&self, body: &str) -> bool {
        let runs = body.split(|c: char| !c.is_ascii_alphanumeric());
        let mut long = runs.filter(|run| run.len() >= self.least);
        let is_mixed = |run: &str| {
            let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
            has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit)
        };
        long.any(|run| self.prefix != "sk-" || is_mixed(run))
    }
}

/// Bytes at the start that are all of this kind.
fn run(text: &str, is_part: fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// The header of a JSON web token is a short JSON object.
const WEB_HEADER: usize = 1024;

/// Bytes of the JSON web token that begins here: three or more parts of base64url, the first of which is a JSON object.
/// Within a longer word, such as `KeyJar.get.all`, the second must be one too.
fn web_token(text: &str, is_glued: bool) -> Option<usize> {
    let is_part = |c| is_word(c) || c == '-';
    text.strip_prefix("eyJ")?;
    let header = run(text.get(..WEB_HEADER).unwrap_or(text), is_part);
    let rest = text[header..].strip_prefix('.')?;
    if is_glued && !rest.starts_with("eyJ") {
        return None;
    }
    let payload = run(rest, is_part);
    let length = header + 1 + payload;
    text[length..].strip_prefix('.')?;
    let whole = length + run(&text[length..], |c| is_word(c) || c == '-' || c == '.');
    (whole >= 23).then_some(whole)
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
        // Glued to what comes before.
        for prefix in ["ghp_", "ghs_", "github_pat_", "hf_"] {
            for before in ["x", "1", "_", "TOKEN", "a_1"] {
                check(
                    &format!("{before}{prefix}{body} z"),
                    &format!("{before}[redacted] z"),
                );
            }
        }
        check(&format!("keyAKIA{upper}"), "key[redacted]");
        check("xsk-proj-aB3dE5gH7jK9mN1pQ3sT5", "x[redacted]");
        check(&format!("teyJhbGciOi.eyJzdWIiOiIx.{body}"), "t[redacted]");
        for plain in [
            "weighs_everything_in_the_model_twice",
            "task-0123456789abcdef0123456789abcdef",
            "shelf_life_of_a_cache_in_seconds",
        ] {
            check(plain, plain);
        }
        // Slack's.
        for token in [
            "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
            "xoxp-1234567890-0987654321-aaaa",
            "xapp-1-A0123456789-1234567890123-abcdef",
        ] {
            check(&format!("SLACK={token}!"), "SLACK=[redacted]!");
            check(&format!("a{token}"), "a[redacted]");
        }
        check("xapp-is-no-token", "xapp-is-no-token");
        // A sentence's full stop ends no token.
        check(
            &format!("eyJhbGciOi.eyJzdWIiOiIx.{body}. Next"),
            "[redacted] Next",
        );
    }

    /// A log of a hostile engine costs no more than its length.
    #[test]
    fn repeated_beginnings_are_read_in_linear_time() {
        for beginning in ["eyJ", "eyJ-", "sk-", "xsk-", "ghp_", "xoxb-", "eyJa."] {
            let text = beginning.repeat(200_000);
            assert!(redact(&text).len() <= text.len() + 10, "{beginning}");
        }
    }
}
