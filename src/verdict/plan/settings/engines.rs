//! `gates/engines.toml`: engines to be compared with one another, each a table like `[engine]` of gate.toml.

use super::project;
use crate::plan::model::Contender;
use crate::plan::read::{ENGINES_FILE, PlanError, read_file};
use crate::plan::source::diagnostic::{Diagnostic, suggestion};
use crate::plan::source::files::Disk;
use crate::plan::source::section::{Field, Section, Source};
use crate::record::{Described, Input};
use std::path::Path;

/// The engines of these names, in this order, and the file that defines them.
pub fn contenders(
    root: &Path,
    names: &[String],
) -> Result<(Vec<Contender>, Vec<Input>), PlanError> {
    let mut disk = Disk::new(root);
    let text = read_file(&mut disk, ENGINES_FILE)?;
    let source = Source {
        file: ENGINES_FILE,
        text: &text,
    };
    Ok((read(source, names)?, disk.into_inputs()))
}

fn read(source: Source<'_>, names: &[String]) -> Result<Vec<Contender>, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, "");
    let engines = root.required("engines")?;
    let entries = engines.section()?.entries();
    root.finish()?;
    // Each engine is checked, also those that are not compared now.
    let all = entries
        .iter()
        .map(|(name, field)| contender(name, field))
        .collect::<Result<Vec<_>, _>>()?;
    names
        .iter()
        .map(|name| {
            let found = all.iter().find(|contender| contender.name == *name);
            found.cloned().ok_or_else(|| {
                let mut refusal = engines.wrong(format!("there is no engine `{name}`"));
                refusal.help = Some(suggestion(name, entries.iter().map(|(name, _)| *name)));
                refusal
            })
        })
        .collect()
}

fn contender(name: &str, field: &Field<'_, '_>) -> Result<Contender, Diagnostic> {
    // The name becomes a folder of the result directory.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.starts_with('.') || !name.chars().all(plain) {
        return Err(field.wrong("an engine's name has letters, digits, `-`, `_` and `.` alone"));
    }
    let section = field.section()?;
    let text = |key| section.given(key, |f| f.text().map(str::to_owned));
    let (quantised, precision) = (text("quantised")?, text("precision")?);
    let tags = section.given("tags", Field::texts)?.unwrap_or_default();
    if let Some(build) = section.optional("build") {
        let mut refusal = build.wrong("an engine of a comparison is not built");
        refusal.help = Some("build it before, and name what was built in `serve`".into());
        return Err(refusal);
    }
    let engine = project::read_engine(section)?;
    Ok(Contender {
        name: name.to_owned(),
        described: Described {
            model: Some(engine.model.clone()),
            tpot_floor_ms: engine.plausible.tpot_floor_ms,
            prompts: None,
            quantised,
            precision,
            tags,
        },
        engine,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[engines.a]
serve = ["a", "{port}"]
model = "m"
ready_timeout = "1 s"
request_timeout = "1 s"

[engines.b]
serve = ["b", "{port}"]
model = "m"
ready_timeout = "1 s"
request_timeout = "1 s"
quantised = "q4_0"
precision = "f16"
tags = ["another sampler"]
"#;

    fn check(text: &str, names: &[&str]) -> Result<Vec<Contender>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let source = Source {
            file: ENGINES_FILE,
            text,
        };
        read(source, &names).map_err(|refusal| refusal.message)
    }

    #[test]
    fn engines_come_in_the_order_asked_for() {
        let got = check(TWO, &["b", "a"]).unwrap();
        assert_eq!((got[0].name.as_str(), got[1].name.as_str()), ("b", "a"));
        let described = &got[0].described;
        assert_eq!(described.quantised.as_deref(), Some("q4_0"));
        assert_eq!(described.precision.as_deref(), Some("f16"));
        assert_eq!(described.tags, ["another sampler"]);
        assert_eq!(got[1].engine.serve, ["a", "{port}"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str, names: &[&str], part: &str| {
            let message = check(text, names).unwrap_err();
            assert!(message.contains(part), "{message}");
        };
        wrong(TWO, &["c"], "no engine `c`");
        wrong(&TWO.replace("{port}", "1"), &["a"], "never says `{port}`");
        wrong(&TWO.replace("tags", "tag"), &["a"], "tag");
        let built = TWO.to_owned() + "build = { command = [\"make\"] }\n";
        wrong(&built, &["a"], "is not built");
        wrong(
            &TWO.replace("engines.a", "engines.\"../a\""),
            &["b"],
            "letters",
        );
    }
}
