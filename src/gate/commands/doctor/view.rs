//! The doctor's findings, for a terminal and as JSON.

use crate::doctor::{Diagnosis, Fitness};
use crate::report::{pretty_json, terminal};
use serde::Serialize;
use std::fmt::Write;
use verdict::plural::count;

const FORMAT: &str = "infergate-doctor/1";

/// One line a respect, what to do below it, and the word at the end; 80 columns.
pub fn doctor_text(findings: &[Diagnosis], fitness: Fitness) -> String {
    let header = ["", "what", "found"].map(str::to_owned).to_vec();
    let row = |finding: &Diagnosis| {
        vec![
            word(finding.fitness).to_owned(),
            finding.what.clone(),
            finding.found.clone(),
        ]
    };
    let rows = findings.iter().map(row).collect();
    let mut out = format!("{}\n", terminal::columns(header, rows));
    let to_do = findings.iter().filter(|finding| !finding.remedy.is_empty());
    for (index, finding) in to_do.enumerate() {
        if index == 0 {
            out.push('\n');
        }
        let line = format!("{}: {}", finding.what, finding.remedy);
        for line in terminal::wrap(&line, usize::from(terminal::WIDTH)) {
            let _ = writeln!(out, "{line}");
        }
    }
    let warnings = findings
        .iter()
        .filter(|finding| finding.fitness == Fitness::Doubtful);
    let conclusion = match fitness {
        Fitness::Fit => "FIT  ready to measure".to_owned(),
        Fitness::Doubtful => format!("FIT  {}", count(warnings.count(), "warning")),
        Fitness::Unfit => "UNFIT  fix the items marked unfit first".to_owned(),
    };
    let _ = writeln!(out, "\n{conclusion}");
    out
}

fn word(fitness: Fitness) -> &'static str {
    match fitness {
        Fitness::Doubtful => "warning",
        Fitness::Fit | Fitness::Unfit => fitness.name(),
    }
}

/// The same as `infergate-doctor/1`.
pub fn doctor_json(findings: &[Diagnosis], fitness: Fitness) -> String {
    #[derive(Serialize)]
    struct Report<'a> {
        format: &'static str,
        fitness: &'static str,
        findings: Vec<FindingRow<'a>>,
    }
    #[derive(Serialize)]
    struct FindingRow<'a> {
        what: &'a str,
        fitness: &'static str,
        found: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        remedy: &'a str,
    }
    let findings = findings.iter().map(|finding| FindingRow {
        what: &finding.what,
        fitness: finding.fitness.name(),
        found: &finding.found,
        remedy: &finding.remedy,
    });
    let report = Report {
        format: FORMAT,
        fitness: fitness.name(),
        findings: findings.collect(),
    };
    pretty_json(&report)
}
