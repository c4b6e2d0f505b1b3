//! Every text of a publication: comment, check run, verdict, page, JUnit, annotations.
//!
//! Main type: [`Said`]. Refuses to know: who is told, and whether anybody hears.

use super::keep;
use super::options::{Content, JudgedAnew};
use super::trusted::Trusted;
use super::view::Annotation;
use crate::report::{self, Conclusion, Publication};
use crate::session::{Error, rendering};
use github::{self, actions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use verdict::plan::{self, GitHubConfig, Plan};

/// Characters of a check run's title.
const TITLE: usize = 200;

/// Every text that leaves this process.
pub struct Said {
    /// Name of the check run.
    name: String,
    pub comment: String,
    /// The comment without its marks.
    pub summary: String,
    pub title: String,
    pub conclusion: Option<Conclusion>,
    pub annotations: Vec<Annotation>,
    verdict_json: Option<String>,
    html: Option<String>,
    junit: Option<String>,
}

impl Said {
    pub fn of(
        publication: &Publication<'_>,
        content: &Content,
        template: Option<&str>,
        config: &GitHubConfig,
    ) -> Self {
        let marker = rendering::marker(&config.name);
        let marks = format!("{marker}\n{}", head_mark(&publication.head_sha));
        let comment = report::comment(publication, template, &marks);
        let summary = comment
            .strip_prefix(&marks)
            .unwrap_or(&comment)
            .trim_start()
            .to_owned();
        let title = format!("{}: {}", publication.word(), publication.sentence());
        let mut said = Self {
            name: config.name.clone(),
            comment,
            summary,
            title: github::clean(&report::redact(&title), TITLE),
            conclusion: publication.conclusion(inconclusive(config)),
            annotations: Vec::new(),
            verdict_json: None,
            html: None,
            junit: None,
        };
        match content {
            Content::Judged(judged) => {
                let JudgedAnew { trusted, past, .. } = &**judged;
                let Trusted {
                    plan,
                    record,
                    verdict,
                    ..
                } = trusted;
                said.annotations = super::view::annotations(verdict, &places(plan));
                said.verdict_json =
                    Some(report::redact(&report::verdict_json(record, verdict)).into_owned());
                said.html = Some(rendering::html(
                    plan,
                    record,
                    verdict,
                    (past.as_ref(), &publication.notices),
                    // Of authorised commits: the record's own command lines are its claim.
                    Some(&publication.command()),
                ));
                said.junit = Some(report::junit(record, verdict));
            }
            Content::NotMeasured(why) | Content::Refused(why) => {
                said.junit = Some(report::junit_not_measured(why))
            }
            Content::Pending | Content::NotRun(_) | Content::Cancelled | Content::NotNeeded => {}
        }
        said
    }

    pub fn keep(&self, directory: &Path) -> Result<PathBuf, Error> {
        let check = serde_json::json!({
            "name": self.name,
            "title": self.title,
            "conclusion": self.conclusion.map(Conclusion::name),
            "annotations": self.annotations.iter().map(|a| serde_json::json!({
                "path": a.path, "line": a.line, "level": a.level.name(), "title": a.title, "message": a.message,
            })).collect::<Vec<_>>(),
        });
        let check = format!("{check:#}\n");
        let files = [
            ("comment.md", Some(self.comment.as_str())),
            ("check.json", Some(check.as_str())),
            ("verdict.json", self.verdict_json.as_deref()),
            ("report.html", self.html.as_deref()),
            ("junit.xml", self.junit.as_deref()),
        ];
        Ok(keep::keep(directory, &files)?)
    }
}

/// Second line of our comments: which commit it is about.
pub fn head_mark(head: &str) -> String {
    format!("<!-- infergate:head {head} -->")
}

/// How the project wants a result that says nothing to end.
fn inconclusive(config: &GitHubConfig) -> Conclusion {
    match config.inconclusive {
        plan::Conclusion::Neutral => Conclusion::Neutral,
        plan::Conclusion::Failure => Conclusion::Failure,
    }
}

/// A check's id → the file and the line of its rule.
fn places(plan: &Plan) -> BTreeMap<String, (String, u32)> {
    let gates = plan.gates.iter();
    gates
        .flat_map(|gate| {
            gate.checks
                .iter()
                .map(|check| (check.id.clone(), (gate.file.clone(), check.line)))
        })
        .collect()
}

pub fn command(annotation: &Annotation) -> String {
    let level = match annotation.level {
        super::view::Level::Failure => actions::Level::Error,
        super::view::Level::Warning => actions::Level::Warning,
        super::view::Level::Notice => actions::Level::Notice,
    };
    let Annotation {
        path,
        line,
        title,
        message,
        ..
    } = annotation;
    actions::annotation(level, path, *line, title, message)
}
