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
            chat_tokens(&app, ChatRequest::read(members)?).await?.1.ids,
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
    let ids: Vec<u32> = asked.tokens.iter().map(|id| id.get()).collect();
    let model = app.engine.model_info();
    if ids.len() > model.max_context {
        let (param, most) = ("tokens", model.max_context);
        return Err(ApiError::context_length(param, ids.len(), 0, most));
    }
    if let Some(id) = ids.iter().find(|id| **id as usize >= model.vocab_size) {
        let message = format!(
            "token {id} is outside the vocabulary of {}",
            model.vocab_size
        );
        return Err(ApiError::invalid_value("tokens", message));
    }
    Ok(Json(Text {
        prompt: app.engine.tokenizer().decode_with_special(&ids),
    }))
}
