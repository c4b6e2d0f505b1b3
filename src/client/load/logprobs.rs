//! Log-probabilities in an answer, in both of the forms that engines send.
//!
//! Main type: [`Logprobs`]. Refuses to know: the rest of the answer.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::fmt;
use verdict::record::TokenLogprob;

/// Of completions (parallel lists) or of chat (a list of entries); some engines use the second on both.
#[derive(Debug, Deserialize)]
pub struct Logprobs {
    tokens: Option<Vec<String>>,
    token_logprobs: Option<Vec<Option<f64>>>,
    top_logprobs: Option<Vec<Option<Ranking>>>,
    content: Option<Vec<Entry>>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    token: String,
    logprob: Option<f64>,
    top_logprobs: Option<Vec<TopEntry>>,
}

#[derive(Debug, Deserialize)]
struct TopEntry {
    token: String,
    logprob: Option<f64>,
}

/// Token → log-probability, in the order sent. A list and not a map: tokens that are parts of one
/// character print alike, and none of them may be lost.
#[derive(Debug)]
struct Ranking(Vec<(String, f64)>);

/// Parallel lists that are not of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{tokens} tokens with {logprobs} log-probabilities and {tops} rankings")]
pub struct Uneven {
    tokens: usize,
    logprobs: usize,
    tops: usize,
}

impl Logprobs {
    pub fn read(self) -> Result<Option<Vec<TokenLogprob>>, Uneven> {
        if let Some(content) = self.content {
            return Ok(Some(content.into_iter().map(Entry::read).collect()));
        }
        let Some(tokens) = self.tokens else {
            return Ok(None);
        };
        let logprobs = self.token_logprobs.unwrap_or_default();
        let tops = self.top_logprobs.unwrap_or_default();
        if logprobs.len() != tokens.len() || !(tops.is_empty() || tops.len() == tokens.len()) {
            return Err(Uneven {
                tokens: tokens.len(),
                logprobs: logprobs.len(),
                tops: tops.len(),
            });
        }
        let tops = tops
            .into_iter()
            .map(|top| top.map_or_else(Vec::new, |Ranking(top)| top));
        let tops = tops.chain(std::iter::repeat_with(Vec::new));
        let read = tokens.into_iter().zip(logprobs).zip(tops);
        Ok(Some(
            read.map(|((token, logprob), top)| entry(token, logprob, top))
                .collect(),
        ))
    }
}

impl Entry {
    fn read(self) -> TokenLogprob {
        let tops = self.top_logprobs.unwrap_or_default().into_iter();
        let top = tops
            .filter_map(|top| Some((top.token, top.logprob?)))
            .collect();
        entry(self.token, self.logprob, top)
    }
}

/// Best first: engines send a ranking as an unordered JSON object.
fn entry(token: String, logprob: Option<f64>, mut top: Vec<(String, f64)>) -> TokenLogprob {
    top.sort_by(|a, b| b.1.total_cmp(&a.1));
    TokenLogprob {
        token,
        logprob,
        top,
    }
}

impl<'de> Deserialize<'de> for Ranking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Ranking;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("tokens with their log-probabilities")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ranking, A::Error> {
                let mut pairs = Vec::new();
                while let Some((token, logprob)) = map.next_entry::<String, Option<f64>>()? {
                    pairs.extend(logprob.map(|logprob| (token, logprob)));
                }
                Ok(Ranking(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::{Logprobs, Uneven};
    use verdict::record::TokenLogprob;

    fn logprobs(json: &str) -> Result<Option<Vec<TokenLogprob>>, Uneven> {
        serde_json::from_str::<Logprobs>(json).unwrap().read()
    }

    fn token(token: &str, logprob: Option<f64>, top: &[(&str, f64)]) -> TokenLogprob {
        let top = top
            .iter()
            .map(|(token, logprob)| ((*token).to_owned(), *logprob))
            .collect();
        TokenLogprob {
            token: token.to_owned(),
            logprob,
            top,
        }
    }

    #[test]
    fn reads_both_forms_of_logprobs_best_first() {
        let lists = logprobs(
            r#"{"tokens":["a","b"],"token_logprobs":[null,-0.5],
                "top_logprobs":[null,{"c":-2,"b":-0.5,"\ufffd":-4,"\ufffd":-3}],"text_offset":[0,1]}"#,
        );
        let expected = vec![
            token("a", None, &[]),
            token(
                "b",
                Some(-0.5),
                &[
                    ("b", -0.5),
                    ("c", -2.0),
                    ("\u{fffd}", -3.0),
                    ("\u{fffd}", -4.0),
                ],
            ),
        ];
        assert_eq!(lists.unwrap(), Some(expected));

        let entries = logprobs(
            r#"{"content":[{"token":"b","logprob":-0.5,"bytes":[98],
                "top_logprobs":[{"token":"c","logprob":-2},{"token":"b","logprob":-0.5}]}]}"#,
        );
        assert_eq!(
            entries.unwrap(),
            Some(vec![token("b", Some(-0.5), &[("b", -0.5), ("c", -2.0)])])
        );

        assert_eq!(logprobs("{}").unwrap(), None);
        let chosen_only = logprobs(r#"{"tokens":["a"],"token_logprobs":[-1],"top_logprobs":null}"#);
        assert_eq!(
            chosen_only.unwrap(),
            Some(vec![token("a", Some(-1.0), &[])])
        );
    }

    #[test]
    fn lists_of_unequal_length_are_refused() {
        for json in [
            r#"{"tokens":["a","b"],"token_logprobs":[-1]}"#,
            r#"{"tokens":["a","b"],"token_logprobs":[-1,-1],"top_logprobs":[{}]}"#,
        ] {
            assert!(logprobs(json).is_err(), "{json}");
        }
    }
}
