//! Requests to GitHub's REST API: address, token, retries, pages of a list, errors.

pub mod address;
pub mod client;
pub mod error;
pub mod exchange;
pub mod link;
pub mod retry;
pub mod route;
pub mod token;
