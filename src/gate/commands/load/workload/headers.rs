//! Further headers of requests. Their values may be keys: nothing that is shown or written holds one.
//!
//! Main type: [`Headers`].

use crate::session::Error;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use verdict::plan::CLIENT_HEADERS;
use verdict::record::Sample;

/// Shorter values stand in too many texts to be looked for.
const LEAST_SECRET: usize = 4;

const BLOT: &str = "[redacted]";

/// Words that are no secret.
const SCHEMES: [&str; 2] = ["Bearer", "Basic"];

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
            usage("--header: the text before the colon is not a header's name".into())
        })?;
        if CLIENT_HEADERS.contains(&key.as_str()) && key != CONTENT_TYPE {
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
            if text.contains(&secret) {
                *text = text.replace(&secret, BLOT);
            }
            // A text that was cut off within it.
            let body = text.trim_end_matches('…');
            let ends = (LEAST_SECRET..secret.len()).rev();
            let mut ends = ends.filter(|end| secret.is_char_boundary(*end));
            if let Some(end) = ends.find(|end| body.ends_with(&secret[..*end])) {
                *text = format!("{}{BLOT}", &body[..body.len() - end]);
            }
        }
    }

    /// The same in every text of these samples.
    pub fn redact_all(&self, samples: &mut [Sample]) {
        if self.0.is_empty() {
            return;
        }
        for sample in samples {
            let said = sample.void.as_mut().map(|void| &mut void.detail);
            let reason = sample.finish_reason.as_mut();
            for text in said.into_iter().chain(&mut sample.text).chain(reason) {
                self.redact(text);
            }
        }
    }

    /// Each value and each word of it, the longest first: a bearer token stands without its scheme too.
    fn secrets(&self) -> Vec<String> {
        let values = self.0.values();
        let values: Vec<String> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        let words = values.iter().flat_map(|value| value.split([' ', ';', ',']));
        let mut secrets: Vec<String> = words.map(str::to_owned).chain(values.clone()).collect();
        secrets
            .retain(|secret| secret.len() >= LEAST_SECRET && !SCHEMES.contains(&secret.as_str()));
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
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
        headers.add("cookie", "sid=SECRET-7; a=b").unwrap();
        for (said, expect) in [
            ("bad cookie sid=SECRET-7", "bad cookie [redacted]"),
            ("no such key: key-12", "no such key: [redacted]"),
            ("no such key: key-12…", "no such key: [redacted]"),
        ] {
            let mut text = said.to_owned();
            headers.redact(&mut text);
            assert_eq!(text, expect);
        }
        for wrong in [("a b", "x"), ("", "x"), ("Host", "x"), ("x", "a\nb")] {
            assert!(headers.add(wrong.0, wrong.1).is_err(), "{wrong:?}");
        }
    }
}
