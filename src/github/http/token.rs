//! [`Token`]: what authenticates us at GitHub. Comes from the environment alone, and is shown to nobody.

use crate::Error;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Where a token is looked for, in this order.
const VARIABLES: [&str; 2] = ["GITHUB_TOKEN", "GH_TOKEN"];

/// What stands in a text where the token stood.
const REDACTED: &str = "[token]";

/// Tokens shorter than this would be found in innocent text.
const LEAST_LENGTH: usize = 4;

/// A token of GitHub. Its `Debug` does not show it, and nothing but this room can read it.
#[derive(Clone, Debug)]
pub struct Token(SecretString);

impl Token {
    /// From `GITHUB_TOKEN`, else `GH_TOKEN`; an empty variable is none.
    pub fn from_env() -> Result<Self, Error> {
        let given = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        let token = given
            .map(|text| text.trim().to_owned())
            .find(|t| !t.is_empty());
        Self::new(&token.ok_or(Error::NoToken)?)
    }

    /// Refuses what no header can carry.
    pub fn new(text: &str) -> Result<Self, Error> {
        let is_plain = text.len() >= LEAST_LENGTH && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_plain {
            return Err(Error::BadToken);
        }
        Ok(Self(SecretString::from(text.to_owned())))
    }

    /// The header that sends it, marked as sensitive.
    pub fn bearer(&self) -> Result<HeaderValue, Error> {
        let header = format!("Bearer {}", self.0.expose_secret());
        let mut header = HeaderValue::from_str(&header).map_err(|_| Error::BadToken)?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// The text without the token: an answer or an error may repeat what was sent.
    pub fn redact(&self, text: &str) -> String {
        text.replace(self.0.expose_secret(), REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sees_it() {
        let token = Token::new("ghs_abcdef0123456789").unwrap();
        assert!(!format!("{token:?}").contains("abcdef"));
        assert_eq!(
            token.redact("Bad credentials: ghs_abcdef0123456789!"),
            "Bad credentials: [token]!"
        );
    }

    #[test]
    fn what_no_header_carries_is_refused() {
        for text in ["", "abc", "two words", "line\nfeed", "naïve"] {
            assert!(matches!(Token::new(text), Err(Error::BadToken)), "{text:?}");
        }
    }
}
