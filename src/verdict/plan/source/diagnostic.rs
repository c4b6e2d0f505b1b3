//! A refusal with its place: file, line, a caret under the value, and what would have been right.

use crate::record::visible;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// One thing that is wrong in one file of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Path relative to the project's root.
    pub file: Box<str>,
    /// The whole file, so that its line can be shown.
    pub source: Box<str>,
    /// Bytes of `source` that are at fault.
    pub span: Range<usize>,
    /// What is wrong, for the first line.
    pub message: String,
    /// What to write beside the caret; may be empty.
    pub label: String,
    /// The remedy, if there is one to name.
    pub help: Option<String>,
}

impl Diagnostic {
    /// The message with its line and caret, as text for a terminal; with ANSI colours if `styled`.
    pub fn render(&self, styled: bool) -> String {
        let Range { start, end } = self.clamped_span();
        let parts = [0..start, start..end, end..self.source.len()];
        let [before, marked, after] = parts.map(|part| shown(&self.source[part]));
        let span = before.len()..before.len() + marked.len();
        let source = before + &marked + &after;
        let [file, message, label] = [&*self.file, &self.message, &self.label].map(shown);
        let help = self.help.as_deref().map(shown);
        let snippet = Snippet::source(&source)
            .path(&file)
            .annotation(AnnotationKind::Primary.span(span).label(&label));
        let mut group = Level::ERROR.primary_title(&message).element(snippet);
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help));
        }
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }

    /// A span that the renderer can show: inside the text and on character borders.
    fn clamped_span(&self) -> Range<usize> {
        let border = |mut at: usize| {
            at = at.min(self.source.len());
            while !self.source.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = border(self.span.start);
        start..border(self.span.end).max(start)
    }
}

/// The text with unseen characters by their escapes; line ends and tabs stay.
fn shown(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let whole = (line, "");
        let (line, end) = line.strip_suffix('\r').map_or(whole, |line| (line, "\r"));
        let parts: Vec<Cow<'_, str>> = line.split('\t').map(visible).collect();
        parts.join("\t") + end
    });
    lines.collect::<Vec<String>>().join("\n")
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// 1-based line of a byte offset.
pub fn line_of(source: &str, offset: usize) -> u32 {
    let end = offset.min(source.len());
    let newlines = source.as_bytes()[..end]
        .iter()
        .filter(|b| **b == b'\n')
        .count();
    u32::try_from(newlines + 1).unwrap_or(u32::MAX)
}

/// Names less alike than this are not worth suggesting (Jaro–Winkler, 1 is equal).
const LIKENESS: f64 = 0.8;

/// Whether one name may be the other, mistyped.
pub fn is_near(wrong: &str, right: &str) -> bool {
    strsim::jaro_winkler(wrong, right) >= LIKENESS
}

/// `did you mean "x"?` for a near name, else the list of right ones.
pub fn suggestion<'a>(wrong: &str, right: impl Iterator<Item = &'a str> + Clone) -> String {
    let likeness = |name: &&str| strsim::jaro_winkler(wrong, name);
    let near = right
        .clone()
        .filter(|name| is_near(wrong, name))
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match near {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let names: Vec<String> = right.map(|name| format!("`{name}`")).collect();
            format!("available: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_place_and_the_remedy() {
        let source = "title = \"x\"\nlimit = \"15 parsecs\"\n";
        let shown = Diagnostic {
            file: "gates/tpot.toml".into(),
            source: source.into(),
            span: 20..32,
            message: "unknown unit `parsecs`".into(),
            label: "expected a time".into(),
            help: Some("write \"15 ms\"".into()),
        }
        .render(false);
        for part in [
            "unknown unit",
            "gates/tpot.toml:2:9",
            "^^^^^^^^^^^^ expected a time",
            "15 ms",
        ] {
            assert!(shown.contains(part), "{part} is missing in:\n{shown}");
        }
    }

    #[test]
    fn a_span_outside_the_text_does_not_panic() {
        let shown = Diagnostic {
            file: "f".into(),
            source: "é".into(),
            span: 1..99,
            message: "m".into(),
            label: String::new(),
            help: None,
        }
        .render(false);
        assert!(shown.contains('m'));
    }

    #[test]
    fn suggests_a_near_name_or_lists_all() {
        let names = ["margin", "ceiling"];
        assert_eq!(
            suggestion("margn", names.iter().copied()),
            "did you mean `margin`?"
        );
        assert_eq!(
            suggestion("zzz", names.iter().copied()),
            "available: `margin`, `ceiling`"
        );
    }
}
