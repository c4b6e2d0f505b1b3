//! Prompts from a seed: random token ids and random words.
//!
//! Which prompts repeat, and which do not:
//!
//! - Within one launch no two prompts are meant to share a prefix, warm-up included, so that a prefix
//!   cache stays cold.
//! - Token-id prompts differ from block to block and are the same in both arms of a block: the arms
//!   do the same work, and a cache that outlives a process has nothing from the blocks before. (One
//!   that the block's other arm filled would show as cached tokens in the second arm's usage.)
//! - Word prompts have the same words in every launch of a session, since their length in tokens depends on the words,
//!   but from block to block in another order behind the first: what an engine keeps on disk answers none of them.
//!   (A file's own texts are the same in every launch.)
//!
//! Refuses to know: requests, tokenizers, arms.

use super::splitmix::SplitMix64;
use verdict::plan::{PromptBlocks, Shape};

/// Keys of what is drawn beside prompts, beyond every request's index.
const ARRIVALS: u64 = 1 << 40;
const SHAPES: u64 = 1 << 41;
const ORDER: u64 = 1 << 42;
const BLOCKS: u64 = 1 << 43;
const WORD_ORDER: u64 = 1 << 44;

/// Where a launch's prompts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSeed {
    /// The session's seed, as the run record keeps it.
    pub session: u64,
    /// The launch's block: both arms of a block get the same prompts.
    pub block: u32,
}

impl PromptSeed {
    /// `count` ids from the half-open `range`, for request `index` of a workload.
    pub fn ids(self, workload: &str, index: u32, count: u32, range: (u32, u32)) -> Vec<u32> {
        let mut random = self.stream(workload, u64::from(index));
        let (low, high) = range;
        let width = u64::from(high.saturating_sub(low));
        (0..count)
            .map(|_| low + random.below(width) as u32)
            .collect()
    }

    /// `count` ids, block after block: equal blocks of a workload are equal ids.
    pub fn block_ids(
        self,
        workload: &str,
        blocks: &PromptBlocks,
        count: u32,
        (low, high): (u32, u32),
    ) -> Vec<u32> {
        let width = u64::from(high.saturating_sub(low));
        let ids = self.in_blocks(workload, blocks, |random| low + random.below(width) as u32);
        ids.take(count as usize).collect()
    }

    /// `count` words, block after block.
    pub fn block_words(self, workload: &str, blocks: &PromptBlocks, count: u32) -> String {
        let word = |random: &mut SplitMix64| WORDS[random.below(WORDS.len() as u64) as usize];
        let words = self.in_blocks(workload, blocks, word).take(count as usize);
        words.collect::<Vec<&str>>().join(" ")
    }

    /// What `draw` gives in each block in turn; the last block goes on without end.
    fn in_blocks<T>(
        self,
        workload: &str,
        blocks: &PromptBlocks,
        draw: impl Fn(&mut SplitMix64) -> T + Copy,
    ) -> impl Iterator<Item = T> {
        let block = u64::from(self.block);
        let keys = [self.session, block, fingerprint(workload), BLOCKS];
        let of = move |&id: &u64| {
            let [session, block, workload, blocks] = keys;
            let mut random = SplitMix64::keyed(&[session, block, workload, blocks, id]);
            std::iter::repeat_with(move || draw(&mut random))
        };
        let (last, before) = blocks.ids.split_last().unwrap_or((&0, &[]));
        let whole = before
            .iter()
            .flat_map(move |id| of(id).take(blocks.size as usize));
        whole.chain(of(last))
    }

    /// Uniform numbers in [0, 1) for the arrivals of a workload, the same in both arms of a block.
    pub fn gaps(self, workload: &str) -> impl Iterator<Item = f64> {
        let mut random = self.stream(workload, ARRIVALS);
        // The 53 bits that a double holds.
        std::iter::repeat_with(move || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// Shapes drawn by weight, without end.
    pub fn shapes(self, workload: &str, shapes: Vec<Shape>) -> impl Iterator<Item = Shape> + use<> {
        let mut random = self.stream(workload, SHAPES);
        let total = shapes.iter().map(|shape| u64::from(shape.weight)).sum();
        std::iter::repeat_with(move || {
            let mut drawn = random.below(total);
            let mut rest = shapes.iter();
            loop {
                let shape = rest.next().expect("weights add up to the total");
                match drawn.checked_sub(u64::from(shape.weight)) {
                    Some(left) => drawn = left,
                    None => return *shape,
                }
            }
        })
    }

    /// The order of a matrix's cells in one pass.
    pub fn order(self, workload: &str, pass: u32) -> SplitMix64 {
        self.stream(workload, ORDER + u64::from(pass))
    }

    /// The numbers of one request, by its index, or of one purpose of a workload.
    fn stream(self, workload: &str, key: u64) -> SplitMix64 {
        SplitMix64::keyed(&[
            self.session,
            u64::from(self.block),
            fingerprint(workload),
            key,
        ])
    }

    /// `count` words with single spaces between, for request or turn `index` of a workload.
    pub fn words(self, workload: &str, index: u32, count: u32) -> String {
        let mut random =
            SplitMix64::keyed(&[self.session, fingerprint(workload), u64::from(index)]);
        let mut words: Vec<&str> = (0..count)
            .map(|_| WORDS[random.below(WORDS.len() as u64) as usize])
            .collect();
        // Fisher and Yates. The first stays: without a space before it, it may be another token.
        let mut order = self.stream(workload, WORD_ORDER + u64::from(index));
        for last in (2..words.len()).rev() {
            words.swap(last, 1 + order.below(last as u64) as usize);
        }
        words.join(" ")
    }
}

/// FNV-1a, 64 bits: separates workloads whose other keys are equal.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Short common words, so that most tokenizers give each one or two tokens.
pub const WORDS: [&str; 128] = [
    "apple", "arm", "back", "ball", "bank", "base", "bear", "bed", "bell", "bird", "blue", "boat",
    "body", "bone", "book", "box", "boy", "bread", "bus", "cake", "call", "camp", "car", "card",
    "cat", "chair", "city", "class", "clock", "cloud", "coat", "cold", "cook", "corn", "cow",
    "cup", "dark", "day", "desk", "dog", "door", "dress", "drink", "duck", "ear", "east", "egg",
    "eye", "face", "farm", "fire", "fish", "floor", "food", "foot", "fruit", "game", "gate",
    "girl", "glass", "gold", "grass", "green", "hair", "hand", "hat", "head", "hill", "home",
    "horse", "house", "ice", "iron", "island", "jar", "key", "king", "knife", "lake", "lamp",
    "land", "leaf", "leg", "light", "line", "lion", "map", "mark", "meat", "milk", "moon", "mouth",
    "name", "neck", "night", "nose", "page", "paper", "park", "pen", "plant", "rain", "red",
    "rice", "ring", "river", "road", "rock", "roof", "room", "rose", "salt", "sand", "school",
    "sea", "ship", "shoe", "snow", "song", "star", "stone", "street", "sun", "table", "tree",
    "wall", "water", "wind",
];

#[cfg(test)]
mod tests {
    use super::{PromptBlocks, PromptSeed, WORDS};
    use std::collections::BTreeSet;

    const SEED: PromptSeed = PromptSeed {
        session: 5,
        block: 0,
    };

    #[test]
    fn ids_stay_in_range_and_repeat_only_with_equal_keys() {
        let ids = SEED.ids("tpot/decode", 3, 400, (10, 20));
        assert_eq!(ids.len(), 400);
        assert_eq!(
            ids.iter().copied().collect::<BTreeSet<_>>(),
            (10..20).collect()
        );
        assert_eq!(ids, SEED.ids("tpot/decode", 3, 400, (10, 20)));
        assert_ne!(ids, SEED.ids("tpot/decode", 4, 400, (10, 20)));
        assert_ne!(ids, SEED.ids("tpot/other", 3, 400, (10, 20)));
        let later = PromptSeed { block: 1, ..SEED };
        assert_ne!(ids, later.ids("tpot/decode", 3, 400, (10, 20)));
        let reseeded = PromptSeed { session: 6, ..SEED };
        assert_ne!(ids, reseeded.ids("tpot/decode", 3, 400, (10, 20)));
    }

    #[test]
    fn prompts_of_one_launch_part_at_once() {
        let heads: BTreeSet<Vec<u32>> = (0..500)
            .map(|index| SEED.ids("tpot/decode", index, 16, (0, 1_000))[..4].to_vec())
            .collect();
        assert_eq!(heads.len(), 500);
    }

    #[test]
    fn words_are_counted_and_in_every_block_the_same_in_another_order() {
        let words = SEED.words("drift/chat", 2, 40);
        assert_eq!(words.split(' ').count(), 40);
        assert!(words.split(' ').all(|word| WORDS.contains(&word)));
        let later = PromptSeed { block: 9, ..SEED };
        let again = later.words("drift/chat", 2, 40);
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(sorted(&words), sorted(&again));
        assert_eq!(words.split(' ').next(), again.split(' ').next());
        // Three words in a row are alike by chance once in some thousand.
        let alike = words
            .split(' ')
            .zip(again.split(' '))
            .skip(1)
            .filter(|(a, b)| a == b);
        assert!(alike.count() < 8, "{words}\n{again}");
        assert_eq!(words, SEED.words("drift/chat", 2, 40));
        assert_ne!(words, SEED.words("drift/chat", 3, 40));
        assert_eq!(SEED.words("drift/chat", 0, 0), "");
    }

    #[test]
    fn equal_blocks_are_equal_tokens() {
        let blocks = |ids: &[u64]| PromptBlocks {
            ids: ids.to_vec(),
            size: 16,
        };
        let ids =
            |blocks_of: &[u64], count| SEED.block_ids("t/w", &blocks(blocks_of), count, (0, 900));
        let (a, b) = (ids(&[7, 8, 9], 40), ids(&[7, 8, 5], 44));
        assert_eq!((a.len(), b.len()), (40, 44));
        assert_eq!(a[..32], b[..32]);
        assert_ne!(a[32..40], b[32..40]);
        assert_eq!(ids(&[8], 16), a[16..32]);
        let words = |of: &[u64], count| SEED.block_words("t/w", &blocks(of), count);
        let (a, b) = (words(&[7, 8], 30), words(&[7, 6], 30));
        let shared = |text: &str| text.split(' ').take(16).collect::<Vec<_>>().join(" ");
        assert_eq!(shared(&a), shared(&b));
        assert_ne!(a, b);
        assert_eq!(words(&[7], 20).split(' ').count(), 20);
    }

    #[test]
    fn every_word_is_there_once() {
        assert_eq!(WORDS.iter().collect::<BTreeSet<_>>().len(), WORDS.len());
    }
}
