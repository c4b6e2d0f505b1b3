//! HTTP framing followed byte by byte, to know whether more of an answer must come.
//!
//! Main type: [`Framing`]. It decides nothing but how long hyper may be left alone: hyper reads every
//! byte later, and what it says counts. So anything unusual is [`Framing::Unknown`], and hyper is asked.
//!
//! Refuses to know: what the body says, time.

/// Longest head that is followed.
const LONGEST: usize = 16 * 1024;

/// Most digits of a chunk's size that are followed.
const MOST_DIGITS: u8 = 8;

/// Bytes that end a line.
const LINE_END: usize = 2;

/// Where in an answer its bytes so far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// In the head, of which these bytes came.
    Head(Vec<u8>),
    /// In the line with a chunk's size.
    Size(Size),
    /// So many bytes of a chunk and of its line end are still to come.
    Chunk(usize),
    /// The end came, or the framing is not one that is followed here.
    Unknown,
}

/// What came of a line with a chunk's size. It needs no memory of its own, for it comes with every token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    digits: u8,
    value: usize,
    /// The line's end has begun.
    ending: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

impl Framing {
    /// Within a chunked body, so that more must come.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Size(_) | Self::Chunk(_))
    }

    /// Follows the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            let used = match self {
                Self::Head(head) => line(head, bytes, b"\r\n\r\n"),
                Self::Size(size) => size.push(*first).then_some(1),
                Self::Chunk(rest) => {
                    let used = bytes.len().min(*rest);
                    *rest -= used;
                    Some(used)
                }
                Self::Unknown => return,
            };
            let Some(used) = used else {
                *self = Self::Unknown;
                return;
            };
            // A size's line end is what turns it, and it is the byte just used.
            self.turn(bytes[used - 1]);
            bytes = &bytes[used..];
        }
    }

    /// Goes on to the next part where one is complete with the byte `last`.
    fn turn(&mut self, last: u8) {
        let next = match self {
            Self::Head(head) if head.ends_with(b"\r\n\r\n") => after_head(head),
            Self::Size(size) if last == b'\n' => size.chunk(),
            Self::Chunk(0) => Self::Size(Size::default()),
            _ => return,
        };
        *self = next;
    }
}

impl Size {
    /// Whether this byte may come next.
    fn push(&mut self, byte: u8) -> bool {
        match (byte, char::from(byte).to_digit(16)) {
            (b'\n', _) => self.ending,
            _ if self.ending => false,
            (b'\r', _) => {
                self.ending = true;
                self.digits > 0
            }
            (_, Some(digit)) if self.digits < MOST_DIGITS => {
                self.digits += 1;
                self.value = self.value * 16 + digit as usize;
                true
            }
            _ => false,
        }
    }

    fn chunk(self) -> Framing {
        match self.value {
            0 => Framing::Unknown,
            value => Framing::Chunk(value + LINE_END),
        }
    }
}

/// Appends to `so_far` up to the first `end`; how many bytes that took, or `None` for too many.
fn line(so_far: &mut Vec<u8>, bytes: &[u8], end: &[u8]) -> Option<usize> {
    for (at, byte) in bytes.iter().enumerate() {
        so_far.push(*byte);
        if so_far.ends_with(end) {
            return Some(at + 1);
        }
    }
    (so_far.len() <= LONGEST).then_some(bytes.len())
}

fn after_head(head: &[u8]) -> Framing {
    let head = head.to_ascii_lowercase();
    let mut lines = head.split(|byte| *byte == b'\n');
    let chunked = lines.any(|line| {
        let value = line.strip_prefix(b"transfer-encoding:".as_slice());
        value.is_some_and(|value| value.trim_ascii() == b"chunked")
    });
    // Others, such as 100, are followed by another head.
    if head.starts_with(b"http/1.1 200 ") && chunked {
        Framing::Size(Size::default())
    } else {
        Framing::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::Framing;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// Open after these bytes, in one piece and byte by byte.
    #[track_caller]
    fn check(text: &str, open: bool) {
        let mut whole = Framing::default();
        whole.push(text.as_bytes());
        assert_eq!(whole.is_open(), open, "{text:?}");
        let mut single = Framing::default();
        for byte in text.bytes() {
            single.push(&[byte]);
        }
        assert_eq!(single, whole, "{text:?}");
    }

    #[test]
    fn a_chunked_answer_is_open_until_its_last_chunk() {
        let table = [
            ("", true),
            ("5", true),
            ("5\r\nabc", true),
            ("5\r\nabcde", true),
            ("5\r\nabcde\r\n", true),
            ("A\r\n0\r\n\r\n12345\r\n", true),
            ("5\r\nabcde\r\n0", true),
            ("5\r\nabcde\r\n0\r\n", false),
            ("5\r\nabcde\r\n0\r\n\r\n", false),
            ("0\r\n\r\n5\r\nabcde\r\n", false),
        ];
        for (body, open) in table {
            check(&format!("{HEAD}{body}"), open);
        }
    }

    #[test]
    fn anything_else_is_hypers() {
        let table = [
            "",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 429 No\r\nTransfer-Encoding: chunked\r\n\r\n",
            "SSH-2.0-x\r\n\r\n",
        ];
        for head in table {
            check(head, false);
        }
        for size in [
            "zz\r\n",
            "5;extension\r\n",
            "-1\r\n",
            "+5\r\n",
            "\r\n",
            "fffffffff\r\n",
        ] {
            check(&format!("{HEAD}{size}"), false);
        }
        check(&format!("{HEAD}{}", "0".repeat(20_000)), false);
    }
}
