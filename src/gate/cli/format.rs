//! Formats of standard output.

use clap::{Args, ValueEnum};

/// How a result that is no verdict is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal
    Text,
    /// One JSON object
    Json,
    Markdown,
}

/// Formats of a command that can print a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// For a terminal
    Text,
    /// One JSON object
    Json,
    Markdown,
    /// One page that needs nothing else
    Html,
}

/// Formats of a command that can print a page, and no Markdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PictureFormat {
    /// For a terminal
    Text,
    Json,
    /// One page that needs nothing else
    Html,
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
    /// The comment on a pull request
    Comment,
    /// A row for each check of a launch
    Csv,
    /// A row for each request
    RequestsCsv,
    /// Gauges for Prometheus, in OpenMetrics' text format
    #[value(name = "openmetrics")]
    OpenMetrics,
}

/// Options of every command that prints a verdict.
#[derive(Args, Clone, Copy, Debug)]
pub struct VerdictArgs {
    /// How to print the verdict
    #[arg(long, value_enum, default_value_t = VerdictFormat::Text)]
    pub format: VerdictFormat,
    /// Explain every check, including those that passed
    #[arg(short, long)]
    pub verbose: bool,
}

impl From<VerdictFormat> for VerdictArgs {
    fn from(format: VerdictFormat) -> Self {
        let verbose = false;
        Self { format, verbose }
    }
}

/// How a table is printed on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// A table for a terminal
    Text,
    Json,
}
