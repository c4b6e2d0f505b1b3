//! A person's line on main's history, kept beside the sessions: the format `infergate-note/1`.
//!
//! Main type: [`Note`]. It holds no measured number.

use super::admit::{RefusedRecord, text};
use super::bounds::{self, BoundsError};
use super::format::FormatError;
use super::name::{Kind, NameError, RecordName, stamp_of};
use super::sign_off::{SignOff, Signer};
use serde::{Deserialize, Serialize};
use verdict::digest;

const FORMAT: &str = "infergate-note/1";

/// Bytes of a note's text and of its author's name.
const TEXT: usize = 1_000;
const NAME: usize = 200;

/// A finding about one stored session of main. The type is the file's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    format: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NoteOutcome>,
    pub text: String,
    /// The session of main that it is about, when that was measured, and of which commit.
    pub session: String,
    pub measured: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// `gate/check`; `None`: all that the session measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sign_off: Option<SignOff>,
}

/// The change's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteOutcome {
    Kept,
    Reverted,
}

impl NoteOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Reverted => "reverted",
        }
    }
}

/// The fields of a new note, before it is checked and signed.
#[derive(Clone, Debug)]
pub struct Said {
    pub created: String,
    pub by: String,
    pub outcome: Option<NoteOutcome>,
    pub text: String,
    pub session: String,
    pub measured: String,
    pub commit: Option<String>,
    pub check: Option<String>,
}

impl Note {
    /// A note that nobody signed yet. `now` in RFC 3339.
    ///
    /// # Errors
    /// The text or the name is empty, too long or holds control characters.
    pub fn new(said: Said, now: &str) -> Result<Self, RefusedRecord> {
        let Said {
            created,
            by,
            outcome,
            text,
            session,
            measured,
            commit,
            check,
        } = said;
        let note = Self {
            format: FORMAT.into(),
            created,
            by,
            outcome,
            text,
            session,
            measured,
            commit,
            check,
            sign_off: None,
        };
        read(note.write()?.as_bytes(), now)
    }

    /// True if the note is about this session and check.
    pub fn is_about(&self, session: &str, commit: Option<&str>, check: &str) -> bool {
        let is_same =
            self.session == session || (commit.is_some() && self.commit.as_deref() == commit);
        is_same && self.check.as_deref().is_none_or(|of| of == check)
    }

    pub fn write(&self) -> Result<String, FormatError> {
        serde_json::to_string_pretty(self).map_err(FormatError::Note)
    }

    /// Its place in a store: notes on one session share a folder.
    pub fn name(&self) -> Result<RecordName, NameError> {
        let folder = digest::of_parts([self.session.as_bytes()]);
        let parts = [&self.by, &self.text, &self.session];
        let own = digest::of_parts(parts.map(|part| part.as_bytes()));
        let stem = format!("{}-{}", stamp_of(&self.created), &own[..8]);
        RecordName::new(Kind::Note, &format!("session-{}", &folder[..16]), &stem)
    }

    fn content(&self, sign_off: &SignOff) -> Result<Vec<u8>, FormatError> {
        let mut note = self.clone();
        note.sign_off = Some(sign_off.clone());
        serde_json::to_vec(&note).map_err(FormatError::Note)
    }
}

/// Reads a note and checks its bounds; the bytes may come from anybody.
pub fn read(bytes: &[u8], now: &str) -> Result<Note, RefusedRecord> {
    let note: Note = serde_json::from_str(text(bytes)?).map_err(FormatError::Note)?;
    if note.format != FORMAT {
        return Err(FormatError::Version(note.format).into());
    }
    check(&note, now)?;
    Ok(note)
}

fn check(note: &Note, now: &str) -> Result<(), BoundsError> {
    let wrong = |field, why| Err(BoundsError::Field { field, why });
    let is_line = |text: &str, most| !text.trim().is_empty() && text.len() <= most;
    if !is_line(&note.text, TEXT) {
        return wrong("text", "one line of at most 1000 bytes");
    }
    if !is_line(&note.by, NAME) {
        return wrong("by", "a name of at most 200 bytes");
    }
    if ![&note.created, &note.measured]
        .iter()
        .all(|time| bounds::is_created(time, now))
    {
        return wrong("created", "no time, or one that is yet to come");
    }
    let hex = |id: &String| id.bytes().all(|c| c.is_ascii_alphanumeric());
    if !note.commit.as_ref().is_none_or(hex) {
        return wrong("commit", "no id of a commit");
    }
    Ok(())
}

/// A note that lies under this name in a store, if everything about it is as it should be.
pub fn admit(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Note, RefusedRecord> {
    let note = named(name, bytes, now)?;
    signer.check(note.sign_off.as_ref(), |sign_off| note.content(sign_off))??;
    Ok(note)
}

/// A note of ours, ready to be stored under this name: signed by now, if it was not.
pub fn ready(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Vec<u8>, RefusedRecord> {
    let note = named(name, bytes, now)?;
    let content = |sign_off: &SignOff| note.content(sign_off);
    let sign_off = match note.sign_off.clone() {
        None => signer.sign(content)?,
        Some(there) => signer.countersign(there, content)?,
    };
    signer.check(Some(&sign_off), content)??;
    if note.sign_off.as_ref() == Some(&sign_off) {
        return Ok(bytes.to_vec());
    }
    let signed = Note {
        sign_off: Some(sign_off),
        ..note
    };
    Ok(signed.write()?.into_bytes())
}

fn named(name: &RecordName, bytes: &[u8], now: &str) -> Result<Note, RefusedRecord> {
    let note = read(bytes, now)?;
    let own = note.name().ok();
    match own.as_ref() == Some(name) {
        true => Ok(note),
        false => {
            let own = own.map_or_else(|| "no place".to_owned(), |own| own.to_string());
            Err(RefusedRecord::Name(own))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-22T00:00:00Z";

    fn signer() -> Signer {
        Signer {
            tool: "infergate 0.1.0".into(),
            run: None,
            key: None,
        }
    }

    fn said(text: &str) -> Said {
        Said {
            created: "2026-11-21T09:00:00Z".into(),
            by: "Ada".into(),
            outcome: Some(NoteOutcome::Kept),
            text: text.into(),
            session: "20261120T030000Z-00ff".into(),
            measured: "2026-11-20T03:00:00Z".into(),
            commit: Some("c0ffee".repeat(7)[..40].to_owned()),
            check: Some("tpot/regression".into()),
        }
    }

    #[test]
    fn a_note_is_signed_once_and_admitted() {
        let note = Note::new(said("the sampler costs it"), NOW).unwrap();
        let name = note.name().unwrap();
        assert_eq!(RecordName::parse(&name.to_string()), Ok(name.clone()));
        let bytes = note.write().unwrap().into_bytes();
        let refused = admit(&name, &bytes, &signer(), NOW).unwrap_err().reason();
        assert!(refused.contains("not signed off"), "{refused}");
        let signed = ready(&name, &bytes, &signer(), NOW).unwrap();
        assert_eq!(
            admit(&name, &signed, &signer(), NOW).unwrap().text,
            note.text
        );
        assert_eq!(ready(&name, &signed, &signer(), NOW).unwrap(), signed);
        let forged = String::from_utf8(signed)
            .unwrap()
            .replace("\"kept\"", "\"reverted\"");
        let refused = admit(&name, forged.as_bytes(), &signer(), NOW)
            .unwrap_err()
            .reason();
        assert!(refused.contains("changed after it was signed"), "{refused}");
        let elsewhere = RecordName::parse("notes/session-0123456789abcdef/s.json").unwrap();
        let refused = ready(&elsewhere, &bytes, &signer(), NOW)
            .unwrap_err()
            .reason();
        assert!(refused.contains("belongs at notes/session-"), "{refused}");
    }

    #[test]
    fn what_no_line_of_a_person_is_is_refused() {
        for (text, why) in [
            (" ", "`text` is not"),
            ("a\nb", "control character"),
            ("\u{1b}[2J", "control character"),
            (&"x".repeat(1_001), "`text` is not"),
        ] {
            let refused = Note::new(said(text), NOW).unwrap_err().reason();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
