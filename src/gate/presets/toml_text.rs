//! Text within TOML strings.

/// As it stands within a basic string of TOML, and as no place of a template.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '{' if out.ends_with('{') => out.push_str("\\u007B"),
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
