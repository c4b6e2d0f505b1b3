//! Recurrent states of hybrid models: one for each running sequence, and snapshots kept for their content.
//!
//! Main type: [`StatePool`]. A snapshot is the state after a content: the [`Key`] of its full pages, and the
//! tokens behind them. Where a snapshot needs room, the one longest unused goes first. Refuses to know: what
//! a state holds, sequences.

use std::collections::{BTreeMap, HashMap};

use super::{Key, PAGE_TOKENS};

/// A state's number, from 0.
pub type StateId = u32;

/// What was computed when a state was as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Of all full pages.
    pub pages: Key,
    /// Tokens after them, fewer than a page.
    pub rest: Box<[u32]>,
}

struct Snapshot {
    rest: Box<[u32]>,
    state: StateId,
    last_use: u64,
}

/// A model without recurrent states has an empty pool.
#[derive(Default)]
pub struct StatePool {
    free: Vec<StateId>,
    snapshots: HashMap<Key, Vec<Snapshot>>,
    /// When each snapshot was last used, oldest first, and the key that it is found by.
    uses: BTreeMap<u64, Key>,
    /// Snapshots at the most, and states that are being filled to become one.
    most: usize,
    reserved: usize,
    clock: u64,
}

impl StatePool {
    /// States for `running` sequences and `most` snapshots.
    pub fn new(running: usize, most: usize) -> Self {
        Self {
            free: (0..(running + most) as StateId).rev().collect(),
            most,
            ..Self::default()
        }
    }

    /// Snapshots that are kept.
    pub fn kept(&self) -> usize {
        self.uses.len()
    }

    /// States that nobody has.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// A state of one's own; its numbers are old. There is one for each sequence that may run.
    pub fn take(&mut self) -> Option<StateId> {
        self.free.pop()
    }

    /// Nobody needs its numbers.
    pub fn release(&mut self, state: StateId) {
        self.free.push(state);
    }

    /// Room for a snapshot that a step will fill: to be kept, or cancelled. `None`: no snapshots are kept.
    pub fn reserve(&mut self) -> Option<StateId> {
        if self.reserved >= self.most {
            return None;
        }
        self.make_room();
        self.reserved += 1;
        self.free.pop()
    }

    /// The reserved state was filled.
    pub fn keep_reserved(&mut self, state: StateId, content: Content) {
        self.reserved -= 1;
        self.keep(state, content);
    }

    pub fn cancel(&mut self, state: StateId) {
        self.reserved -= 1;
        self.release(state);
    }

    /// A sequence's own state becomes a snapshot.
    pub fn keep(&mut self, state: StateId, content: Content) {
        if self.find(&content).is_some() || self.most == 0 {
            return self.release(state);
        }
        self.make_room();
        self.clock += 1;
        self.uses.insert(self.clock, content.pages);
        let snapshots = self.snapshots.entry(content.pages).or_default();
        snapshots.push(Snapshot {
            rest: content.rest,
            state,
            last_use: self.clock,
        });
    }

    /// Lengths of what the snapshots after these pages have computed of the tokens that follow, longest first.
    pub fn lengths(&self, pages: Key, following: &[u32]) -> Vec<usize> {
        let snapshots = self.snapshots.get(&pages).into_iter().flatten();
        let fitting = snapshots.filter(|snapshot| following.starts_with(&snapshot.rest));
        let mut lengths: Vec<usize> = fitting.map(|snapshot| snapshot.rest.len()).collect();
        lengths.sort_by_key(|length| std::cmp::Reverse(*length));
        lengths
    }

    /// The snapshot after exactly this content, now used last of all. It stays until another is kept.
    pub fn find(&mut self, content: &Content) -> Option<StateId> {
        let mut snapshots = self.snapshots.get_mut(&content.pages)?.iter_mut();
        let snapshot = snapshots.find(|it| it.rest == content.rest)?;
        self.clock += 1;
        self.uses.remove(&snapshot.last_use);
        self.uses.insert(self.clock, content.pages);
        snapshot.last_use = self.clock;
        Some(snapshot.state)
    }

    /// Drops the snapshots after these pages whose tokens after them are such.
    pub fn forget(&mut self, pages: Key, is_such: impl Fn(&[u32]) -> bool) {
        let Some(snapshots) = self.snapshots.get_mut(&pages) else {
            return;
        };
        for gone in snapshots.extract_if(.., |it| is_such(&it.rest)) {
            self.uses.remove(&gone.last_use);
            self.free.push(gone.state);
        }
        if snapshots.is_empty() {
            self.snapshots.remove(&pages);
        }
    }

    /// A planted fault: another snapshot than this one, the last used of them, if there is one.
    pub fn another(&self, than: StateId) -> StateId {
        let others = self.snapshots.values().flatten();
        let others = others.filter(|snapshot| snapshot.state != than);
        let last = others.max_by_key(|snapshot| snapshot.last_use);
        last.map_or(than, |snapshot| snapshot.state)
    }

    /// One snapshot more may be kept: the one longest unused goes where there are too many.
    fn make_room(&mut self) {
        if self.kept() + self.reserved < self.most {
            return;
        }
        let Some((last_use, pages)) = self.uses.pop_first() else {
            return;
        };
        let Some(snapshots) = self.snapshots.get_mut(&pages) else {
            return;
        };
        for gone in snapshots.extract_if(.., |it| it.last_use == last_use) {
            self.free.push(gone.state);
        }
        if snapshots.is_empty() {
            self.snapshots.remove(&pages);
        }
    }
}

impl Content {
    /// All of `tokens`, whose first `keyed` full pages end at `key`.
    pub fn of(key: Key, keyed: usize, tokens: &[u32]) -> Self {
        let (full, rest) = tokens.as_chunks::<PAGE_TOKENS>();
        let later = full[keyed.min(full.len())..].iter();
        Self {
            pages: later.fold(key, |key, page| key.after(page)),
            rest: rest.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(tokens: &[u32]) -> Content {
        Content::of(Key::default(), 0, tokens)
    }

    fn numbers(count: u32) -> Vec<u32> {
        (0..count).collect()
    }

    #[test]
    fn a_content_is_the_same_from_wherever_it_is_counted() {
        let tokens = numbers(53);
        let keys: Vec<Key> = Key::default().of_pages(&tokens).collect();
        let whole = content(&tokens);
        assert_eq!((whole.pages, whole.rest.len()), (keys[2], 5));
        for keyed in 1..=3 {
            assert_eq!(Content::of(keys[keyed - 1], keyed, &tokens), whole);
        }
        assert_eq!(content(&tokens[..48]).rest.len(), 0);
    }

    #[test]
    fn snapshots_are_found_by_what_was_computed() {
        let mut pool = StatePool::new(1, 4);
        let tokens = numbers(40);
        for length in [16, 20, 23, 32] {
            let state = pool.reserve().unwrap();
            pool.keep_reserved(state, content(&tokens[..length]));
        }
        let first = content(&tokens[..16]).pages;
        assert_eq!(pool.lengths(first, &tokens[16..]), [7, 4, 0]);
        assert_eq!(pool.lengths(first, &tokens[16..22]), [4, 0]);
        assert_eq!(pool.lengths(first, &[999]), [0]);
        assert!(pool.lengths(Key::default(), &tokens).is_empty());
        let found: Vec<StateId> = [16, 20, 23, 32]
            .map(|length| pool.find(&content(&tokens[..length])).unwrap())
            .into();
        assert_eq!(found, [0, 1, 2, 3]);
        assert_eq!(pool.find(&content(&tokens[..24])), None);
    }

    #[test]
    fn the_one_longest_unused_makes_room() {
        let mut pool = StatePool::new(2, 2);
        let own = pool.take().unwrap();
        for first in [1, 2] {
            let state = pool.reserve().unwrap();
            pool.keep_reserved(state, content(&[first]));
        }
        assert!(pool.find(&content(&[1])).is_some());
        pool.keep(own, content(&[3]));
        assert_eq!(pool.kept(), 2);
        assert!(pool.find(&content(&[2])).is_none());
        assert!(pool.find(&content(&[1])).is_some() && pool.find(&content(&[3])).is_some());
        // What is known already takes no room.
        let again = pool.take().unwrap();
        pool.keep(again, content(&[3]));
        assert_eq!((pool.kept(), pool.free.len()), (2, 2));
    }

    #[test]
    fn running_sequences_always_have_a_state() {
        let mut pool = StatePool::new(3, 2);
        let own: Vec<StateId> = (0..3).map(|_| pool.take().unwrap()).collect();
        let reserved = [pool.reserve().unwrap(), pool.reserve().unwrap()];
        assert_eq!((pool.reserve(), pool.take()), (None, None));
        pool.cancel(reserved[0]);
        pool.keep_reserved(reserved[1], content(&[7]));
        for (at, state) in own.into_iter().enumerate() {
            pool.keep(state, content(&[at as u32]));
        }
        let all: Vec<_> = (0..3).map(|_| pool.take()).collect();
        assert!(all.iter().all(Option::is_some), "{all:?}");
        let mut none = StatePool::new(1, 0);
        assert!(none.reserve().is_none());
        let own = none.take().unwrap();
        none.keep(own, content(&[1]));
        assert_eq!((none.kept(), none.take()), (0, Some(own)));
    }
}
