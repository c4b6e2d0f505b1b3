//! Answers that are one token over and over: well formed, of the right length, and often the sign of a broken
//! engine. An untrained model does so as well, so this is noted and no reason to void.
//!
//! Main function: [`repeats`]. Refuses to know: what follows from it.

/// From so many times on a piece is said to repeat.
const TIMES: usize = 16;

/// The longest piece in bytes that may be one token.
const PIECE: usize = 32;

/// Whether all of the text is one piece of at most 32 bytes, 16 times or more.
pub fn repeats(text: &str) -> bool {
    let bytes = text.as_bytes();
    let longest = PIECE.min(bytes.len() / TIMES);
    // A text of period n is its own shift by n.
    (1..=longest).any(|n| bytes[n..] == bytes[..bytes.len() - n])
}

#[cfg(test)]
mod tests {
    use super::repeats;

    #[test]
    fn one_piece_to_the_end() {
        let long = "x".repeat(31) + "y";
        let table = [
            ("!".repeat(16), true),
            ("!".repeat(15), false),
            (" the".repeat(16), true),
            (" the".repeat(15), false),
            // The first word of a text may lack its space.
            ("the".to_owned() + &" the".repeat(16), true),
            ("é".repeat(16), true),
            (long.repeat(16), true),
            ((long + "z").repeat(16), false),
            ("!".repeat(40) + "?", false),
            ("a".to_owned() + &"!".repeat(40), false),
            (String::new(), false),
        ];
        for (text, expect) in table {
            assert_eq!(repeats(&text), expect, "{text}");
        }
    }
}
