//! Server-sent events: bytes in, events out, however the bytes were cut.
//!
//! Main type: [`Decoder`], after the WHATWG HTML standard, "Parsing an event stream" and "Interpreting
//! an event stream": lines end with CR, LF or CRLF; one leading byte order mark is dropped; lines that
//! begin with a colon are comments; `data` lines of one event are joined by LF; a blank line ends an
//! event; an event without a data line is none. `id` and `retry` serve reconnection and are ignored.
//!
//! Refuses to know: JSON, time, sockets.

/// Longest line, and longest data of one event, in bytes.
pub const MAX_LINE: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty where there was none.
    pub kind: String,
    pub data: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("a line of more than {MAX_LINE} bytes")]
    LineTooLong,
    #[error("an event of more than {MAX_LINE} bytes")]
    EventTooLong,
}

/// What comes after the last complete event of a push, blank lines aside. Without a complete event: what the push holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    Nothing,
    /// Comments alone.
    Comment,
    /// A later event begins.
    Event,
}

#[derive(Debug, Default)]
pub struct Decoder {
    /// The line so far, its end not yet seen.
    line: Vec<u8>,
    /// The last line ended with CR: an LF that follows belongs to that end.
    after_cr: bool,
    /// The first line was seen, so no byte order mark can follow.
    begun: bool,
    kind: Vec<u8>,
    /// Data of the event so far, each line followed by LF.
    data: Vec<u8>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// Takes the next bytes and hands on the events that they complete.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut emit: impl FnMut(SseEvent),
    ) -> Result<Behind, SseError> {
        let mut behind = Behind::Nothing;
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            self.extend_line(&bytes[..end.unwrap_or(bytes.len())])?;
            behind = match (self.line.first(), behind) {
                (None, behind) => behind,
                (Some(b':'), Behind::Nothing | Behind::Comment) => Behind::Comment,
                _ => Behind::Event,
            };
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line()? {
                emit(event);
                behind = Behind::Nothing;
            }
        }
        Ok(behind)
    }

    /// Data of an event that the stream's end cut off, the unfinished line included. The standard
    /// drops it; a reader that wants to know whether the end was clean must not.
    pub fn finish(mut self) -> Result<Option<SseEvent>, SseError> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.dispatch())
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), SseError> {
        if self.line.len() + part.len() > MAX_LINE {
            return Err(SseError::LineTooLong);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut rest = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(rest);
        }
        let event = if rest.is_empty() {
            self.dispatch()
        } else {
            self.take_field(rest)?;
            None
        };
        // The buffer is kept for the next line.
        self.line = line;
        self.line.clear();
        Ok(event)
    }

    fn take_field(&mut self, line: &[u8]) -> Result<(), SseError> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() > MAX_LINE {
                    return Err(SseError::EventTooLong);
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.kind = value.to_vec(),
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let kind = std::mem::take(&mut self.kind);
        if self.data.is_empty() {
            return None;
        }
        self.data.pop();
        let event = SseEvent {
            kind: String::from_utf8_lossy(&kind).into_owned(),
            data: String::from_utf8_lossy(&self.data).into_owned(),
        };
        self.data.clear();
        Some(event)
    }
}

/// How many of these bytes the first event takes, a line end behind it counted in, which is HTTP's where an event is a
/// chunk. All of them, where no blank line is among them.
pub fn first_event(bytes: &[u8]) -> usize {
    let line_end = |at: usize| match bytes[at..] {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    };
    let mut at = 0;
    while let Some(line) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        at += line + 1;
        let blank = line_end(at);
        if blank > 0 {
            return at + blank + line_end(at + blank);
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{Behind, Decoder, MAX_LINE, SseError, SseEvent, first_event};
    use proptest::prelude::*;

    /// Events of the parts pushed one after another, and what `finish` still held.
    fn decode(parts: &[&[u8]]) -> (Vec<SseEvent>, Option<SseEvent>) {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for part in parts {
            decoder
                .push(part, |event| events.push(event))
                .expect("within bounds");
        }
        (events, decoder.finish().expect("within bounds"))
    }

    fn check(stream: &str, data: &[&str]) {
        let (events, _) = decode(&[stream.as_bytes()]);
        let got: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(got, data, "{stream:?}");
    }

    #[test]
    fn follows_the_standard() {
        check("", &[]);
        check("data: a\n\n", &["a"]);
        check("data: a\r\n\r\n", &["a"]);
        check("data: a\r\r", &["a"]);
        check("data: a\n\r\n", &["a"]);
        check("data:a\n\ndata:  b\n\n", &["a", " b"]);
        check("data: a\ndata: b\n\n", &["a\nb"]);
        check("data\n\n", &[""]);
        check("data\ndata\n\n", &["\n"]);
        check(":keep-alive\n\n: \n\ndata: a\n:x\n\n", &["a"]);
        check("event: ping\n\ndata: a\n\n", &["a"]);
        check("id: 1\nretry: 5\nother: x\ndatax: y\ndata: a\n\n", &["a"]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]);
        check("\n\n\r\n\r\rdata: a\n\n", &["a"]);
        check(
            "data: {\"a\":1}\n\ndata: [DONE]\n\n",
            &["{\"a\":1}", "[DONE]"],
        );
        check("data: unfinished\n", &[]);
    }

    #[test]
    fn the_first_event_ends_with_its_blank_line_and_its_chunk() {
        for (first, rest) in [
            ("", ""),
            ("data: cut o", ""),
            ("data: a\n\n", ""),
            ("data: a\n\n", "data: b\n\n"),
            ("data: a\r\n\r\n", "data: b\r\n\r\n"),
            ("event: x\ndata: a\n\n", ": comment\n\n"),
            ("9\r\ndata: a\n\n\r\n", "9\r\ndata: b\n\n\r\n"),
            ("HTTP/1.1 200 OK\r\na: b\r\n\r\n", "9\r\ndata: a\n\n\r\n"),
            ("0\r\n\r\n", ""),
        ] {
            let bytes = [first, rest].concat();
            assert_eq!(first_event(bytes.as_bytes()), first.len(), "{bytes:?}");
        }
    }

    #[test]
    fn keeps_the_kind_of_its_own_event_alone() {
        let (events, _) = decode(&[b"event: error\ndata: a\n\ndata: b\n\n"]);
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["error", ""]);
    }

    #[test]
    fn says_what_the_end_cut_off() {
        let rest = |stream: &[u8]| decode(&[stream]).1.map(|event| event.data);
        assert_eq!(rest(b"data: a\n\n"), None);
        assert_eq!(rest(b"data: a\n\n: comment"), None);
        assert_eq!(rest(b"data: [DONE]"), Some("[DONE]".into()));
        assert_eq!(rest(b"data: {\"x\ndata: y"), Some("{\"x\ny".into()));
    }

    #[test]
    fn bad_utf8_becomes_the_replacement_character() {
        let (events, _) = decode(&[b"data: \xff\n\n"]);
        assert_eq!(events[0].data, "\u{fffd}");
    }

    #[test]
    fn says_what_follows_the_last_event() {
        let check = |parts: &[&str], expect: Behind| {
            let mut decoder = Decoder::default();
            let mut last = Behind::Nothing;
            for part in parts {
                last = decoder.push(part.as_bytes(), |_| {}).unwrap();
            }
            assert_eq!(last, expect, "{parts:?}");
        };
        check(&["data: a\n\n"], Behind::Nothing);
        check(&["data: a\n\n\r\n\n"], Behind::Nothing);
        check(&["data: a\n\n: c\n\n"], Behind::Comment);
        check(&["data: a\n\n: c"], Behind::Comment);
        check(&["data: a\n\n: c", "d\n\n"], Behind::Comment);
        check(&["data: a\n\n: c\n\nda"], Behind::Event);
        check(&["data: a\n\ndata: b\n", ": c\n"], Behind::Comment);
        check(&["data: a\n\n: c\n\ndata: b\n\n"], Behind::Nothing);
        check(&[": c\n\n"], Behind::Comment);
        check(&["\n"], Behind::Nothing);
    }

    #[test]
    fn lines_and_events_are_bounded() {
        let long = vec![b'x'; MAX_LINE];
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(&long, |_| {}), Ok(Behind::Event));
        assert_eq!(decoder.push(b"x", |_| {}), Err(SseError::LineTooLong));

        let half = format!("data: {}\n", "x".repeat(MAX_LINE / 2 + 1));
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(half.as_bytes(), |_| {}), Ok(Behind::Event));
        assert_eq!(
            decoder.push(half.as_bytes(), |_| {}),
            Err(SseError::EventTooLong)
        );
    }

    /// Streams rich in the places where a cut could hurt.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("\r"),
            Just("\n"),
            Just("\r\n"),
            Just("\n\n"),
            Just("\r\n\r\n"),
            Just("data: "),
            Just("data:"),
            Just("data"),
            Just("event: x"),
            Just(":"),
            Just(": c"),
            Just("é"),
            Just("漢字"),
            Just("🦀"),
            Just("\u{feff}"),
            Just("{\"a\":1}"),
            Just("[DONE]"),
            Just(" "),
            Just("id: 3"),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_events(
            stream in stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.push(0);
            at.push(stream.len());
            at.sort_unstable();
            let parts: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode(&parts), decode(&[&stream]));
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(decode(&bytes), decode(&[&stream]));
        }

        #[test]
        fn what_was_written_is_read(
            data in prop::collection::vec("[^\r\n]{0,20}(\n[^\r\n]{0,20}){0,2}", 1..8),
            end in prop_oneof![Just("\n"), Just("\r"), Just("\r\n")],
        ) {
            let mut stream = String::new();
            for text in &data {
                for line in text.split('\n') {
                    stream.push_str("data: ");
                    stream.push_str(line);
                    stream.push_str(end);
                }
                stream.push_str(end);
            }
            let (events, rest) = decode(&[stream.as_bytes()]);
            let read: Vec<&String> = events.iter().map(|event| &event.data).collect();
            prop_assert_eq!(read, data.iter().collect::<Vec<_>>());
            prop_assert_eq!(rest, None);
        }
    }
}
