//! Refusals in OpenAI's shape: `{"error":{"message","type","param","code"}}` with a fitting status.
//!
//! [`ApiError`] is the only error that leaves the server. Every constructor names one rule, so that a
//! client can tell a mistake in its request from a busy or a broken server by `code` alone.

use super::truncate::shorten;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A refusal: what goes into the body, and the status it goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    kind: &'static str,
    pub code: &'static str,
    pub param: Option<String>,
    pub message: String,
    /// Seconds after which it makes sense to try again.
    retry_after_s: Option<u32>,
}

/// The body: an object of one member, `error`.
#[derive(Serialize)]
pub struct ErrorBody<'a> {
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        let kind = match status.as_u16() {
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        Self {
            status,
            kind,
            code,
            param: None,
            message,
            retry_after_s: None,
        }
    }

    fn bad_param(code: &'static str, param: &str, message: String) -> Self {
        Self {
            param: Some(param.to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, code, message)
        }
    }

    /// A parameter of the API that this server does not implement, or a value of it.
    pub fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::bad_param("unsupported_parameter", param, message.into())
    }

    /// A name that is no parameter at all.
    pub fn unknown(param: &str, message: String) -> Self {
        Self::bad_param("unknown_parameter", param, message)
    }

    pub fn invalid_type(param: &str, expected: &str, found: &str) -> Self {
        let message = format!("`{param}` must be {expected}, not {found}");
        Self::bad_param("invalid_type", param, message)
    }

    pub fn invalid_value(param: &str, message: impl Into<String>) -> Self {
        Self::bad_param("invalid_value", param, message.into())
    }

    pub fn missing(param: &str) -> Self {
        let message = format!("`{param}` is required");
        Self::bad_param("missing_required_parameter", param, message)
    }

    pub fn bad_json(source: &serde_json::Error) -> Self {
        let message = format!("the body is not valid JSON: {source}");
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    pub fn not_an_object(found: &str) -> Self {
        let found = shorten(found);
        let message = format!("the body must be a JSON object, not {found}");
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", message)
    }

    pub fn unreadable_body(detail: &str) -> Self {
        let message = format!("the body could not be read: {detail}");
        Self::new(StatusCode::BAD_REQUEST, "unreadable_body", message)
    }

    pub fn body_too_large(limit_bytes: usize) -> Self {
        let message = format!("the body is larger than the limit of {limit_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub fn content_type(found: Option<&str>) -> Self {
        let found = shorten(found.unwrap_or("none"));
        let message =
            format!("send the body with `content-type: application/json`; it was {found}");
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        )
    }

    pub fn method(method: &str, path: &str) -> Self {
        let (method, path) = (shorten(method), shorten(path));
        let message = format!("{path} does not take {method}; see the `allow` header");
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            message,
        )
    }

    pub fn route(method: &str, path: &str, known: &str) -> Self {
        let (method, path) = (shorten(method), shorten(path));
        let message = format!("there is no {method} {path}; this server has {known}");
        Self::new(StatusCode::NOT_FOUND, "unknown_url", message)
    }

    pub fn model_not_found(asked: &str, served: &str) -> Self {
        let asked = shorten(asked);
        let message = format!("the model `{asked}` does not exist; this server serves `{served}`");
        Self {
            param: Some("model".to_owned()),
            ..Self::new(StatusCode::NOT_FOUND, "model_not_found", message)
        }
    }

    /// `param`: the one to blame, that of the prompt or of the answer's length. The limit may be less than
    /// the model's own.
    pub fn context_length(param: &str, prompt: usize, asked: u32, max_context: usize) -> Self {
        let message = format!(
            "this server's limit is {max_context} tokens; the request needs {} \
             ({prompt} in the prompt, {asked} for the answer): shorten the prompt or lower `max_tokens`",
            prompt + asked as usize
        );
        Self::bad_param("context_length_exceeded", param, message)
    }

    /// A text that has more tokens than fit, however it is cut.
    pub fn text_too_long(param: &str, bytes: usize, max_context: usize) -> Self {
        let message = format!(
            "this server's limit is {max_context} tokens, and a text of {bytes} bytes has more: shorten the prompt"
        );
        Self::bad_param("context_length_exceeded", param, message)
    }

    /// The client was too slow to send its request.
    pub fn request_timeout(limit_s: u64) -> Self {
        let message = format!("the body did not come within {limit_s} s");
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    }

    /// `retry_after_s`: at least 1.
    pub fn queue_full(waiting: usize, retry_after_s: u32) -> Self {
        let message = format!(
            "the queue has no room ({waiting} requests wait): try again in {retry_after_s} s"
        );
        Self {
            retry_after_s: Some(retry_after_s),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message)
        }
    }

    pub fn shutting_down() -> Self {
        let message = "the server is shutting down".to_owned();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message)
    }

    /// The model came without a chat template that can be used; no chat is possible with it.
    pub fn no_chat_template(detail: &str) -> Self {
        let message = format!("this model cannot chat: {detail}; /v1/completions works");
        Self::new(StatusCode::NOT_IMPLEMENTED, "no_chat_template", message)
    }

    /// The model's chat template broke off on these messages; others may be possible.
    pub fn chat_template_failed(detail: &str) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "chat_template_failed",
            format!("{detail}; /v1/completions works"),
        )
    }

    /// The engine's worker is dead or does not answer.
    pub fn engine_down(detail: &str) -> Self {
        let message = format!("the engine is not working: {detail}");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "engine_unavailable",
            message,
        )
    }

    /// The engine's worker is gone for good.
    pub fn engine_died(why: &str) -> Self {
        Self::engine_down(&format!("its worker has died: {why}"))
    }

    /// The engine gave up on this request.
    pub fn engine_failed(detail: &str) -> Self {
        let message = format!("the engine failed on this request: {detail}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "engine_failed", message)
    }

    pub fn body(&self) -> ErrorBody<'_> {
        ErrorBody {
            error: ErrorObject {
                message: &self.message,
                kind: self.kind,
                param: self.param.as_deref(),
                code: self.code,
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after_s {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn body_has_openai_shape() {
        let error = ApiError::model_not_found("gpt-4", "tiny");
        let body = serde_json::to_value(error.body()).unwrap();
        assert_eq!(
            body,
            json!({"error": {
                "message": "the model `gpt-4` does not exist; this server serves `tiny`",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }})
        );
    }

    #[test]
    fn status_decides_the_type() {
        let check = |error: ApiError, status: u16, kind: &str| {
            assert_eq!((error.status.as_u16(), error.kind), (status, kind));
        };
        check(ApiError::missing("prompt"), 400, "invalid_request_error");
        check(ApiError::queue_full(4, 1), 429, "rate_limit_error");
        check(ApiError::engine_failed("x"), 500, "server_error");
        check(ApiError::shutting_down(), 503, "server_error");
        check(ApiError::body_too_large(1), 413, "invalid_request_error");
    }

    #[test]
    fn a_full_queue_says_when_to_come_back() {
        let response = ApiError::queue_full(4, 7).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
        let response = ApiError::shutting_down().into_response();
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn context_length_gives_the_sum() {
        let error = ApiError::context_length("prompt", 500, 20, 512);
        assert!(error.message.contains("512 tokens"), "{}", error.message);
        assert!(
            error.message.contains("needs 520 (500 in the prompt, 20"),
            "{}",
            error.message
        );
    }
}
