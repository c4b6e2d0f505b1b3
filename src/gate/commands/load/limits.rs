//! Limits on the client's own delays, beyond which its numbers are not the server's.
//!
//! Main function: [`beyond_limit`]. Refuses to know: how health is measured, exit codes.

use crate::figures::Distribution;
use crate::report::SEND_AT_ONCE;
use verdict::judge::AMBIGUOUS_MIDDLE;
use verdict::metrics::RunNumbers;
use verdict::record::ClientHealth;

/// A lag that is no part of a result's last shown digit, whatever the result is.
const HARMLESS_MS: f64 = 1.0;

/// Share of the median TTFT by which the client itself may have been late.
const LATE_SHARE: f64 = 0.05;

/// Share of the streams asked for that must have been in flight at once.
const REACHED_SHARE: f64 = 0.9;

/// Share of samples with the kernel's stamps from which the client's own delays touch no result.
const KERNEL_SHARE: f64 = 0.999;

/// In which ways the client itself could have moved the numbers.
pub fn beyond_limit(
    health: &ClientHealth,
    streams: Option<u32>,
    numbers: &RunNumbers,
) -> Vec<String> {
    let ttft_ms = Distribution::of(&numbers.ttft_ms).p50.unwrap_or(0.0);
    let bound_ms = HARMLESS_MS.max(LATE_SHARE * ttft_ms);
    let mut beyond = Vec::new();
    let late = health.send_lag_ms.p99;
    if late > bound_ms {
        beyond.push(format!(
            "one request in a hundred left {late:.3} ms late or later, beyond {bound_ms:.3} ms: lower the rate, \
             or run the client where it has a core of its own"
        ));
    }
    let delay = health.loop_delay_ms.p99;
    if health.kernel_share < KERNEL_SHARE && delay > bound_ms {
        beyond.push(format!(
            "the client ran {delay:.3} ms late, beyond {bound_ms:.3} ms, and the kernel does not stamp what \
             arrives: run it on an idle machine"
        ));
    }
    let reached = health.streams_reached;
    if let Some(asked) = streams
        && f64::from(reached) < REACHED_SHARE * f64::from(asked)
    {
        beyond.push(format!(
            "{reached} streams were in flight at once, {asked} were asked for: send more requests or ask for \
             longer answers"
        ));
    }
    let (shared, all) = (numbers.first_shared, numbers.streams());
    if shared as f64 > AMBIGUOUS_MIDDLE * all as f64 {
        beyond.push(format!(
            "{shared} of {all} first events arrived together with the second one, so that neither TTFT nor TPOT is known of them: \
             run the client where it has a core of its own, or look at how the server sends. {SEND_AT_ONCE}"
        ));
    }
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::Spread;

    #[test]
    fn a_client_beyond_its_limit_says_how() {
        let sound = ClientHealth {
            kernel_share: 1.0,
            streams_reached: 8,
            ..ClientHealth::default()
        };
        let slow = Spread {
            p99: 3.0,
            ..Spread::default()
        };
        let numbers = |ttft| RunNumbers {
            ttft_ms: vec![ttft],
            ..RunNumbers::default()
        };
        let check = |health: &ClientHealth, ttft: f64, expect: &[&str]| {
            let beyond = beyond_limit(health, Some(8), &numbers(ttft));
            assert_eq!(beyond.len(), expect.len(), "{beyond:?}");
            for (text, part) in beyond.iter().zip(expect) {
                assert!(text.contains(part), "{text}");
            }
        };
        check(&sound, 10.0, &[]);
        let late = ClientHealth {
            send_lag_ms: slow,
            ..sound.clone()
        };
        check(&late, 10.0, &["left 3.000 ms late"]);
        // Of a TTFT of 100 ms that is little.
        check(&late, 100.0, &[]);
        let delayed = ClientHealth {
            loop_delay_ms: slow,
            ..sound.clone()
        };
        check(&delayed, 10.0, &[]);
        let unstamped = ClientHealth {
            kernel_share: 0.5,
            ..delayed
        };
        check(&unstamped, 10.0, &["ran 3.000 ms late"]);
        let few = ClientHealth {
            streams_reached: 7,
            ..sound.clone()
        };
        check(&few, 10.0, &["7 streams"]);
        let shared = RunNumbers {
            first_shared: 2,
            ..numbers(10.0)
        };
        let beyond = beyond_limit(&sound, None, &shared);
        assert!(beyond[0].starts_with("2 of 3 first events"), "{beyond:?}");
    }
}
