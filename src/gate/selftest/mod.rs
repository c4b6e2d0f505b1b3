//! Faults that `gate selftest` plants, and the check that must see each: plain data.
//!
//! Main types: [`Fault`], one planted fault with the check that should catch it, and [`Row`], what came of it.
//! The gates are text files of this folder, so that the program alone holds its own proof.
//!
//! Refuses to know: how a session is measured, where files are written, how a row is shown.

mod faults;
mod own;
mod row;

pub use faults::{Abroad, FAULTS, Fault, Plant, Side, Spec};
pub use own::{PROFILE, inputs};
pub use row::{Caught, Row, grade, grade_abroad, not_covered};
