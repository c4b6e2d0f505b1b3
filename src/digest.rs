//! Hex SHA-256 of texts and files: identities of gates, artifacts and answers.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Read};

/// Lower-case hex SHA-256 of `parts`, one after another.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Lower-case hex SHA-256 of all that `reader` gives.
pub(crate) fn of_reader(reader: &mut impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = reader.read(&mut buffer)?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
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
}
