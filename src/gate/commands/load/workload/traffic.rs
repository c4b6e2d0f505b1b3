//! Requests of `gate load`: drawn ones of one shape, or a file's.
//!
//! Main function: [`workload`]. Refuses to know: the server, how they are sent.

use crate::session::Error;
use client::Tokenizer;
use std::path::{Path, PathBuf};
use std::time::Duration;
use verdict::plan::{
    self, Arrivals, Mixed, Shape, Steady, Trace, TraceEntry, TraceLine, Workload, WorkloadKind,
};

/// Which requests.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub prompts: Prompts,
    /// `None`: at the moments that the file has.
    pub pace: Option<Arrivals>,
    /// Measured requests; `None`: all of the file.
    pub requests: Option<u32>,
    /// First requests, kept out of every number.
    pub warmup: u32,
    /// Of each answer; of a file's where it does not say.
    pub output_tokens: u32,
    /// The last moment at which a request is sent, from the start.
    pub duration: Option<Duration>,
    /// Which step of how many, from 0: each has prompts of its own.
    pub part: (u32, u32),
}

#[derive(Clone, Debug)]
pub enum Prompts {
    /// From the seed, of one length.
    Drawn {
        tokens: u32,
    },
    File(PathBuf),
}

/// The workload of this traffic. `tokenizer` counts a file's recorded answers.
///
/// # Errors
/// A file that cannot be read, or has too few requests.
pub fn workload(traffic: &Traffic, tokenizer: Option<&Tokenizer>) -> Result<Workload, Error> {
    let kind = match &traffic.prompts {
        Prompts::Drawn { tokens } => drawn(traffic, *tokens),
        Prompts::File(path) => WorkloadKind::Trace(of_file(traffic, path, tokenizer)?),
    };
    // Words are drawn from the workload's name: no step may send what one before it sent.
    let id = match traffic.part {
        (_, 1) => "load/run".to_owned(),
        (number, _) => format!("load/run-{}", number + 1),
    };
    Ok(Workload {
        id,
        launches: None,
        kind,
    })
}

fn drawn(traffic: &Traffic, prompt_tokens: u32) -> WorkloadKind {
    let arrivals = traffic
        .pace
        .clone()
        .unwrap_or(Arrivals::Closed { concurrency: 1 });
    let requests = traffic.requests.unwrap_or(1);
    let (warmup, output_tokens) = (traffic.warmup, traffic.output_tokens);
    if traffic.duration.is_none() {
        return WorkloadKind::Steady(Steady {
            requests,
            warmup,
            prompt_tokens,
            output_tokens,
            arrivals,
        });
    }
    WorkloadKind::Mixed(Mixed {
        requests,
        warmup,
        shapes: vec![Shape {
            prompt_tokens,
            output_tokens,
            weight: 1,
            streamed: true,
        }],
        arrivals,
        duration: traffic.duration,
    })
}

fn of_file(traffic: &Traffic, path: &Path, tokenizer: Option<&Tokenizer>) -> Result<Trace, Error> {
    let option = if traffic.pace.is_none() {
        "--trace"
    } else {
        "--prompts"
    };
    let refused = |cause: String| Error::Usage(format!("{option} {}: {cause}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused(format!(
            "{error}; name a file of requests, a JSON object a line"
        ))
    })?;
    let lines = plan::trace_entries(&text).map_err(refused)?;
    let lines = part(traffic, lines).map_err(refused)?;
    let recorded: Option<Vec<Duration>> = lines.iter().map(|line| line.at).collect();
    let arrivals = match (&traffic.pace, recorded) {
        (Some(pace), _) => pace.clone(),
        (None, Some(at)) => Arrivals::Recorded { at },
        (None, None) => {
            return Err(refused(
                "its requests have no `timestamp`; say --prompts FILE with --concurrency or --rate"
                    .into(),
            ));
        }
    };
    let entries = lines.into_iter().map(|line| TraceEntry {
        output_tokens: output_tokens(&line, traffic.output_tokens, tokenizer),
        prompt: line.prompt,
    });
    Ok(Trace {
        entries: entries.collect(),
        warmup: traffic.warmup,
        arrivals,
        duration: traffic.duration,
    })
}

/// This step's requests of a file, warm-up first.
fn part(traffic: &Traffic, mut lines: Vec<TraceLine>) -> Result<Vec<TraceLine>, String> {
    let all = lines.len();
    let (number, of) = (traffic.part.0 as usize, traffic.part.1 as usize);
    let warmup = traffic.warmup as usize;
    let each = match traffic.requests {
        Some(requests) => requests as usize + warmup,
        None => all / of,
    };
    let steps = if of == 1 {
        String::new()
    } else {
        format!(" for each of {of} steps, none of which may send what another sent")
    };
    if each <= warmup || each * of > all {
        let wanted = each.max(warmup + 1);
        return Err(format!(
            "it holds {all} requests, and {wanted} are needed{steps}, --warmup {warmup} among them; lower --warmup or --requests"
        ));
    }
    let streams = match traffic.pace {
        Some(Arrivals::Closed { concurrency }) => concurrency as usize,
        _ => 0,
    };
    if streams > each - warmup {
        return Err(format!(
            "{streams} streams are never in flight with {} requests of it{steps}; say fewer in --concurrency",
            each - warmup
        ));
    }
    lines.truncate((number + 1) * each);
    Ok(lines.split_off(number * each))
}

/// As the file says it, as long as the recorded answer, or else as long as is asked for.
fn output_tokens(line: &TraceLine, default: u32, tokenizer: Option<&Tokenizer>) -> u32 {
    let reply = || {
        let tokens = tokenizer?.count(line.reply.as_deref()?);
        Some(tokens.max(1))
    };
    line.output_tokens.or_else(reply).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Prompts, Traffic, WorkloadKind, workload};
    use std::io::Write;
    use verdict::plan::TracePrompt;

    fn file(lines: usize) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for number in 0..lines {
            writeln!(file, "{{\"prompt\": \"p{number}\"}}").unwrap();
        }
        file
    }

    /// The texts of a step, or the refusal.
    fn prompts(
        lines: usize,
        requests: Option<u32>,
        part: (u32, u32),
        concurrency: u32,
    ) -> Result<Vec<String>, String> {
        let file = file(lines);
        let traffic = Traffic {
            prompts: Prompts::File(file.path().into()),
            pace: Some(Arrivals::Closed { concurrency }),
            requests,
            warmup: 1,
            output_tokens: 9,
            duration: None,
            part,
        };
        let workload = workload(&traffic, None).map_err(|error| error.to_string())?;
        let WorkloadKind::Trace(trace) = workload.kind else {
            panic!("a file is a trace");
        };
        assert!(trace.entries.iter().all(|entry| entry.output_tokens == 9));
        let texts = trace.entries.into_iter().map(|entry| match entry.prompt {
            TracePrompt::Text(text) => text,
            other => panic!("{other:?}"),
        });
        Ok(texts.collect())
    }

    #[test]
    fn steps_share_no_prompt_of_a_file() {
        assert_eq!(prompts(3, None, (0, 1), 1).unwrap(), ["p0", "p1", "p2"]);
        assert_eq!(prompts(5, None, (0, 2), 1).unwrap(), ["p0", "p1"]);
        assert_eq!(prompts(5, None, (1, 2), 1).unwrap(), ["p2", "p3"]);
        assert_eq!(prompts(6, Some(2), (1, 2), 1).unwrap(), ["p3", "p4", "p5"]);
        for (lines, requests, part, concurrency, expect) in [
            (
                1,
                None,
                (0, 1),
                1,
                "holds 1 requests, and 2 are needed, --warmup 1",
            ),
            (
                5,
                Some(2),
                (0, 2),
                1,
                "and 3 are needed for each of 2 steps",
            ),
            (
                5,
                None,
                (0, 3),
                1,
                "holds 5 requests, and 2 are needed for each of 3",
            ),
            (
                3,
                None,
                (0, 1),
                3,
                "3 streams are never in flight with 2 requests",
            ),
        ] {
            let refusal = prompts(lines, requests, part, concurrency).unwrap_err();
            assert!(refusal.contains(expect), "{refusal}");
        }
    }
}
