//! Admission of a waiting sequence: the pages it shares, if those it lacks can be had.
//!
//! Main function: [`find`]. Refuses to know: which sequence waits, and why.

use super::plan::{self, Limits};
use crate::kv::{
    Content, Copy, Key, PAGE_TOKENS, PagePool, PageTable, Reach, StateId, StatePool, differ,
};
use crate::request::{CacheUse, Request};

/// What holds for every sequence of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub limits: Limits,
    pub reach: Reach,
    /// The prefix cache is looked at, and fed.
    pub reads_cache: bool,
    pub feeds_cache: bool,
    /// The model's layers keep recurrent states: a sequence goes on only where there is a snapshot.
    pub recurrent: bool,
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
    /// The recurrent state after what is covered.
    pub snapshot: Option<StateId>,
    /// Tokens beyond it whose pages are cached, for want of their state of no use.
    pub recomputed: usize,
    /// The prefix cache was looked at.
    pub looked: bool,
}

/// What sequences share.
pub struct Pools<'a> {
    pub pages: &'a mut PagePool,
    pub states: &'a mut StatePool,
}

/// A place for `tokens`, the request's prompt and what was generated of its answer, beside `running`
/// others that have yet to take `promised` pages; `None`: pages are wanting. `stranger`: a prompt whose pages a fault
/// takes for those of `tokens`.
pub fn find(
    pools: Pools<'_>,
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
    let Pools {
        pages: pool,
        states,
    } = pools;
    let begin = |pool: &mut PagePool, states: &mut StatePool, tokens: &[u32]| match rules.recurrent
    {
        true => find_state(pool, states, root, rules.reach, tokens),
        false => Found::pages(PageTable::find(pool, root, rules.reach, tokens)),
    };
    let mut found = match looked {
        true => begin(pool, states, tokens),
        false => Found::pages((PageTable::new(root, rules.reach), 0)),
    };
    if let Some(stranger) = stranger.filter(|it| found.covered > 0 && it.len() > found.covered) {
        found.table.release(pool, None);
        found = begin(pool, states, &stranger[..=found.covered]);
    }
    let all = rules.most_pages(tokens.len() + 1);
    let needed = promised + all.saturating_sub(found.table.pages().len());
    if !plan::fits(running, pool.available(), needed, rules.limits) {
        found.table.release(pool, None);
        return None;
    }
    if looked && !rules.recurrent {
        let (part, copy) = found.table.find_part(pool, &tokens[found.covered..]);
        found.covered += part;
        found.copy = copy;
    }
    let is_full = rules.reach.first_page(found.covered) > rules.reach.sink_pages();
    if looked && rules.reach.is_bounded() && is_full {
        forget_behind(pool, states, rules.reach, &found.keys, tokens);
        // A page that is yet to be copied may be free after this: it is copied before another is taken.
        forget_branches(pool, states, found.table.keyed(), tokens);
    }
    let Found {
        table,
        covered,
        copy,
        snapshot,
        recomputed,
        keys: _,
    } = found;
    Some(Placement {
        table,
        covered,
        copy,
        snapshot,
        recomputed,
        looked,
    })
}

/// What the prefix cache has of a prompt.
struct Found {
    table: PageTable,
    covered: usize,
    copy: Option<Copy>,
    snapshot: Option<StateId>,
    recomputed: usize,
    /// With a snapshot: of the beginning and of all pages that the sequence goes on after.
    keys: Vec<Key>,
}

impl Found {
    fn pages((table, covered): (PageTable, usize)) -> Self {
        Self {
            table,
            covered,
            copy: None,
            snapshot: None,
            recomputed: 0,
            keys: Vec::new(),
        }
    }
}

/// Goes on as late as possible in `tokens`, of which at least one is left to compute: where there is a snapshot of the state,
/// and the pages before it.
fn find_state(
    pool: &mut PagePool,
    states: &mut StatePool,
    root: Key,
    reach: Reach,
    tokens: &[u32],
) -> Found {
    let known = &tokens[..tokens.len().saturating_sub(1)];
    let mut keys: Vec<Key> = std::iter::once(root).chain(root.of_pages(known)).collect();
    let pages = keys[1..].iter();
    let cached = pages.take_while(|key| pool.is_published(key)).count() * PAGE_TOKENS;
    for pages in (0..keys.len()).rev() {
        let (key, start) = (keys[pages], pages * PAGE_TOKENS);
        for rest in states.lengths(key, &known[start..]) {
            let end = start + rest;
            if end == 0 || !has_beginning(pool, key, &known[start..end]) {
                continue;
            }
            let (mut table, covered) = PageTable::find(pool, root, reach, &tokens[..=start]);
            if covered < start {
                table.release(pool, None);
                continue;
            }
            let (part, copy) = match rest {
                0 => (0, None),
                // Other requests with this history need the page too, to resume from the same snapshot.
                _ => table.copy_part(pool, &tokens[start..=end]),
            };
            let content = Content {
                pages: key,
                rest: known[start..end].into(),
            };
            let snapshot = states.find(&content).filter(|_| part == rest);
            if snapshot.is_some() {
                keys.truncate(pages + 1);
                return Found {
                    table,
                    covered: end,
                    copy,
                    snapshot,
                    recomputed: cached.saturating_sub(end),
                    keys,
                };
            }
            table.release(pool, None);
        }
    }
    Found {
        recomputed: cached,
        ..Found::pages((PageTable::new(root, reach), 0))
    }
}

/// Drops what else was kept of a history to resume from: snapshots, and pages filled in part, whose window begins with pages
/// that are forgotten now ([`PageTable::find`]). `keys`: of the beginning and of all pages that the sequence goes on after.
/// Without it a session would leave a page a turn.
fn forget_behind(
    pool: &mut PagePool,
    states: &mut StatePool,
    reach: Reach,
    keys: &[Key],
    tokens: &[u32],
) {
    let Some(last) = keys.len().checked_sub(1) else {
        return;
    };
    let first = reach.first_page(last * PAGE_TOKENS);
    for (pages, key) in keys.iter().enumerate() {
        let start = pages * PAGE_TOKENS;
        // Lengths at which what was kept in the page after these ends, and has a window that begins too early.
        let behind = |rest: &usize| reach.first_page(start + rest) < first.min(pages);
        let Some(longest) = (0..PAGE_TOKENS).take_while(behind).last() else {
            continue;
        };
        let following = &tokens[start..(tokens.len() - 1).min(start + longest)];
        states.forget(*key, |rest| following.starts_with(rest));
        pool.forget_parts(*key, following);
    }
}

/// Drops what was kept of a history that went on otherwise than `tokens` do, from the `keyed` tokens on: an answer that comes
/// back as other tokens. Without it a session would leave the pages of such an answer.
fn forget_branches(
    pool: &mut PagePool,
    states: &mut StatePool,
    (mut key, mut keyed): (Key, usize),
    tokens: &[u32],
) {
    loop {
        let following = &tokens[keyed..];
        let forgotten = pool.forget_branch(key, following);
        if !forgotten.is_empty() {
            states.forget(key, |rest| differ(rest, following));
        }
        for end in forgotten {
            states.forget(end, |_| true);
        }
        let Some(page) = following.first_chunk::<PAGE_TOKENS>() else {
            return;
        };
        key = key.after(page);
        keyed += PAGE_TOKENS;
        if !pool.is_published(&key) {
            return;
        }
    }
}

/// Whether a page that follows `before` begins with all of `rest`.
fn has_beginning(pool: &PagePool, before: Key, rest: &[u32]) -> bool {
    let found = || pool.beginning(before, rest);
    rest.is_empty() || found().is_some_and(|found| found.tokens == rest.len())
}
