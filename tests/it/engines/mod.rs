//! Engines of others: presets that plan, results side by side, other tools' results, engines launched in turn.

mod compare;
mod contest;
mod github;
mod golden;
mod import;
mod loads;
mod presets;
