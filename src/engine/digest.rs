//! Hex SHA-256 of what a cached file is made of.

use sha2::{Digest, Sha256};

/// Lower-case hex SHA-256 of `parts`, one after another.
pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
