//! The store in which CI keeps main's records beyond one machine: `baseline.store`.
//!
//! Refuses to know: how a record is stored there.

use crate::plan::source::diagnostic::Diagnostic;
use crate::plan::source::section::Field;
use std::fmt;

/// The remote that a git store lies on where none is named.
const ORIGIN: &str = "origin";

/// Schemes of object stores and of directories.
const SCHEMES: [&str; 4] = ["s3://", "gs://", "az://", "file:///"];

/// Where records are pushed to and pulled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaselineStore {
    /// A branch of a remote (its name, an address or a path), which holds nothing else.
    Git { branch: String, remote: String },
    /// A bucket with a prefix, or a directory: `s3://bucket/prefix`, `file:///path`.
    Objects { url: String },
}

impl fmt::Display for BaselineStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git { branch, remote } => write!(f, "git:{branch}@{remote}"),
            Self::Objects { url } => f.write_str(url),
        }
    }
}

pub fn read(field: &Field<'_, '_>) -> Result<BaselineStore, Diagnostic> {
    let text = field.text()?;
    if holds_credentials(text) {
        return Err(credentials(field));
    }
    if let Some(place) = text.strip_prefix("git:") {
        return read_git(field, place);
    }
    let known = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    match known {
        Some(place) if is_place(place) => Ok(BaselineStore::Objects {
            url: text.trim_end_matches('/').to_owned(),
        }),
        Some(_) => Err(field.wrong(
            "the place of `baseline.store` may hold letters, digits and . _ - / alone, and no `..`",
        )),
        None => {
            let mut refusal = field.wrong("`baseline.store` names no store");
            refusal.help = Some(
                "write \"git:BRANCH\", \"git:BRANCH@REMOTE\", \"s3://bucket/prefix\", \"gs://…\", \"az://…\" or \
                 \"file:///path\""
                    .into(),
            );
            Err(refusal)
        }
    }
}

fn read_git(field: &Field<'_, '_>, place: &str) -> Result<BaselineStore, Diagnostic> {
    let (branch, remote) = place.split_once('@').unwrap_or((place, ORIGIN));
    if !is_branch(branch) {
        return Err(field.wrong(format!("`{branch}` is no name of a branch")));
    }
    // What begins with a dash would be read as an option, and `ext::` names a command.
    if remote.is_empty() || remote.starts_with('-') || remote.contains("::") {
        return Err(field.wrong(format!("`{remote}` is no git remote")));
    }
    Ok(BaselineStore::Git {
        branch: branch.to_owned(),
        remote: remote.to_owned(),
    })
}

/// A subset of what git allows, in which nothing needs quoting.
fn is_branch(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !part.is_empty() && !part.starts_with(['.', '-']) && part.chars().all(is_plain)
    };
    name.split('/').all(is_part)
        && !name.contains("..")
        && !name.ends_with(".lock")
        && !name.ends_with('.')
}

/// A bucket or a path, with whatever prefix, in which nothing steps out or needs quoting.
fn is_place(place: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    !place.is_empty()
        && !place.starts_with('/')
        && place.chars().all(is_plain)
        && !place.split('/').any(|part| part == "..")
}

/// `https://user:password@host`; the user alone, as in `ssh://git@host`, is no secret.
fn holds_credentials(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| {
        user.contains(':') || scheme.ends_with("http") || scheme.ends_with("https")
    })
}

/// A refusal whose picture of the line does not show what must not be shown.
fn credentials(field: &Field<'_, '_>) -> Diagnostic {
    let mut refusal =
        field.wrong("`baseline.store` holds credentials, which have no place in a file");
    refusal.help = Some(
        "leave them to git's own means (a credential helper, ssh) or to the environment (AWS_…, GOOGLE_…, AZURE_…)"
            .into(),
    );
    let (before, rest) = refusal.source.split_at(refusal.span.start);
    let (inside, after) = rest.split_at(refusal.span.end - refusal.span.start);
    let masked: String = inside.chars().map(|_| '*').collect();
    refusal.source = format!("{before}{masked}{after}").into();
    refusal.span = refusal.span.start..refusal.span.start + masked.len();
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::source::section::{Section, Source};

    fn read_text(value: &str) -> Result<BaselineStore, Diagnostic> {
        let text = format!("store = {value:?}\n");
        let source = Source {
            file: "gates/gate.toml",
            text: &text,
        };
        let table = source.parse().unwrap();
        let section = Section::root(source, &table, "");
        read(&section.required("store").unwrap())
    }

    #[test]
    fn stores_are_told_apart() {
        let check = |text: &str, expect: &str| {
            assert_eq!(read_text(text).unwrap().to_string(), expect, "{text}");
        };
        check("git:infergate-baselines", "git:infergate-baselines@origin");
        check("git:ci/base@upstream", "git:ci/base@upstream");
        check(
            "git:b@git@github.com:o/r.git",
            "git:b@git@github.com:o/r.git",
        );
        check(
            "git:b@ssh://git@host/o/r.git",
            "git:b@ssh://git@host/o/r.git",
        );
        check("git:b@/srv/store.git", "git:b@/srv/store.git");
        check("s3://bucket/some/prefix/", "s3://bucket/some/prefix");
        check("gs://bucket", "gs://bucket");
        check("file:///srv/gate", "file:///srv/gate");
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for text in [
            "",
            "git:",
            "git:-x",
            "git:a..b",
            "git:a b",
            "git:b@",
            "git:b@-x",
            "git:b@ext::sh -c x",
            "s3://",
            "s3://b/../c",
            "s3:bucket",
            "ftp://x",
            "file://x",
            "s3://b?x=1",
        ] {
            assert!(read_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_shown() {
        for text in [
            "git:b@https://ada:hunter2@host/o/r.git",
            "git:b@https://hunter2@host/o/r.git",
            "s3://key:hunter2@bucket/x",
        ] {
            let shown = read_text(text).unwrap_err().render(false);
            assert!(shown.contains("credentials"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
