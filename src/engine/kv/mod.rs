//! Who owns which page of the KV cache, and which content is where.
//!
//! Main types: [`PagePool`], reference-counted pages with the prefix cache among them; [`PageTable`], one
//! sequence's pages. Refuses to know: where a page's numbers are; that is the backend's.

mod pool;
mod table;

pub(crate) use pool::PagePool;
pub(crate) use table::{PageTable, pages_for};

/// Tokens in a page.
pub(crate) const PAGE_TOKENS: usize = 16;

/// A page's number, from 0.
pub(crate) type PageId = u32;
