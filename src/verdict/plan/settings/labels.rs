//! `[[label]]` in `gates/gate.toml`: which paths need which gates, and the label that says so.
//!
//! Main types: [`LabelRule`], read with its place, and [`Needed`], what a set of changed paths comes to: a pure
//! function of rules and paths. Refuses to know: where the paths come from, and GitHub.

use crate::plan::source::diagnostic::{Diagnostic, suggestion};
use crate::plan::source::section::{Field, Section};
use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// A label, the paths that it stands for, and the gates that those need.
#[derive(Clone, Debug)]
pub struct LabelRule {
    pub name: String,
    patterns: Vec<Pattern>,
    /// Names of gates; `None`: those of the profile.
    gates: Option<Vec<String>>,
}

/// One word of `paths`.
#[derive(Clone, Debug)]
struct Pattern {
    matcher: GlobMatcher,
    /// Written with a `!` before it: paths that match are not meant after all.
    is_exception: bool,
}

/// What changed paths need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Each label that a path needs, with the paths that need it.
    pub labels: BTreeMap<String, Vec<String>>,
    /// Gates that rules name.
    gates: BTreeSet<String>,
    /// A rule that applies names no gates, or there is no rule: the profile's.
    profile: bool,
}

impl LabelRule {
    /// Whether this path needs the label: of the patterns that match it, the last one says.
    pub fn needs(&self, path: &str) -> bool {
        let mut matching = self.patterns.iter().filter(|p| p.matcher.is_match(path));
        matching.next_back().is_some_and(|p| !p.is_exception)
    }
}

impl Needed {
    /// What these paths need by these rules. Without rules, no path is known to need nothing.
    pub fn of_paths(rules: &[LabelRule], paths: &[String]) -> Self {
        let mut needed = Self {
            profile: rules.is_empty() && !paths.is_empty(),
            ..Self::default()
        };
        for rule in rules {
            let meant: Vec<&String> = paths.iter().filter(|path| rule.needs(path)).collect();
            if !meant.is_empty() {
                needed.add(rule, meant);
            }
        }
        needed
    }

    /// Everything: for a change whose paths are not all known.
    pub fn everything(rules: &[LabelRule]) -> Self {
        let mut needed = Self {
            profile: rules.is_empty(),
            ..Self::default()
        };
        for rule in rules {
            needed.add(rule, Vec::new());
        }
        needed
    }

    /// What the rules of this label need, whatever the paths.
    pub fn add_label(&mut self, rules: &[LabelRule], label: &str) {
        for rule in rules {
            if rule.name.eq_ignore_ascii_case(label) {
                self.add(rule, Vec::new());
            }
        }
    }

    fn add(&mut self, rule: &LabelRule, paths: Vec<&String>) {
        let known = self.labels.entry(rule.name.clone()).or_default();
        for path in paths {
            if !known.contains(path) {
                known.push(path.clone());
            }
        }
        match &rule.gates {
            Some(gates) => self.gates.extend(gates.iter().cloned()),
            None => self.profile = true,
        }
    }

    /// Whether any gate is needed.
    pub fn is_anything(&self) -> bool {
        self.profile || !self.labels.is_empty()
    }

    /// Names of the gates to run, in order; empty: those of the profile. `of_profile`: what those are.
    pub fn gates(&self, of_profile: &[String]) -> Vec<String> {
        let is_within = |gate: &String| of_profile.contains(gate);
        if !self.profile {
            return self.gates.iter().cloned().collect();
        }
        if self.gates.iter().all(is_within) {
            return Vec::new();
        }
        let all: BTreeSet<&String> = self.gates.iter().chain(of_profile).collect();
        all.into_iter().cloned().collect()
    }
}

/// The rules of `gate.toml`. `all`: the names of all gates, where they are known.
pub fn read(root: &Section<'_, '_>, all: Option<&[String]>) -> Result<Vec<LabelRule>, Diagnostic> {
    let list = root.given("label", Field::list)?.unwrap_or_default();
    list.iter().map(|field| one(field, all)).collect()
}

fn one(field: &Field<'_, '_>, all: Option<&[String]>) -> Result<LabelRule, Diagnostic> {
    let section = field.section()?;
    let rule = LabelRule {
        name: label_name(&section.required("name")?)?,
        patterns: patterns(&section.required("paths")?)?,
        gates: section.given("gates", |field| gates(field, all))?,
    };
    section.finish()?;
    Ok(rule)
}

fn gates(field: &Field<'_, '_>, all: Option<&[String]>) -> Result<Vec<String>, Diagnostic> {
    let items = field.list()?;
    if items.is_empty() {
        let mut refusal = field.wrong(format!("`{}` names no gate", field.name));
        refusal.help = Some("leave the key out for the gates of the profile".into());
        return Err(refusal);
    }
    for item in &items {
        let name = item.text()?;
        if let Some(all) = all.filter(|all| !all.iter().any(|known| known == name)) {
            let mut refusal = item.wrong(format!("unknown gate `{name}`"));
            refusal.help = Some(suggestion(name, all.iter().map(String::as_str)));
            return Err(refusal);
        }
    }
    field.texts()
}

fn patterns(field: &Field<'_, '_>) -> Result<Vec<Pattern>, Diagnostic> {
    let items = field.list()?;
    let patterns: Vec<Pattern> = items.iter().map(pattern).collect::<Result<_, _>>()?;
    if patterns.iter().all(|pattern| pattern.is_exception) {
        let mut refusal = field.wrong(format!("`{}` matches no path", field.name));
        refusal.help = Some("begin with a pattern that does, such as \"src/**\"".into());
        return Err(refusal);
    }
    Ok(patterns)
}

fn pattern(field: &Field<'_, '_>) -> Result<Pattern, Diagnostic> {
    let text = field.text()?;
    let (text, is_exception) = match text.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    Ok(Pattern {
        matcher: glob(field, text)?.compile_matcher(),
        is_exception,
    })
}

/// Any of several patterns.
pub fn globs(field: &Field<'_, '_>) -> Result<GlobSet, Diagnostic> {
    let mut set = GlobSetBuilder::new();
    for item in field.list()? {
        set.add(glob(&item, item.text()?)?);
    }
    set.build().map_err(|error| field.wrong(error.to_string()))
}

/// `*` stays within a folder, `**` does not. Paths are those of git: from the root, with `/`.
fn glob(field: &Field<'_, '_>, text: &str) -> Result<globset::Glob, Diagnostic> {
    let is_path = !text.is_empty() && !text.starts_with(['/', '!']) && !text.starts_with("./");
    if !is_path {
        let mut refusal = field.wrong(format!("`{}`: no path begins so", field.name));
        refusal.help = Some("paths are relative to the repository's root: \"src/**\"".into());
        return Err(refusal);
    }
    if text.ends_with('/') {
        let mut refusal = field.wrong(format!("`{}`: no file's path ends so", field.name));
        refusal.help = Some(format!("for all that is in it, write \"{text}**\""));
        return Err(refusal);
    }
    let glob = GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .build();
    glob.map_err(|error| {
        let mut refusal = field.wrong(format!("`{}` is no pattern: {}", field.name, error.kind()));
        refusal.label = "expected a glob".into();
        refusal
    })
}

/// Longest name of a label that GitHub takes, in characters.
const MOST_LABEL: usize = 50;

/// A label's name as GitHub takes it.
pub fn label_name(field: &Field<'_, '_>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if !is_plain(name, MOST_LABEL) {
        return Err(field.wrong(format!(
            "`{}` must be a label's name: 1 to {MOST_LABEL} characters without line ends or spaces around them",
            field.name
        )));
    }
    Ok(name.to_owned())
}

pub fn is_plain(name: &str, most: usize) -> bool {
    let has_control = name.chars().any(char::is_control);
    (1..=most).contains(&name.chars().count()) && name.trim() == name && !has_control
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::source::section::Source;

    const GATES: [&str; 3] = ["e2e", "soak", "tpot"];

    fn rules(text: &str) -> Result<Vec<LabelRule>, Diagnostic> {
        let source = Source {
            file: "gates/gate.toml",
            text,
        };
        let table = source.parse()?;
        let all = GATES.map(str::to_owned);
        read(&Section::root(source, &table, ""), Some(&all))
    }

    fn rule(paths: &str) -> LabelRule {
        let text = format!("[[label]]\nname = \"needs-gpu\"\npaths = [{paths}]\n");
        rules(&text).unwrap().remove(0)
    }

    #[test]
    fn the_last_pattern_that_matches_says() {
        let paths = r#""src/**", "kernels/*", "Cargo.*", "!**/*.md", "src/keep.md""#;
        let rule = rule(paths);
        for (path, expect) in [
            ("src/lib.rs", true),
            ("src/a/b/c.rs", true),
            ("src", false),
            ("srcs/lib.rs", false),
            ("a/src/lib.rs", false),
            ("kernels/a.cu", true),
            ("kernels/a/b.cu", false),
            ("Cargo.toml", true),
            ("sub/Cargo.toml", false),
            ("README.md", false),
            ("src/README.md", false),
            ("src/keep.md", true),
            ("src/.hidden", true),
            ("src/new\nline.rs", true),
            ("SRC/lib.rs", false),
        ] {
            assert_eq!(rule.needs(path), expect, "{path:?}");
        }
    }

    #[test]
    fn needs_are_joined() {
        let text = r#"
            [[label]]
            name = "needs-gpu"
            paths = ["src/**"]
            gates = ["tpot"]
            [[label]]
            name = "needs-gpu"
            paths = ["gates/**"]
            [[label]]
            name = "needs-soak"
            paths = ["src/cache/**"]
            gates = ["soak"]
        "#;
        let rules = rules(text).unwrap();
        let profile = ["e2e".to_owned(), "tpot".to_owned()];
        for (paths, labels, gates) in [
            (&["docs/a"][..], &[][..], &[][..]),
            (&["src/a"], &["needs-gpu"], &["tpot"]),
            (&["gates/a"], &["needs-gpu"], &[]),
            (&["src/a", "gates/a"], &["needs-gpu"], &[]),
            (
                &["src/cache/a"],
                &["needs-gpu", "needs-soak"],
                &["soak", "tpot"],
            ),
            (
                &["src/cache/a", "gates/a"],
                &["needs-gpu", "needs-soak"],
                &["e2e", "soak", "tpot"],
            ),
        ] {
            let paths: Vec<String> = paths.iter().map(|p| (*p).to_owned()).collect();
            let needed = Needed::of_paths(&rules, &paths);
            let found: Vec<&String> = needed.labels.keys().collect();
            assert_eq!(found, labels, "{paths:?}");
            assert_eq!(needed.gates(&profile), gates, "{paths:?}");
        }
        let all = Needed::everything(&rules);
        assert_eq!(all.labels.len(), 2);
        assert_eq!(all.gates(&profile), ["e2e", "soak", "tpot"]);
        let docs = ["docs/a".to_owned()];
        for needed in [Needed::everything(&[]), Needed::of_paths(&[], &docs)] {
            assert!(needed.is_anything() && needed.gates(&profile).is_empty());
        }
        assert!(!Needed::of_paths(&[], &[]).is_anything());
    }

    #[test]
    fn mistakes_are_refused_at_their_place() {
        for (line, at, part) in [
            ("paths = [\"src/{a\"]", "\"src/{a\"", "is no pattern"),
            ("paths = [\"/src/**\"]", "\"/src/**\"", "no path begins so"),
            ("paths = [\"src/\"]", "\"src/\"", "no file's path ends so"),
            ("paths = [\"!src/**\"]", "[\"!src/**\"]", "matches no path"),
            ("paths = []", "[]", "matches no path"),
            ("paths = [7]", "7", "must be a string"),
            (
                "paths = [\"a\"]\ngates = [\"topt\"]",
                "\"topt\"",
                "unknown gate `topt`",
            ),
            ("paths = [\"a\"]\ngates = []", "[]", "names no gate"),
            ("paths = [\"a\"]\ncolour = 1", "colour", "unknown key"),
        ] {
            let text = format!("[[label]]\nname = \"x\"\n{line}\n");
            let refusal = rules(&text).unwrap_err();
            assert_eq!(&text[refusal.span.clone()], at, "{}", refusal.message);
            assert!(refusal.message.contains(part), "{}", refusal.message);
        }
        for name in ["", " x", "a\\nb"] {
            let text = format!("[[label]]\nname = \"{name}\"\npaths = [\"a\"]\n");
            assert!(rules(&text).is_err(), "{name:?}");
        }
    }
}
