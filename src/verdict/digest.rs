//! Hex SHA-256 of texts and files: identities of gates, artifacts and answers; and the same with a key.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// Lower-case hex SHA-256 of `parts`, one after another.
pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex::encode(hash.finalize())
}

/// Lower-case hex SHA-256 of all that `reader` gives.
pub fn of_reader(reader: &mut impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = reader.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// Lower-case hex HMAC-SHA-256 (RFC 2104) of `bytes`.
pub fn keyed(key: &[u8], bytes: &[u8]) -> String {
    hex::encode(mac(key, bytes).finalize().into_bytes())
}

/// Whether `hex` is what [`keyed`] gives, in a time that tells nothing about it.
pub fn is_keyed(key: &[u8], bytes: &[u8], hex: &str) -> bool {
    hex::decode(hex).is_ok_and(|claimed| mac(key, bytes).verify_slice(&claimed).is_ok())
}

fn mac(key: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of every length: none can be refused.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key)
        .unwrap_or_else(|_| unreachable!("HMAC takes keys of every length"));
    mac.update(bytes);
    mac
}

#[cfg(test)]
mod tests {
    /// FIPS 180-2, appendix B.1: the digest of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn agrees_with_the_standard() {
        assert_eq!(super::of_parts([b"a".as_slice(), b"bc"]), ABC);
        assert_eq!(super::of_reader(&mut b"abc".as_slice()).unwrap(), ABC);
    }

    /// RFC 4231, test case 2.
    const JEFE: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

    #[test]
    fn the_keyed_digest_agrees_with_its_standard() {
        let text = b"what do ya want for nothing?";
        assert_eq!(super::keyed(b"Jefe", text), JEFE);
        assert!(super::is_keyed(b"Jefe", text, &JEFE.to_uppercase()));
        for wrong in ["", "5", "zz", &JEFE[2..], "\u{e9}\u{e9}"] {
            assert!(!super::is_keyed(b"Jefe", text, wrong), "{wrong}");
        }
        assert!(!super::is_keyed(b"jefe", text, JEFE));
    }
}
