//! Times of prefill and of generation that no engine can both have had: output that was held back until it was made,
//! swapped phases, tokens that were not generated.
//!
//! Main functions: [`implausible()`], [`implausible_for`]; [`Phases`], of a run whose samples are not kept. docs/metrics.md has the reasons.

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
    let mut phases = Phases::default();
    samples.into_iter().for_each(|sample| phases.add(sample));
    phases.implausible()
}

/// [`implausible()`] for a check, which a few requests move unless it `reads_medians`. Base's count of a prompt's tokens
/// is preferred to head's own, which may be missing or too high.
pub fn implausible_for(requests: &Requests<'_>, reads_medians: bool) -> Option<String> {
    let base = requests.base.iter();
    let prompts = base.filter_map(|sample| {
        let prompt = sample.tokens.prompt.filter(|prompt| *prompt > 0)?;
        Some((sample.index, prompt))
    });
    let prompts: BTreeMap<u32, u32> = prompts.collect();
    let prompt_of = |sample: &Sample| prompts.get(&sample.index).copied().or(sample.tokens.prompt);
    let answer = |sample: &Sample| Answer::of(sample, prompt_of(sample));
    let all = requests.all.iter();
    let answers: Vec<Answer> = all.clone().filter_map(|sample| answer(sample)).collect();
    let has_warmup = all.clone().any(|sample| sample.phase == Phase::Warmup);
    let alone = answers.iter().filter_map(PhaseRow::alone);
    // Company only makes a wait shorter.
    if !alone.into_iter().any(|row| row.is_beyond()) {
        return None;
    }
    // The check's part may leave answers out that were sent meanwhile.
    let samples = requests.launch.samples.iter();
    let company = samples.filter(|sample| sample.workload == requests.workload.id);
    let company = Company::of(company.filter_map(answer).collect());
    found((&answers, has_warmup), &company, reads_medians)
}

/// A run's requests with their times, as far as they show which phases are implausible: a sample that was added need not
/// be kept.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    answers: Vec<Answer>,
    has_warmup: bool,
}

impl Phases {
    /// Adds a sample; warm-up and void ones are company of the others.
    pub fn add(&mut self, sample: &Sample) {
        self.has_warmup |= sample.phase == Phase::Warmup;
        let answer = Answer::of(sample, sample.tokens.prompt);
        self.answers.extend(answer);
    }

    /// As [`implausible()`].
    pub fn implausible(self) -> Option<String> {
        let company = Company::of(self.answers);
        found((&company.answers, self.has_warmup), &company, true)
    }
}

/// `answers`: those that are looked at, and whether warm-up was among their requests. `company`: whatever the engine
/// answered meanwhile, they themselves included.
fn found(
    (answers, has_warmup): (&[Answer], bool),
    company: &Company,
    reads_medians: bool,
) -> Option<String> {
    let rows = answers.iter();
    let rows = rows.filter_map(|answer| PhaseRow::of(answer, company));
    let mut rows: Vec<PhaseRow> = rows.collect();
    if rows.len() < LEAST {
        return None;
    }
    rows.sort_by_key(|row| row.send_ns);
    let excused = rows.iter().take_while(|row| row.is_beyond()).take(COLD);
    let rows = &rows[if has_warmup { 0 } else { excused.count() }..];
    let beyond = || rows.iter().filter(|row| row.is_beyond());
    let is_most = 2 * beyond().count() >= rows.len();
    let moves_tail = beyond().count() >= LEAST && beyond().count() as f64 > FEW * rows.len() as f64;
    let nearest = beyond().min_by(|a, b| a.excess_ms().total_cmp(&b.excess_ms()))?;
    (is_most || (!reads_medians && moves_tail)).then(|| nearest.contrast())
}

/// A request with output.
#[derive(Clone, Copy, Debug)]
struct Answer {
    send_ns: u64,
    /// Its first and its last output.
    first_ns: u64,
    end_ns: u64,
    /// NaN where its time a token is unknown.
    token_ms: f64,
    /// Tokens of the first event; NaN where its phases cannot be compared, or it enters no number.
    at_first: f64,
    /// Tokens of its prompt; 0 where they are unknown.
    prompt: u32,
    is_streamed: bool,
}

impl Answer {
    /// `prompt`: tokens of its prompt, as they are known best. `None` where nothing came.
    fn of(sample: &Sample, prompt: Option<u32>) -> Option<Self> {
        let stamps = &sample.stamps;
        Some(Self {
            send_ns: stamps.send_ns,
            first_ns: stamps.events_ns.first().copied().or(stamps.done_ns)?,
            end_ns: stamps.events_ns.last().copied().or(stamps.done_ns)?,
            token_ms: tpot_ms(sample).unwrap_or(f64::NAN),
            at_first: comparable(sample).unwrap_or(f64::NAN),
            prompt: prompt.unwrap_or(0),
            is_streamed: sample.streamed,
        })
    }

    /// When it began to be sent. One that came whole may have been made at any moment since its request.
    fn start_ns(&self) -> u64 {
        match self.is_streamed {
            true => self.first_ns,
            false => self.send_ns,
        }
    }
}

/// Tokens of a sound sample's first event; `None` where too few follow it.
fn comparable(sample: &Sample) -> Option<f64> {
    let sample = Some(sample).filter(|sample| sample.may_enter())?;
    let at_first = sample.tokens.first_arrival(&sample.stamps.events_ns);
    let rest = f64::from(sample.tokens.completion?) - at_first;
    let holds_most = at_first >= LEAST_TOKENS && at_first > rest;
    let has_rest = sample.stamps.events_ns.len() >= 2 && (rest >= LEAST_TOKENS || holds_most);
    has_rest.then_some(at_first)
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
    /// As if the engine had nothing else to do.
    fn alone(answer: &Answer) -> Option<Self> {
        let (token_ms, at_first) = (answer.token_ms, answer.at_first);
        if answer.prompt == 0 || token_ms.is_nan() || at_first.is_nan() {
            return None;
        }
        let (send, first) = (answer.send_ns, answer.first_ns);
        let prompt = f64::from(answer.prompt);
        Some(Self {
            send_ns: send,
            prompt,
            prompts: prompt,
            // The first event left with its last token.
            wait_ms: ms_between(send, first) - (at_first - 1.0) * token_ms,
            token_ms,
        })
    }

    fn of(answer: &Answer, company: &Company) -> Option<Self> {
        let (send, first) = (answer.send_ns, answer.first_ns);
        let mut row = Self::alone(answer)?;
        row.prompts = row.prompt.max(company.prompts_between(send, first));
        if row.is_beyond() {
            let token_ms = row.token_ms;
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
    /// By the start of their sending.
    answers: Vec<Answer>,
    /// The latest end of all up to each.
    latest_ns: Vec<u64>,
}

impl Company {
    fn of(mut answers: Vec<Answer>) -> Self {
        answers.sort_unstable_by_key(Answer::start_ns);
        let mut latest = 0;
        let latest_ns = answers.iter().map(|answer| {
            latest = latest.max(answer.end_ns);
            latest
        });
        let at = |moment: fn(&Answer) -> u64| {
            let moments = answers.iter();
            summed(moments.map(|answer| (moment(answer), f64::from(answer.prompt))))
        };
        Self {
            sent: at(|answer| answer.send_ns),
            begun: at(|answer| answer.first_ns),
            latest_ns: latest_ns.collect(),
            answers,
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
        let from = self.latest_ns.partition_point(|latest| *latest <= send);
        let to = self
            .answers
            .partition_point(|answer| answer.start_ns() < first);
        let mut until = send;
        let mut sending = 0.0;
        for answer in self.answers.get(from..to).unwrap_or_default() {
            let (start, end) = (answer.start_ns().max(until), answer.end_ns.min(first));
            let is_quick = answer.token_ms.is_nan() || answer.token_ms <= token_ms;
            if end > start && is_quick {
                sending += ms_between(start, end);
                until = end;
            }
        }
        sending
    }
}

fn summed(moments: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    let mut moments: Vec<(u64, f64)> = moments.collect();
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
