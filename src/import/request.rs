//! What every tool's result becomes: requests where the file has them, else distributions in short.

use super::Tool;
use crate::figures::{Distribution, LoadResult, Requests, Throughput};
use crate::record::VoidRule;

/// A tool's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub tool: Tool,
    /// The tool's version, where the file says it.
    pub version: Option<String>,
    pub model: Option<String>,
    /// Measured requests; empty where the file holds none singly.
    pub requests: Vec<Request>,
    /// What the file itself says, by our definitions; where there are requests they go before.
    pub summary: LoadResult,
    /// What the file lacks, each with its consequence.
    pub missing: Vec<String>,
}

/// One request as the tool saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Seconds on the tool's own clock.
    pub start_s: Option<f64>,
    /// From sending to the first token, ms.
    pub ttft_ms: Option<f64>,
    /// From sending to the last token, ms.
    pub last_ms: Option<f64>,
    /// Times between output chunks, ms; empty where the file has none.
    pub gaps_ms: Vec<f64>,
    pub prompt: Option<u32>,
    pub output: Option<u32>,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

impl Request {
    /// (last − first token) / (n − 1), ms; undefined for fewer than two tokens.
    pub fn tpot_ms(&self) -> Option<f64> {
        let rest = self.output?.checked_sub(1).filter(|rest| *rest > 0)?;
        Some((self.last_ms? - self.ttft_ms?) / f64::from(rest))
    }

    /// Whether each chunk held one token, so that times between chunks are times between tokens.
    fn token_by_token(&self) -> bool {
        let gaps = u32::try_from(self.gaps_ms.len()).ok();
        gaps.is_some() && self.output.and_then(|n| n.checked_sub(1)) == gaps
    }
}

impl Imported {
    /// Whether requests hold enough to be judged as samples: a first and a last token's time and a count. Of a
    /// single token the first is the last.
    pub fn is_judgeable(&self) -> bool {
        let is_whole = |r: &Request| match r.output {
            Some(1) => r.ttft_ms.is_some(),
            _ => r.tpot_ms().is_some(),
        };
        let mut requests = self.requests.iter();
        !self.requests.is_empty() && requests.all(|r| r.failed.is_some() || is_whole(r))
    }

    /// The JSON of `gate load`, with what the file holds.
    pub fn load_result(&self) -> LoadResult {
        let mut result = self.summary.clone();
        let version = self.version.as_deref().unwrap_or("of unknown version");
        result.tool = format!("{} {version}", self.tool.title());
        result.model.clone_from(&self.model);
        result.imported_from = Some(self.tool.title().to_owned());
        result.missing.clone_from(&self.missing);
        let sound: Vec<&Request> = self
            .requests
            .iter()
            .filter(|request| request.failed.is_none())
            .collect();
        if sound.is_empty() {
            return result;
        }
        let over = |value: &dyn Fn(&Request) -> Option<f64>| {
            let values: Vec<f64> = sound.iter().filter_map(|r| value(r)).collect();
            Distribution::of(&values)
        };
        result.ttft_ms = over(&|r| r.ttft_ms);
        result.tpot_ms = over(&Request::tpot_ms);
        result.e2e_ms = over(&|r| r.last_ms);
        result.prompt_tokens = over(&|r| r.prompt.map(f64::from));
        result.output_tokens = over(&|r| r.output.map(f64::from));
        let gaps: Vec<f64> = sound
            .iter()
            .flat_map(|r| r.gaps_ms.iter().copied())
            .collect();
        result.icl_ms = Distribution::of(&gaps);
        // Of a chunk with several tokens nobody can say when each came.
        result.itl_ms = if sound.iter().all(|r| r.token_by_token()) {
            result.icl_ms
        } else {
            Distribution::default()
        };
        let failed = self.requests.len() - sound.len();
        result.requests = counted(sound.len() as u64, &[(VoidRule::Status, failed as u64)]);
        result.throughput = Throughput {
            output_tokens_per_s: throughput(&sound).or(result.throughput.output_tokens_per_s),
            output_tokens_per_s_full: None,
        };
        result
    }
}

/// So many sound requests, and those that are void, by the rule that they broke.
pub(super) fn counted(ok: u64, void: &[(VoidRule, u64)]) -> Requests {
    let some = void.iter().filter(|(_, n)| *n > 0);
    Requests {
        sent: ok + void.iter().map(|(_, n)| n).sum::<u64>(),
        ok,
        void: some.map(|(rule, n)| (rule.name().to_owned(), *n)).collect(),
    }
}

/// Output tokens a second from the first send to the last token; `None` where the file has no moments.
fn throughput(sound: &[&Request]) -> Option<f64> {
    let mut tokens = 0.0;
    let (mut begin, mut end) = (f64::INFINITY, f64::NEG_INFINITY);
    for request in sound {
        let start = request.start_s?;
        tokens += f64::from(request.output?);
        begin = begin.min(start);
        end = end.max(start + request.last_ms? / 1e3);
    }
    (end > begin).then(|| tokens / (end - begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_judged_by_its_first_and_last_token() {
        let request = |output, ttft_ms, last_ms| Request {
            output,
            ttft_ms,
            last_ms,
            ..Request::default()
        };
        let failed = Request {
            failed: Some("503".to_owned()),
            ..Request::default()
        };
        let check = |requests: &[Request], expect: bool| {
            let imported = Imported {
                tool: Tool::Aiperf,
                version: None,
                model: None,
                requests: requests.to_vec(),
                summary: LoadResult::default(),
                missing: Vec::new(),
            };
            assert_eq!(imported.is_judgeable(), expect, "{requests:?}");
        };
        let whole = request(Some(5), Some(50.0), Some(90.0));
        check(&[], false);
        check(std::slice::from_ref(&whole), true);
        check(&[whole.clone(), failed.clone()], true);
        for (request, expect) in [
            (request(None, Some(50.0), Some(90.0)), false),
            (request(Some(0), Some(50.0), Some(90.0)), false),
            (request(Some(5), None, Some(90.0)), false),
            (request(Some(5), Some(50.0), None), false),
            (request(Some(1), Some(50.0), None), true),
            // Its first token would have come at once.
            (request(Some(1), None, Some(90.0)), false),
        ] {
            check(&[whole.clone(), failed.clone(), request], expect);
        }
    }
}
