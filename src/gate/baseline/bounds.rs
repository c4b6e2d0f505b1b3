//! Limits on a record from a store, which anybody with write access may have forged.
//!
//! Refuses to know: where it comes from.

use super::entry::Entry;
use serde_json::Value;

/// Bytes of a record, the longest that is read.
pub const MOST_BYTES: u64 = 1 << 20;
/// Bytes of all records that one pull takes.
pub const MOST_BYTES_IN_ALL: u64 = 256 << 20;
/// Records that a store may have.
pub const MOST_RECORDS: usize = 50_000;

const MOST_TEXT: usize = 4_096;
const MOST_ITEMS: usize = 1_000;
const MOST_DAYS_AHEAD: i64 = 1;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BoundsError {
    #[error("it has {bytes} bytes, more than the {MOST_BYTES} that a record may have")]
    Bytes { bytes: u64 },
    #[error("a text in it has {bytes} bytes, more than {MOST_TEXT}: `{begins}…`")]
    Text { bytes: usize, begins: String },
    #[error("a text in it holds a control character, which would steer a terminal: `{begins}`")]
    Control { begins: String },
    #[error("a list in it has {items} items, more than {MOST_ITEMS}")]
    Items { items: usize },
    #[error("`{field}` is not what it should be: {why}")]
    Field {
        field: &'static str,
        why: &'static str,
    },
}

/// Texts and lists of a JSON value.
pub fn check_json(value: &Value) -> Result<(), BoundsError> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => check_text(text),
        Value::Array(items) => {
            check_count(items.len())?;
            items.iter().try_for_each(check_json)
        }
        Value::Object(fields) => {
            check_count(fields.len())?;
            fields.iter().try_for_each(|(key, value)| {
                check_text(key)?;
                check_json(value)
            })
        }
    }
}

fn check_text(text: &str) -> Result<(), BoundsError> {
    let begins = || -> String { text.escape_debug().take(60).collect() };
    if text.len() > MOST_TEXT {
        let (bytes, begins) = (text.len(), begins());
        return Err(BoundsError::Text { bytes, begins });
    }
    match text.chars().any(char::is_control) {
        true => Err(BoundsError::Control { begins: begins() }),
        false => Ok(()),
    }
}

fn check_count(items: usize) -> Result<(), BoundsError> {
    match items > MOST_ITEMS {
        true => Err(BoundsError::Items { items }),
        false => Ok(()),
    }
}

/// What texts alone do not tell: forms of dates, commits and checks. `now` in RFC 3339.
pub fn check_entry(entry: &Entry, now: &str) -> Result<(), BoundsError> {
    let wrong = |field, why| Err(BoundsError::Field { field, why });
    if !is_created(&entry.created, now) {
        return wrong("created", "no time, or one that is yet to come");
    }
    let anchor = entry.anchor.iter();
    let commits = anchor.clone().map(|anchor| &anchor.commit);
    if !commits.chain(&entry.commit).all(|commit| is_commit(commit)) {
        return wrong("commit", "no full id of a commit");
    }
    let values = anchor.flat_map(|anchor| anchor.values.keys());
    let is_own = |id: &String| {
        let name = id.strip_prefix(&entry.key.gate);
        name.is_some_and(|name| name.starts_with('/'))
    };
    if !entry.values.keys().chain(values).all(is_own) {
        return wrong("values", "a check of another gate is among them");
    }
    let spent = entry
        .spent
        .iter()
        .flat_map(|spent| [spent.start_s, spent.work_s]);
    if spent.into_iter().any(|s| !(0.0..1e7).contains(&s)) {
        return wrong("spent", "no number of seconds");
    }
    Ok(())
}

/// A time in whole seconds of UTC, as this program writes it, and not in the future: such a record would never
/// grow old.
pub fn is_created(created: &str, now: &str) -> bool {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let (Some(created_at), Some(now)) = (time(created), time(now)) else {
        return false;
    };
    let is_ours = created.len() == 20 && created.ends_with('Z');
    let ahead_s = created_at.as_second() - now.as_second();
    is_ours && ahead_s < MOST_DAYS_AHEAD * 86_400
}

/// Days from `then` to `now`, both RFC 3339; negative where `then` is later. `None` where one of them is no time.
pub fn age_days(then: &str, now: &str) -> Option<f64> {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    Some(time(now)?.duration_since(time(then)?).as_secs_f64() / 86_400.0)
}

fn is_commit(id: &str) -> bool {
    matches!(id.len(), 40 | 64) && id.bytes().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_and_lists_have_an_end() {
        let check = |value: Value, expect: Result<(), BoundsError>| {
            assert_eq!(check_json(&value), expect);
        };
        check(json!({"a": ["b", 1.5, null, true]}), Ok(()));
        let control = |begins: &str| {
            let begins = begins.to_owned();
            Err(BoundsError::Control { begins })
        };
        check(json!({"a": [["\u{1b}[2J"]]}), control("\\u{1b}[2J"));
        check(json!({"a\u{7}": 1}), control("a\\u{7}"));
        let too_long = BoundsError::Text {
            bytes: 5_000,
            begins: "x".repeat(60),
        };
        check(json!(["x".repeat(5_000)]), Err(too_long));
        let many: Vec<u32> = (0..1_001).collect();
        check(json!({"v": many}), Err(BoundsError::Items { items: 1_001 }));
    }

    #[test]
    fn times_are_of_the_past_and_in_one_form() {
        for (created, expect) in [
            ("2026-11-21T03:00:00Z", true),
            ("2026-11-22T02:59:59Z", true),
            ("2026-11-22T03:00:01Z", false),
            ("2999-01-01T00:00:00Z", false),
            ("2026-11-21T03:00:00+00:00", false),
            ("20261121T030000Z", false),
            ("2026-13-21T03:00:00Z", false),
            ("", false),
        ] {
            assert_eq!(
                is_created(created, "2026-11-21T03:00:00Z"),
                expect,
                "{created}"
            );
        }
    }

    #[test]
    fn commits_are_whole() {
        assert!(is_commit(&"0a".repeat(20)) && is_commit(&"0a".repeat(32)));
        assert!(!is_commit("c0ffee") && !is_commit(&"-x".repeat(20)));
    }
}
