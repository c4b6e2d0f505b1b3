//! Main's records: what each gate measured on main, by machine, model, gate definition and engine
//! configuration, in versioned files that two writers cannot break; here in a directory, and beyond this machine
//! on a git branch or in a bucket.
//!
//! Refuses to know: how a record is judged.

mod bounds;
mod entry;
mod format;
mod git;
mod listing;
mod name;
mod note;
mod objects;
mod redact;
mod refused;
mod remote;
pub mod retention;
mod sign_off;
mod store;
pub mod verify;

pub use bounds::{BoundsError, MOST_BYTES, age_days, is_created};
pub use entry::{Anchor, Entry, Key, Spent};
pub use format::{FormatError, signed};
pub use git::GitStore;
pub use listing::{Listing, Record, RemoteError};
pub use name::{Kind, NameError, RecordName, stamp_of};
pub use note::{Note, NoteOutcome, Said};
pub use objects::ObjectsStore;
pub use refused::{RefusedRecord, text as admitted_text};
pub use remote::Remote;
pub use retention::{NEWEST_SESSIONS, expired};
pub use sign_off::{
    KEY_VARIABLE, ShortKey, SignOff, SignOffError, Signer, SigningKey, WorkflowRun,
};
pub use store::{Store, StoreError};
pub use verify::{admit, hold, ready, sign_off_of};
