//! Requests that an engine should refuse, and live on.
//!
//! Main items: [`BAD`], [`Bad::body`].

use crate::Endpoint;
use bytes::Bytes;
use serde_json::{Value, json};
use verdict::plan::BAD_REQUESTS;

/// A fault of a request.
pub enum Bad {
    /// The whole body is this text.
    Body(&'static str, &'static str),
    /// A key of an otherwise sound request has this value, as JSON.
    Key(&'static str, &'static str),
}

/// None of them asks for more than a few tokens: an engine may accept it, and go on when its client has left.
pub const BAD: [Bad; BAD_REQUESTS as usize] = [
    Bad::Body(
        "a body that is cut off",
        r#"{"model": "m", "prompt": "a", "max_tokens": "#,
    ),
    Bad::Key("max_tokens", "\"many\""),
    Bad::Key("prompt", "{\"a\": 1}"),
    Bad::Key("temperature", "\"hot\""),
    Bad::Key("stop", "{\"a\": 1}"),
    Bad::Key("top_p", "-3"),
    Bad::Key("n", "-1"),
    Bad::Body("a body that is no object", "[]"),
];

impl Bad {
    /// Names the request in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Body(name, _) => (*name).to_owned(),
            Self::Key(key, value) => format!("{key} = {value}"),
        }
    }

    /// The body that is sent. An engine that accepts it streams an answer, which its client leaves.
    pub fn body(&self, endpoint: &Endpoint) -> Bytes {
        let (key, value) = match self {
            Self::Body(_, text) => return Bytes::from_static(text.as_bytes()),
            Self::Key(key, value) => (*key, *value),
        };
        let mut request = json!({ "model": endpoint.model, "max_tokens": 4, "stream": true });
        match endpoint.chat {
            true => request["messages"] = json!([{ "role": "user", "content": "a b c" }]),
            false => request["prompt"] = json!("a b c"),
        }
        let key = match (key, endpoint.chat) {
            ("prompt", true) => "messages",
            _ => key,
        };
        request[key] = serde_json::from_str::<Value>(value).unwrap_or(Value::Null);
        Bytes::from(request.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_wrong_in_its_own_way() {
        let endpoint = Endpoint::usual(([127, 0, 0, 1], 1).into(), "m");
        let mut bodies: Vec<String> = BAD
            .iter()
            .map(|bad| String::from_utf8(bad.body(&endpoint).to_vec()).unwrap())
            .collect();
        assert_eq!(
            bodies[1],
            r#"{"model":"m","max_tokens":"many","stream":true,"prompt":"a b c"}"#
        );
        assert!(
            !bodies.iter().any(|body| body.contains("null")),
            "{bodies:?}"
        );
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), BAD.len());
        let chat = Endpoint {
            chat: true,
            ..endpoint
        };
        let sent = BAD[1].body(&chat);
        assert!(String::from_utf8_lossy(&sent).contains("messages"));
    }
}
