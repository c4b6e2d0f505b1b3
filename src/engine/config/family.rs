//! Classes of models by the names that a configuration gives: `architectures` and `model_type`.
//!
//! Main function: [`of`]. Refuses to know: sizes.

/// What a configuration describes.
#[derive(Clone, Copy)]
pub struct Family {
    pub architecture: &'static str,
    pub model_type: &'static str,
    /// Of the Qwen3.5 class.
    pub hybrid: bool,
    pub experts: bool,
    /// The model type of its text, where it reads pictures too: the text's part is computed alone.
    pub text: Option<&'static str>,
}

const FAMILIES: [Family; 6] = [
    family_of("Qwen3ForCausalLM", "qwen3", false, false),
    family_of("Qwen3MoeForCausalLM", "qwen3_moe", false, true),
    family_of("Qwen3_5ForCausalLM", "qwen3_5_text", true, false),
    family_of("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", true, true),
    Family {
        text: Some("qwen3_5_text"),
        ..family_of("Qwen3_5ForConditionalGeneration", "qwen3_5", true, false)
    },
    Family {
        text: Some("qwen3_5_moe_text"),
        ..family_of(
            "Qwen3_5MoeForConditionalGeneration",
            "qwen3_5_moe",
            true,
            true,
        )
    },
];

const fn family_of(
    architecture: &'static str,
    model_type: &'static str,
    hybrid: bool,
    experts: bool,
) -> Family {
    Family {
        architecture,
        model_type,
        hybrid,
        experts,
        text: None,
    }
}

/// By `architectures` and `model_type`, which must not contradict each other.
///
/// # Errors
/// What is named in place of a known class.
pub fn of(architectures: Option<&[String]>, model_type: Option<&str>) -> Result<Family, String> {
    let listed = architectures.filter(|list| !list.is_empty());
    let fits = |family: &&Family| match (listed, model_type) {
        (Some([one]), None) => one == family.architecture,
        (Some([one]), Some(kind)) => one == family.architecture && kind == family.model_type,
        (None, Some(kind)) => kind == family.model_type,
        _ => false,
    };
    if let Some(family) = FAMILIES.iter().find(fits) {
        return Ok(*family);
    }
    let is_known = |name: &String| FAMILIES.iter().any(|family| family.architecture == name);
    Err(match (listed, model_type) {
        (Some([one]), Some(kind)) if is_known(one) => format!("{one} of model_type {kind}"),
        (Some(list), _) => list.join(", "),
        (None, kind) => kind.unwrap_or("(none named)").to_owned(),
    })
}
