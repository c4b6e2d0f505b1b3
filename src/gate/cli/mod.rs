//! Command line, shared: parsers of names, sizes and percents, formats, output, progress, exit codes.

pub mod command_line;
mod exit;
pub mod format;
pub mod github;
pub mod model;
pub mod names;
pub mod output;
pub mod percent;
pub mod progress;
pub mod runtime;
pub mod signer;
pub mod size;
pub mod verdict;

pub use exit::Exit;
