//! The name of a content: a hash over all tokens up to a place.
//!
//! Main type: [`Key`]. SHA-256, so that no prompt can be made to find another's page.

use sha2::{Digest, Sha256};

use super::PAGE_TOKENS;

/// All tokens from the beginning to a place, and the salt that they are shared under. The default key
/// stands for the beginning without salt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

const SALT: u8 = 0;
const TOKENS: u8 = 1;

impl Key {
    /// The beginning for requests of one salt.
    pub fn salted(salt: &str) -> Self {
        Self::hashed(SALT, salt.as_bytes(), &[])
    }

    /// The key of the place after `tokens`, which follow `self`.
    pub fn after(self, tokens: &[u32]) -> Self {
        Self::hashed(TOKENS, &self.0, tokens)
    }

    /// `kind` keeps what is hashed for one purpose apart from all that is for another: a salt may be any
    /// bytes, those of a key and tokens too.
    fn hashed(kind: u8, bytes: &[u8], tokens: &[u32]) -> Self {
        let mut hash = Sha256::new();
        hash.update([kind]);
        hash.update(bytes);
        for token in tokens {
            hash.update(token.to_le_bytes());
        }
        Self(hash.finalize().into())
    }

    /// The keys of the ends of all full pages of `tokens`, which follow `self`.
    pub fn of_pages(self, tokens: &[u32]) -> impl Iterator<Item = Self> {
        let pages = tokens.as_chunks::<PAGE_TOKENS>().0;
        pages.iter().scan(self, |key, page| {
            *key = key.after(page);
            Some(*key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_content_position_and_salt() {
        let a: Vec<Key> = Key::default().of_pages(&[1; 48]).collect();
        assert_eq!(a.len(), 3);
        assert!(a[0] != a[1] && a[1] != a[2]);
        let mut other = [1; 48];
        other[0] = 2;
        let b: Vec<Key> = Key::default().of_pages(&other).collect();
        let c: Vec<Key> = Key::salted("mine").of_pages(&[1; 48]).collect();
        assert!(a.iter().zip(&b).all(|(a, b)| a != b));
        assert!(a.iter().zip(&c).all(|(a, c)| a != c));
        assert!(Key::salted("") != Key::default() && Key::salted("a") != Key::salted("b"));
        assert_eq!(Key::default().of_pages(&[1; 47]).count(), 2);
    }

    /// The beginning's key is 32 zero bytes, and small token ids are text.
    #[test]
    fn a_salt_that_spells_a_key_and_tokens_is_no_place_in_a_history() {
        let page = [65u32; PAGE_TOKENS];
        let salt = "\0".repeat(32) + &"A\0\0\0".repeat(PAGE_TOKENS);
        assert_ne!(Key::salted(&salt), Key::default().after(&page));
        let tagged = "\u{1}".to_owned() + &salt;
        assert_ne!(Key::salted(&tagged), Key::default().after(&page));
    }
}
