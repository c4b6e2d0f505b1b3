//! Rows of a CSV file whose first line names the columns. Fields hold no commas and no quotes.
//!
//! Main type: [`Row`]. Refuses to know: what the columns mean.

use super::ReplayError;
use std::fmt::Display;
use std::str::FromStr;

pub struct Rows;

impl Rows {
    /// The rows after the first, which is the header. Columns that nobody asks for may be there.
    pub fn read<'a>(file: &'static str, text: &'a str) -> Result<Vec<Row<'a>>, ReplayError> {
        let wrong = |line, what| ReplayError { file, line, what };
        let mut lines = (1..).zip(text.lines());
        let (_, header) = lines.next().ok_or_else(|| {
            wrong(
                0,
                "it is empty; the first line names the columns".to_owned(),
            )
        })?;
        let columns: Vec<&str> = header.split(',').collect();
        lines
            .map(|(line, row)| {
                let fields: Vec<&str> = row.split(',').collect();
                if fields.len() != columns.len() {
                    let (n, need) = (fields.len(), columns.len());
                    return Err(wrong(line, format!("{n} fields; the header names {need}")));
                }
                Ok(Row {
                    file,
                    line,
                    fields: columns.iter().copied().zip(fields).collect(),
                })
            })
            .collect()
    }
}

/// One row, its fields by the names of their columns.
pub struct Row<'a> {
    file: &'static str,
    line: usize,
    fields: Vec<(&'a str, &'a str)>,
}

impl Row<'_> {
    pub fn text(&self, column: &str) -> Result<String, ReplayError> {
        self.field(column).map(str::to_owned)
    }

    pub fn number<T: FromStr<Err: Display>>(&self, column: &str) -> Result<T, ReplayError> {
        let field = self.field(column)?;
        field.parse().map_err(|error| {
            self.wrong(format!(
                "{column} is {field:?}: {error}; it is to be a number"
            ))
        })
    }

    /// This row's line with what is wrong with it.
    pub fn wrong(&self, what: String) -> ReplayError {
        ReplayError {
            file: self.file,
            line: self.line,
            what,
        }
    }

    fn field(&self, column: &str) -> Result<&str, ReplayError> {
        let found = self.fields.iter().find(|(name, _)| *name == column);
        found.map(|(_, field)| *field).ok_or_else(|| ReplayError {
            file: self.file,
            line: 1,
            what: format!("no column `{column}`; the first line names the columns"),
        })
    }
}
