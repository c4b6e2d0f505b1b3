//! Text of a server that we do not control, made fit for a void sample's detail: one line, bounded.
//!
//! Refuses to know: statuses, rules.

use serde_json::Value;

/// A server's message from an error body of whatever kind: OpenAI's `error.message`, `error`,
/// `message`, FastAPI's `detail`, or the text itself (an HTML page of a proxy).
pub fn error_text(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Value>(body).ok();
    let named = json.as_ref().and_then(|json| {
        ["error", "message", "detail"]
            .iter()
            .find_map(|name| json.get(name))
    });
    let text = match named {
        Some(value) => message_of(value),
        None => brief(&String::from_utf8_lossy(
            &body[..body.len().min(4 * LONGEST_MESSAGE)],
        )),
    };
    if text.is_empty() {
        "no message".to_owned()
    } else {
        text
    }
}

/// The message within an error object, or the object itself.
pub fn message_of(error: &Value) -> String {
    let inner = error.get("message").unwrap_or(error);
    match inner {
        Value::String(text) => brief(text),
        other => brief(&other.to_string()),
    }
}

/// Characters of a foreign text that are kept.
const LONGEST_MESSAGE: usize = 300;

/// One line of sane length.
pub fn brief(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{brief, error_text};

    #[test]
    fn the_message_is_found_in_each_engines_form() {
        assert_eq!(
            error_text(br#"{"error":{"message":"slow down"}}"#),
            "slow down"
        );
        assert_eq!(
            error_text(br#"{"detail":[{"msg":"x"}]}"#),
            r#"[{"msg":"x"}]"#
        );
        assert_eq!(
            error_text(b"<html>\n <h1>502</h1>\n</html>"),
            "<html> <h1>502</h1> </html>"
        );
        assert_eq!(error_text(b" \n"), "no message");
        assert_eq!(error_text(b"\xff\x00x"), "\u{fffd} x");
    }

    #[test]
    fn foreign_text_is_cut_at_a_character() {
        let long = "é".repeat(1_000);
        assert_eq!(brief(&long).chars().count(), 301);
        assert!(brief(&long).ends_with('…'));
        assert_eq!(brief(&"é".repeat(300)), "é".repeat(300));
    }
}
