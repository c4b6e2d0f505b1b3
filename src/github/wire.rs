//! Parts of GitHub's answers and events that look the same wherever they stand.
//!
//! Main types: [`Account`], [`Label`]. Refuses to know: which request or event they came with.

use serde::Deserialize;

/// A person, an app or an organisation.
#[derive(Deserialize)]
pub(super) struct Account {
    pub(super) login: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
}
