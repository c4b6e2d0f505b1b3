//! The project that the embedded engine is tested in: `gates/` as text, within this program.

use verdict::record::Input;

/// The profile that its sessions run.
pub const PROFILE: &str = "selftest";

const PROJECT: &str = include_str!("gate.toml");

/// Every file of `gates/` but `gate.toml`, by its path there.
pub const GATES: [(&str, &str); 8] = [
    ("answers.toml", include_str!("gates/answers.toml")),
    ("cells.toml", include_str!("gates/cells.toml")),
    ("decode.toml", include_str!("gates/decode.toml")),
    ("memory.toml", include_str!("gates/memory.toml")),
    ("prefill.toml", include_str!("gates/prefill.toml")),
    ("session.toml", include_str!("gates/session.toml")),
    ("start.toml", include_str!("gates/start.toml")),
    (
        "data/tiny-qwen3/goldens.json",
        include_str!("../../../gates/data/tiny-qwen3/goldens.json"),
    ),
];

/// The files that make the plan for the engine in the program of this path.
pub fn inputs(program: &str) -> Vec<Input> {
    let project = PROJECT.replace("{{program}}", &quoted(program));
    let gates = GATES.map(|(name, text)| (name, text.to_owned()));
    let all = std::iter::once(("gate.toml", project)).chain(gates);
    all.map(|(name, text)| Input {
        path: format!("gates/{name}"),
        text,
    })
    .collect()
}

/// As a basic string of TOML, which JSON's strings are too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_names_the_program() {
        let inputs = inputs("/a \"b\"/gate");
        assert_eq!(inputs[0].path, "gates/gate.toml");
        let text = &inputs[0].text;
        assert!(
            text.contains(r#"serve = ["/a \"b\"/gate", "serve","#),
            "{text}"
        );
        assert!(!text.contains("{{"), "{text}");
        assert_eq!(inputs.len(), 1 + GATES.len());
    }
}
