//! The KV cache's pages: owners, contents and prefix matches; and the states of recurrent layers.
//!
//! Main types: [`PagePool`], reference-counted pages with the prefix cache among them; [`PageTable`], one
//! sequence's pages; [`StatePool`], recurrent states and their snapshots; [`Reach`], which positions are attended to.
//! Refuses to know: where the numbers of a page are; the backend knows.

pub mod attention_window;
mod key;
mod pool;
mod states;
mod table;

pub use attention_window::Reach;
pub use attention_window::Window;
pub use key::Key;
pub use pool::{PagePool, differ};
pub use states::{Content, StateId, StatePool};
pub use table::{Copy, PageTable};

/// Tokens in a page.
pub const PAGE_TOKENS: usize = 16;

/// A page's number, from 0.
pub type PageId = u32;

/// Pages that `tokens` positions need.
pub fn pages_for(tokens: usize) -> usize {
    tokens.div_ceil(PAGE_TOKENS)
}
