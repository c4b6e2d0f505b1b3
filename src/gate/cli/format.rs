//! Formats of standard output.

use clap::ValueEnum;

/// How a result that is no verdict is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    Text,
    /// One JSON object
    Json,
    Markdown,
}

/// How a judged session is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictFormat {
    /// A table for a terminal
    Text,
    /// verdict.json
    Json,
    /// report.md
    Markdown,
    /// report.html
    Html,
    /// junit.xml
    Junit,
    /// What would stand on a pull request
    Comment,
}

/// How a table is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// A table for a terminal
    Text,
    Json,
}
