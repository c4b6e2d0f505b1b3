//! Times of prefill and of generation that no engine can both have had: output that was held back until it was made,
//! swapped phases, tokens that were not generated.
//!
//! Main functions: [`implausible`], [`implausible_for`]. docs/metrics.md has the reasons.

use super::super::request::{ms_between, tpot_ms};
use crate::metrics::requests::Requests;
use crate::record::{Phase, Sample};
use std::collections::BTreeMap;

/// Times the cost of a token after the first that a token of the prompt may cost. A prompt can be computed token by
/// token, which is 1; the rest is for engines whose decoding has a faster path, or accepts several drafts a step.
const DEARER: f64 = 10.0;

/// Milliseconds beside that which a first token may take: parsing, scheduling, a batch that waits for company.
const ONCE_MS: f64 = 250.0;

/// Fewer requests with a prompt and enough tokens show nothing.
const LEAST: usize = 3;

/// First requests of a launch without warm-up that may break the bound: an engine loads or compiles at its first
/// requests. Warm-up requests are not measured, so none is excused after them.
const COLD: usize = 2;

/// Share of the requests that may break the bound where a mean or a tail is read, which a few requests move.
const FEW: f64 = 0.1;

/// Tokens after the first event that an answer must have: fewer may have been sent together by a server that sends
/// several at a time. A first event of so many tokens is such a batch too.
const LEAST_TOKENS: f64 = 8.0;

/// Why the times of prefill and of generation cannot both be true; `None` where they can, and for fewer than three
/// sound streams that report their prompt's tokens. `samples`: all of a run, warm-up and void ones included.
///
/// A token of a prompt costs an engine no more than a token that it generates, since a prompt can be computed token by
/// token. So a first token that took far longer, before tokens that came at once, was not prefill alone. Half of the
/// requests decide.
pub fn implausible<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<String> {
    let samples: Vec<&Sample> = samples.into_iter().collect();
    found(&samples, &samples, &BTreeMap::new(), true)
}

/// [`implausible`] for a check, which a few requests move unless it `reads_medians`. Base's count of a prompt's tokens is
/// preferred to head's own, which may be missing or too high.
pub fn implausible_for(requests: &Requests<'_>, reads_medians: bool) -> Option<String> {
    let base = requests.base.iter();
    let prompts = base.filter_map(|sample| {
        let prompt = sample.tokens.prompt.filter(|prompt| *prompt > 0)?;
        Some((sample.index, prompt))
    });
    // The check's part may leave answers out that were sent meanwhile.
    let samples = requests.launch.samples.iter();
    let company: Vec<&Sample> = samples
        .filter(|sample| sample.workload == requests.workload.id)
        .collect();
    found(&requests.all, &company, &prompts.collect(), reads_medians)
}

/// `all`: the samples and whatever else the engine answered meanwhile. `prompts`: tokens of the prompts by their
/// requests' index, where they are known better.
fn found(
    samples: &[&Sample],
    all: &[&Sample],
    prompts: &BTreeMap<u32, u32>,
    reads_medians: bool,
) -> Option<String> {
    let prompt_of = |sample: &Sample| prompts.get(&sample.index).copied().or(sample.tokens.prompt);
    let company = Company::of(all, prompt_of);
    let rows = samples.iter();
    let rows = rows.filter_map(|sample| PhaseRow::of(sample, prompt_of(sample), &company));
    let mut rows: Vec<PhaseRow> = rows.collect();
    if rows.len() < LEAST {
        return None;
    }
    rows.sort_by_key(|row| row.send_ns);
    let is_cold = samples.iter().all(|sample| sample.phase != Phase::Warmup);
    let excused = rows.iter().take_while(|row| row.is_beyond()).take(COLD);
    let rows = &rows[if is_cold { excused.count() } else { 0 }..];
    let beyond: Vec<&PhaseRow> = rows.iter().filter(|row| row.is_beyond()).collect();
    let is_most = 2 * beyond.len() >= rows.len();
    let moves_tail = beyond.len() >= LEAST && beyond.len() as f64 > FEW * rows.len() as f64;
    let nearest = beyond
        .iter()
        .min_by(|a, b| a.excess_ms().total_cmp(&b.excess_ms()))?;
    (is_most || (!reads_medians && moves_tail)).then(|| nearest.contrast())
}

/// One request's times.
struct PhaseRow {
    send_ns: u64,
    /// Tokens of its prompt, and of all prompts that may have been computed while it waited.
    prompt: f64,
    prompts: f64,
    /// Time before its first token in which no other answer was being sent.
    wait_ms: f64,
    token_ms: f64,
}

impl PhaseRow {
    fn of(sample: &Sample, prompt: Option<u32>, company: &Company) -> Option<Self> {
        let sample = Some(sample).filter(|sample| sample.may_enter())?;
        let prompt = prompt.filter(|prompt| *prompt > 0)?;
        let events = sample.stamps.events_ns.len();
        let at_first = sample.tokens.first_arrival(&sample.stamps.events_ns);
        let rest = f64::from(sample.tokens.completion?) - at_first;
        let holds_most = at_first >= LEAST_TOKENS && at_first > rest;
        if events < 2 || (rest < LEAST_TOKENS && !holds_most) {
            return None;
        }
        let token_ms = tpot_ms(sample).ok()?;
        let (send, first) = (sample.stamps.send_ns, *sample.stamps.events_ns.first()?);
        let mut row = Self {
            send_ns: send,
            prompt: f64::from(prompt),
            prompts: f64::from(prompt).max(company.prompts_between(send, first)),
            // The first event left with its last token.
            wait_ms: ms_between(send, first) - (at_first - 1.0) * token_ms,
            token_ms,
        };
        if row.is_beyond() {
            row.wait_ms -= company.sending_ms(send, first, DEARER * token_ms);
        }
        Some(row)
    }

    fn excess_ms(&self) -> f64 {
        self.wait_ms - ONCE_MS - DEARER * self.prompts * self.token_ms
    }

    fn is_beyond(&self) -> bool {
        self.excess_ms() > 0.0
    }

    fn contrast(&self) -> String {
        let Self {
            prompt,
            prompts,
            wait_ms,
            token_ms,
            ..
        } = self;
        let prefill = prompts / wait_ms * 1e3;
        let generation = if *token_ms > 0.0 {
            let rate = 1e3 / token_ms;
            let times = rate / prefill;
            format!(
                "the tokens after it {token_ms:.4} ms each ({rate:.0} tokens/s): no engine generates {times:.0} times \
                 faster than it prefills"
            )
        } else {
            "all others arrived together: no engine generates in no time".to_owned()
        };
        let beside = if prompts > prompt {
            format!(", beside prompts of {} tokens,", prompts - prompt)
        } else {
            String::new()
        };
        format!(
            "a prompt of {prompt} tokens{beside} waited {wait_ms:.1} ms for its first token while no other answer was sent \
             ({prefill:.1} tokens/s), and \
             {generation}, so output was held back until it was made, phases are swapped, or tokens were not generated"
        )
    }
}

/// What else the engine did. Moments are in nanoseconds.
struct Company {
    /// Moments of sending and of first tokens, sorted, each with the prompt tokens of all up to it.
    sent: Vec<(u64, f64)>,
    begun: Vec<(u64, f64)>,
    /// Answers by the start of their sending, each with the latest end of all up to it.
    answers: Vec<(SentAnswer, u64)>,
}

/// When an answer was being sent. One that came whole may have been made at any moment since its request.
struct SentAnswer {
    start: u64,
    end: u64,
    /// Its time a token; `None` where it is unknown.
    token_ms: Option<f64>,
}

impl Company {
    fn of(samples: &[&Sample], prompt_of: impl Fn(&Sample) -> Option<u32>) -> Self {
        let (mut sent, mut begun, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            let stamps = &sample.stamps;
            let first = stamps.events_ns.first().copied().or(stamps.done_ns);
            let end = stamps.events_ns.last().copied().or(stamps.done_ns);
            let (Some(first), Some(end)) = (first, end) else {
                continue;
            };
            let prompt = f64::from(prompt_of(sample).unwrap_or(0));
            sent.push((stamps.send_ns, prompt));
            begun.push((first, prompt));
            answers.push(SentAnswer {
                start: if sample.streamed {
                    first
                } else {
                    stamps.send_ns
                },
                end,
                token_ms: tpot_ms(sample).ok(),
            });
        }
        answers.sort_by_key(|answer| answer.start);
        let mut latest = 0;
        let answers = answers.into_iter().map(|answer| {
            latest = latest.max(answer.end);
            (answer, latest)
        });
        Self {
            answers: answers.collect(),
            sent: summed(sent),
            begun: summed(begun),
        }
    }

    /// Prompt tokens of all requests that were sent before `first` and had their first token after `send`.
    fn prompts_between(&self, send: u64, first: u64) -> f64 {
        let up_to = |sums: &[(u64, f64)], n: usize| match n {
            0 => 0.0,
            n => sums[n - 1].1,
        };
        let sent = self.sent.partition_point(|(at, _)| *at < first);
        let begun = self.begun.partition_point(|(at, _)| *at <= send);
        up_to(&self.sent, sent) - up_to(&self.begun, begun)
    }

    /// Milliseconds between `send` and `first` in which another answer was being sent, by `token_ms` a token at most:
    /// the request may have waited for a slot that this answer had. Slower tokens do not come from an engine that is
    /// busy with them.
    fn sending_ms(&self, send: u64, first: u64, token_ms: f64) -> f64 {
        let from = self.answers.partition_point(|(_, latest)| *latest <= send);
        let to = self
            .answers
            .partition_point(|(answer, _)| answer.start < first);
        let mut until = send;
        let mut sending = 0.0;
        for (answer, _) in self.answers.get(from..to).unwrap_or_default() {
            let (start, end) = (answer.start.max(until), answer.end.min(first));
            if end > start && answer.token_ms.is_none_or(|ms| ms <= token_ms) {
                sending += ms_between(start, end);
                until = end;
            }
        }
        sending
    }
}

fn summed(mut moments: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    moments.sort_unstable_by_key(|(at, _)| *at);
    let mut sum = 0.0;
    for (_, prompt) in &mut moments {
        sum += *prompt;
        *prompt = sum;
    }
    moments
}

#[cfg(test)]
mod tests;
