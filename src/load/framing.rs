//! Whether more of an answer must come: HTTP's framing followed from outside, byte by byte.
//!
//! Main type: [`Framing`]. It decides nothing but how long hyper may be left alone: hyper reads every
//! byte later, and what it says counts. So anything unusual is [`Framing::Unknown`], and hyper is asked.
//!
//! Refuses to know: what the body says, time.

/// Longest head, and longest line of a chunk's size, that is followed.
const LONGEST: usize = 16 * 1024;

/// Where in an answer its bytes so far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// In the head, of which these bytes came.
    Head(Vec<u8>),
    /// In the line with a chunk's size; what came of it.
    Size(Vec<u8>),
    /// So many bytes of a chunk and of its line end are still to come.
    Chunk(usize),
    /// The end came, or the framing is not one that is followed here.
    Unknown,
}

impl Default for Framing {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

impl Framing {
    /// Within a chunked body, so that more must come.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Size(_) | Self::Chunk(_))
    }

    /// Follows the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let used = match self {
                Self::Head(head) => line(head, bytes, b"\r\n\r\n"),
                Self::Size(size) => line(size, bytes, b"\r\n"),
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
            bytes = &bytes[used..];
            self.turn();
        }
    }

    /// Goes on to the next part where one is complete.
    fn turn(&mut self) {
        let next = match self {
            Self::Head(head) if head.ends_with(b"\r\n\r\n") => after_head(head),
            Self::Size(size) if size.ends_with(b"\r\n") => after_size(size),
            Self::Chunk(0) => Self::Size(Vec::new()),
            _ => return,
        };
        *self = next;
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
        Framing::Size(Vec::new())
    } else {
        Framing::Unknown
    }
}

fn after_size(line: &[u8]) -> Framing {
    let digits = line.trim_ascii_end();
    let size = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .and_then(|digits| usize::from_str_radix(digits, 16).ok());
    match size {
        None | Some(0) => Framing::Unknown,
        Some(size) => Framing::Chunk(size + 2),
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
