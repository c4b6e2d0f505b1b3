//! `gates/waivers.toml`: checks that may be red for a while, each with who says so, why, and until when.

use crate::plan::model::{Gate, Waiver};
use crate::plan::source::diagnostic::{Diagnostic, suggestion};
use crate::plan::source::section::{Field, Section, Source};

/// The file's path from the project's root; it is no gate, and need not be there.
pub const WAIVERS_FILE: &str = "gates/waivers.toml";

/// The waivers of these gates' checks. `all`: the names of all gates, where they are known.
pub fn read(
    source: Source<'_>,
    gates: &[Gate],
    all: Option<&[String]>,
) -> Result<Vec<Waiver>, Diagnostic> {
    let table = source.parse()?;
    let root = Section::root(source, &table, "");
    let list = root.given("waiver", Field::list)?.unwrap_or_default();
    root.finish()?;
    let mut waivers: Vec<Waiver> = Vec::new();
    for field in &list {
        let waiver = one(field, gates, all)?;
        if waivers.iter().any(|other| other.check == waiver.check) {
            let message = format!("`{}` is waived a second time", waiver.check);
            return Err(field.wrong(message));
        }
        waivers.push(waiver);
    }
    let checks: Vec<&str> = check_ids(gates).collect();
    waivers.retain(|waiver| checks.contains(&waiver.check.as_str()));
    Ok(waivers)
}

fn one(
    field: &Field<'_, '_>,
    gates: &[Gate],
    all: Option<&[String]>,
) -> Result<Waiver, Diagnostic> {
    let section = field.section()?;
    let check = section.required("check")?;
    refuse_unknown(&check, gates, all)?;
    let text = |key| {
        let field = section.required(key)?;
        let text = field.text()?;
        if text.trim().is_empty() {
            return Err(field.wrong(format!(
                "`{}` is empty: a waiver is a promise to somebody",
                field.name
            )));
        }
        Ok(text.to_owned())
    };
    let waiver = Waiver {
        check: check.text()?.to_owned(),
        reason: text("reason")?,
        owner: text("owner")?,
        issue: text("issue")?,
        expires: section.required("expires")?.date()?,
    };
    section.finish()?;
    Ok(waiver)
}

/// A waiver of nothing would look like one of something.
fn refuse_unknown(
    check: &Field<'_, '_>,
    gates: &[Gate],
    all: Option<&[String]>,
) -> Result<(), Diagnostic> {
    let id = check.text()?;
    let gate = id.split('/').next().unwrap_or_default();
    if gates.iter().any(|known| known.name == gate) {
        if check_ids(gates).any(|known| known == id) {
            return Ok(());
        }
        let mut refusal = check.wrong(format!("unknown check `{id}`"));
        refusal.help = Some(suggestion(id, check_ids(gates)));
        return Err(refusal);
    }
    let Some(all) = all.filter(|all| !all.iter().any(|known| known == gate)) else {
        return Ok(());
    };
    let mut refusal = check.wrong(format!(
        "unknown gate `{gate}`; a check is named `gate/check`"
    ));
    refusal.help = Some(suggestion(gate, all.iter().map(String::as_str)));
    Err(refusal)
}

fn check_ids(gates: &[Gate]) -> impl Iterator<Item = &str> + Clone {
    let checks = gates.iter().flat_map(|gate| &gate.checks);
    checks.map(|check| check.id.as_str())
}
