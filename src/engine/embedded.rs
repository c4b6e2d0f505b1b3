//! The small trained model inside the binary, as a list of named files.
//!
//! Refuses to know: what the files mean; they are loaded like those of a directory.

macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/gates/models/tiny-qwen3/", $name
        )))),*]
    };
}

pub(super) const FILES: &[(&str, &[u8])] = embed![
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "model.safetensors",
];

/// What it is called where no other name is given.
pub(super) const NAME: &str = "tiny-qwen3";
