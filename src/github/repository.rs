//! Names that go into routes: [`Repository`] and [`Sha`], each checked when it is made.

use super::Error;
use std::fmt;

/// GitHub's own limits: 39 characters of an owner (Enterprise's managed users have more), 100 of a name.
const MOST_OWNER: usize = 100;
const MOST_NAME: usize = 100;

/// `owner/name`, of characters that GitHub allows in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    owner: String,
    name: String,
}

impl Repository {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refused = || Error::BadRepository(super::clean(text, 100));
        let (owner, name) = text.split_once('/').ok_or_else(refused)?;
        let is_word = |word: &str, most: usize| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !word.is_empty() && word.len() <= most && word.chars().all(allowed)
        };
        let is_dots = |word: &str| word.chars().all(|c| c == '.');
        if !is_word(owner, MOST_OWNER) || !is_word(name, MOST_NAME) {
            return Err(refused());
        }
        // Within a route these would lead elsewhere.
        if is_dots(owner) || is_dots(name) {
            return Err(refused());
        }
        Ok(Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    pub fn owner(&self) -> &str {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether GitHub means the same repository: case is kept but does not count.
    pub fn is(&self, full_name: &str) -> bool {
        self.to_string().eq_ignore_ascii_case(full_name)
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// Digits of a commit's id.
const SHA_DIGITS: usize = 40;

/// The whole id of a commit: 40 lower-case hex digits. A branch's name never is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha(String);

impl Sha {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == SHA_DIGITS && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::BadSha(super::clean(text, 60)))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As many digits as people read.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_two_plain_words() {
        for good in ["octocat/Hello-World", "a/b", "my.org/x_y"] {
            assert_eq!(Repository::parse(good).unwrap().to_string(), good);
        }
        let long = format!("a/{}", "b".repeat(101));
        for bad in [
            "", "a", "a/", "/b", "a/b/c", "a/..", "../b", "a/b c", "a/b?x", "ä/b", &long,
        ] {
            assert!(Repository::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sha_is_whole() {
        let whole = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
        assert_eq!(Sha::parse(whole).unwrap().short(), "6dcb09b5b578");
        let upper = whole.to_ascii_uppercase();
        for bad in [
            "",
            "main",
            "6dcb09b",
            &upper,
            &format!("{whole}0"),
            "$(touch x)",
        ] {
            assert!(Sha::parse(bad).is_err(), "{bad}");
        }
    }
}
