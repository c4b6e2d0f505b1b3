//! One sequence's pages in the order of its positions.
//!
//! Main type: [`PageTable`]. Refuses to know: what the tokens mean, when they are computed.

use super::pool::{self, Key};
use super::{PAGE_TOKENS, PageId, PagePool};

#[derive(Debug, Default)]
pub(crate) struct PageTable {
    pages: Vec<PageId>,
    /// Leading pages that are in the prefix cache (found there or offered to it), and the last one's key.
    published: usize,
    key: Key,
}

impl PageTable {
    /// Holds the longest cached run of pages that begin `tokens`, but leaves at least one token to
    /// compute. Returns the table and the tokens that it covers.
    pub(crate) fn find(pool: &mut PagePool, tokens: &[u32]) -> (Self, usize) {
        let mut table = Self::default();
        for key in pool::keys(&tokens[..tokens.len().saturating_sub(1)]) {
            let Some(page) = pool.find(&key) else { break };
            table.pages.push(page);
            table.published += 1;
            table.key = key;
        }
        let covered = table.pages.len() * PAGE_TOKENS;
        (table, covered)
    }

    pub(crate) fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Takes pages until positions `0..length` have their place. `false`: the pool has no more; what was
    /// taken stays.
    pub(crate) fn grow(&mut self, pool: &mut PagePool, length: usize) -> bool {
        while self.pages.len() * PAGE_TOKENS < length {
            let Some(page) = pool.allocate() else {
                return false;
            };
            self.pages.push(page);
        }
        true
    }

    /// Offers every full page of the computed `tokens` to the prefix cache.
    pub(crate) fn publish(&mut self, pool: &mut PagePool, tokens: &[u32]) {
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        for (page, tokens) in self.pages.iter().zip(full).skip(self.published) {
            self.key = self.key.after(tokens);
            pool.publish(*page, self.key);
            self.published += 1;
        }
    }

    /// Gives every page back, the last first: a chain is useful from its beginning, so that its end
    /// should be evicted before it.
    pub(crate) fn release(self, pool: &mut PagePool) {
        for page in self.pages.into_iter().rev() {
            pool.release(page);
        }
    }
}

/// Pages that `tokens` positions need.
pub(crate) fn pages_for(tokens: usize) -> usize {
    tokens.div_ceil(PAGE_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(pool: &mut PagePool, tokens: &[u32]) -> PageTable {
        let mut table = PageTable::default();
        assert!(table.grow(pool, tokens.len()));
        table.publish(pool, tokens);
        table
    }

    #[test]
    fn a_history_is_found_as_far_as_it_is_equal() {
        let mut pool = PagePool::new(16);
        let history: Vec<u32> = (0..70).collect();
        let first = computed(&mut pool, &history);
        let (same, covered) = PageTable::find(&mut pool, &history);
        assert_eq!((covered, same.pages()), (64, &first.pages()[..4]));
        let (shorter, covered) = PageTable::find(&mut pool, &history[..64]);
        assert_eq!(covered, 48, "one token must be left to compute");
        let mut other = history.clone();
        other[20] = 999;
        let (changed, covered) = PageTable::find(&mut pool, &other);
        assert_eq!(covered, 16);
        assert_eq!(pool.used(), 5);
        for table in [first, same, shorter, changed] {
            table.release(&mut pool);
        }
        assert_eq!((pool.used(), pool.cached()), (0, 4));
    }

    #[test]
    fn a_full_pool_says_so_and_evicts_ends_before_beginnings() {
        let mut pool = PagePool::new(4);
        let history: Vec<u32> = (0..64).collect();
        computed(&mut pool, &history).release(&mut pool);
        let mut other = PageTable::default();
        assert!(other.grow(&mut pool, 17));
        let (rest, covered) = PageTable::find(&mut pool, &history);
        assert_eq!(covered, 32);
        assert!(!other.grow(&mut pool, 64));
        rest.release(&mut pool);
        other.release(&mut pool);
        assert_eq!(pool.used(), 0);
        assert_eq!(pages_for(17), 2);
    }

    #[test]
    fn pages_found_in_the_cache_are_published_no_more() {
        let mut pool = PagePool::new(8);
        let history: Vec<u32> = (0..33).collect();
        computed(&mut pool, &history).release(&mut pool);
        let (mut table, covered) = PageTable::find(&mut pool, &history);
        assert_eq!(covered, 32);
        let longer: Vec<u32> = (0..50).collect();
        assert!(table.grow(&mut pool, longer.len()));
        table.publish(&mut pool, &longer);
        table.release(&mut pool);
        let (again, covered) = PageTable::find(&mut pool, &longer);
        assert_eq!(covered, 48);
        again.release(&mut pool);
    }
}
