//! `gate roofline --kernels`: what each kernel of a decoded token takes, in the recording.
//!
//! Main function: [`timed`]. A second engine decodes with events between the starts, which keep kernels from
//! overlapping: its times say where the time goes, and not how long a token takes. Refuses to know: kernels.

use super::{RooflineArgs, end, finish, options, request};
use crate::report;
use crate::report::sheet::SheetTable;
use engine::cuda::times::{KernelTime, KernelTimes, MARK, Started};
use engine::{Engine, Options};
use serde::Serialize;
use std::sync::Arc;

/// After a prompt of so many tokens.
#[derive(Serialize)]
pub struct TokenTimes {
    tokens: u32,
    /// Between two events with nothing between them: as much of each start's time, at the least, is not the kernel's.
    mark_us: f64,
    starts_per_token: f64,
    us_per_token: f64,
    /// The greatest share first.
    kernels: Vec<OfToken>,
}

/// What a decoded token starts of one kernel with one grid, or of one product.
#[derive(Serialize)]
struct OfToken {
    kernel: &'static str,
    /// A kernel's grid; n, rows and columns of a product.
    size: [usize; 3],
    starts: f64,
    us_each: f64,
    us: f64,
}

pub fn timed(args: &RooflineArgs, contexts: &[u32]) -> anyhow::Result<Vec<TokenTimes>> {
    let times = Arc::new(KernelTimes::default());
    let with_times = Options {
        kernel_times: Some(Arc::clone(&times)),
        ..options(args)
    };
    let engine = Engine::start(with_times, &mut |_| {})?;
    let taken_by = |tokens: u32, answer: u32| -> anyhow::Result<Vec<KernelTime>> {
        times.take();
        finish(&engine, request(&engine, 0, tokens, answer))?;
        Ok(times.take())
    };
    let of = |tokens: &u32| -> anyhow::Result<TokenTimes> {
        // The first of each warms up.
        taken_by(*tokens, args.answer)?;
        let (one, all) = (taken_by(*tokens, 1)?, taken_by(*tokens, args.answer)?);
        Ok(of_token(*tokens, &one, &all, args.answer - 1))
    };
    let timed = contexts.iter().map(of).collect();
    end(engine);
    timed
}

/// What an answer of `more` tokens more started and took more than one of a single token.
fn of_token(tokens: u32, one: &[KernelTime], all: &[KernelTime], more: u32) -> TokenTimes {
    let before = |started: Started| one.iter().find(|time| time.started == started);
    let per_token = |time: &KernelTime| {
        let known = before(time.started);
        let starts = time.starts - known.map_or(0, |known| known.starts.min(time.starts));
        let total = time
            .total
            .saturating_sub(known.map_or_else(Default::default, |known| known.total));
        let us = total.as_secs_f64() * 1e6;
        OfToken {
            kernel: time.started.name,
            size: time.started.size,
            starts: starts as f64 / f64::from(more),
            us_each: us / starts.max(1) as f64,
            us: us / f64::from(more),
        }
    };
    let (marks, kernels): (Vec<_>, Vec<_>) = all.iter().partition(|time| time.started == MARK);
    let mut kernels: Vec<OfToken> = kernels.into_iter().map(per_token).collect();
    kernels.retain(|kernel| kernel.starts > 0.0);
    kernels.sort_by(|a, b| b.us.total_cmp(&a.us));
    TokenTimes {
        tokens,
        mark_us: marks.first().map_or(0.0, |mark| per_token(mark).us_each),
        starts_per_token: kernels.iter().map(|kernel| kernel.starts).sum(),
        us_per_token: kernels.iter().map(|kernel| kernel.us).sum(),
        kernels,
    }
}

const HEADER: [&str; 6] = ["kernel", "size", "a token", "each, µs", "a token, µs", "%"];

impl TokenTimes {
    /// Under [`HEADER`].
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |of: &OfToken| {
            let [x, y, z] = of.size;
            vec![
                of.kernel.to_owned(),
                format!("{x}×{y}×{z}"),
                format!("{:.1}", of.starts),
                format!("{:.2}", of.us_each),
                format!("{:.1}", of.us),
                format!("{:.1}", of.us / self.us_per_token * 100.0),
            ]
        };
        self.kernels.iter().map(row).collect()
    }
}

/// The same for a page.
pub fn sheet_table(times: &TokenTimes) -> SheetTable {
    SheetTable {
        title: format!(
            "Decoding after {} tokens, each kernel by itself",
            times.tokens
        ),
        header: HEADER.map(str::to_owned).to_vec(),
        rows: times.rows(),
    }
}

pub fn table(times: &TokenTimes) -> String {
    let header = HEADER.map(str::to_owned).to_vec();
    let table = report::columns_with_numbers(header, times.rows(), 2..6);
    format!(
        "Decoding after {} tokens, each kernel by itself:\n\
         {:.1} starts and {:.1} µs a token; {:.2} µs of each and more are its event's.\n{table}\n\n",
        times.tokens, times.starts_per_token, times.us_per_token, times.mark_us
    )
}

#[cfg(test)]
mod tests {
    use super::{KernelTime, MARK, Started, of_token, table};
    use std::time::Duration;

    fn time(name: &'static str, starts: u64, us: u64) -> KernelTime {
        let started = Started {
            name,
            size: [8, 1, 1],
        };
        KernelTime {
            started: if name == MARK.name { MARK } else { started },
            starts,
            total: Duration::from_micros(us),
        }
    }

    /// Four tokens more; what the first token started alone is in none of them.
    #[test]
    fn a_token_is_what_further_tokens_add() {
        let one = [
            time(MARK.name, 1, 2),
            time("first", 1, 50),
            time("argmax", 1, 6),
        ];
        let all = [
            time(MARK.name, 9, 10),
            time("first", 1, 70),
            time("argmax", 5, 26),
            time("gemv", 16, 240),
        ];
        let token = of_token(100, &one, &all, 4);
        let whole = (token.starts_per_token, token.us_per_token, token.mark_us);
        assert_eq!(whole, (5.0, 65.0, 1.0));
        let rows = token
            .kernels
            .iter()
            .map(|of| (of.kernel, of.starts, of.us_each, of.us));
        let expect = [("gemv", 4.0, 15.0, 60.0), ("argmax", 1.0, 5.0, 5.0)];
        assert!(rows.eq(expect));
        insta::assert_snapshot!(table(&token), @r"
        Decoding after 100 tokens, each kernel by itself:
        5.0 starts and 65.0 µs a token; 1.00 µs of each and more are its event's.
        kernel  size   a token  each, µs  a token, µs     %
        ────────────────────────────────────────────────────
        gemv    8×1×1      4.0     15.00         60.0  92.3
        argmax  8×1×1      1.0      5.00          5.0   7.7
        ");
    }
}
