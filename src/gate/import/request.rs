//! Common form of every tool's result: requests, or distributions where those are missing.

use super::Tool;
use crate::figures::{Distribution, LoadResult, Requests, Throughput};
use verdict::record::VoidRule;

/// A tool's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub tool: Tool,
    /// The tool's version, where the file says it.
    pub version: Option<String>,
    pub model: Option<String>,
    /// Concurrency and request rate; `None` if the file does not name them.
    pub load: Option<String>,
    /// Measured requests; empty where the file holds none singly.
    pub requests: Vec<Request>,
    /// They are not all that were measured.
    pub is_sample: bool,
    /// What the file itself says, by our definitions; what requests say goes before.
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
    /// By which rule, where the file says it.
    pub rule: Option<VoidRule>,
}

impl Request {
    /// (last − first token) / (n − 1), ms; undefined for fewer than two tokens.
    pub fn tpot_ms(&self) -> Option<f64> {
        let rest = self.output?.checked_sub(1).filter(|rest| *rest > 0)?;
        Some((self.last_ms? - self.ttft_ms?) / f64::from(rest))
    }

    /// The rule of a request that failed: of most files nothing more is known than that it did.
    pub fn void_rule(&self) -> VoidRule {
        self.rule.unwrap_or(VoidRule::Status)
    }

    /// Whether each chunk held one token, so that times between chunks are times between tokens.
    fn token_by_token(&self) -> bool {
        let gaps = u32::try_from(self.gaps_ms.len()).ok();
        gaps.is_some() && self.output.and_then(|n| n.checked_sub(1)) == gaps
    }
}

impl Imported {
    /// Whether requests are all there and hold enough to be judged as samples: a first and a last token's time and a
    /// count. Of a single token the first is the last.
    pub fn is_judgeable(&self) -> bool {
        let is_whole = |r: &Request| match r.output {
            Some(1) => r.ttft_ms.is_some(),
            _ => r.tpot_ms().is_some(),
        };
        let mut requests = self.requests.iter();
        let are_there = !self.requests.is_empty() && !self.is_sample;
        are_there && requests.all(|r| r.failed.is_some() || is_whole(r))
    }

    /// Puts every text of the file through `shown`.
    pub fn map_texts(&mut self, shown: impl Fn(&str) -> String) {
        let named = [
            &mut self.version,
            &mut self.model,
            &mut self.load,
            &mut self.summary.date,
        ];
        let failed = self.requests.iter_mut().map(|request| &mut request.failed);
        for text in named.into_iter().chain(failed).flatten() {
            *text = shown(text);
        }
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
        times(&mut result, &sound);
        if !sound.is_empty() && !self.is_sample {
            totals(&mut result, &sound);
            result.requests = self.counted();
        }
        result
    }
}

impl Imported {
    /// Requests by what became of them.
    fn counted(&self) -> Requests {
        let mut requests = counted(0, &[]);
        for request in &self.requests {
            requests.sent += 1;
            match &request.failed {
                None => requests.ok += 1,
                Some(_) => {
                    let name = request.void_rule().name().to_owned();
                    *requests.void.entry(name).or_default() += 1;
                }
            }
        }
        requests
    }
}

/// Replaces the tool's own times by those of the requests, where these have them.
fn times(result: &mut LoadResult, sound: &[&Request]) {
    let gaps: Vec<f64> = sound
        .iter()
        .flat_map(|r| r.gaps_ms.iter().copied())
        .collect();
    // Of a chunk with several tokens nobody can say when each came.
    let by_token = sound.iter().all(|r| r.token_by_token());
    let itl = if by_token { gaps.as_slice() } else { &[] };
    for (times, values) in [
        (&mut result.ttft_ms, of_each(sound, |r| r.ttft_ms)),
        (&mut result.tpot_ms, of_each(sound, Request::tpot_ms)),
        (&mut result.e2e_ms, of_each(sound, |r| r.last_ms)),
        (&mut result.itl_ms, Distribution::of(itl)),
        (&mut result.icl_ms, Distribution::of(&gaps)),
    ] {
        // Tools write 0 where they measured nothing, as for the first token of an answer that came whole.
        if times.mean.is_some_and(|mean| mean <= 0.0) {
            *times = Distribution::default();
        }
        prefer(times, values);
    }
}

/// What the requests say goes before what the tool says, where they say anything.
fn prefer(said: &mut Distribution, own: Distribution) {
    if own.n > 0 {
        *said = own;
    }
}

/// What only all requests together tell.
fn totals(result: &mut LoadResult, sound: &[&Request]) {
    let prompts = of_each(sound, |r| r.prompt.map(f64::from));
    prefer(&mut result.prompt_tokens, prompts);
    let outputs = of_each(sound, |r| r.output.map(f64::from));
    prefer(&mut result.output_tokens, outputs);
    result.throughput = Throughput {
        output_tokens_per_s: throughput(sound).or(result.throughput.output_tokens_per_s),
        output_tokens_per_s_full: None,
    };
}

fn of_each(sound: &[&Request], value: impl Fn(&Request) -> Option<f64>) -> Distribution {
    let values: Vec<f64> = sound.iter().filter_map(|r| value(r)).collect();
    Distribution::of(&values)
}

/// So many sound requests, and those that are void, by the rule that they broke.
pub fn counted(ok: u64, void: &[(VoidRule, u64)]) -> Requests {
    let some = void.iter().filter(|(_, n)| *n > 0);
    Requests {
        sent: void.iter().fold(ok, |sent, (_, n)| sent.saturating_add(*n)),
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

    /// Found by hostile input: a file may name any numbers.
    #[test]
    fn counts_that_have_no_sum_do_not_wrap_around() {
        let requests = counted(u64::MAX, &[(VoidRule::Status, 1)]);
        assert_eq!(requests.sent, u64::MAX);
    }

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
                load: None,
                requests: requests.to_vec(),
                is_sample: false,
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
