//! Text, tables and values with their places: what every file of a plan is read with.

pub mod diagnostic;
pub mod files;
pub mod quantity;
pub mod section;
