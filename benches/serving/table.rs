//! The bench's results as text.
//!
//! Main functions: [`batches`], [`arrivals`], [`gaps`], a section each. Refuses to know: how they were measured.

use std::time::Duration;

use engine::ModelInfo;

use crate::Both;
use crate::batch::{self, Throughput, USERS};
use crate::beside::{Arrival, Gaps, LONG, SHORT};
use crate::common::Spread;

pub(crate) fn title(name: &str, info: &ModelInfo) {
    println!(
        "{name} ({} parameters), {} threads, {}; medians (least to greatest)",
        info.parameters, info.threads, info.kernels
    );
}

pub(crate) fn batches(answer: u32, rounds: &[Vec<Throughput>]) {
    println!(
        "  decoding, prompts of {} tokens and answers of {answer}; {} rounds",
        batch::PROMPT,
        rounds.len()
    );
    row([
        "users",
        "tokens/s",
        "tokens/s of a user",
        "times that of one user",
    ]);
    for (at, users) in USERS.iter().enumerate() {
        let of = |value: fn(&Throughput) -> f64| Spread::of(rounds.iter().map(|r| value(&r[at])));
        let ratio = Spread::of(rounds.iter().map(|r| r[at].all / r[0].all));
        row([
            &users.to_string(),
            &of(|t| t.all).show(1),
            &of(|t| t.user).show(1),
            &ratio.show(2),
        ]);
    }
}

pub(crate) fn arrivals(rounds: &[Both<Arrival>]) {
    println!(
        "  {SHORT} tokens arrive while {LONG} are prefilled: time to the first token, ms; {} rounds",
        rounds.len()
    );
    row(["of", "in chunks", "whole", "whole / in chunks"]);
    pair("the short prompt", rounds, |arrival| arrival.short);
    pair("the long prompt", rounds, |arrival| arrival.long);
}

pub(crate) fn gaps(rounds: &[Both<Gaps>]) {
    println!(
        "  a user decodes while {LONG} tokens are prefilled: between two of its tokens, ms; {} rounds",
        rounds.len()
    );
    row(["gap", "in chunks", "whole", "whole / in chunks"]);
    pair("alone, mean", rounds, |gaps| gaps.alone);
    let beside: Option<Vec<Both<Duration>>> = rounds
        .iter()
        .map(|round| {
            Some(Both {
                chunked: round.chunked.longest?,
                whole: round.whole.longest?,
            })
        })
        .collect();
    match beside {
        Some(beside) => pair("beside, longest", &beside, |gap| *gap),
        None => row([
            "beside, longest",
            "–",
            "–",
            "the two did not run beside each other",
        ]),
    }
}

fn pair<T>(name: &str, rounds: &[Both<T>], time: fn(&T) -> Duration) {
    let ms = |of: &T| time(of).as_secs_f64() * 1e3;
    let chunked = Spread::of(rounds.iter().map(|round| ms(&round.chunked)));
    let whole = Spread::of(rounds.iter().map(|round| ms(&round.whole)));
    let ratio = Spread::of(
        rounds
            .iter()
            .map(|round| ms(&round.whole) / ms(&round.chunked)),
    );
    row([name, &chunked.show(3), &whole.show(3), &ratio.show(2)]);
}

fn row([name, first, second, third]: [&str; 4]) {
    println!("    {name:<18}{first:>32}{second:>32}{third:>26}");
}
