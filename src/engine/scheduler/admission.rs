//! Admission of a waiting sequence: the pages it shares, if those it lacks can be had.
//!
//! Main function: [`find`]. Refuses to know: which sequence waits, and why.

use super::plan::{self, Limits};
use crate::kv::{Copy, Key, PagePool, PageTable, Reach};
use crate::request::{CacheUse, Request};

/// What holds for every sequence of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub limits: Limits,
    pub reach: Reach,
    /// The prefix cache is looked at, and fed.
    pub reads_cache: bool,
    pub feeds_cache: bool,
}

impl Rules {
    /// The most pages that a sequence of `length` tokens holds at once.
    pub fn most_pages(&self, length: usize) -> usize {
        self.reach.most_pages(length, self.limits.chunk_tokens)
    }
}

/// The pages that a sequence begins with.
pub struct Placement {
    pub table: PageTable,
    /// Tokens whose keys and values are there.
    pub covered: usize,
    /// What must be copied before anything is computed.
    pub copy: Option<Copy>,
    /// The prefix cache was looked at.
    pub looked: bool,
}

/// A place for `tokens`, the request's prompt and what was generated of its answer, beside `running`
/// others that have yet to take `promised` pages; `None`: pages are wanting. `stranger`: a prompt whose pages a fault
/// takes for those of `tokens`.
pub fn find(
    pool: &mut PagePool,
    rules: &Rules,
    request: &Request,
    tokens: &[u32],
    (running, promised): (usize, usize),
    stranger: Option<&[u32]>,
) -> Option<Placement> {
    let root = match &request.cache {
        CacheUse::Salted(salt) => Key::salted(salt),
        CacheUse::Shared | CacheUse::Off => Key::default(),
    };
    // A prompt that is to be scored is computed whole.
    let looked = rules.reads_cache && request.cache != CacheUse::Off && !request.prompt_logprobs;
    let (mut table, mut covered) = match looked {
        true => PageTable::find(pool, root, rules.reach, tokens),
        false => (PageTable::new(root, rules.reach), 0),
    };
    if let Some(stranger) = stranger.filter(|it| covered > 0 && it.len() > covered) {
        table.release(pool, None);
        (table, covered) = PageTable::find(pool, root, rules.reach, &stranger[..=covered]);
    }
    let all = rules.most_pages(tokens.len() + 1);
    let needed = promised + all.saturating_sub(table.pages().len());
    if !plan::fits(running, pool.available(), needed, rules.limits) {
        table.release(pool, None);
        return None;
    }
    let mut copy = None;
    if looked {
        let (part, from) = table.find_part(pool, &tokens[covered..]);
        covered += part;
        copy = from;
    }
    Some(Placement {
        table,
        covered,
        copy,
        looked,
    })
}
