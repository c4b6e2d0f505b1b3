//! The pool of pages: free, held by sequences, or kept for their content.
//!
//! Main type: [`PagePool`]. A full page may be published under a [`Key`], the hash of all tokens up to its
//! end; other sequences with the same history then share it. A page that nobody holds stays findable
//! until its room is needed: the one longest unused goes first. Refuses to know: sequences.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use super::{PAGE_TOKENS, PageId};

/// Content and position of a full page: a hash over its tokens and its predecessor's key. SHA-256, so
/// that no prompt can be made to find another's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of the page that holds `tokens` after `self`; the default key stands for the beginning.
    pub(crate) fn after(self, tokens: &[u32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        for token in tokens {
            hash.update(token.to_le_bytes());
        }
        Self(hash.finalize().into())
    }
}

#[derive(Clone, Copy, Default)]
struct Page {
    holders: u32,
    key: Option<Key>,
    /// When it was last let go; its place among the idle.
    idle_since: u64,
}

pub(crate) struct PagePool {
    pages: Vec<Page>,
    /// Without holders and without content worth keeping.
    free: Vec<PageId>,
    /// Without holders, but published; oldest first.
    idle: BTreeMap<u64, PageId>,
    published: HashMap<Key, PageId>,
    clock: u64,
}

impl PagePool {
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            pages: vec![Page::default(); pages],
            free: (0..pages as PageId).rev().collect(),
            idle: BTreeMap::new(),
            published: HashMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.pages.len()
    }

    /// Pages that a sequence holds.
    pub(crate) fn used(&self) -> usize {
        self.total() - self.free.len() - self.idle.len()
    }

    /// Pages that nobody holds, kept for their content.
    pub(crate) fn cached(&self) -> usize {
        self.idle.len()
    }

    /// A page of one's own; its content is old. Evicts where nothing is free; `None` when all are held.
    pub(crate) fn allocate(&mut self) -> Option<PageId> {
        let page = self.free.pop().or_else(|| self.evict())?;
        self.pages[page as usize].holders = 1;
        Some(page)
    }

    /// The published page of `key`, now held once more.
    pub(crate) fn find(&mut self, key: &Key) -> Option<PageId> {
        let page = *self.published.get(key)?;
        let state = &mut self.pages[page as usize];
        if state.holders == 0 {
            self.idle.remove(&state.idle_since);
        }
        state.holders += 1;
        Some(page)
    }

    /// Makes a held, full page findable. Where the same content is already published, nothing changes.
    pub(crate) fn publish(&mut self, page: PageId, key: Key) {
        let state = &mut self.pages[page as usize];
        if state.key.is_none() && !self.published.contains_key(&key) {
            state.key = Some(key);
            self.published.insert(key, page);
        }
    }

    /// One holder less.
    pub(crate) fn release(&mut self, page: PageId) {
        let state = &mut self.pages[page as usize];
        state.holders = state
            .holders
            .checked_sub(1)
            .expect("only held pages are released");
        if state.holders > 0 {
            return;
        }
        if state.key.is_some() {
            self.clock += 1;
            state.idle_since = self.clock;
            self.idle.insert(self.clock, page);
        } else {
            self.free.push(page);
        }
    }

    fn evict(&mut self) -> Option<PageId> {
        let (_, page) = self.idle.pop_first()?;
        if let Some(key) = self.pages[page as usize].key.take() {
            self.published.remove(&key);
        }
        Some(page)
    }
}

/// The keys of the full pages of `tokens`, in order.
pub(crate) fn keys(tokens: &[u32]) -> impl Iterator<Item = Key> {
    tokens
        .as_chunks::<PAGE_TOKENS>()
        .0
        .iter()
        .scan(Key::default(), |key, page| {
            *key = key.after(page);
            Some(*key)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_tell_content_and_position() {
        let a: Vec<Key> = keys(&[1; 48]).collect();
        assert_eq!(a.len(), 3);
        assert!(a[0] != a[1] && a[1] != a[2]);
        let mut other = [1; 48];
        other[0] = 2;
        let b: Vec<Key> = keys(&other).collect();
        assert!(a.iter().zip(&b).all(|(a, b)| a != b));
        assert_eq!(keys(&[1; 47]).count(), 2);
    }

    #[test]
    fn the_longest_unused_page_is_evicted_first() {
        let mut pool = PagePool::new(2);
        let key = |n| Key::default().after(&[n]);
        for n in 0..2 {
            let page = pool.allocate().unwrap();
            pool.publish(page, key(n));
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

    /// The pool against a plain model of who holds what: nothing leaks, nothing is given out twice, a
    /// found page is the one that was published.
    #[derive(Clone, Debug)]
    enum Step {
        Allocate,
        Find(u32),
        Publish(usize, u32),
        Release(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Allocate),
            (0u32..12).prop_map(Step::Find),
            (any::<usize>(), 0u32..12).prop_map(|(at, key)| Step::Publish(at, key)),
            any::<usize>().prop_map(Step::Release),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn no_page_leaks_and_none_is_given_out_twice(steps in steps(), size in 1usize..9) {
            let mut pool = PagePool::new(size);
            let key = |n: u32| Key::default().after(&[n]);
            let mut held: Vec<PageId> = Vec::new();
            let mut content: HashMap<PageId, u32> = HashMap::new();
            for step in steps {
                match step {
                    Step::Allocate => match pool.allocate() {
                        Some(page) => {
                            prop_assert!(!held.contains(&page));
                            content.remove(&page);
                            held.push(page);
                        }
                        None => {
                            let mut pages = held.clone();
                            pages.sort_unstable();
                            pages.dedup();
                            prop_assert_eq!(pages.len(), size);
                        }
                    },
                    Step::Find(n) => if let Some(page) = pool.find(&key(n)) {
                        prop_assert_eq!(content.get(&page), Some(&n));
                        held.push(page);
                    },
                    Step::Publish(at, n) => if !held.is_empty() {
                        let page = held[at % held.len()];
                        let taken = content.values().any(|other| *other == n);
                        if !taken {
                            content.entry(page).or_insert(n);
                        }
                        pool.publish(page, key(n));
                    },
                    Step::Release(at) => if !held.is_empty() {
                        pool.release(held.swap_remove(at % held.len()));
                    },
                }
                let mut pages = held.clone();
                pages.sort_unstable();
                pages.dedup();
                prop_assert_eq!(pool.used(), pages.len());
                prop_assert!(pool.used() + pool.cached() <= pool.total());
            }
            for page in held {
                pool.release(page);
            }
            prop_assert_eq!(pool.used(), 0);
            let all: Vec<PageId> = std::iter::from_fn(|| pool.allocate()).collect();
            prop_assert_eq!(all.len(), size);
        }
    }
}
