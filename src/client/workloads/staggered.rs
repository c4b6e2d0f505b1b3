//! Staggered users as waves: in each pass the same prompts' lengths one after another, then together.
//!
//! Both modes count from one origin, the first user's arrival, and users arrive alike in both. One after another,
//! each is sent at its arrival or when the one before was answered, whichever comes later; together, each is sent
//! at its own arrival whatever the others do.
//!
//! Refuses to know: sockets, time.

use super::request_plan::{Label, Pace, Wave};
use super::{completion, streamed};
use crate::{Endpoint, PromptSeed};
use std::time::Duration;
use verdict::plan::Staggered;
use verdict::record::{Phase, Setting};

/// All waves of the workload `id`, warm-up first.
pub fn waves(endpoint: &Endpoint, id: &str, staggered: &Staggered, seed: PromptSeed) -> Vec<Wave> {
    let shape = streamed(staggered.prompt_tokens, staggered.output_tokens);
    let mut indices = 0..;
    let mut request = |phase, setting| {
        let index = indices.next().unwrap_or(u32::MAX);
        let label = Label {
            setting,
            ..Label::of(index, phase)
        };
        completion(endpoint, id, seed, shape, label)
    };
    let warm_up = (0..staggered.warmup).map(|_| request(Phase::Warmup, None));
    let mut waves = vec![Wave::new(warm_up.collect(), Pace::Slots(1))];
    for pass in 0..staggered.passes {
        let sequential = (0..staggered.users).map(|user| Setting::Sequential {
            user,
            pass,
            origin_ns: 0,
        });
        let together = (0..staggered.users).map(|user| Setting::Together {
            user,
            pass,
            origin_ns: 0,
        });
        let arrivals = (0..staggered.users).map(|user| staggered.offset * user);
        let arrivals: Vec<Duration> = arrivals.collect();
        let mut measured = |setting| request(Phase::Measured, Some(setting));
        let one_by_one = sequential.map(&mut measured).collect();
        waves.push(Wave::new(one_by_one, Pace::InTurn(arrivals.clone())));
        let at_once = together.map(measured).collect();
        waves.push(Wave::new(at_once, Pace::At(arrivals)));
    }
    waves.retain(|wave| !wave.requests.is_empty());
    waves
}
