//! Division of a row's keys into parts that a GPU's multiprocessors take side by side.
//!
//! Main type: [`Slots`], pure. A row by itself leaves most of a GPU idle, a long one among short ones too; and each
//! part costs a wait for its first keys and a share in the joining. So the parts of all rows have one size, the one
//! with which the last of them is done first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::launch::MOST_PARTS;

/// Keys that a block takes in one turn, with heads of 128 numbers of 2 bytes. A part is a multiple of it.
pub(super) const TURN_KEYS: usize = 64;

/// What a block waits for its first keys and joins its warps, in turns. Predicted, not measured.
const BLOCK_TURNS: usize = 3;
/// What joining a row's parts takes, in turns. Predicted, not measured.
const JOIN_TURNS: usize = 2;

/// Parts of the longest row that are tried.
const TRIED: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST_PARTS];

/// As many splits as a GPU holds at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots(pub(super) usize);

impl Slots {
    /// Parts of each row, of which one attends to so many `keys`: `most` in all, which are one a row at the least.
    pub(super) fn parts(self, keys: &[usize], most: usize) -> Vec<usize> {
        let each = self.part_keys(keys, most);
        keys.iter().map(|keys| parts(*keys, each)).collect()
    }

    /// Keys of a part.
    pub(super) fn part_keys(self, keys: &[usize], most: usize) -> usize {
        let longest = keys.iter().copied().max().unwrap_or(1);
        let whole = longest.next_multiple_of(TURN_KEYS);
        // Where the multiprocessors have several rows each, as long as this one, dividing brings nothing.
        if keys.iter().sum::<usize>() >= 4 * self.0 * longest {
            return whole;
        }
        let mut sizes = TRIED
            .map(|parts| longest.div_ceil(parts).next_multiple_of(TURN_KEYS))
            .to_vec();
        sizes.dedup();
        let fits =
            |each: &usize| keys.iter().map(|keys| parts(*keys, *each)).sum::<usize>() <= most;
        let sizes = sizes.into_iter().filter(fits);
        sizes
            .min_by_key(|each| self.turns(keys, *each))
            .unwrap_or(whole)
    }

    /// Turns until all is done, if each slot takes the next part as it gets free.
    pub(super) fn turns(self, keys: &[usize], each: usize) -> usize {
        let mut free: BinaryHeap<Reverse<usize>> = (0..self.0).map(|_| Reverse(0)).collect();
        let (mut last, mut is_joined) = (0, false);
        for keys in keys {
            let parts = parts(*keys, each);
            is_joined |= parts > 1;
            for part in 0..parts {
                let left = keys - part * each;
                let Reverse(start) = free.pop().unwrap_or_default();
                let end = start + BLOCK_TURNS + left.min(each).div_ceil(TURN_KEYS);
                free.push(Reverse(end));
                last = last.max(end);
            }
        }
        last + if is_joined { JOIN_TURNS } else { 0 }
    }
}

fn parts(keys: usize, each: usize) -> usize {
    keys.div_ceil(each).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Qwen3 with 32 query heads on 8 of keys on an H200: a block a multiprocessor, 8 blocks a split.
    const SLOTS: Slots = Slots(132 / 8);

    fn divided(keys: &[usize]) -> Vec<usize> {
        SLOTS.parts(keys, keys.len() + 4 * SLOTS.0)
    }

    #[test]
    fn one_row_is_divided_until_the_gpu_is_full() {
        let of_one = [1, 128, 256, 300, 1_024, 8_192, 40_960].map(|keys| divided(&[keys])[0]);
        assert_eq!(of_one, [1, 1, 4, 5, 16, 16, 16]);
    }

    #[test]
    fn many_alike_are_left_whole() {
        for rows in [64, 65, 2_048] {
            assert!(divided(&vec![8_192; rows]).iter().all(|parts| *parts == 1));
        }
        assert!(divided(&[128; 33]).iter().all(|parts| *parts == 1));
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        for (keys, most) in [
            (vec![40_960], 1),
            (vec![40_960], 5),
            (vec![8_192, 1, 300], 3),
            (vec![8_192, 1, 300], 40),
            (vec![1; 33], 33),
        ] {
            let parts = SLOTS.parts(&keys, most);
            assert_eq!(parts.len(), keys.len());
            assert!(parts.iter().sum::<usize>() <= most && parts.iter().all(|parts| *parts >= 1));
            assert!(parts.iter().all(|parts| *parts <= MOST_PARTS));
        }
    }
}
