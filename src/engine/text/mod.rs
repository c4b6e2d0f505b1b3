//! Text and tokens: the chat template, the tokenizer, stop strings, guided answers.

pub mod chat;
pub mod guide;
pub mod stop;
pub mod tokenizer;
