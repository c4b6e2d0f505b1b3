//! The pool of pages: free, held by sequences, or kept for their content.
//!
//! Main type: [`PagePool`]. A page may be published with its content: the [`Key`] of all that stands
//! before it, and its own tokens; other sequences with the same history then share it, or copy its
//! beginning. A page that nobody holds stays findable until its room is needed: the one longest unused
//! goes first. Refuses to know: sequences.

use std::collections::{BTreeMap, HashMap};

use super::{Key, PAGE_TOKENS, PageId};

#[derive(Default)]
struct PoolPage {
    holders: u32,
    content: Option<Content>,
    /// When it was last let go; its place among the idle.
    idle_since: u64,
}

struct Content {
    before: Key,
    after: Key,
    /// At most [`PAGE_TOKENS`], at least one.
    tokens: Box<[u32]>,
}

pub struct PagePool {
    pages: Vec<PoolPage>,
    /// Without holders and without content worth keeping.
    free: Vec<PageId>,
    /// Without holders, but published; oldest first.
    idle: BTreeMap<u64, PageId>,
    /// By the key of the page's end.
    published: HashMap<Key, PageId>,
    /// By the key of the page's beginning and its first token.
    following: BTreeMap<(Key, u32), Vec<PageId>>,
    clock: u64,
}

/// A published page whose first tokens are those that were looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    pub page: PageId,
    /// Tokens that are equal.
    pub tokens: usize,
    /// These are all that it holds, nobody else holds it, and there is room in it for more: it may be
    /// taken and written on.
    pub can_be_taken: bool,
}

impl PagePool {
    pub fn new(pages: usize) -> Self {
        Self {
            pages: std::iter::repeat_with(PoolPage::default)
                .take(pages)
                .collect(),
            free: (0..pages as PageId).rev().collect(),
            idle: BTreeMap::new(),
            published: HashMap::new(),
            following: BTreeMap::new(),
            clock: 0,
        }
    }

    pub fn total(&self) -> usize {
        self.pages.len()
    }

    /// Pages that a sequence holds.
    pub fn used(&self) -> usize {
        self.total() - self.available()
    }

    /// Pages that nobody holds, kept for their content.
    pub fn cached(&self) -> usize {
        self.idle.len()
    }

    /// Pages that [`PagePool::allocate`] could give out one after another.
    pub fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// Whether it stays held if one holder lets go.
    pub fn is_shared(&self, page: PageId) -> bool {
        self.pages[page as usize].holders > 1
    }

    pub fn is_published(&self, key: &Key) -> bool {
        self.published.contains_key(key)
    }

    /// A page of one's own; its content is old. Evicts where nothing is free; `None` when all are held.
    pub fn allocate(&mut self) -> Option<PageId> {
        let page = self.free.pop().or_else(|| self.evict())?;
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    /// The published page that ends at `key`, now held once more.
    pub fn find(&mut self, key: &Key) -> Option<PageId> {
        let page = *self.published.get(key)?;
        self.hold(page);
        Some(page)
    }

    /// The published page that follows `before` and has most of the first `tokens`. Not held.
    pub fn beginning(&self, before: Key, tokens: &[u32]) -> Option<Beginning> {
        let candidates = self.following.get(&(before, *tokens.first()?))?;
        let equal = |page: &PageId| {
            let content = self.pages[*page as usize].content.as_ref()?;
            let equal = content
                .tokens
                .iter()
                .zip(tokens)
                .take_while(|(a, b)| a == b);
            Some((equal.count(), *page))
        };
        let (count, page) = candidates.iter().filter_map(equal).max()?;
        let state = &self.pages[page as usize];
        let length = state
            .content
            .as_ref()
            .map_or(0, |content| content.tokens.len());
        Some(Beginning {
            page,
            tokens: count,
            can_be_taken: count == length && length < PAGE_TOKENS && state.holders == 0,
        })
    }

    pub fn hold(&mut self, page: PageId) {
        let state = &mut self.pages[page as usize];
        if state.holders == 0 {
            self.idle.remove(&state.idle_since);
        }
        state.holders += 1;
    }

    /// Holds a published page that nobody else holds, and takes it off the list: its holder may write.
    pub fn take(&mut self, page: PageId) {
        debug_assert_eq!(self.pages[page as usize].holders, 0);
        self.hold(page);
        self.withdraw(page);
    }

    /// Makes a held page findable: `tokens`, at most a page of them, follow `before` and end at `after`.
    /// Where the same content is already published, nothing changes.
    pub fn publish(&mut self, page: PageId, before: Key, after: Key, tokens: &[u32]) {
        let state = &mut self.pages[page as usize];
        if tokens.is_empty() || state.content.is_some() || self.published.contains_key(&after) {
            return;
        }
        state.content = Some(Content {
            before,
            after,
            tokens: tokens.into(),
        });
        self.published.insert(after, page);
        let place = (before, tokens[0]);
        self.following.entry(place).or_default().push(page);
    }

    /// One holder less.
    pub fn release(&mut self, page: PageId) {
        let state = &mut self.pages[page as usize];
        state.holders = state
            .holders
            .checked_sub(1)
            .expect("only held pages are released");
        if state.holders > 0 {
            return;
        }
        if state.content.is_some() {
            self.clock += 1;
            state.idle_since = self.clock;
            self.idle.insert(self.clock, page);
        } else {
            self.free.push(page);
        }
    }

    /// As [`PagePool::release`], but without keeping its content: it will not be asked for again.
    pub fn release_for_good(&mut self, page: PageId) {
        if !self.is_shared(page) {
            self.withdraw(page);
        }
        self.release(page);
    }

    /// Frees the page that ends at `key`, if nobody holds it: its content will not be asked for again.
    pub fn forget(&mut self, key: &Key) {
        let Some(&page) = self.published.get(key) else {
            return;
        };
        let state = &self.pages[page as usize];
        if state.holders == 0 {
            self.idle.remove(&state.idle_since);
            self.withdraw(page);
            self.free.push(page);
        }
    }

    /// The same of the pages after `before` that are filled in part, with tokens that `following` begins with.
    pub fn forget_parts(&mut self, before: Key, following: &[u32]) {
        let Some(first) = following.first() else {
            return;
        };
        let pages = self.following.get(&(before, *first));
        let parts: Vec<Key> = pages
            .into_iter()
            .flatten()
            .filter_map(|page| self.pages[*page as usize].content.as_ref())
            .filter(|content| content.tokens.len() < PAGE_TOKENS)
            .filter(|content| following.starts_with(&content.tokens))
            .map(|content| content.after)
            .collect();
        for part in parts {
            self.forget(&part);
        }
    }

    /// The same of the page after `before` whose tokens differ from those of `following`, and of all pages behind it, up to
    /// one that somebody holds. Where they fork they may be several users', and all stay. Returns the keys of the ends of what
    /// is forgotten.
    pub fn forget_branch(&mut self, before: Key, following: &[u32]) -> Vec<Key> {
        let mut ends = Vec::new();
        let mut level = self.after(before);
        level.retain(|(content, _)| differ(&content.tokens, following));
        while let Some(&(longest, is_held)) = level.iter().max_by_key(|(it, _)| it.tokens.len()) {
            let is_other = |(it, _): &(&Content, bool)| differ(&it.tokens, &longest.tokens);
            if level.iter().any(is_other) {
                return Vec::new();
            }
            // A page filled in part may lie beside a fuller one with the same tokens.
            ends.extend(level.iter().map(|(content, _)| content.after));
            level = match is_held {
                true => Vec::new(),
                false => self.after(longest.after),
            };
        }
        ends.iter().for_each(|end| self.forget(end));
        ends.retain(|end| !self.is_published(end));
        ends
    }

    /// The published pages after `before`, and whether somebody holds each.
    fn after(&self, before: Key) -> Vec<(&Content, bool)> {
        let pages = self.following.range((before, 0)..=(before, u32::MAX));
        let pages = pages.flat_map(|(_, pages)| pages);
        pages
            .map(|page| &self.pages[*page as usize])
            .filter_map(|page| Some((page.content.as_ref()?, page.holders > 0)))
            .collect()
    }

    fn evict(&mut self) -> Option<PageId> {
        let (_, page) = self.idle.pop_first()?;
        self.withdraw(page);
        Some(page)
    }

    /// Nobody will find it any more.
    fn withdraw(&mut self, page: PageId) {
        let Some(content) = self.pages[page as usize].content.take() else {
            return;
        };
        self.published.remove(&content.after);
        let place = (content.before, content.tokens[0]);
        if let Some(pages) = self.following.get_mut(&place) {
            pages.retain(|other| *other != page);
            if pages.is_empty() {
                self.following.remove(&place);
            }
        }
    }
}

/// True if `a` and `b` differ in a position that both have.
pub fn differ(a: &[u32], b: &[u32]) -> bool {
    a.iter().zip(b).any(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u32) -> Key {
        Key::default().after(&[n])
    }

    /// Publishes a page of one token after the beginning.
    fn publish(pool: &mut PagePool, page: PageId, n: u32) {
        pool.publish(page, Key::default(), key(n), &[n]);
    }

    #[test]
    fn the_longest_unused_page_is_evicted_first() {
        let mut pool = PagePool::new(2);
        for n in 0..2 {
            let page = pool.allocate().unwrap();
            publish(&mut pool, page, n);
            pool.release(page);
        }
        let found = pool.find(&key(0)).unwrap();
        pool.release(found);
        assert_eq!((pool.used(), pool.cached()), (0, 2));
        let taken = pool.allocate().unwrap();
        assert!(pool.find(&key(1)).is_none());
        assert_eq!(pool.find(&key(0)), Some(found));
        assert!(taken != found && pool.allocate().is_none());
    }

    #[test]
    fn the_page_with_most_equal_tokens_is_found() {
        let mut pool = PagePool::new(4);
        let mut add = |tokens: &[u32]| {
            let page = pool.allocate().unwrap();
            pool.publish(page, Key::default(), Key::default().after(tokens), tokens);
            page
        };
        let (short, long) = (add(&[1, 2]), add(&[1, 2, 3, 4]));
        pool.release(short);
        let check = |pool: &PagePool, tokens: &[u32], expect: Option<(PageId, usize, bool)>| {
            let found = pool.beginning(Key::default(), tokens);
            let found = found.map(|found| (found.page, found.tokens, found.can_be_taken));
            assert_eq!(found, expect, "{tokens:?}");
        };
        check(&pool, &[1, 2, 3, 9], Some((long, 3, false)));
        check(&pool, &[1, 2, 3, 4, 5], Some((long, 4, false)));
        check(&pool, &[9], None);
        check(&pool, &[], None);
        pool.release(long);
        check(&pool, &[1, 2, 3, 4, 5], Some((long, 4, true)));
        pool.take(long);
        check(&pool, &[1, 2, 3, 4, 5], Some((short, 2, true)));
        pool.forget(&Key::default().after(&[1, 2]));
        check(&pool, &[1, 2, 3], None);
        assert_eq!((pool.used(), pool.cached()), (1, 0));
    }

    /// Below one history: an answer of two pages, and one with the same beginning.
    #[test]
    fn what_went_on_otherwise_is_forgotten() {
        let history = key(0);
        let add = |pool: &mut PagePool, before: Key, tokens: &[u32]| {
            let (page, after) = (pool.allocate().unwrap(), before.after(tokens));
            pool.publish(page, before, after, tokens);
            (page, after)
        };
        let mut pool = PagePool::new(8);
        let (other, other_end) = add(&mut pool, history, &[5, 6]);
        let (behind, behind_end) = add(&mut pool, other_end, &[7]);
        let (same, _) = add(&mut pool, history, &[1, 2, 3, 4]);
        let (held, held_end) = add(&mut pool, behind_end, &[8]);
        for page in [other, behind, same] {
            pool.release(page);
        }
        assert_eq!(
            pool.forget_branch(history, &[1, 2, 3]),
            [other_end, behind_end]
        );
        // What is longer is no other.
        assert!(pool.beginning(history, &[1, 2, 3]).is_some());
        assert!(pool.is_published(&held_end));
        assert_eq!((pool.used(), pool.cached()), (1, 1));
        pool.release(held);
        // Two that go on after a common page may be two users'.
        let (common, common_end) = add(&mut pool, history, &[5, 6]);
        pool.release(common);
        for tokens in [[7], [8]] {
            let (page, _) = add(&mut pool, common_end, &tokens);
            pool.release(page);
        }
        assert!(pool.forget_branch(history, &[1, 2, 3]).is_empty());
        assert!(pool.forget_branch(common_end, &[9]).is_empty());
        assert_eq!(pool.cached(), 5);
        // One that begins as another does is the same way.
        assert_eq!(pool.forget_branch(common_end, &[7]).len(), 1);
        let (page, _) = add(&mut pool, common_end, &[7, 1]);
        pool.release(page);
        assert_eq!(pool.forget_branch(history, &[1, 2, 3]).len(), 3);
    }

    /// The pool against a plain model of who holds what: nothing leaks, nothing is given out twice, a
    /// found page is the one that was published.
    #[derive(Clone, Debug)]
    enum RandomStep {
        Allocate,
        Find(u32),
        Take(u32),
        Publish(usize, u32),
        Release(usize),
        Forget(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
        let step = prop_oneof![
            Just(RandomStep::Allocate),
            (0u32..12).prop_map(RandomStep::Find),
            (0u32..12).prop_map(RandomStep::Take),
            (any::<usize>(), 0u32..12).prop_map(|(at, key)| RandomStep::Publish(at, key)),
            any::<usize>().prop_map(RandomStep::Release),
            (0u32..12).prop_map(RandomStep::Forget),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn no_page_leaks_and_none_is_given_out_twice(steps in steps(), size in 1usize..9) {
            let mut pool = PagePool::new(size);
            let mut held: Vec<PageId> = Vec::new();
            let mut content: HashMap<PageId, u32> = HashMap::new();
            for step in steps {
                match step {
                    RandomStep::Allocate => match pool.allocate() {
                        Some(page) => {
                            prop_assert!(!held.contains(&page));
                            content.remove(&page);
                            held.push(page);
                        }
                        None => prop_assert_eq!(distinct(&held), size),
                    },
                    RandomStep::Find(n) => if let Some(page) = pool.find(&key(n)) {
                        prop_assert_eq!(content.get(&page), Some(&n));
                        held.push(page);
                    },
                    RandomStep::Take(n) => if let Some(found) = pool.beginning(Key::default(), &[n, 99]) {
                        prop_assert_eq!(content.get(&found.page), Some(&n));
                        prop_assert_eq!(found.can_be_taken, !held.contains(&found.page));
                        if found.can_be_taken {
                            pool.take(found.page);
                            content.remove(&found.page);
                            held.push(found.page);
                        }
                    },
                    RandomStep::Publish(at, n) => if !held.is_empty() {
                        let page = held[at % held.len()];
                        let taken = content.values().any(|other| *other == n);
                        if !taken {
                            content.entry(page).or_insert(n);
                        }
                        publish(&mut pool, page, n);
                    },
                    RandomStep::Release(at) => if !held.is_empty() {
                        pool.release(held.swap_remove(at % held.len()));
                    },
                    RandomStep::Forget(n) => {
                        pool.forget(&key(n));
                        content.retain(|page, other| *other != n || held.contains(page));
                    }
                }
                prop_assert_eq!(pool.used(), distinct(&held));
                prop_assert!(pool.used() + pool.cached() <= pool.total());
            }
            for page in held {
                pool.release(page);
            }
            prop_assert_eq!(pool.used(), 0);
            let all: Vec<PageId> = std::iter::from_fn(|| pool.allocate()).collect();
            prop_assert_eq!(all.len(), size);
            prop_assert!(pool.published.is_empty() && pool.following.is_empty());
        }
    }

    fn distinct(pages: &[PageId]) -> usize {
        let mut pages = pages.to_vec();
        pages.sort_unstable();
        pages.dedup();
        pages.len()
    }
}
