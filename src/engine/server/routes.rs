//! Path and method → handler. Handlers are thin: read, hand on, answer.

use super::app::App;
use super::body;
use super::exposition;
use super::generate::Job;
use super::seeds::fresh_seed;
use super::tokenize;
use super::wire::ApiError;
use super::wire::chat::ChatRequest;
use super::wire::completions::CompletionRequest;
use super::wire::models::{Model, ModelList};
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;
use std::time::Instant;

const KNOWN: &str = "POST /v1/completions, POST /v1/chat/completions, POST /tokenize, POST /detokenize, \
                     GET /v1/models, GET /v1/models/{id}, GET /version, GET /health, GET /ready and GET /metrics";

/// A request's own name for it comes back; clients show it in their errors (OpenAI's `x-request-id`).
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest name that comes back.
const MAX_ID: usize = 128;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/version", get(version))
        .route("/v1/models", get(models))
        // Names of models may have slashes.
        .route("/v1/models/{*id}", get(model))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(app.limits.body_bytes))
        .layer(middleware::from_fn(named))
        .with_state(app)
}

/// Gives the answer its request's name, or a new one.
async fn named(request: Request, next: Next) -> Response {
    let given = request.headers().get(REQUEST_ID);
    let given = given
        .filter(|id| id.len() <= MAX_ID && id.to_str().is_ok())
        .cloned();
    let id = given.or_else(|| HeaderValue::from_str(&format!("req-{:016x}", fresh_seed())).ok());
    let mut answer = next.run(request).await;
    if let Some(id) = id {
        answer.headers_mut().insert(REQUEST_ID, id);
    }
    answer
}

async fn completions(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let arrival = Instant::now();
    app.check_ready()?;
    let request = CompletionRequest::read(body::object(request, &app.limits).await?)?;
    Job::completion(&app, request)
        .await?
        .answer(&app, arrival)
        .await
}

async fn chat_completions(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let arrival = Instant::now();
    app.check_ready()?;
    let request = ChatRequest::read(body::object(request, &app.limits).await?)?;
    Job::chat(&app, request).await?.answer(&app, arrival).await
}

async fn models(State(app): State<Arc<App>>) -> Response {
    Json(ModelList::of_one(served(&app))).into_response()
}

async fn model(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(id) = id.map_err(|_| {
        ApiError::invalid_value("model", "the model's name in the path is not UTF-8")
    })?;
    app.check_model(Some(&id))?;
    Ok(Json(served(&app)).into_response())
}

fn served(app: &App) -> Model<'_> {
    let max_context = app.engine.model_info().max_context;
    Model::new(&app.model, app.since, max_context)
}

async fn health(State(app): State<Arc<App>>) -> Result<Json<serde_json::Value>, ApiError> {
    app.check_alive()?;
    Ok(Json(serde_json::json!({"status": "ok"})))
}

async fn ready(State(app): State<Arc<App>>) -> Result<Json<serde_json::Value>, ApiError> {
    app.check_ready()?;
    Ok(Json(serde_json::json!({"status": "ok"})))
}

async fn version() -> Json<serde_json::Value> {
    Json(serde_json::json!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let text = app
        .metrics
        .text(app.engine.model_info(), &app.engine.stats(), app.listening);
    ([(header::CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
}

async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    ApiError::route(method.as_str(), uri.path(), KNOWN)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::method(method.as_str(), uri.path())
}
