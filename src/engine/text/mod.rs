//! Text and tokens: the chat template, the tokenizer, stop strings.

pub mod chat;
pub mod stop;
pub mod tokenizer;
