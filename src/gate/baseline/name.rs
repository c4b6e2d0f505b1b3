//! Names of records in a store: `GATE-HASH/SESSION.json` for one of main's sessions,
//! `calibration/GATE-HASH/STAMP.json` for a certificate, `notes/session-HASH/STAMP.json` for a person's note. Nothing else is ever read or written there.
//!
//! Main type: [`RecordName`]. Refuses to know: stores, and what a record holds.

use std::fmt;

/// The folder of certificates.
const CALIBRATION: &str = "calibration/";

/// The folder of notes.
pub const NOTES: &str = "notes/";

/// Hex digits at the end of a folder's name.
const DIGITS: usize = 16;

/// No name is longer.
const MOST_BYTES: usize = 200;

/// A name that is safe as a path in a directory, in a git tree and in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    kind: Kind,
    folder: String,
    stem: String,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Session,
    Certificate,
    Note,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("it is not named as a record is, `GATE-0123456789abcdef/SESSION.json`")]
pub struct NameError;

impl RecordName {
    /// The name of a record in `folder`, which ends with its key's digits.
    pub fn new(kind: Kind, folder: &str, stem: &str) -> Result<Self, NameError> {
        let name = Self {
            kind,
            folder: folder.to_owned(),
            stem: stem.to_owned(),
        };
        let is_sound = is_folder(folder) && is_part(stem) && name.to_string().len() <= MOST_BYTES;
        is_sound.then_some(name).ok_or(NameError)
    }

    pub fn parse(text: &str) -> Result<Self, NameError> {
        let kinds = [(CALIBRATION, Kind::Certificate), (NOTES, Kind::Note)];
        let mut kinds = kinds.into_iter();
        let of = kinds.find_map(|(place, kind)| Some((kind, text.strip_prefix(place)?)));
        let (kind, rest) = of.unwrap_or((Kind::Session, text));
        let (folder, file) = rest.split_once('/').ok_or(NameError)?;
        Self::new(kind, folder, file.strip_suffix(".json").ok_or(NameError)?)
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// `GATE-HASH`: equal for all records that can be compared, or take one another's place.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// The session's name, or the certificate's stamp.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// When it was made, as the name says it: `20261121T030000Z`, in UTC. Such stamps sort by time.
    pub fn stamp(&self) -> Option<&str> {
        let stamp = self.stem.get(..16)?;
        let is_digit = |at: usize| stamp.as_bytes()[at].is_ascii_digit();
        let has_form = (0..16).all(|at| match at {
            8 => stamp.as_bytes()[at] == b'T',
            15 => stamp.as_bytes()[at] == b'Z',
            at => is_digit(at),
        });
        let ends = self.stem.as_bytes().get(16).is_none_or(|c| *c == b'-');
        (has_form && ends).then_some(stamp)
    }
}

/// `2026-11-21T03:00:00Z` as names have it.
pub fn stamp_of(created: &str) -> String {
    created.replace([':', '-'], "")
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.kind {
            Kind::Session => "",
            Kind::Certificate => CALIBRATION,
            Kind::Note => NOTES,
        };
        write!(f, "{place}{}/{}.json", self.folder, self.stem)
    }
}

fn is_folder(name: &str) -> bool {
    let Some((gate, digits)) = name.rsplit_once('-') else {
        return false;
    };
    let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    is_part(gate) && digits.len() == DIGITS && digits.bytes().all(is_digit)
}

/// Letters, digits, `.`, `_` and `-`, beginning with none of the last three: no `..`, no option, no hidden file.
fn is_part(name: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    name.bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef";

    #[test]
    fn names_are_read_and_written_alike() {
        for (text, kind, stamp) in [
            (
                "tpot-H/20261121T030000Z-00ff.json",
                Kind::Session,
                Some("20261121T030000Z"),
            ),
            ("tpot-H/night-001.json", Kind::Session, None),
            ("tpot-H/20261121T030000Zx.json", Kind::Session, None),
            ("warm-start-H/s.1.json", Kind::Session, None),
            (
                "calibration/tpot-H/20261121T030000Z.json",
                Kind::Certificate,
                Some("20261121T030000Z"),
            ),
            (
                "notes/session-H/20261121T030000Z-00ff00ff.json",
                Kind::Note,
                Some("20261121T030000Z"),
            ),
        ] {
            let text = text.replace('H', HASH);
            let name = RecordName::parse(&text).unwrap();
            assert_eq!((name.to_string(), name.kind()), (text, kind));
            assert_eq!(name.stamp(), stamp);
        }
        assert_eq!(stamp_of("2026-11-21T03:00:00Z"), "20261121T030000Z");
    }

    #[test]
    fn what_leads_elsewhere_is_no_name() {
        let long = format!("tpot-H/{}.json", "s".repeat(200));
        for text in [
            "",
            "s.json",
            "tpot-H",
            "tpot-H/",
            "tpot-H/.json",
            "tpot-H/s",
            "tpot-H/s.jsonx",
            "../tpot-H/s.json",
            "/tpot-H/s.json",
            "tpot-H/../s.json",
            "tpot-H/a/s.json",
            "tpot-H/..json",
            "tpot-H/.s.json",
            "-tpot-H/s.json",
            "tpot-H/-s.json",
            "tpot/s.json",
            "tpot-0123/s.json",
            "tpot-0123456789ABCDEF/s.json",
            "-H/s.json",
            "tpot-H\\s.json",
            "tpot-H/s\n.json",
            "tp\u{f6}t-H/s.json",
            "calibration/s.json",
            "notes/s.json",
            "notes/../tpot-H/s.json",
            "calibration/../tpot-H/s.json",
            "other/tpot-H/s.json",
            ".git/hooks-H/s.json",
            &long,
        ] {
            let text = text.replace('H', HASH);
            assert_eq!(RecordName::parse(&text), Err(NameError), "{text}");
        }
    }
}
