//! Who owns which page of the KV cache, and which content is where.
//!
//! Main types: [`PagePool`], reference-counted pages with the prefix cache among them; [`PageTable`], one
//! sequence's pages; [`Reach`], which positions are attended to. Refuses to know: where a page's numbers
//! are; that is the backend's.

mod key;
mod pool;
mod reach;
mod table;

pub(crate) use key::Key;
pub(crate) use pool::PagePool;
pub(crate) use reach::Reach;
pub use reach::Window;
pub(crate) use table::{Copy, PageTable};

/// Tokens in a page.
pub(crate) const PAGE_TOKENS: usize = 16;

/// A page's number, from 0.
pub(crate) type PageId = u32;

/// Pages that `tokens` positions need.
pub(crate) fn pages_for(tokens: usize) -> usize {
    tokens.div_ceil(PAGE_TOKENS)
}
