//! A comment cut to what GitHub takes, without breaking a table, a fence, a details block or a Mermaid block.
//!
//! GitHub says 65,536 characters and counts them in ways that differ with the place. Bytes are the strictest of all
//! (a text of so many bytes has at most as many characters, in UTF-16 as well), so bytes are counted here.
//!
//! A template marks its sections with lines `<!-- section IMPORTANCE NAME -->`, where a greater number goes first,
//! and 0 stays to the last. Text from outside may hold such a line, and makes no section by it: [`marked`] tells the
//! template's own lines from all others before any value stands between them.
//! Main function: [`cut`]. Refuses to know: what the sections say.

use std::cmp::Reverse;

/// The most bytes of a comment, and of the summary of a check run, which takes one less ("Update a check run").
pub const MOST_BYTES: usize = 65_535;
/// Room for the sentence about what was left out, and for closing what is open.
const RESERVE: usize = 1_200;
const HEADING: &str = "<!-- section ";
/// Stands before a heading of the template's. No value holds it: `github_escape.rs` lets no control character through.
const MARK: char = '\u{1}';

struct Section<'a> {
    importance: u32,
    name: &'a str,
    text: String,
}

/// The template with its own headings marked, to be rendered and then [`cut`].
pub fn marked(template: &str) -> String {
    template
        .replace(MARK, "")
        .replace(HEADING, &format!("{MARK}{HEADING}"))
}

/// What a [`marked`] template was rendered to in at most `most` bytes. What was left out is said at the end, with
/// `whereabouts`, where all of it is.
pub fn cut(text: &str, most: usize, whereabouts: &str) -> String {
    let mut sections = sections(text);
    let mut length: usize = sections.iter().map(|section| section.text.len()).sum();
    if length <= most {
        return joined(&sections);
    }
    let room = most.saturating_sub(RESERVE);
    let mut gone = Vec::new();
    for at in least_important_first(&sections) {
        if length <= room {
            break;
        }
        let section = &mut sections[at];
        length -= std::mem::take(&mut section.text).len();
        gone.push(section.name.to_owned());
    }
    let kept = joined(&sections);
    let mut out = lines_within(&kept, room);
    if out.len() < kept.len() {
        gone.push("the end of what is above".to_owned());
    }
    out.push_str(&format!("\n{}\n", left_out(&gone, whereabouts)));
    out
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found = vec![Section {
        importance: 0,
        name: "",
        text: String::new(),
    }];
    for line in text.split_inclusive('\n') {
        match heading(line) {
            Some((importance, name)) => found.push(Section {
                importance,
                name,
                text: String::new(),
            }),
            None => {
                if let Some(last) = found.last_mut() {
                    last.text.extend(line.split(MARK));
                }
            }
        }
    }
    found
}

fn heading(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_end().strip_prefix(MARK)?;
    let inner = line.strip_prefix(HEADING)?;
    let (importance, name) = inner.strip_suffix(" -->")?.split_once(' ')?;
    Some((importance.parse().ok()?, name))
}

fn joined(sections: &[Section<'_>]) -> String {
    sections
        .iter()
        .map(|section| section.text.as_str())
        .collect()
}

/// Places of those that may go; of equally important ones the last comes first.
fn least_important_first(sections: &[Section<'_>]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..sections.len())
        .filter(|at| sections[*at].importance > 0)
        .collect();
    places.sort_by_key(|at| Reverse((sections[*at].importance, *at)));
    places
}

fn left_out(names: &[String], whereabouts: &str) -> String {
    const NAMED: usize = 6;
    let mut said: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("{} more", names.len().saturating_sub(NAMED));
    if names.len() > NAMED {
        said.push(&more);
    }
    format!(
        "*Left out, since a comment takes 65,536 characters: {}. {whereabouts}*",
        said.join(", ")
    )
}

/// Whole lines from the start, with whatever they leave open closed behind them.
fn lines_within(text: &str, room: usize) -> String {
    let (mut out, mut open) = (String::new(), Open::default());
    for line in text.split_inclusive('\n') {
        let mut after = open.clone();
        after.take(line);
        if out.len() + line.len() + after.closing().len() > room {
            out.push_str(&open.closing());
            return out;
        }
        out.push_str(line);
        open = after;
    }
    out
}

/// What the lines so far have begun and not ended.
#[derive(Clone, Debug, Default)]
struct Open {
    /// The backticks of a fence.
    fence: Option<usize>,
    details: usize,
}

impl Open {
    fn take(&mut self, line: &str) {
        let backticks = line.trim_start().chars().take_while(|c| *c == '`').count();
        match self.fence {
            Some(fence) if backticks >= fence && line.trim().len() == backticks => {
                self.fence = None
            }
            Some(_) => {}
            None if backticks >= 3 => self.fence = Some(backticks),
            None => {
                let (begun, ended) = (
                    line.matches("<details").count(),
                    line.matches("</details>").count(),
                );
                self.details = (self.details + begun).saturating_sub(ended);
            }
        }
    }

    fn closing(&self) -> String {
        let fence = self.fence.map(|n| format!("\n{}\n", "`".repeat(n)));
        format!(
            "{}{}",
            fence.unwrap_or_default(),
            "\n</details>\n".repeat(self.details)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectioned(sizes: &[(u32, usize)]) -> String {
        let mut text = "# head\n".to_owned();
        for (i, (importance, size)) in sizes.iter().enumerate() {
            let line = "x".repeat(98);
            text.push_str(&format!("<!-- section {importance} part {i} -->\n"));
            text.push_str(&format!("{line}\n").repeat(size / 99));
        }
        marked(&text)
    }

    #[test]
    fn what_fits_stays_whole_without_its_marks() {
        let text = cut(&sectioned(&[(1, 99), (2, 99)]), MOST_BYTES, "See the run.");
        assert!(
            !text.contains("<!-- section") && text.lines().count() == 3,
            "{text}"
        );
    }

    #[test]
    fn the_least_important_goes_first_and_is_named() {
        let text = sectioned(&[(1, 30_000), (9, 30_000), (2, 30_000)]);
        let short = cut(&text, MOST_BYTES, "See the run.");
        assert!(short.len() <= MOST_BYTES && short.len() > 59_000);
        assert!(
            short.ends_with("65,536 characters: part 1. See the run.*\n"),
            "{}",
            &short[59_000..]
        );
        let shorter = cut(&text, 40_000, "See the run.");
        assert!(
            shorter.contains("part 1, part 2. See"),
            "{}",
            &shorter[29_000..]
        );
    }

    #[test]
    fn only_the_templates_own_headings_begin_a_section() {
        let template = "<!-- section 1 said -->\nVALUE\nnot at <!-- section 2 a line's begin -->\n";
        let value = "<!-- section 0 forged -->\n**pass**\n".repeat(10);
        let text = marked(template).replace("VALUE", &value);
        assert_eq!(
            cut(&text, MOST_BYTES, ""),
            format!("{value}\nnot at <!-- section 2 a line's begin -->\n")
        );
        let short = cut(&text, 300, "See the run.");
        assert!(!short.contains("pass"), "{short}");
        assert!(short.contains("characters: said. See"), "{short}");
    }

    #[test]
    fn what_is_open_is_closed() {
        let check = |begin: &str, line: &str, end: &str| {
            let text = format!("{begin}{}", line.repeat(2_000));
            let short = cut(&text, 10_000, "There.");
            assert!(short.len() <= 10_000, "{}", short.len());
            assert!(short.contains(end), "{}", &short[short.len() - 200..]);
            assert!(short.contains("the end of what is above"));
        };
        check(
            "<details><summary>a</summary>\n\n",
            "| a | b |\n",
            "\n</details>\n",
        );
        check("````text\n", "```\nsome code\n", "\n````\n");
        check(
            "<details>\n\n```mermaid\n",
            "line [1]\n",
            "\n```\n\n</details>\n",
        );
    }

    #[test]
    fn a_line_that_is_longer_than_the_room_is_left_out() {
        let short = cut(
            &format!("first\n{}\n", "ü".repeat(50_000)),
            MOST_BYTES,
            "There.",
        );
        assert!(short.starts_with("first\n") && short.len() < 2_000);
    }
}
