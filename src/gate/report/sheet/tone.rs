//! Colours of a page by what they say.

use serde::Serialize;

/// What a colour says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    Pass,
    Fail,
    Inconclusive,
    Invalid,
    /// What others are compared with.
    Base,
    #[default]
    Head,
}
