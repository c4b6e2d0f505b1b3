//! Settings of all gates: `gates/gate.toml` and the files beside it.

pub mod engines;
pub mod github;
pub mod host;
pub mod labels;
pub mod project;
pub mod store;
pub mod waivers;
