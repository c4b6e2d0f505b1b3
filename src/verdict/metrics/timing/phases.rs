//! Prefill and generation of a workload's requests: how fast each was, and whether one engine can have done both.
//!
//! Main functions: [`prefill_speed`], [`generation_speed`], [`implausible`]. The reasons stand in docs/metrics.md.

use super::request::{decode_rate, ms_between, prefilled, tpot_ms, ttft_ms};
use crate::record::Sample;
use crate::stats;

/// Times the cost of a token after the first that a token of the prompt may cost. A prompt can be computed token by
/// token, which is 1; the rest is for engines whose decoding has a faster path, or accepts several drafts a step.
const DEARER: f64 = 10.0;

/// Milliseconds beside that which a first token may take: parsing, scheduling, a batch that waits for company.
const ONCE_MS: f64 = 250.0;

/// Fewer requests may all have waited for something that happens once, such as a kernel's compilation.
const LEAST: usize = 3;

/// One request of so many that keeps the bound excuses no others: what is loaded or compiled delays some, not nine of ten.
const EXCUSING: usize = 10;

/// Tokens after the first event that an answer must have: fewer may have been sent together by a server that sends
/// several at a time.
const LEAST_TOKENS: f64 = 8.0;

/// Tokens per second, one value a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speed {
    pub clock: Clock,
    pub tokens_per_s: Vec<f64>,
}

/// Who timed a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// This client, by the stream's events: queues and the network are in it.
    #[default]
    Stream,
    /// The server, by the `timings` of its answers.
    Server,
}

/// Prompt tokens computed per second: by the server's timings where every answer has them, else computed tokens over
/// TTFT. A prompt of which the server does not report cached tokens counts whole.
pub fn prefill_speed(sound: &[&Sample]) -> Speed {
    let by_server: Vec<f64> = sound.iter().filter_map(|s| server_rate(s)).collect();
    if !sound.is_empty() && by_server.len() == sound.len() {
        return Speed {
            clock: Clock::Server,
            tokens_per_s: by_server,
        };
    }
    let by_stream = sound.iter().filter_map(|sample| {
        let computed = prefilled(sample).ok().or(sample.tokens.prompt)?;
        rate(f64::from(computed), ttft_ms(sample).ok()?)
    });
    Speed {
        clock: Clock::Stream,
        tokens_per_s: by_stream.collect(),
    }
}

/// Output tokens per second of one stream after its first event: 1 / TPOT.
pub fn generation_speed(sound: &[&Sample]) -> Speed {
    let rates = sound.iter().filter_map(|sample| decode_rate(sample).ok());
    Speed {
        clock: Clock::Stream,
        tokens_per_s: rates.collect(),
    }
}

fn server_rate(sample: &Sample) -> Option<f64> {
    let timings = sample.timings.as_ref()?;
    rate(f64::from(timings.prompt_n), timings.prompt_ms)
}

fn rate(tokens: f64, ms: f64) -> Option<f64> {
    (tokens > 0.0 && ms > 0.0).then(|| tokens / ms * 1e3)
}

/// Why the times of prefill and of generation cannot both be true; `None` where they can, and for fewer than three
/// sound streams that report their prompt's tokens.
///
/// A token of a prompt costs an engine no more than a token that it generates, since a prompt can be computed token by
/// token. First tokens that all took far longer than that, before tokens that came at once, were not prefill alone:
/// the output was made before its first event was sent, or phases are swapped, or tokens were not generated at all.
/// The least slow first token of ten decides, since a load or a compilation may delay any other; of fewer than ten
/// requests the least slow of all. A first token before which
/// another answer ended may have waited for that end, and says nothing; prompts computed at the same time count as one.
pub fn implausible<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<String> {
    let samples: Vec<&Sample> = samples.into_iter().collect();
    let company = Company::of(&samples);
    let rows: Vec<Phases> = samples
        .iter()
        .filter_map(|sample| Phases::of(sample, &company))
        .collect();
    if rows.len() < LEAST {
        return None;
    }
    let token_ms: Vec<f64> = rows.iter().map(|row| row.token_ms).collect();
    let token_ms = stats::median(&token_ms)?;
    let beyond = |row: &Phases| row.prefill_ms - ONCE_MS - DEARER * row.prompt * token_ms;
    let mut sorted: Vec<&Phases> = rows.iter().collect();
    sorted.sort_by(|a, b| beyond(a).total_cmp(&beyond(b)));
    let nearest = sorted
        .get(rows.len() / EXCUSING)
        .filter(|row| beyond(row) > 0.0)?;
    Some(contrast(nearest, token_ms))
}

fn contrast(row: &Phases, token_ms: f64) -> String {
    let Phases {
        prompt, prefill_ms, ..
    } = row;
    let prefill = prompt / prefill_ms * 1e3;
    let generation = match token_ms > 0.0 {
        true => {
            let rate = 1e3 / token_ms;
            let times = rate / prefill;
            format!(
                "the tokens after it {token_ms:.4} ms each ({rate:.0} tokens/s): no engine generates {times:.0} times \
                 faster than it prefills"
            )
        }
        false => "all others arrived together: no engine generates in no time".to_owned(),
    };
    format!(
        "a prompt of {prompt} tokens took {prefill_ms:.1} ms to its first token ({prefill:.1} tokens/s), and \
         {generation}, so output was held back until it was made, phases are swapped, or tokens were not generated"
    )
}

/// One request's: prompt tokens, its own and others', that were computed in `prefill_ms`, then `token_ms` a token.
struct Phases {
    prompt: f64,
    prefill_ms: f64,
    token_ms: f64,
}

impl Phases {
    fn of(sample: &Sample, company: &Company) -> Option<Self> {
        let sample = Some(sample).filter(|sample| sample.may_enter())?;
        let events = sample.stamps.events_ns.len();
        let rest = f64::from(sample.tokens.completion?) - sample.tokens.first_event(events);
        if events < 2 || rest < LEAST_TOKENS {
            return None;
        }
        let token_ms = tpot_ms(sample).ok()?;
        let (send, first) = (sample.stamps.send_ns, *sample.stamps.events_ns.first()?);
        let (prompt, prefill_ms) = match &sample.timings {
            Some(timings) => (timings.prompt_n, timings.prompt_ms),
            None if company.ended_between(send, first) => return None,
            None => (sample.tokens.prompt?, ms_between(send, first)),
        };
        (prompt > 0).then(|| Self {
            prompt: f64::from(prompt).max(company.prompts_between(send, first)),
            prefill_ms,
            token_ms,
        })
    }
}

/// What else the engine did, by moments in nanoseconds.
struct Company {
    /// Moments of sending and of first tokens, sorted, each with the prompt tokens of all up to it.
    sent: Vec<(u64, f64)>,
    begun: Vec<(u64, f64)>,
    /// Ends of answers, sorted.
    ended: Vec<u64>,
}

impl Company {
    fn of(samples: &[&Sample]) -> Self {
        let (mut sent, mut begun, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            let stamps = &sample.stamps;
            let end = stamps.events_ns.last().copied().or(stamps.done_ns);
            let first = stamps.events_ns.first().copied().or(stamps.done_ns);
            let (Some(first), Some(end)) = (first, end) else {
                continue;
            };
            let prompt = f64::from(sample.tokens.prompt.unwrap_or(0));
            sent.push((stamps.send_ns, prompt));
            begun.push((first, prompt));
            ended.push(end);
        }
        ended.sort_unstable();
        Self {
            sent: summed(sent),
            begun: summed(begun),
            ended,
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

    fn ended_between(&self, send: u64, first: u64) -> bool {
        let next = self.ended.partition_point(|end| *end <= send);
        self.ended.get(next).is_some_and(|end| *end < first)
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
mod tests {
    use super::*;
    use crate::metrics::testing::streamed;
    use crate::record::{Phase, ServerTimings, TokenCounts};

    fn request(prompt: u32, ttft_ms: f64, tpot_ms: f64) -> Sample {
        let mut sample = streamed("w", 0, ttft_ms, tpot_ms, 64);
        sample.tokens.prompt = Some(prompt);
        sample
    }

    fn timed(prompt: u32, prompt_ms: f64, ttft_ms: f64, tpot_ms: f64) -> Sample {
        let mut sample = request(prompt, ttft_ms, tpot_ms);
        sample.timings = Some(ServerTimings {
            prompt_n: prompt,
            prompt_ms,
            predicted_n: 64,
            predicted_ms: 63.0 * tpot_ms,
        });
        sample
    }

    #[test]
    fn a_prefill_that_costs_far_more_than_generation_is_implausible() {
        let check = |samples: &[Sample], expect: Option<&str>| {
            let found = implausible(samples);
            match expect {
                None => assert_eq!(found, None),
                Some(part) => assert!(
                    found.as_ref().is_some_and(|f| f.contains(part)),
                    "{found:?}"
                ),
            }
        };
        // 70 tokens in 1,004 ms, then 7,660 tokens/s.
        let seed = request(70, 1_004.0, 1e3 / 7_660.0);
        check(&in_turn(&seed, 5), Some("110 times faster"));
        check(&vec![seed.clone(); 2], None);
        // All tokens at once, also where a single answer seems to have taken its time.
        let at_once = request(70, 1_004.0, 0.0);
        check(
            &vec![at_once.clone(); 3],
            Some("all others arrived together"),
        );
        check(
            &[seed.clone(), at_once.clone(), at_once.clone()],
            Some("in no time"),
        );
        check(&vec![request(70, 240.0, 0.0); 9], None);
        // Few tokens, or one event, may be what a server sends at a time.
        let short = |tokens: u32| Sample {
            tokens: TokenCounts {
                prompt: Some(70),
                ..streamed("w", 0, 1.0, 1.0, tokens).tokens
            },
            ..streamed("w", 0, 1_004.0, 0.0, tokens)
        };
        check(&vec![short(8); 9], None);
        check(&vec![short(9); 9], Some("in no time"));
        let mut one_event = at_once;
        one_event.stamps.events_ns.truncate(1);
        check(&vec![one_event; 9], None);
        let warm_up = Sample {
            phase: Phase::Warmup,
            ..seed.clone()
        };
        check(&vec![warm_up; 5], None);
        // One first token that was prompt: the others waited in a queue, or for a load.
        let prompt = request(70, 30.0, 1e3 / 7_660.0);
        check(
            &[seed.clone(), seed.clone(), seed.clone(), prompt.clone()],
            None,
        );
        // Two of twenty excuse none of the others, three do.
        let mut most = in_turn(&seed, 20);
        let later = |by: u64| in_turn(&prompt, by + 1).pop().unwrap();
        most[7] = later(7);
        check(&most, Some("110 times faster"));
        most[8] = later(8);
        check(&most, Some("110 times faster"));
        most[9] = later(9);
        check(&most, None);
        // The server itself says that its prefill was short: the rest is a queue.
        check(&vec![timed(70, 12.0, 1_004.0, 0.13); 5], None);
        check(
            &in_turn(&timed(70, 1_004.0, 1_004.0, 0.13), 5),
            Some("69.7 tokens/s"),
        );
        // Engines that exist: by a GPU, by a CPU, token by token, with drafts, of a prompt of one token, of a long one.
        for (prompt, ttft_ms, tpot_ms) in [
            (128, 25.0, 8.0),
            (512, 9_000.0, 60.0),
            (512, 512.0 * 10.0, 10.0),
            (512, 512.0 * 10.0, 10.0 / 6.0),
            (1, 200.0, 2.0),
            (16_384, 900.0, 0.5),
        ] {
            check(&vec![request(prompt, ttft_ms, tpot_ms); 9], None);
        }
    }

    /// The sample so many times, each 10 s after the one before.
    fn in_turn(sample: &Sample, times: u64) -> Vec<Sample> {
        let at = |i: u64| {
            let mut sample = sample.clone();
            let later = i * 10_000_000_000;
            sample.stamps.send_ns += later;
            sample
                .stamps
                .events_ns
                .iter_mut()
                .for_each(|at| *at += later);
            sample
        };
        (0..times).map(at).collect()
    }

    /// 8 prompt tokens sent at `send_ms`, 64 tokens from `first_ms` on, 10 ms each: by itself it may take 1.05 s.
    fn at(send_ms: u64, first_ms: u64) -> Sample {
        let mut sample = request(8, 1.0, 10.0);
        sample.stamps.send_ns = send_ms * 1_000_000;
        let event = |i: u64| (first_ms + 10 * i) * 1_000_000;
        sample.stamps.events_ns = (0..64).map(event).collect();
        sample
    }

    #[test]
    fn waiting_for_others_is_no_slow_prefill() {
        assert!(implausible(&in_turn(&at(0, 2_000), 3)).is_some());
        // One at a time, two in flight: each but the first waited for the end of the one before.
        let queued = |i: u64| at(i * 2_000, i * 2_000 + 3_000);
        let queued: Vec<Sample> = (0..9).map(queued).collect();
        assert_eq!(implausible(&queued), None);
        // 64 prompts that are computed together.
        assert_eq!(implausible(&vec![at(0, 2_000); 64]), None);
    }

    #[test]
    fn speeds_say_whose_clock_they_are_by() {
        let (a, b) = (request(100, 50.0, 10.0), timed(100, 40.0, 50.0, 10.0));
        let speed = prefill_speed(&[&a, &b]);
        assert_eq!(
            (speed.clock, speed.tokens_per_s),
            (Clock::Stream, vec![2_000.0; 2])
        );
        let speed = prefill_speed(&[&b]);
        assert_eq!(
            (speed.clock, speed.tokens_per_s),
            (Clock::Server, vec![2_500.0])
        );
        assert_eq!(generation_speed(&[&a]).tokens_per_s, [100.0]);
        assert_eq!(prefill_speed(&[]), Speed::default());
    }
}
