//! `[host]`: what the machine must have before anything is measured on it. `gate doctor` holds it against the
//! machine.

use crate::plan::model::{Cached, Host, SandboxSetting};
use crate::plan::source::diagnostic::Diagnostic;
use crate::plan::source::quantity::Dimension;
use crate::plan::source::section::{Field, Section};

/// Nothing is demanded where the table is missing.
pub fn read(root: &Section<'_, '_>) -> Result<Host, Diagnostic> {
    let Some(field) = root.optional("host") else {
        return Ok(Host::default());
    };
    let section = field.section()?;
    let bytes = |key| section.given(key, |field| field.quantity(Dimension::Bytes));
    let host = Host {
        cores: section.given("cores", |field| field.count(1..100_000))?,
        memory_bytes: bytes("memory")?,
        disk_bytes: bytes("disk")?,
        gpus: section.given("gpus", |field| field.count(0..1_000))?,
        gpu: section.given("gpu", |field| field.text().map(str::to_owned))?,
        gpu_memory_bytes: bytes("gpu_memory")?,
        programs: section.given("programs", Field::texts)?.unwrap_or_default(),
        caches: section.given("cache", caches)?.unwrap_or_default(),
        sandbox: section.given("sandbox", sandbox)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(host)
}

fn sandbox(field: &Field<'_, '_>) -> Result<SandboxSetting, Diagnostic> {
    if let Some(name) = field.text()?.strip_prefix("user:") {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
            return Err(field.wrong(format!("`{}` must name a user: \"user:NAME\"", field.name)));
        }
        return Ok(SandboxSetting::User(name.to_owned()));
    }
    field.choice(&[
        ("auto", SandboxSetting::Auto),
        ("landlock", SandboxSetting::Landlock),
        ("namespaces", SandboxSetting::Namespaces),
        ("none", SandboxSetting::None),
    ])
}

fn caches(field: &Field<'_, '_>) -> Result<Vec<Cached>, Diagnostic> {
    field.list()?.iter().map(cached).collect()
}

fn cached(field: &Field<'_, '_>) -> Result<Cached, Diagnostic> {
    let section = field.section()?;
    let cached = Cached {
        path: section.required("path")?.text()?.to_owned(),
        bytes: section.given("bytes", |field| field.quantity(Dimension::Bytes))?,
        warm: section.required("warm")?.text()?.to_owned(),
    };
    section.finish()?;
    Ok(cached)
}
