//! Main's history as text, Markdown, JSON and a changelog.

pub mod changelog;
pub mod json;
pub mod site;
pub mod text;
pub mod words;
