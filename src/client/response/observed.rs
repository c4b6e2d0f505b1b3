//! An exchange of somebody else's client with an engine, as whoever stands between them saw it: read by the rules that
//! hold for our own.
//!
//! Main type: [`Observed`]. Refuses to know: who stands there, and where samples go.

use super::exchange::{Ending, Exchange};
use crate::Endpoint;
use crate::samples::build;
use crate::socket::stamps::Arrival;
use crate::threads::streams::Finished;
use crate::workloads::request_plan::{Expect, Label};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use verdict::record::{Phase, Sample, Void, VoidRule};

/// Bytes of an answer that are kept until it is read; a longer one is void.
const LIMIT: usize = 16 << 20;

/// An exchange under way. Moments are nanoseconds on one clock.
#[derive(Debug)]
pub struct Observed {
    exchange: Exchange,
}

impl Observed {
    /// The request is handed on.
    pub fn begin(at_ns: u64) -> Self {
        Self {
            exchange: Exchange {
                ending: Ending::Cut("the client closed the connection".into()),
                ..Exchange::begin(None, at_ns)
            },
        }
    }

    pub fn headers(&mut self, at_ns: u64, status: u16) {
        self.exchange.headers_ns = Some(at_ns);
        self.exchange.status = Some(status);
    }

    /// A part of the answer's body. Parts of one `read`, counted from 1, came together.
    pub fn part(&mut self, at_ns: u64, read: u64, bytes: &[u8]) {
        let arrival = Arrival {
            at_ns,
            kernel: false,
            number: read,
        };
        if !self.is_too_long() && !self.exchange.store(bytes, arrival, LIMIT) {
            let why = format!("more than {} MiB, which are not kept", LIMIT >> 20);
            self.exchange.ending = Ending::Garbled(why);
            // Nothing of it will be read.
            self.exchange.body = Vec::new();
            self.exchange.reads = Vec::new();
        }
    }

    /// The whole answer came.
    pub fn end(&mut self, at_ns: u64) {
        if !self.is_too_long() {
            self.exchange.ending = Ending::Whole;
            self.exchange.end_ns = Some(at_ns);
        }
    }

    /// The engine's side failed.
    pub fn cut(&mut self, why: String) {
        self.exchange.ending = Ending::Cut(why);
    }

    fn is_too_long(&self) -> bool {
        matches!(self.exchange.ending, Ending::Garbled(_))
    }

    /// Reads what came back for this request body. Without `texts` the sample holds nothing of what was said: no text,
    /// no digest of it, no tokens, and no words of the engine's.
    pub fn sample(self, workload: &str, index: u32, request: &[u8], texts: bool) -> Sample {
        let request: Value = serde_json::from_slice(request).unwrap_or_default();
        let unnamed = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let asks_usage = request["stream_options"]["include_usage"] == true;
        let endpoint = Endpoint {
            stream_usage: asks_usage,
            ..Endpoint::usual(unnamed, "")
        };
        let finished = Finished {
            label: Label::of(index, Phase::Measured),
            expect: expect(&request, texts),
            exchange: self.exchange,
            talk: None,
        };
        let mut sample = build::read(workload, finished, &endpoint).sample;
        if !asks_usage && sample.tokens.completion.is_none() {
            // Nobody asked for a count: the times are sound all the same.
            sample
                .void
                .take_if(|void| void.rule == VoidRule::TokenCounts);
        }
        if !texts {
            silence(&mut sample);
        }
        sample
    }
}

fn expect(request: &Value, keep_text: bool) -> Expect {
    let number = |name: &str| request[name].as_u64().and_then(|n| u32::try_from(n).ok());
    let most = number("max_completion_tokens").or(number("max_tokens"));
    let is_forced =
        request["ignore_eos"] == true || (most.is_some() && number("min_tokens") == most);
    let ids = request["prompt"].as_array();
    let ids = ids.filter(|ids| !ids.is_empty() && ids.iter().all(Value::is_u64));
    Expect {
        streamed: request["stream"] == true,
        forced: most.filter(|_| is_forced),
        most,
        prompt: ids.and_then(|ids| u32::try_from(ids.len()).ok()),
        echoed: request["echo"] == true,
        keep_text,
        ..Expect::default()
    }
}

fn silence(sample: &mut Sample) {
    sample.text = None;
    // A digest of a short answer gives the answer away.
    sample.text_sha256 = String::new();
    sample.logprobs = Vec::new();
    let quotes = |void: &&mut Void| {
        matches!(
            void.rule,
            VoidRule::Status | VoidRule::Malformed | VoidRule::Degenerate
        )
    };
    if let Some(void) = sample.void.as_mut().filter(quotes) {
        // `status 400: …` keeps its number.
        let status = void
            .detail
            .split(':')
            .next()
            .filter(|text| text.starts_with("status "));
        void.detail = status.unwrap_or("words that were not recorded").to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn streamed(request: &str, parts: &[&str], texts: bool) -> Sample {
        let mut observed = Observed::begin(MS);
        observed.headers(5 * MS, 200);
        for (part, read) in parts.iter().zip(1..) {
            observed.part(10 * MS * read, read, part.as_bytes());
        }
        observed.end(99 * MS);
        observed.sample("w", 7, request.as_bytes(), texts)
    }

    fn token(text: &str) -> String {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"finish_reason\":null}}]}}\n\n"
        )
    }

    const END: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    #[test]
    fn an_exchange_is_a_sample_without_its_words() {
        let parts = [&*token("secret"), &token(" two"), END];
        let request = r#"{"prompt":[1,2,3],"stream":true,"max_tokens":9}"#;
        let sample = streamed(request, &parts, false);
        assert_eq!(sample.void, None);
        assert_eq!((sample.index, sample.stamps.send_ns), (7, MS));
        assert_eq!(sample.stamps.events_ns, [10 * MS, 20 * MS]);
        let told = serde_json::to_string(&sample).unwrap();
        assert!(
            !told.contains("secret") && sample.text_sha256.is_empty(),
            "{told}"
        );
        let kept = streamed(request, &parts, true);
        assert_eq!(kept.text.as_deref(), Some("secret two"));
        assert_eq!(kept.text_sha256.len(), 64);
    }

    #[test]
    fn the_rules_of_our_own_samples_hold() {
        let parts = [&*token("a"), &token("b"), END];
        let void = |request: &str, parts: &[&str]| {
            let void = streamed(request, parts, false).void.unwrap();
            (void.rule, void.detail)
        };
        let forced = r#"{"prompt":"x","stream":true,"max_tokens":9,"ignore_eos":true}"#;
        assert_eq!(void(forced, &parts).0, VoidRule::FinishReason);
        let usage = r#"{"prompt":"x","stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(void(usage, &parts).0, VoidRule::TokenCounts);
        let (rule, detail) = void(
            r#"{"stream":true}"#,
            &["data: {\"error\":{\"message\":\"secret\"}}\n\n"],
        );
        assert_eq!(
            (rule, &*detail),
            (VoidRule::Status, "words that were not recorded")
        );
    }

    #[test]
    fn an_answer_that_was_not_taken_or_is_too_long_is_void() {
        let mut observed = Observed::begin(0);
        observed.headers(MS, 200);
        let left = observed.sample("w", 0, b"{}", false).void.unwrap();
        assert_eq!(left.rule, VoidRule::CutStream);
        assert!(
            left.detail.contains("the client closed the connection"),
            "{}",
            left.detail
        );
        let mut observed = Observed::begin(0);
        observed.headers(MS, 200);
        let part = vec![b'x'; LIMIT / 2 + 1];
        for read in 1..4 {
            observed.part(MS, read, &part);
        }
        observed.end(2 * MS);
        assert!(observed.exchange.body.is_empty());
        assert_eq!(
            observed.sample("w", 0, b"{}", false).void.unwrap().rule,
            VoidRule::Malformed
        );
    }
}
