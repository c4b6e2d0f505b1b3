//! Results side by side: whatever a result came from, its figures in one form, and the table that compares them.
//!
//! Main types: [`Column`], one result; [`Table`], several of them against the first. A ratio says nothing
//! where the two sides did different work, so the table knows which rows depend on the answers' length, and
//! makes those invalid where the lengths differ.
//!
//! Refuses to know: files, how a figure was measured, how a table is shown, and verdicts about a change: a
//! comparison has no error budget.

mod column;
mod distribution;
mod launches;
mod load;
mod row;
mod runs;
mod table;

pub use column::{Column, Origin};
pub use distribution::{CLOSE, Distribution};
pub use launches::cold;
pub use load::{LoadResult, Requests, Speed, Throughput};
pub use row::{Part, Row};
pub use runs::{MOST_RUNS, repeats, steps};
pub use table::{Cell, Held, Line, Paired, Table, compare};
