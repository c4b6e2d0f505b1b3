//! Records that are old enough to delete: a pure function.

use super::name::{Kind, RecordName};
use std::collections::{BTreeMap, BTreeSet};

/// The newest sessions of a key that stay however old they are: as many as a stored comparison needs. A gate
/// that nobody recorded for a year still has its last known level.
pub const NEWEST_SESSIONS: usize = 8;

/// Of certificates the newest alone is ever read.
const NEWEST_CERTIFICATES: usize = 1;

/// Of these records those made before `cut` (`20261121T030000Z`), the newest of each key left out. A name that
/// does not say when its record was made is never among them, nor is a note: it is small, and nobody writes it again.
pub fn expired<'a>(
    names: impl IntoIterator<Item = &'a RecordName>,
    cut: &str,
) -> BTreeSet<RecordName> {
    let mut keys: BTreeMap<(Kind, &str), Vec<&RecordName>> = BTreeMap::new();
    for name in names {
        if name.stamp().is_some() && name.kind() != Kind::Note {
            keys.entry((name.kind(), name.folder()))
                .or_default()
                .push(name);
        }
    }
    let mut expired = BTreeSet::new();
    for ((kind, _), mut names) in keys {
        names.sort_by_key(|name| (name.stamp(), name.stem()));
        names.dedup();
        let kept = match kind {
            Kind::Session => NEWEST_SESSIONS,
            Kind::Certificate | Kind::Note => NEWEST_CERTIFICATES,
        };
        let old = names.len().saturating_sub(kept);
        let old = names[..old].iter();
        let old = old.filter(|name| name.stamp().is_some_and(|stamp| stamp < cut));
        expired.extend(old.map(|name| (*name).clone()));
    }
    expired
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` sessions of a gate, a day apart from the first of November on.
    fn nights(kind: Kind, gate: &str, count: u32) -> Vec<RecordName> {
        let night = |day| {
            let stem = format!("202611{day:02}T030000Z-ab");
            RecordName::new(kind, &format!("{gate}-0123456789abcdef"), &stem).unwrap()
        };
        (1..=count).map(night).collect()
    }

    #[test]
    fn the_newest_stay_however_old() {
        let check = |kind, count, cut: &str, expect: usize| {
            let names = nights(kind, "tpot", count);
            let expired = expired(&names, cut);
            assert!(expired.iter().eq(names[..expect].iter()), "{expired:?}");
        };
        check(Kind::Session, 0, "20270101T000000Z", 0);
        check(Kind::Session, 8, "20270101T000000Z", 0);
        check(Kind::Session, 20, "20270101T000000Z", 12);
        check(Kind::Session, 20, "20261106T000000Z", 5);
        check(Kind::Session, 20, "20261106T030000Z", 5);
        check(Kind::Session, 20, "20250101T000000Z", 0);
        check(Kind::Certificate, 3, "20270101T000000Z", 2);
    }

    #[test]
    fn keys_are_counted_each_for_itself_and_doubles_once() {
        let mut names = nights(Kind::Session, "tpot", 10);
        names.extend(nights(Kind::Session, "tpot", 10));
        names.extend(nights(Kind::Session, "ttft", 9));
        let expired = expired(&names, "20270101T000000Z");
        assert_eq!(expired.len(), 3);
    }

    #[test]
    fn what_has_no_date_and_notes_stay() {
        let name = RecordName::new(Kind::Session, "tpot-0123456789abcdef", "night-1").unwrap();
        let names = vec![name; 20];
        assert!(expired(&names, "20270101T000000Z").is_empty());
        let notes = nights(Kind::Note, "session", 20);
        assert!(expired(&notes, "20270101T000000Z").is_empty());
    }
}
