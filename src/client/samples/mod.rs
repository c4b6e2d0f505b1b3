//! An exchange becomes a sample: stamps, counts and text in their places, void samples by name.

pub mod build;
pub mod repeats;
pub mod rules;
