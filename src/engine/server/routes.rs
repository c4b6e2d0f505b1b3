//! Path and method → handler. Handlers are thin: read, hand on, answer.

use super::app::App;
use super::body;
use super::exposition;
use super::generate::Job;
use super::wire::ApiError;
use super::wire::chat::ChatRequest;
use super::wire::completions::CompletionRequest;
use super::wire::models::{Model, ModelList};
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::sync::Arc;
use std::time::Instant;

const KNOWN: &str = "POST /v1/completions, POST /v1/chat/completions, GET /v1/models, \
                     GET /v1/models/{id}, GET /health, GET /ready and GET /metrics";

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/models", get(models))
        // Names of models may have slashes.
        .route("/v1/models/{*id}", get(model))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(app.limits.body_bytes))
        .with_state(app)
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
