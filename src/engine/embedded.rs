//! The small trained model inside the binary, as a list of named files.
//!
//! Refuses to know: what the files mean; they are loaded like those of a directory.

macro_rules! embed {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../gates/models/tiny-qwen3/",
                $name
            )),
        )
    };
}

/// What turns text into tokens and back.
pub const TEXT_FILES: [(&str, &[u8]); 3] = [
    embed!("tokenizer.json"),
    embed!("tokenizer_config.json"),
    embed!("chat_template.jinja"),
];

pub const FILES: &[(&str, &[u8])] = &[
    embed!("config.json"),
    embed!("generation_config.json"),
    embed!("model.safetensors"),
    TEXT_FILES[0],
    TEXT_FILES[1],
    TEXT_FILES[2],
];

/// What it is called where no other name is given.
pub const NAME: &str = "tiny-qwen3";
