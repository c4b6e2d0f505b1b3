//! Parts of GitHub's answers and events that look the same wherever they stand.
//!
//! Main types: [`Account`], [`Label`]. Refuses to know: which request or event they came with.

use serde::Deserialize;

/// A person, an app or an organisation.
#[derive(Deserialize)]
pub struct Account {
    pub login: String,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Deserialize)]
pub struct Label {
    pub name: String,
}
