//! A TOML table that is read key by key and refuses what nobody asked for.
//!
//! Every value keeps its place, so that each refusal points at it. The reader knows no gate and no unit:
//! those are in `project.rs`, `gate.rs` and `quantity.rs`.

use super::diagnostic::{Diagnostic, is_near, line_of, suggestion};
use super::quantity::{self, Dimension};
use crate::record::is_unseen;
use serde_json::{Number, Value};
use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A file of the plan, for diagnostics.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// Parses the text as TOML.
    pub fn parse(self) -> Result<Spanned<DeTable<'a>>, Diagnostic> {
        DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.wrong(span, format!("this is not TOML: {}", error.message()))
        })
    }

    pub fn wrong(self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            file: self.file.into(),
            source: self.text.into(),
            span,
            message: message.into(),
            label: String::new(),
            help: None,
        }
    }

    pub fn line(self, span: &Range<usize>) -> u32 {
        line_of(self.text, span.start)
    }
}

/// One value with its place.
#[derive(Clone)]
pub struct Field<'a, 'd> {
    pub source: Source<'a>,
    /// Full name, for messages: `workload.decode.requests`.
    pub name: String,
    value: &'d Spanned<DeValue<'a>>,
    /// The profile that picks from `{ quick = …, full = … }`.
    profile: &'a str,
    /// Names of all profiles; empty where nothing differs by profile.
    profiles: &'a [String],
    /// The profile whose values hold where this one has none.
    like: Option<&'a str>,
}

impl<'a, 'd> Field<'a, 'd> {
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub fn wrong(&self, message: impl Into<String>) -> Diagnostic {
        self.source.wrong(self.span(), message)
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let mut refusal = self.wrong(format!(
            "`{}` must be {what}, not {}",
            self.name,
            kind_of(self.value.get_ref())
        ));
        refusal.label = format!("expected {what}");
        refusal
    }

    /// The value for this profile, where it is given as a table by profile.
    fn for_profile(&self) -> Result<Self, Diagnostic> {
        let DeValue::Table(table) = self.value.get_ref() else {
            return Ok(self.clone());
        };
        self.refuse_unknown_profile(table)?;
        let of_like = || self.like.and_then(|like| table.get(like));
        match table.get(self.profile).or_else(of_like) {
            Some(value) => Ok(Self {
                value,
                ..self.clone()
            }),
            None => Err(self.wrong(format!(
                "`{}` has no value for the profile `{}`",
                self.name, self.profile
            ))),
        }
    }

    /// A profile that is not there is a mistyped one: its value would be missed only when that profile is run.
    fn refuse_unknown_profile(&self, table: &DeTable<'a>) -> Result<(), Diagnostic> {
        let is_known = |name: &str| self.profiles.iter().any(|known| known == name);
        let mut unknown: Vec<_> = table
            .keys()
            .filter(|key| !is_known(key.get_ref()))
            .collect();
        unknown.sort_by_key(|key| key.span().start);
        let (Some(key), false) = (unknown.first(), self.profiles.is_empty()) else {
            return Ok(());
        };
        let name = key.get_ref();
        let message = format!("`{}`: unknown profile `{name}`", self.name);
        let mut refusal = self.source.wrong(key.span(), message);
        refusal.help = Some(suggestion(name, self.profiles.iter().map(String::as_str)));
        Err(refusal)
    }

    pub fn text(&self) -> Result<&'d str, Diagnostic> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.expected("a string")),
        }
    }

    /// A day, as `2027-01-15`.
    pub fn date(&self) -> Result<String, Diagnostic> {
        let wrong = || {
            let mut refusal = self.expected("a date");
            refusal.help = Some("write the day without quotes: 2027-01-15".into());
            refusal
        };
        let DeValue::Datetime(moment) = self.value.get_ref() else {
            return Err(wrong());
        };
        match (moment.date, moment.time, moment.offset) {
            (Some(date), None, None) => Ok(date.to_string()),
            _ => Err(wrong()),
        }
    }

    /// Any value but a date, as JSON.
    pub fn json(&self) -> Result<Value, Diagnostic> {
        json(self.value.get_ref()).ok_or_else(|| {
            self.expected("what JSON can hold: no date, no number that is not finite, and no whole one of over 64 bits")
        })
    }

    pub fn flag(&self) -> Result<bool, Diagnostic> {
        match self.value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number in `range`; may differ by profile.
    pub fn count(&self, range: Range<u32>) -> Result<u32, Diagnostic> {
        let field = self.for_profile()?;
        let DeValue::Integer(number) = field.value.get_ref() else {
            return Err(field.expected("a whole number"));
        };
        let parsed = i64::from_str_radix(number.as_str(), number.radix());
        match parsed.ok().and_then(|n| u32::try_from(n).ok()) {
            Some(n) if range.contains(&n) => Ok(n),
            _ => Err(field.wrong(format!(
                "`{}` must lie between {} and {}",
                field.name,
                range.start,
                range.end - 1
            ))),
        }
    }

    /// A number with its unit, such as `"15 ms"` or `"2 %"`; may differ by profile.
    pub fn quantity(&self, dimension: Dimension) -> Result<f64, Diagnostic> {
        let field = self.for_profile()?;
        let DeValue::String(text) = field.value.get_ref() else {
            let mut refusal = field.expected("a string that holds a number and its unit");
            refusal.help = Some(format!("write {}", dimension.example()));
            return Err(refusal);
        };
        quantity::parse(text, dimension).map_err(|reason| {
            let mut refusal = field.wrong(format!("`{}`: {reason}", field.name));
            refusal.label = format!("expected {}", dimension.name());
            refusal.help = Some(format!("write {}", dimension.example()));
            refusal
        })
    }

    /// A time longer than nothing; may differ by profile.
    pub fn duration(&self) -> Result<Duration, Diagnostic> {
        let ms = self.quantity(Dimension::Time)?;
        if ms <= 0.0 {
            return Err(self.wrong(format!("`{}` must be longer than nothing", self.name)));
        }
        quantity::time(ms / 1e3)
            .ok_or_else(|| self.wrong(format!("`{}` must be shorter than a century", self.name)))
    }

    /// A list; may differ by profile.
    pub fn list(&self) -> Result<Vec<Self>, Diagnostic> {
        let field = self.for_profile()?;
        let DeValue::Array(items) = field.value.get_ref() else {
            return Err(field.expected("a list"));
        };
        Ok(items
            .iter()
            .enumerate()
            .map(|(i, value)| Self {
                name: format!("{}[{i}]", field.name),
                value,
                ..field.clone()
            })
            .collect())
    }

    pub fn texts(&self) -> Result<Vec<String>, Diagnostic> {
        self.list()?
            .iter()
            .map(|item| item.text().map(str::to_owned))
            .collect()
    }

    pub fn section(&self) -> Result<Section<'a, 'd>, Diagnostic> {
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(Section {
                source: self.source,
                name: self.name.clone(),
                table,
                span: self.span(),
                profile: self.profile,
                profiles: self.profiles,
                like: self.like,
                asked: RefCell::default(),
            }),
            _ => Err(self.expected("a table")),
        }
    }

    /// A name for people, which stands in tables and in lines of its own.
    pub fn name(&self) -> Result<&'d str, Diagnostic> {
        let name = self.text()?;
        let unseen = name.chars().find(|c| is_unseen(*c));
        if !name.is_empty() && name.trim() == name && unseen.is_none() {
            return Ok(name);
        }
        let fault = unseen.map_or_else(String::new, |c| {
            format!(": it has the character U+{:04X}", u32::from(c))
        });
        let message = format!("`{}` is no name that reports can show{fault}", self.name);
        let mut refusal = self.wrong(message);
        refusal.help = Some(
            "write at least one character, no line end or other character that nobody sees, and no spaces \
             around it"
                .into(),
        );
        Err(refusal)
    }

    /// One of a closed set of names.
    pub fn choice<T: Clone>(&self, all: &[(&str, T)]) -> Result<T, Diagnostic> {
        let text = self.text()?;
        match all.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(value.clone()),
            None => {
                let mut refusal = self.wrong(format!("`{}`: unknown name `{text}`", self.name));
                refusal.help = Some(suggestion(text, all.iter().map(|(name, _)| *name)));
                Err(refusal)
            }
        }
    }
}

/// A table of which each key is asked for by name; [`Section::finish`] refuses the others.
pub struct Section<'a, 'd> {
    pub source: Source<'a>,
    name: String,
    table: &'d DeTable<'a>,
    span: Range<usize>,
    profile: &'a str,
    profiles: &'a [String],
    like: Option<&'a str>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a, 'd> Section<'a, 'd> {
    pub fn root(source: Source<'a>, table: &'d Spanned<DeTable<'a>>, profile: &'a str) -> Self {
        Self {
            source,
            name: String::new(),
            table: table.get_ref(),
            span: 0..0,
            profile,
            profiles: &[],
            like: None,
            asked: RefCell::default(),
        }
    }

    /// The same table, in which every other name of a profile than these is refused, and the values of `like` hold
    /// where the profile has none.
    pub fn with_profiles(self, profiles: &'a [String], like: Option<&'a str>) -> Self {
        Self {
            profiles,
            like,
            ..self
        }
    }

    /// Keys that belong here though they are read later, so that none is taken for another one, mistyped.
    pub fn foresee(&self, keys: &[&'static str]) {
        for &key in keys {
            self.ask(key);
        }
    }

    fn ask(&self, key: &'static str) {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
    }

    fn full_name(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    fn field(&self, key: &str, value: &'d Spanned<DeValue<'a>>) -> Field<'a, 'd> {
        Field {
            source: self.source,
            name: self.full_name(key),
            value,
            profile: self.profile,
            profiles: self.profiles,
            like: self.like,
        }
    }

    pub fn optional(&self, key: &'static str) -> Option<Field<'a, 'd>> {
        self.ask(key);
        self.table.get(key).map(|value| self.field(key, value))
    }

    /// The value of a key that may be left out, as `read` understands it.
    pub fn given<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Field<'a, 'd>) -> Result<T, Diagnostic>,
    ) -> Result<Option<T>, Diagnostic> {
        self.optional(key).map(|field| read(&field)).transpose()
    }

    pub fn required(&self, key: &'static str) -> Result<Field<'a, 'd>, Diagnostic> {
        self.optional(key).ok_or_else(|| self.missing(key))
    }

    fn unknown_key(&self, key: &Spanned<DeString<'_>>) -> Diagnostic {
        let message = format!("unknown key `{}`", self.full_name(key.get_ref()));
        self.source.wrong(key.span(), message)
    }

    fn missing(&self, key: &str) -> Diagnostic {
        let missing = || self.wrong(format!("`{}` is missing", self.full_name(key)));
        self.misspelt(key).unwrap_or_else(missing)
    }

    /// A missing key is most often there under a wrong name: then that name is the place to point at.
    pub fn misspelt(&self, key: &str) -> Option<Diagnostic> {
        let mut keys = self.table.keys();
        let asked = self.asked.borrow();
        let near =
            keys.find(|k| !asked.contains(&k.get_ref().as_ref()) && is_near(k.get_ref(), key));
        let mut refusal = self.unknown_key(near?);
        refusal.help = Some(format!("did you mean `{key}`?"));
        Some(refusal)
    }

    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub fn wrong(&self, message: impl Into<String>) -> Diagnostic {
        self.source.wrong(self.span(), message)
    }

    /// Every key with its value, in the order of the file; for tables whose keys are names of the user's.
    pub fn entries(&self) -> Vec<(&'d str, Field<'a, 'd>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, value)| (key.get_ref().as_ref(), self.field(key.get_ref(), value)))
            .collect()
    }

    /// Refuses the first key that was never asked for.
    pub fn finish(self) -> Result<(), Diagnostic> {
        let asked = self.asked.borrow();
        let mut unknown: Vec<_> = self
            .table
            .keys()
            .filter(|key| !asked.contains(&key.get_ref().as_ref()))
            .collect();
        unknown.sort_by_key(|key| key.span().start);
        let Some(key) = unknown.first() else {
            return Ok(());
        };
        let mut refusal = self.unknown_key(key);
        refusal.help = Some(suggestion(key.get_ref(), asked.iter().copied()));
        Err(refusal)
    }
}

/// `None`: it holds a date, or a number that JSON has not.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::from(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Datetime(_) => return None,
        DeValue::Array(values) => {
            let values = values.iter().map(|value| json(value.get_ref()));
            values.collect::<Option<Vec<_>>>()?.into()
        }
        DeValue::Table(entries) => {
            let entries = entries.iter();
            let members = entries
                .map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            Value::Object(members.collect::<Option<_>>()?)
        }
    })
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
