//! The form of a JSON text, held against bounds before anything is built of it: depth, lengths, numbers, and how much
//! there is of everything.
//!
//! A tree of JSON can be a hundred times as large as its text (`{"":0}` is an allocation of 600 bytes), so the text is
//! passed over, and nothing of it kept. [`bounded`] does so before it is read as a record; [`unknown_key`] once more,
//! beside what was read. Whatever breaks a bound is refused with its place. Refuses to know: what a record is.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Levels of lists and objects; a record of ours has some ten.
const DEPTH: usize = 24;
/// Bytes of one text; those of the plan's files (`inputs`) are longer.
const TEXT: usize = 256 << 10;
const INPUT: usize = 32 << 20;
/// Numbers, texts, lists and objects in all. Records of ours have one in 8 bytes of text or more.
const VALUES: usize = 34_000_000;
/// Objects among them. Records of ours have one in 110 bytes or more.
const OBJECTS: usize = 1_000_000;
/// No time, count or size of ours comes near it; a seed may be any 64 bits.
const NUMBER: f64 = 2e19;

/// Why a text is refused.
#[derive(Debug)]
pub enum Fault {
    NotJson(serde_json::Error),
    /// A clause with its place.
    Beyond(String),
    /// The place of a key that no record has.
    UnknownKey(String),
}

/// Refuses a text that is no JSON, or is beyond the bounds.
pub fn bounded(text: &str) -> Result<(), Fault> {
    pass(text, Known::Anything)
}

/// What a text reads to. Its long list is given item by item, since a tree of all would be many times as large.
pub struct Read<'a> {
    /// All but the items of that list.
    pub frame: &'a Value,
    /// The key of the list.
    pub list: &'a str,
    pub item: &'a dyn Fn(usize) -> Option<Value>,
}

/// Refuses the first key that a record of ours does not have, by comparing what was written with what it reads to: a
/// reader that passes over what it does not know would let a newer or a made-up format through.
pub fn unknown_key(text: &str, read: &Read<'_>) -> Result<(), Fault> {
    pass(text, Known::Whole(read))
}

fn pass(text: &str, known: Known<'_>) -> Result<(), Fault> {
    let mut pass = Pass::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let walk = Walk {
        pass: &mut pass,
        known,
    };
    let ended = walk.deserialize(&mut json).and_then(|()| json.end());
    match (ended, pass.fault) {
        (_, Some(fault)) => Err(fault),
        (Err(error), None) => Err(Fault::NotJson(error)),
        (Ok(()), None) => Ok(()),
    }
}

/// What has been passed so far.
#[derive(Default)]
struct Pass {
    /// Where the walk stands.
    path: Vec<JsonStep>,
    values: usize,
    objects: usize,
    fault: Option<Fault>,
}

enum JsonStep {
    Item(usize),
    Key(String),
}

/// What is known of a place.
#[derive(Clone, Copy)]
enum Known<'a> {
    Anything,
    /// All reads to this.
    Whole(&'a Read<'a>),
    /// The long list, which reads to this.
    List(&'a Read<'a>),
    /// It reads to this.
    As(&'a Value),
    /// No reader asks for it. A writer may leave it empty: it reads to the same.
    Empty,
}

impl<'a> Known<'a> {
    fn of_key(self, key: &str) -> Self {
        match self {
            Self::Whole(read) if key == read.list => Self::List(read),
            Self::Whole(read) => Self::As(read.frame).of_key(key),
            Self::As(Value::Object(entries)) => entries.get(key).map_or(Self::Empty, Self::As),
            _ => Self::Anything,
        }
    }

    /// `made`: where an item is kept that is made for this.
    fn of_item(self, i: usize, made: &'a mut Option<Value>) -> Self {
        match self {
            Self::List(read) => {
                *made = (read.item)(i);
                made.as_ref().map_or(Self::Anything, Self::As)
            }
            Self::As(Value::Array(items)) => items.get(i).map_or(Self::Anything, Self::As),
            _ => Self::Anything,
        }
    }
}

impl Pass {
    /// Ends the walk.
    fn refuse<E: de::Error>(&mut self, fault: Fault) -> E {
        self.fault.get_or_insert(fault);
        E::custom("refused")
    }

    fn beyond<E: de::Error>(&mut self, what: &str) -> E {
        let clause = format!("{} {what}", self.place());
        self.refuse(Fault::Beyond(clause))
    }

    /// `launches.3.log`, of which no part is longer than a name.
    fn place(&self) -> String {
        let parts = self.path.iter().take(8).map(|step| match step {
            JsonStep::Item(i) => i.to_string(),
            JsonStep::Key(key) => key.chars().filter(|c| !c.is_control()).take(40).collect(),
        });
        match self.path.as_slice() {
            [] => "run.json".to_owned(),
            _ => format!("run.json: `{}`", parts.collect::<Vec<_>>().join(".")),
        }
    }
}

/// One value, to be passed over.
struct Walk<'p, 'k> {
    pass: &'p mut Pass,
    known: Known<'k>,
}

impl Walk<'_, '_> {
    /// Something that is neither nothing nor a list or an object.
    fn leaf<E: de::Error>(&mut self) -> Result<(), E> {
        match self.known {
            Known::Empty => Err(self.unknown()),
            _ => Ok(()),
        }
    }

    fn unknown<E: de::Error>(&mut self) -> E {
        let place = self.pass.place();
        self.pass.refuse(Fault::UnknownKey(place))
    }

    fn number<E: de::Error>(mut self, x: f64) -> Result<(), E> {
        if !(x.is_finite() && x.abs() <= NUMBER) {
            return Err(self.pass.beyond("is no number that anything measures"));
        }
        self.leaf()
    }

    fn enter<E: de::Error>(&mut self) -> Result<(), E> {
        match self.pass.path.len() > DEPTH {
            true => Err(self.pass.beyond("is nested too deeply")),
            false => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.pass.values += 1;
        if self.pass.values > VALUES {
            return Err(self
                .pass
                .beyond("is one value too many: a record has fewer"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(mut self, _: bool) -> Result<(), E> {
        self.leaf()
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<(), E> {
        self.number(n as f64)
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<(), E> {
        self.number(n as f64)
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<(), E> {
        self.number(x)
    }

    fn visit_str<E: de::Error>(mut self, text: &str) -> Result<(), E> {
        let first = self.pass.path.first();
        let is_input = matches!(first, Some(JsonStep::Key(key)) if key == "inputs");
        if text.len() > if is_input { INPUT } else { TEXT } {
            return Err(self.pass.beyond("is too long a text"));
        }
        self.leaf()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.enter()?;
        let is_list = match self.known {
            Known::Whole(_) => false,
            Known::As(read) => read.is_array(),
            Known::Anything | Known::List(_) | Known::Empty => true,
        };
        if !is_list {
            // Fields without their names.
            return Err(self.unknown());
        }
        for i in 0.. {
            self.pass.path.push(JsonStep::Item(i));
            let mut made = None;
            let item = Walk {
                pass: &mut *self.pass,
                known: self.known.of_item(i, &mut made),
            };
            let item = items.next_element_seed(item)?;
            self.pass.path.pop();
            if item.is_none() {
                break;
            }
            self.leaf()?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.enter()?;
        self.pass.objects += 1;
        if self.pass.objects > OBJECTS {
            return Err(self
                .pass
                .beyond("is one object too many: a record has fewer"));
        }
        while let Some(key) = entries.next_key::<String>()? {
            self.leaf()?;
            let known = self.known.of_key(&key);
            self.pass.path.push(JsonStep::Key(key));
            let entry = Walk {
                pass: &mut *self.pass,
                known,
            };
            entries.next_value_seed(entry)?;
            self.pass.path.pop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(ended: Result<(), Fault>) -> String {
        match ended {
            Ok(()) => String::new(),
            Err(Fault::NotJson(error)) => error.to_string(),
            Err(Fault::Beyond(what) | Fault::UnknownKey(what)) => what,
        }
    }

    #[test]
    fn json_beyond_the_bounds_is_refused_with_its_place() {
        let check = |text: &str, expect: &str| assert_eq!(said(bounded(text)), expect);
        let long = "x".repeat(TEXT + 1);
        check(r#"{"a": [1, -2.5, "x", null, true]}"#, "");
        check(
            r#"{"a": {"b": [0, 1e20]}}"#,
            "run.json: `a.b.1` is no number that anything measures",
        );
        check(&format!(r#"{{"seed": {}}}"#, u64::MAX), "");
        check(
            &format!(r#"{{"log": "{long}"}}"#),
            "run.json: `log` is too long a text",
        );
        check(&format!(r#"{{"inputs": [{{"text": "{long}"}}]}}"#), "");
        check("{} x", "trailing characters at line 1 column 4");
        let deep = format!("{}1{}", "[".repeat(30), "]".repeat(30));
        assert!(said(bounded(&deep)).ends_with("is nested too deeply"));
    }

    #[test]
    fn more_than_any_record_holds_is_refused_while_it_is_read() {
        let many =
            |item: &str, times: usize| format!("[{item}{}]", format!(",{item}").repeat(times));
        assert_eq!(said(bounded(&many("0", VALUES - 2))), "");
        assert_eq!(
            said(bounded(&many("0", VALUES - 1))),
            format!(
                "run.json: `{}` is one value too many: a record has fewer",
                VALUES - 1
            )
        );
        assert_eq!(said(bounded(&many(r#"{"":0}"#, OBJECTS - 1))), "");
        assert_eq!(
            said(bounded(&many(r#"{"":0}"#, OBJECTS))),
            format!("run.json: `{OBJECTS}` is one object too many: a record has fewer")
        );
    }

    #[test]
    fn a_key_that_nobody_reads_is_found() {
        let check = |written: &str, frame: Value, expect: &str| {
            let read = Read {
                frame: &frame,
                list: "long",
                item: &|i| (i < 2).then(|| json!({ "x": i })),
            };
            assert_eq!(said(unknown_key(written, &read)), expect, "{written}");
        };
        check(r#"{"long": [{"x": 0}, {"x": 1}]}"#, json!({}), "");
        check(
            r#"{"long": [{"x": 0}, {"y": 1}]}"#,
            json!({}),
            "run.json: `long.1.y`",
        );
        check(
            r#"{"b": {"long": [{"y": 1}]}}"#,
            json!({"b": {"long": [{}]}}),
            "run.json: `b.long.0.y`",
        );
        check("[1]", json!({}), "run.json");
        check(r#"{"a": 1}"#, json!({"a": 1}), "");
        check(r#"{"a": [], "b": null, "c": {}}"#, json!({}), "");
        for filled in ["2", "\"x\"", "true", "[null]", "{\"x\": null}"] {
            let written = format!(r#"{{"a": 1, "b": {filled}}}"#);
            check(&written, json!({"a": 1}), "run.json: `b`");
        }
        check(r#"{"a": [1]}"#, json!({"a": {"b": 1}}), "run.json: `a`");
        check(
            r#"{"l": [{}, {"x": 1}]}"#,
            json!({"l": [{}, {}]}),
            "run.json: `l.1.x`",
        );
    }
}
