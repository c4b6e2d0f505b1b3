//! The bytes of an event stream → its events, each with its own end, so that together they are the same bytes.
//!
//! Main type: [`Splitter`]. Refuses to know: what stands in an event.

use bytes::{Bytes, BytesMut};

#[derive(Debug, Default)]
pub struct Splitter {
    begun: BytesMut,
}

impl Splitter {
    /// Takes the next bytes; gives the events that they complete. An event ends with an empty line.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        let mut looked_at = self.begun.len().saturating_sub(3);
        self.begun.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = end_of_event(&self.begun[looked_at..]) {
            events.push(self.begun.split_to(looked_at + end).freeze());
            looked_at = 0;
        }
        events
    }

    /// What the stream's end cut off.
    pub fn rest(&mut self) -> Option<Bytes> {
        let rest = self.begun.split().freeze();
        (!rest.is_empty()).then_some(rest)
    }
}

/// Behind the first empty line.
fn end_of_event(bytes: &[u8]) -> Option<usize> {
    let ends: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];
    let found = ends.iter().filter_map(|end| {
        let at = bytes.windows(end.len()).position(|window| window == *end)?;
        Some(at + end.len())
    });
    found.min()
}

/// The JSON of an event with one line of data; `None` for comments, `[DONE]` and whatever else.
pub fn json(event: &[u8]) -> Option<serde_json::Value> {
    let data = event.trim_ascii().strip_prefix(b"data:")?;
    serde_json::from_slice(data).ok()
}

/// An event of this JSON.
pub fn event(json: &serde_json::Value) -> Bytes {
    format!("data: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = b"data: a\n\n: note\n\ndata: {\"x\": 1}\r\n\r\ndata: [DONE]\n\nrest";
        let expect: [&[u8]; 4] = [
            b"data: a\n\n",
            b": note\n\n",
            b"data: {\"x\": 1}\r\n\r\n",
            b"data: [DONE]\n\n",
        ];
        for size in 1..=text.len() {
            let mut splitter = Splitter::default();
            let parts = text.chunks(size);
            let events: Vec<Bytes> = parts.flat_map(|part| splitter.push(part)).collect();
            assert_eq!(events, expect, "cut every {size} bytes");
            assert_eq!(splitter.rest().as_deref(), Some(&b"rest"[..]));
            assert_eq!(splitter.rest(), None);
        }
    }

    #[test]
    fn only_objects_are_json() {
        let of = |event: &str| json(event.as_bytes());
        assert_eq!(of("data: {\"a\":1}\n\n").unwrap()["a"], 1);
        assert_eq!(of("data: [DONE]\n\n"), None);
        assert_eq!(of(": note\n\n"), None);
        let value = serde_json::json!({"a": "é"});
        assert_eq!(json(&event(&value)), Some(value));
    }
}
