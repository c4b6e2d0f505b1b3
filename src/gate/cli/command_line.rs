//! The command line of this process, for a page that says how it was made.

use crate::report::shell_word;
use std::env;

/// The option whose value may be a key: of it the header's name alone is shown.
const HEADER: &str = "--header";

/// `gate load --url http://h …`, as a shell reads it.
pub fn command_line() -> String {
    let words = env::args_os().skip(1);
    shown(words.map(|word| word.to_string_lossy().into_owned()))
}

fn shown(words: impl Iterator<Item = String>) -> String {
    let mut line = "gate".to_owned();
    let mut is_header = false;
    for word in words {
        let value = word
            .strip_prefix(HEADER)
            .and_then(|rest| rest.strip_prefix('='));
        let shown = match value {
            Some(value) => format!("{HEADER}={}", hidden(value)),
            None if is_header => hidden(&word),
            None => word.clone(),
        };
        is_header = word == HEADER && !is_header;
        line = format!("{line} {}", shell_word(&shown));
    }
    line
}

/// `NAME: …`
fn hidden(header: &str) -> String {
    let name = header.split_once(':').map_or("", |(name, _)| name);
    format!("{name}: …")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_headers_value_is_hidden() {
        let words = [
            "load",
            "--header",
            "x-key: abc",
            "--header=y: d",
            "--model",
            "a b",
        ];
        assert_eq!(
            shown(words.into_iter().map(str::to_owned)),
            "gate load --header 'x-key: …' '--header=y: …' --model 'a b'"
        );
    }
}
