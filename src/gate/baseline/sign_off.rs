//! Signature of a record: the run that made it, the tool, a digest of the content, and an
//! HMAC where there is a key.
//!
//! The digest tells a broken record from a whole one. It stops nobody who can write to the store: he makes a
//! new one. The HMAC does.
//!
//! Main types: [`Signer`], [`SignOff`]. Refuses to know: what a record holds.

use serde::{Deserialize, Serialize};
use std::fmt;
use verdict::digest;

/// The environment variable that holds the key.
pub const KEY_VARIABLE: &str = "INFERGATE_BASELINE_KEY";

/// Shorter keys can be guessed.
const LEAST_KEY_BYTES: usize = 16;

/// What stands in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignOff {
    /// Name and version of the program that signed.
    pub tool: String,
    /// The workflow run in which it did; `None` outside of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<WorkflowRun>,
    /// Hex SHA-256 over the record's content and the two fields above.
    pub sha256: String,
    /// Hex HMAC-SHA-256 over the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac_sha256: Option<String>,
}

/// A run of GitHub Actions (GITHUB_RUN_ID, GITHUB_RUN_ATTEMPT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRun {
    pub id: u64,
    pub attempt: u32,
}

impl fmt::Display for WorkflowRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.id, self.attempt)
    }
}

/// Why a record is not believed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignOffError {
    #[error("it is not signed off: `gate baseline push` of this version signs what it pushes")]
    Missing,
    #[error(
        "its content is not what its SHA-256 was made of: it was changed after it was signed off"
    )]
    Changed,
    #[error(
        "it has no HMAC, and {KEY_VARIABLE} is set: it was stored without the key; a record from before the \
         key is signed by `gate baseline sign`"
    )]
    NoHmac,
    #[error("its HMAC was made with another key than {KEY_VARIABLE} holds, or not at all")]
    WrongKey,
}

/// A key shared by those who may store records. Never shown.
#[derive(Clone)]
pub struct SigningKey(Vec<u8>);

#[derive(Debug, thiserror::Error)]
#[error(
    "{KEY_VARIABLE} is too short: give it {LEAST_KEY_BYTES} bytes or more, such as from `openssl rand -hex 32`"
)]
pub struct ShortKey;

impl SigningKey {
    pub fn new(bytes: &[u8]) -> Result<Self, ShortKey> {
        if bytes.len() < LEAST_KEY_BYTES {
            return Err(ShortKey);
        }
        Ok(Self(bytes.to_vec()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Signs and checks.
#[derive(Clone, Debug)]
pub struct Signer {
    /// Name and version of this program.
    pub tool: String,
    pub run: Option<WorkflowRun>,
    pub key: Option<SigningKey>,
}

impl Signer {
    /// A sign-off of what `content` gives for one whose digests are left out.
    pub fn sign<E>(
        &self,
        content: impl FnOnce(&SignOff) -> Result<Vec<u8>, E>,
    ) -> Result<SignOff, E> {
        let mut signed = SignOff {
            tool: self.tool.clone(),
            run: self.run,
            sha256: String::new(),
            hmac_sha256: None,
        };
        let bytes = content(&signed)?;
        signed.sha256 = digest::of_parts([bytes.as_slice()]);
        signed.hmac_sha256 = self.key.as_ref().map(|key| digest::keyed(&key.0, &bytes));
        Ok(signed)
    }

    /// The sign-off with an HMAC beside its digest, where there is a key and none yet.
    pub fn countersign<E>(
        &self,
        signed: SignOff,
        content: impl FnOnce(&SignOff) -> Result<Vec<u8>, E>,
    ) -> Result<SignOff, E> {
        let (Some(key), None) = (&self.key, &signed.hmac_sha256) else {
            return Ok(signed);
        };
        let bytes = content(&SignOff {
            sha256: String::new(),
            ..signed.clone()
        })?;
        let hmac_sha256 = Some(digest::keyed(&key.0, &bytes));
        Ok(SignOff {
            hmac_sha256,
            ..signed
        })
    }

    /// Whether a record with this sign-off is what was signed; `content` as for [`Signer::sign`]. Without a
    /// key an HMAC is not looked at.
    pub fn check<E>(
        &self,
        signed: Option<&SignOff>,
        content: impl FnOnce(&SignOff) -> Result<Vec<u8>, E>,
    ) -> Result<Result<(), SignOffError>, E> {
        let Some(signed) = signed else {
            return Ok(Err(SignOffError::Missing));
        };
        let bytes = content(&SignOff {
            sha256: String::new(),
            hmac_sha256: None,
            ..signed.clone()
        })?;
        if digest::of_parts([bytes.as_slice()]) != signed.sha256 {
            return Ok(Err(SignOffError::Changed));
        }
        Ok(match (&self.key, &signed.hmac_sha256) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(SignOffError::NoHmac),
            (Some(key), Some(hmac)) if digest::is_keyed(&key.0, &bytes, hmac) => Ok(()),
            (Some(_), Some(_)) => Err(SignOffError::WrongKey),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn signer(key: Option<&str>) -> Signer {
        Signer {
            tool: "infergate 0.1.0".into(),
            run: Some(WorkflowRun { id: 7, attempt: 2 }),
            key: key.map(|key| SigningKey::new(key.as_bytes()).unwrap()),
        }
    }

    /// A record whose whole content is this word.
    fn record(word: &'static str) -> impl Fn(&SignOff) -> Result<Vec<u8>, Infallible> {
        move |signed| Ok(format!("{word} {} {:?}", signed.tool, signed.run).into_bytes())
    }

    const ONE: &str = "0123456789abcdef";
    const OTHER: &str = "0123456789abcdeF";

    #[test]
    fn what_was_signed_is_believed_and_nothing_else() {
        let check = |by: Option<&str>,
                     of: &'static str,
                     read_by: Option<&str>,
                     read: &'static str,
                     expect| {
            let Ok(signed) = signer(by).sign(record(of));
            let Ok(found) = signer(read_by).check(Some(&signed), record(read));
            assert_eq!(found, expect, "{by:?} {of} {read_by:?} {read}");
        };
        check(None, "a", None, "a", Ok(()));
        check(None, "a", None, "b", Err(SignOffError::Changed));
        check(Some(ONE), "a", None, "a", Ok(()));
        check(Some(ONE), "a", Some(ONE), "a", Ok(()));
        check(Some(ONE), "a", Some(ONE), "b", Err(SignOffError::Changed));
        check(
            Some(OTHER),
            "a",
            Some(ONE),
            "a",
            Err(SignOffError::WrongKey),
        );
        check(None, "a", Some(ONE), "a", Err(SignOffError::NoHmac));
        let Ok(unsigned) = signer(None).check(None, record("a"));
        assert_eq!(unsigned, Err(SignOffError::Missing));
    }

    #[test]
    fn the_run_and_the_tool_are_signed_too() {
        let Ok(mut signed) = signer(Some(ONE)).sign(record("a"));
        signed.run = Some(WorkflowRun { id: 8, attempt: 1 });
        let Ok(found) = signer(None).check(Some(&signed), record("a"));
        assert_eq!(found, Err(SignOffError::Changed));
    }

    #[test]
    fn a_key_vouches_for_what_another_run_signed() {
        let Ok(signed) = signer(None).sign(record("a"));
        let Ok(twice) = signer(Some(ONE)).countersign(signed.clone(), record("a"));
        assert_eq!((&twice.sha256, &twice.run), (&signed.sha256, &signed.run));
        let Ok(found) = signer(Some(ONE)).check(Some(&twice), record("a"));
        assert_eq!(found, Ok(()));
        let Ok(third) = signer(Some(OTHER)).countersign(twice.clone(), record("a"));
        assert_eq!(third, twice);
        let Ok(without) = signer(None).countersign(signed.clone(), record("a"));
        assert_eq!(without, signed);
    }

    #[test]
    fn a_key_is_long_enough_and_never_shown() {
        assert!(SigningKey::new(b"short").is_err());
        let shown = format!("{:?}", signer(Some(ONE)));
        assert!(!shown.contains(ONE), "{shown}");
    }
}
