//! One sequence's pages in the order of its positions.
//!
//! Main type: [`PageTable`]. Where a window bounds what is attended to, pages that fall out of it are let
//! go, so that a gap opens after the sink's. Refuses to know: what the tokens mean, when they are computed.

use super::{Content, Key, PAGE_TOKENS, PageId, PagePool, Reach};

#[derive(Debug)]
pub struct PageTable {
    reach: Reach,
    pages: Vec<PageId>,
    /// Pages that are missing after the sink's.
    gap: usize,
    /// Leading pages, those of the gap among them, whose content has a key; and the last one's key.
    keyed: usize,
    key: Key,
}

/// What a backend must do before a page that was found in part can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub from: PageId,
    pub to: PageId,
}

impl PageTable {
    /// Holds nothing. `root`: the key of the beginning.
    pub fn new(root: Key, reach: Reach) -> Self {
        Self {
            reach,
            pages: Vec::new(),
            gap: 0,
            keyed: 0,
            key: root,
        }
    }

    /// Holds the published pages that a sequence needs to go on as late as possible in `tokens`, of which
    /// at least one is left to compute. Returns the table and the tokens that it covers.
    ///
    /// Where a window bounds the reach, pages of this history that no longer matter are forgotten, unless
    /// others hold them: a session of any length keeps no more than its sink and its window.
    pub fn find(pool: &mut PagePool, root: Key, reach: Reach, tokens: &[u32]) -> (Self, usize) {
        let mut table = Self::new(root, reach);
        let keys: Vec<Key> = root
            .of_pages(&tokens[..tokens.len().saturating_sub(1)])
            .collect();
        let covered = covered_pages(pool, reach, &keys);
        let sink = reach.sink_pages().min(covered);
        let first = reach.first_page(covered * PAGE_TOKENS).clamp(sink, covered);
        for key in keys[..sink].iter().chain(&keys[first..covered]) {
            let page = pool.find(key).expect("it was seen just now");
            table.pages.push(page);
        }
        for key in &keys[sink..first] {
            pool.forget(key);
        }
        table.gap = first - sink;
        table.keyed = covered;
        if let Some(last) = keys[..covered].last() {
            table.key = *last;
        }
        (table, covered * PAGE_TOKENS)
    }

    /// After [`PageTable::find`]: uses the page that begins with most of the `rest` of the tokens, of which
    /// at least one is left to compute. Returns the tokens that are covered in addition, and what is to be
    /// copied first.
    pub fn find_part(&mut self, pool: &mut PagePool, rest: &[u32]) -> (usize, Option<Copy>) {
        self.use_part(pool, rest, true)
    }

    /// The same, but the page stays findable for others.
    pub fn copy_part(&mut self, pool: &mut PagePool, rest: &[u32]) -> (usize, Option<Copy>) {
        self.use_part(pool, rest, false)
    }

    fn use_part(
        &mut self,
        pool: &mut PagePool,
        rest: &[u32],
        may_take: bool,
    ) -> (usize, Option<Copy>) {
        let wanted = &rest[..rest.len().saturating_sub(1).min(PAGE_TOKENS)];
        let Some(found) = pool.beginning(self.key, wanted) else {
            return (0, None);
        };
        if found.can_be_taken && may_take {
            pool.take(found.page);
            self.pages.push(found.page);
            return (found.tokens, None);
        }
        // Held, so that it is not evicted to make room for its own copy.
        pool.hold(found.page);
        let copy = pool.allocate();
        pool.release(found.page);
        let Some(to) = copy else {
            return (0, None);
        };
        self.pages.push(to);
        let from = found.page;
        (found.tokens, Some(Copy { from, to }))
    }

    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// The key of the leading pages that have one, and how many tokens they hold.
    pub fn keyed(&self) -> (Key, usize) {
        (self.key, self.keyed * PAGE_TOKENS)
    }

    pub fn gap(&self) -> usize {
        self.gap
    }

    /// Positions that have their place: 0..`room`, but for the gap.
    pub fn room(&self) -> usize {
        (self.pages.len() + self.gap) * PAGE_TOKENS
    }

    /// Pages that would be free if this table were released.
    pub fn own_pages(&self, pool: &PagePool) -> usize {
        let own = self.pages.iter().filter(|page| !pool.is_shared(**page));
        own.count()
    }

    /// Takes pages until positions `0..length` have their place. `false`: the pool has no more; what was
    /// taken stays.
    pub fn grow(&mut self, pool: &mut PagePool, length: usize) -> bool {
        while self.room() < length {
            let Some(page) = pool.allocate() else {
                return false;
            };
            self.pages.push(page);
        }
        true
    }

    /// Offers every full page of the computed `tokens` to the prefix cache.
    pub fn publish(&mut self, pool: &mut PagePool, tokens: &[u32]) {
        let full = tokens.as_chunks::<PAGE_TOKENS>().0;
        for tokens in &full[self.keyed.min(full.len())..] {
            let after = self.key.after(tokens);
            pool.publish(self.page(self.keyed), self.key, after, tokens);
            self.key = after;
            self.keyed += 1;
        }
    }

    /// The name of the computed `tokens`, for a snapshot of the state after them.
    pub fn content(&self, tokens: &[u32]) -> Content {
        Content::of(self.key, self.keyed, tokens)
    }

    /// Lets go of the pages that no token at `position` or later attends to.
    pub fn slide(&mut self, pool: &mut PagePool, position: usize) {
        let sink = self.reach.sink_pages();
        let first = self.reach.first_page(position);
        let out = first.saturating_sub(sink + self.gap);
        if out == 0 || self.pages.len() < sink + out {
            return;
        }
        for page in self.pages.drain(sink..sink + out) {
            pool.release_for_good(page);
        }
        self.gap += out;
    }

    /// Gives every page back, the last first: a chain is useful from its beginning, so that its end
    /// should be evicted before it. `computed`: the tokens to offer to the prefix cache, the last page's
    /// too though it is not full.
    pub fn release(mut self, pool: &mut PagePool, computed: Option<&[u32]>) {
        if let Some(tokens) = computed {
            self.publish(pool, tokens);
            let rest = &tokens[self.keyed * PAGE_TOKENS..];
            if !rest.is_empty() {
                let (page, after) = (self.page(self.keyed), self.key.after(rest));
                pool.publish(page, self.key, after, rest);
            }
        }
        for page in self.pages.into_iter().rev() {
            pool.release(page);
        }
    }

    /// The page of this index among all of the sequence's, those of the gap counted.
    fn page(&self, index: usize) -> PageId {
        match index < self.reach.sink_pages() {
            true => self.pages[index],
            false => self.pages[index - self.gap],
        }
    }
}

/// The most leading pages after which a sequence could go on: those of the sink are published, and those
/// that the next token attends to.
fn covered_pages(pool: &PagePool, reach: Reach, keys: &[Key]) -> usize {
    let published: Vec<bool> = keys.iter().map(|key| pool.is_published(key)).collect();
    let sink = published.iter().take(reach.sink_pages());
    let sink = sink.take_while(|published| **published).count();
    let sink_is_whole = sink == reach.sink_pages();
    let mut best = sink;
    // Published pages one after another up to the one that is looked at.
    let mut run = 0;
    for (index, published) in published.iter().enumerate() {
        run = if *published { run + 1 } else { 0 };
        let covered = index + 1;
        let first = reach.first_page(covered * PAGE_TOKENS).min(covered);
        if sink_is_whole && covered > sink && covered - run <= first {
            best = covered;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Window;

    fn computed(pool: &mut PagePool, tokens: &[u32]) -> PageTable {
        let mut table = PageTable::new(Key::default(), Reach::default());
        assert!(table.grow(pool, tokens.len()));
        table.publish(pool, tokens);
        table
    }

    fn find(pool: &mut PagePool, tokens: &[u32]) -> (PageTable, usize) {
        PageTable::find(pool, Key::default(), Reach::default(), tokens)
    }

    fn numbers(count: u32) -> Vec<u32> {
        (0..count).collect()
    }

    #[test]
    fn a_history_is_found_as_far_as_it_is_equal() {
        let mut pool = PagePool::new(16);
        let history = numbers(70);
        let first = computed(&mut pool, &history);
        let (same, covered) = find(&mut pool, &history);
        assert_eq!((covered, same.pages()), (64, &first.pages()[..4]));
        let (shorter, covered) = find(&mut pool, &history[..64]);
        assert_eq!(covered, 48, "one token must be left to compute");
        let mut other = history.clone();
        other[20] = 999;
        let (changed, covered) = find(&mut pool, &other);
        assert_eq!(covered, 16);
        let salted = PageTable::find(&mut pool, Key::salted("x"), Reach::default(), &history);
        assert_eq!(salted.1, 0);
        assert_eq!(pool.used(), 5);
        for table in [first, same, shorter, changed] {
            table.release(&mut pool, None);
        }
        assert_eq!((pool.used(), pool.cached()), (0, 4));
    }

    #[test]
    fn a_page_that_is_equal_in_part_is_copied_or_taken() {
        let mut pool = PagePool::new(16);
        let history = numbers(40);
        computed(&mut pool, &history).release(&mut pool, Some(&history));
        assert_eq!((pool.used(), pool.cached()), (0, 3));
        // Goes on where the history ended: the last page is taken as it is.
        let longer = numbers(60);
        let (mut table, covered) = find(&mut pool, &longer);
        let (part, copy) = table.find_part(&mut pool, &longer[covered..]);
        assert_eq!((covered, part, copy), (32, 8, None));
        // Another that branches off meanwhile finds full pages, and copies the equal half of one.
        let mut branch = numbers(60);
        branch[24] = 999;
        let (mut other, covered) = find(&mut pool, &branch);
        assert_eq!(covered, 16);
        let (part, copy) = other.find_part(&mut pool, &branch[covered..]);
        let (from, to) = (table.pages()[1], other.pages()[1]);
        assert_eq!((part, copy), (8, Some(Copy { from, to })));
        table.release(&mut pool, Some(&longer[..40]));
        other.release(&mut pool, Some(&branch[..24]));
        assert_eq!(pool.used(), 0);
        // The whole prompt was seen: one token is left to compute.
        let (mut again, covered) = find(&mut pool, &history);
        let (part, _) = again.find_part(&mut pool, &history[covered..]);
        assert_eq!(covered + part, 39);
        again.release(&mut pool, None);
    }

    #[test]
    fn a_part_that_is_copied_stays_findable() {
        let mut pool = PagePool::new(16);
        let history = numbers(40);
        computed(&mut pool, &history).release(&mut pool, Some(&history));
        let longer = numbers(60);
        for _ in 0..3 {
            let (mut table, covered) = find(&mut pool, &longer);
            let (part, copy) = table.copy_part(&mut pool, &longer[covered..]);
            assert!((covered, part) == (32, 8) && copy.is_some());
            table.release(&mut pool, None);
        }
        assert_eq!((pool.used(), pool.cached()), (0, 3));
    }

    #[test]
    fn a_full_pool_says_so_and_evicts_ends_before_beginnings() {
        let mut pool = PagePool::new(4);
        let history = numbers(64);
        computed(&mut pool, &history).release(&mut pool, Some(&history));
        let mut other = PageTable::new(Key::default(), Reach::default());
        assert!(other.grow(&mut pool, 17));
        let (mut rest, covered) = find(&mut pool, &history);
        assert_eq!(covered, 32);
        assert_eq!(rest.find_part(&mut pool, &history[32..]), (0, None));
        assert!(!other.grow(&mut pool, 64));
        rest.release(&mut pool, None);
        other.release(&mut pool, None);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn pages_found_in_the_cache_are_published_no_more() {
        let mut pool = PagePool::new(8);
        computed(&mut pool, &numbers(33)).release(&mut pool, None);
        let (mut table, covered) = find(&mut pool, &numbers(33));
        assert_eq!(covered, 32);
        let longer = numbers(50);
        assert!(table.grow(&mut pool, longer.len()));
        table.publish(&mut pool, &longer);
        table.release(&mut pool, None);
        let (again, covered) = find(&mut pool, &longer);
        assert_eq!(covered, 48);
        again.release(&mut pool, None);
    }

    #[test]
    fn a_window_keeps_its_sink_and_its_last_pages_alone() {
        let reach = Reach::new(Some(Window {
            sink: 4,
            window: 32,
        }));
        let mut pool = PagePool::new(32);
        let history = numbers(16 * 12 + 5);
        let mut table = PageTable::new(Key::default(), reach);
        for length in 1..=history.len() {
            assert!(table.grow(&mut pool, length));
            table.publish(&mut pool, &history[..length]);
            table.slide(&mut pool, length);
            assert!(pool.used() <= 1 + 3 && pool.cached() == 0, "{length}");
        }
        assert_eq!(table.gap(), 9);
        table.release(&mut pool, Some(&history));
        assert_eq!((pool.used(), pool.cached()), (0, 4));
        // The next turn goes on at the end, though the middle is gone, and lets go of what it left behind.
        let longer = numbers(16 * 12 + 40);
        let (mut next, covered) = PageTable::find(&mut pool, Key::default(), reach, &longer);
        assert_eq!((covered, next.gap(), next.pages().len()), (16 * 12, 9, 3));
        let (part, copy) = next.find_part(&mut pool, &longer[covered..]);
        assert_eq!((part, copy), (5, None));
        assert!(next.grow(&mut pool, longer.len()));
        next.publish(&mut pool, &longer);
        next.slide(&mut pool, longer.len());
        next.release(&mut pool, Some(&longer));
        assert_eq!(pool.used(), 0);
        assert!(pool.cached() <= 4, "{}", pool.cached());
        // Without its sink nothing of it is of use.
        pool.forget(&Key::default().after(&longer[..16]));
        let (none, covered) = PageTable::find(&mut pool, Key::default(), reach, &longer);
        assert_eq!(covered, 0);
        none.release(&mut pool, None);
    }
}
