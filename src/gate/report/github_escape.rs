//! Text from outside as it goes into a comment on GitHub: shown as it is, and nothing within it does anything.
//!
//! Beyond Markdown's own characters (`markdown::escape`), GitHub makes links of bare addresses, of `#12`, `GH-12`
//! and commit ids, pictures of `:names:`, formulas of `$…$`, and mentions of `@names`; a zero-width space within
//! stops each. Main functions: [`inert`] for a line, [`inert_html`] within tags, [`code`] for a block of code. Refuses to know: what the text is.

use super::markdown::escape;
use super::redaction::redact;
use verdict::record::is_ignorable;

/// Characters of one text that are shown; nobody reads more in a comment.
const MOST: usize = 2_000;
/// Lines and characters a line of a block of code.
const CODE_LINES: usize = 60;
const CODE_COLUMNS: usize = 300;
/// Breaks a word for GitHub, and for no reader.
const BREAK: char = '\u{200b}';

/// One line that Markdown shows as it is.
pub fn inert(text: &str) -> String {
    let (shown, left) = cut(text, MOST);
    let mut out = unlinked(&escape(&shown));
    if left > 0 {
        out.push_str(&format!(" … ({left} characters more)"));
    }
    out
}

/// The same of so many characters, where the whole stands elsewhere.
pub fn inert_within(text: &str, most: usize) -> String {
    let (shown, left) = cut(text, most);
    let end = if left > 0 { "…" } else { "" };
    format!("{}{end}", unlinked(&escape(&shown)))
}

/// The first characters, and how many more there are. Secrets go before anything is cut: half a token has no shape.
fn cut(text: &str, most: usize) -> (String, usize) {
    let text = redact(text);
    let all = || text.chars().filter(|c| !is_ignorable(*c));
    let shown: String = all().take(most).collect();
    (shown, all().count().saturating_sub(most))
}

/// The same between tags of HTML, where Markdown's own escapes would be shown.
pub fn inert_html(text: &str) -> String {
    let text = redact(text);
    let mut out = String::new();
    for c in text.chars().filter(|c| !is_ignorable(*c)).take(MOST) {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '@' => out.push_str("@\u{200b}"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    unlinked(&out)
}

/// A name or an address within backticks; empty text has no code.
pub fn code_span(text: &str) -> String {
    let text = redact(text);
    let shown = text
        .chars()
        .filter(|c| !is_ignorable(*c) && *c != '`' && *c != '|' && !c.is_control());
    let shown: String = shown.take(MOST).collect();
    if shown.trim().is_empty() {
        return "–".to_owned();
    }
    format!("`{shown}`")
}

/// The last lines of a text as a fenced block that nothing within it can end.
pub fn code(text: &str) -> String {
    let text = redact(text);
    let lines: Vec<String> = text.lines().map(code_line).collect();
    let from = lines.len().saturating_sub(CODE_LINES);
    let longest = lines.iter().map(|line| run_of_backticks(line)).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{}\n{fence}", lines[from..].join("\n"))
}

fn code_line(line: &str) -> String {
    let shown = line
        .chars()
        .filter(|c| !is_ignorable(*c) && (!c.is_control() || *c == '\t'));
    shown.take(CODE_COLUMNS).collect()
}

fn run_of_backticks(line: &str) -> usize {
    let runs = line.split(|c| c != '`');
    runs.map(str::len).max().unwrap_or(0)
}

/// Escaped text in which GitHub finds no link, picture or formula.
fn unlinked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        if word > 0 {
            out.push_str(&broken_word(&rest[..word]));
            rest = &rest[word..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '$' {
            // GitHub's own way of a dollar sign that begins no formula ("Writing mathematical expressions").
            out.push_str("<span>$</span>");
            continue;
        }
        out.push(c);
        let next = rest.chars().next();
        let is_begun = match c {
            '#' => true,
            // An address or a picture's name; a sentence goes on with a space.
            ':' => {
                next.is_some_and(|n| n == '/' || n == '+' || n == '-' || n.is_ascii_alphanumeric())
            }
            _ => false,
        };
        if is_begun {
            out.push(BREAK);
        }
    }
    // `GH-12` is a word, a hyphen and a number.
    out.replace("GH-", "GH-\u{200b}")
        .replace("gh-", "gh-\u{200b}")
}

/// A word that is neither a commit's id nor the beginning of an address.
fn broken_word(word: &str) -> String {
    let is_id = (7..=64).contains(&word.len())
        && word.chars().all(|c| c.is_ascii_hexdigit())
        && word.chars().any(|c| c.is_ascii_alphabetic());
    let is_www = word.eq_ignore_ascii_case("www");
    if is_id || is_www {
        let (head, tail) = word.split_at(3.min(word.len() - 1));
        return format!("{head}{BREAK}{tail}");
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_it_does_anything() {
        let check = |text: &str, expect: &str| {
            assert_eq!(inert(text).replace(BREAK, "·"), expect, "{text}");
        };
        check("https://evil.example/x", "https:·//evil.example/x");
        check("www.evil.example", "ww·w.evil.example");
        check("see #123 and GH-45", "see \\#·123 and GH-·45");
        check("a :tada: b: 12", "a :·tada: b: 12");
        check("x 1a2b3c4d5e y", "x 1a2·b3c4d5e y");
        check("12345678 ns", "12345678 ns");
        check("$\\frac$", "<span>$</span>\\\\frac<span>$</span>");
        check("@everyone", "@·everyone");
        check("a|b `c` </details>", "a\\|b \\`c\\` &lt;/details&gt;");
        check("abc\u{202e}def\u{200f}", "abcdef");
        check("ghp_0123456789abcdef0123456789", "\\[redacted\\]");
        assert_eq!(
            inert_within("a ghp_0123456789abcdef0123456789", 8),
            "a \\[redac…"
        );
        assert_eq!(inert_within("a | b", 8), "a \\| b");
        let long = inert(&"x".repeat(100_000));
        assert!(long.len() < 2_100 && long.ends_with("… (98000 characters more)"));
    }

    #[test]
    fn a_block_of_code_ends_where_we_end_it() {
        let shown = code("a\n```\n# b\n`````\n");
        assert_eq!(shown, "``````text\na\n```\n# b\n`````\n``````");
        assert_eq!(code("one"), "```text\none\n```");
        let long = code(&"y".repeat(5_000));
        assert_eq!(long.lines().nth(1).map(str::len), Some(CODE_COLUMNS));
        let many = code(&"z\n".repeat(5_000));
        assert_eq!(many.lines().count(), CODE_LINES + 2);
    }

    #[test]
    fn within_tags_there_is_no_markdown() {
        let shown = inert_html("a_b <script> \"x\" @ada #1");
        let expect = "a_b &lt;script&gt; &quot;x&quot; @\u{200b}ada #\u{200b}1";
        assert_eq!(shown, expect);
    }

    #[test]
    fn a_span_of_code_stays_one() {
        assert_eq!(code_span("a`b|c"), "`abc`");
        assert_eq!(code_span("```"), "–");
    }
}
