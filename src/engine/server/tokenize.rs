//! Text → tokens and back, without generating anything: what a client needs to count a prompt as this model does.

use super::app::App;
use super::body;
use super::generate::{chat_tokens, text_tokens};
use super::wire::ApiError;
use super::wire::chat::ChatRequest;
use super::wire::tokenize::{Detokenize, Text, TokenizeText, Tokens};
use axum::Json;
use axum::extract::{Request, State};
use std::sync::Arc;

pub async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Tokens>, ApiError> {
    app.check_ready()?;
    let members = body::object(request, &app.limits).await?;
    let (tokens, with_texts) = match members.contains_key("messages") {
        true => (
            chat_tokens(&app, ChatRequest::read(members)?).await?.1,
            false,
        ),
        false => {
            let asked = TokenizeText::read(members)?;
            app.check_model(asked.model.as_deref())?;
            let add_special = asked.add_special_tokens != Some(false);
            let tokens = text_tokens(&app, asked.prompt, add_special).await?;
            (tokens, asked.return_token_strs == Some(true))
        }
    };
    let text_of = |id: &u32| app.engine.tokenizer().token_text(*id);
    Ok(Json(Tokens {
        count: tokens.len(),
        max_model_len: app.engine.model_info().max_context,
        token_strs: with_texts.then(|| tokens.iter().map(text_of).collect()),
        tokens,
    }))
}

pub async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Text>, ApiError> {
    app.check_ready()?;
    let asked = Detokenize::read(body::object(request, &app.limits).await?)?;
    app.check_model(asked.model.as_deref())?;
    let vocab = app.engine.model_info().vocab_size;
    let ids: Vec<u32> = asked.tokens.iter().map(|id| id.get()).collect();
    let max_context = app.engine.model_info().max_context;
    if ids.len() > max_context {
        return Err(ApiError::context_length(
            "tokens",
            ids.len(),
            0,
            max_context,
        ));
    }
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
        let message = format!("token {id} is outside the vocabulary of {vocab}");
        return Err(ApiError::invalid_value("tokens", message));
    }
    let tokenizer = app.engine.tokenizer();
    // Special tokens by name, as vLLM has it.
    let runs = ids.chunk_by(|a, b| tokenizer.has_text(*a) == tokenizer.has_text(*b));
    let prompt = runs.map(|run| match tokenizer.has_text(run[0]) {
        true => tokenizer.decode(run),
        false => run.iter().map(|id| tokenizer.token_text(*id)).collect(),
    });
    Ok(Json(Text {
        prompt: prompt.collect(),
    }))
}
