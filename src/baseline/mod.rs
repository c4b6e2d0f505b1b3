//! Main's records: what each gate measured on main, by machine, model, gate definition and engine
//! configuration, in versioned files that two writers cannot break.
//!
//! Refuses to know: how a record is judged.

mod entry;
mod format;
mod store;

pub use entry::{Anchor, Entry, Key};
pub use format::FormatError;
pub use store::{Store, StoreError};
