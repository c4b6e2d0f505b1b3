//! Further headers of requests. Their values may be keys: nothing that is shown or written holds one.
//!
//! Main type: [`Headers`].

use crate::session::Error;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use verdict::record::Sample;

/// Shorter values stand in too many texts to be looked for.
const LEAST_SECRET: usize = 4;

/// Shown as their names.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub HeaderMap);

impl Headers {
    /// Adds one, or replaces it.
    ///
    /// # Errors
    /// What is no header, and those that the client sets.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let usage = |text: String| Error::Usage(text);
        let key: HeaderName = name.parse().map_err(|_| {
            usage("--header: what stands before the colon is no header's name".into())
        })?;
        if [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION].contains(&key) {
            return Err(usage(format!(
                "--header: `{key}` is set by the client; leave it out"
            )));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            usage(format!(
                "the value of the header `{key}` has characters that no header may have"
            ))
        })?;
        value.set_sensitive(true);
        self.0.insert(key, value);
        Ok(())
    }

    /// Their names, for a report.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }

    /// Takes the values out of what a server says, which may quote them.
    pub fn redact(&self, text: &mut String) {
        for secret in self.secrets() {
            if text.contains(secret) {
                *text = text.replace(secret, "[redacted]");
            }
        }
    }

    /// The same in every text of these samples.
    pub fn redact_all(&self, samples: &mut [Sample]) {
        if self.secrets().next().is_none() {
            return;
        }
        for sample in samples {
            let said = sample.void.as_mut().map(|void| &mut void.detail);
            for text in said.into_iter().chain(&mut sample.text) {
                self.redact(text);
            }
        }
    }

    /// A bearer token without its scheme.
    fn secrets(&self) -> impl Iterator<Item = &str> {
        let values = self.0.values().filter_map(|value| value.to_str().ok());
        let values = values.map(|value| value.rsplit(' ').next().unwrap_or(value));
        values.filter(|value| value.len() >= LEAST_SECRET)
    }
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn no_value_is_shown() {
        let mut headers = Headers::default();
        headers.add("Authorization", "Bearer key-1234").unwrap();
        headers.add("x-team", "inference").unwrap();
        assert_eq!(headers.names(), ["authorization", "x-team"]);
        let shown = format!("{headers:?}");
        assert!(
            !shown.contains("key-1234") && !shown.contains("inference"),
            "{shown}"
        );
        let mut text = "Incorrect API key: key-1234 of inference".to_owned();
        headers.redact(&mut text);
        assert_eq!(text, "Incorrect API key: [redacted] of [redacted]");
        for wrong in [("a b", "x"), ("", "x"), ("Host", "x"), ("x", "a\nb")] {
            assert!(headers.add(wrong.0, wrong.1).is_err(), "{wrong:?}");
        }
    }
}
