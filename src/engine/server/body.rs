//! A request's body: of the right type, not too large, come in time, and one JSON object.

use super::Limits;
use super::wire::ApiError;
use axum::body::Bytes;
use axum::extract::{FromRequest as _, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

/// Reads the body as a JSON object. The size limit must stand on the route too: not every body tells its
/// length beforehand.
pub async fn object(request: Request, limits: &Limits) -> Result<Map<String, Value>, ApiError> {
    check_type(request.headers())?;
    check_length(request.headers(), limits.body_bytes)?;
    let read = tokio::time::timeout(limits.read_time, Bytes::from_request(request, &()));
    let bytes = read
        .await
        .map_err(|_| ApiError::request_timeout(limits.read_time.as_secs()))?
        .map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::body_too_large(limits.body_bytes),
            _ => ApiError::unreadable_body(&rejection.body_text()),
        })?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(Value::Array(_)) => Err(ApiError::not_an_object("an array")),
        Ok(other) => Err(ApiError::not_an_object(&other.to_string())),
        Err(source) => Err(ApiError::bad_json(&source)),
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let essence = value
        .as_deref()
        .map(|value| value.split(';').next().unwrap_or_default().trim());
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(ApiError::content_type(value.as_deref())),
    }
}

/// Refuses a body that says at once that it is too large, before it is read.
fn check_length(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length > limit => Err(ApiError::body_too_large(limit)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn bad_json_gives_its_place() {
        let error = parse(b"{\"a\": 1,\n \"b\" 2}").unwrap_err();
        assert_eq!(error.code, "invalid_json");
        assert!(
            error.message.contains("line 2 column 6"),
            "{}",
            error.message
        );
        assert_eq!(parse(b"[]").unwrap_err().code, "invalid_json");
        assert!(parse(b"5").unwrap_err().message.ends_with("not 5"));
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn only_json_is_taken() {
        let check = |value: Option<&'static str>, expect: bool| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            }
            assert_eq!(check_type(&headers).is_ok(), expect, "{value:?}");
        };
        check(Some("application/json"), true);
        check(Some("Application/JSON; charset=utf-8"), true);
        check(Some("text/plain"), false);
        check(Some("application/x-www-form-urlencoded"), false);
        check(None, false);
    }
}
