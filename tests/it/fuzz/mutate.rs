//! Texts a few edits away from good ones, the same for the same number.

use verdict::splitmix::mix;

/// What breaks readers: ends of ranges, wrong types, depth, parts of syntax.
const TOKENS: [&str; 28] = [
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "NaN",
    "4294967296",
    "18446744073709551616",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "\0",
    "\n",
    "\r",
    "\n\n",
    ":",
    ",",
    "=",
    "data: [DONE]\n\n",
    "漢字🦀",
];

/// Draws of one case.
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn of(case: u64) -> Self {
        Self(mix(case))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Below `bound`; 0 where there is nothing to choose.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// One to four edits of a text of the corpus.
    pub(super) fn mutant(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            self.edit(&mut bytes, corpus);
        }
        bytes
    }

    fn edit(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let most = 1 << self.below(10);
        let length = self.below(most).min(bytes.len() - at);
        let token = TOKENS[self.below(TOKENS.len())].as_bytes();
        match self.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            0 | 1 => drop(bytes.splice(at..at, token.iter().copied())),
            2 => drop(bytes.splice(at..at + length, token.iter().copied())),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let again = bytes[at..at + length].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                let part = &other[from..(from + length).min(other.len())];
                drop(bytes.splice(at..at + length, part.iter().copied()));
            }
        }
    }
}
