//! Several reports in one table, for a terminal and as Markdown.
//!
//! Main type: [`Overview`]. Refuses to know: what its rows are.

use super::view::{self, LoadReport};
use crate::report::markdown::escape;
use crate::report::terminal::{WIDTH, wrap};
use std::fmt::Write;

/// A table below what all its reports have in common, and sentences under it.
pub struct Overview<'a, const N: usize> {
    /// `None`: there is no report.
    pub first: Option<&'a LoadReport>,
    /// The parameter in which the reports differ; empty: none.
    pub differs: &'a str,
    pub header: [&'a str; N],
    pub rows: Vec<Vec<String>>,
    pub remarks: Vec<String>,
}

impl<const N: usize> Overview<'_, N> {
    pub fn table(self) -> String {
        let mut out = String::new();
        if let Some(first) = self.first {
            let _ = writeln!(out, "{}  {}  {}", first.server, first.model, first.date);
            let parameters = view::parameters(first, self.differs);
            for line in wrap(&parameters, usize::from(WIDTH)) {
                let _ = writeln!(out, "{line}");
            }
        }
        let _ = writeln!(out, "\n{}\n", view::table(self.header, self.rows));
        for text in self.remarks {
            for line in wrap(&text, usize::from(WIDTH)) {
                let _ = writeln!(out, "{line}");
            }
        }
        out
    }

    pub fn markdown(self) -> String {
        let mut out = String::new();
        if let Some(first) = self.first {
            out += &view::markdown_head(first, self.differs);
        }
        out += &view::markdown_table(self.header, self.rows);
        for text in self.remarks {
            let _ = writeln!(out, "- {}", escape(&text));
        }
        out
    }
}
