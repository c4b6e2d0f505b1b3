//! Ends of TLS records in what a connection brings.
//!
//! Main type: [`Records`]. Refuses to know: what a record holds.

/// Bytes before a record: its type, its version and its length.
const HEADER: usize = 5;

/// Where records end in what is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Records {
    header: [u8; HEADER],
    /// Bytes of the header that came.
    known: usize,
    /// Bytes of the record that are still to come, once its header is known.
    left: usize,
}

impl Records {
    /// Takes bytes in up to the end of a record, and says how many those are.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        if self.left == 0 {
            taken = bytes.len().min(HEADER - self.known);
            self.header[self.known..self.known + taken].copy_from_slice(&bytes[..taken]);
            self.known += taken;
            if self.known < HEADER {
                return taken;
            }
            self.known = 0;
            self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
        }
        let body = self.left.min(bytes.len() - taken);
        self.left -= body;
        taken + body
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn a_read_ends_with_its_record_however_it_comes() {
        let record = |body: usize| {
            let mut bytes = vec![23, 3, 3];
            bytes.extend((body as u16).to_be_bytes());
            bytes.resize(5 + body, 0xff);
            bytes
        };
        let stream = [record(3), record(0), record(300), record(1)].concat();
        let ends = [8, 13, 318, 324];
        for window in [1, 2, 4, 5, 7, 64, 1_000] {
            let (mut records, mut at, mut found) = (Records::default(), 0, Vec::new());
            while at < stream.len() {
                let waiting = &stream[at..stream.len().min(at + window)];
                at += records.push(waiting);
                if records.left == 0 && records.known == 0 {
                    found.push(at);
                }
                // None goes beyond a record's end.
                let end = ends.iter().find(|end| **end > at.saturating_sub(1));
                assert!(end.is_some_and(|end| at <= *end));
            }
            assert_eq!(found, ends, "{window}");
        }
    }
}
