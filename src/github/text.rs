//! Text from outside, made fit to be shown on one line of a terminal, a log or an output.

/// One line of at most `most` characters: control and direction-changing characters become spaces, runs of
/// spaces one, and a cut shows as `…`. Escaping for Markdown or HTML is whoever's writes those.
pub fn clean(text: &str, most: usize) -> String {
    let plain: String = text
        .chars()
        .map(|c| if is_unsafe(c) { ' ' } else { c })
        .collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let mut cut: String = line.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Characters that move the cursor, start a new line, or turn the direction of what follows.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn one_safe_line() {
        for (text, most, expect) in [
            ("plain", 10, "plain"),
            ("two\nlines\r\n::error::x", 40, "two lines ::error::x"),
            ("\u{1b}[31mred", 20, "[31mred"),
            ("a\u{202e}b", 20, "a b"),
            ("0123456789", 5, "0123…"),
            ("", 5, ""),
        ] {
            assert_eq!(clean(text, most), expect);
        }
    }
}
