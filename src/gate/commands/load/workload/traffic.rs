//! Requests of `gate load`: drawn ones of one shape, or a file's.
//!
//! Main function: [`workload`]. Refuses to know: the server, how they are sent.

use super::lengths::{Draw, Lengths};
use crate::session::Error;
use client::{PromptSeed, Tokenizer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use verdict::plan::{
    self, Arrivals, Mixed, Shape, Steady, Trace, TraceEntry, TraceLine, TracePrompt, Turn,
    TurnLine, Workload, WorkloadKind,
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
    pub output_tokens: Lengths,
    /// The file holds conversations, which go on with the server's own answers.
    pub multi_turn: bool,
    /// Time over which rate or users rise; what is sent meanwhile is warm-up.
    pub ramp_up: Option<Duration>,
    /// The last moment at which a request is sent, from the start.
    pub duration: Option<Duration>,
    /// Which step of how many, from 0: each has prompts of its own.
    pub part: (u32, u32),
}

#[derive(Clone, Debug)]
pub enum Prompts {
    /// From the seed.
    Drawn {
        tokens: Lengths,
    },
    File(PathBuf),
}

/// The workload of this traffic. Lengths are drawn from `seed`; `tokenizer` counts a file's recorded answers.
///
/// # Errors
/// A file that cannot be read, or has too few requests.
pub fn workload(
    traffic: &Traffic,
    seed: u64,
    tokenizer: Option<&Tokenizer>,
) -> Result<Workload, Error> {
    let seed = PromptSeed {
        session: seed,
        block: traffic.part.0,
    };
    let draw = |lengths, name| Draw {
        lengths,
        uniforms: seed.gaps(name),
    };
    let outputs = draw(traffic.output_tokens, "load/output_tokens");
    let kind = match &traffic.prompts {
        Prompts::Drawn { tokens } => match (*tokens, traffic.output_tokens) {
            (Lengths::One(prompt), Lengths::One(output)) if traffic.ramp_up.is_none() => {
                drawn(traffic, prompt, output)
            }
            _ => of_lengths(traffic, draw(*tokens, "load/prompt_tokens"), outputs),
        },
        Prompts::File(path) => WorkloadKind::Trace(of_file(traffic, path, outputs, tokenizer)?),
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

/// Requests of lengths that differ.
fn of_lengths(
    traffic: &Traffic,
    mut prompts: Draw<impl Iterator<Item = f64>>,
    mut outputs: Draw<impl Iterator<Item = f64>>,
) -> WorkloadKind {
    let requests = traffic.requests.unwrap_or(1).saturating_add(traffic.warmup);
    let entries = (0..requests).map(|_| TraceEntry {
        prompt: TracePrompt::Drawn {
            tokens: prompts.next(),
            blocks: None,
        },
        output_tokens: outputs.next(),
    });
    WorkloadKind::Trace(Trace {
        entries: entries.collect(),
        warmup: traffic.warmup,
        arrivals: pace(traffic),
        ramp_up: traffic.ramp_up,
        duration: traffic.duration,
    })
}

fn pace(traffic: &Traffic) -> Arrivals {
    let pace = traffic.pace.clone();
    pace.unwrap_or(Arrivals::Closed { concurrency: 1 })
}

fn drawn(traffic: &Traffic, prompt_tokens: u32, output_tokens: u32) -> WorkloadKind {
    let arrivals = pace(traffic);
    let requests = traffic.requests.unwrap_or(1);
    let warmup = traffic.warmup;
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

fn of_file(
    traffic: &Traffic,
    path: &Path,
    mut outputs: Draw<impl Iterator<Item = f64>>,
    tokenizer: Option<&Tokenizer>,
) -> Result<Trace, Error> {
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
    if traffic.multi_turn {
        let conversations = plan::conversations(&text).map_err(refused)?;
        let conversations = conversations_of_step(traffic, conversations).map_err(refused)?;
        return Ok(talks(traffic, conversations, outputs, tokenizer));
    }
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
        output_tokens: counted(line.output_tokens, line.reply.as_deref(), tokenizer)
            .unwrap_or_else(|| outputs.next()),
        prompt: line.prompt,
    });
    Ok(Trace {
        entries: entries.collect(),
        warmup: traffic.warmup,
        arrivals,
        ramp_up: traffic.ramp_up,
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

/// As the file says it, or as long as the recorded answer; `None`: neither is known.
fn counted(said: Option<u32>, reply: Option<&str>, tokenizer: Option<&Tokenizer>) -> Option<u32> {
    said.or_else(|| Some(tokenizer?.count(reply?).max(1)))
}

/// Conversations with their turns.
type Conversations = Vec<Vec<TurnLine>>;

/// This step's conversations of a file, the last one cut off where no more requests are asked for.
fn conversations_of_step(
    traffic: &Traffic,
    mut conversations: Conversations,
) -> Result<Conversations, String> {
    let (all, warmup) = (conversations.len(), traffic.warmup as usize);
    let (number, of) = (traffic.part.0 as usize, traffic.part.1 as usize);
    let each = all / of;
    conversations.truncate((number + 1) * each);
    let mut conversations = conversations.split_off(number * each);
    let steps = if of == 1 {
        String::new()
    } else {
        format!(" for each of {of} steps, none of which may send what another sent")
    };
    let turns: usize = conversations.iter().map(Vec::len).sum();
    let wanted = warmup + traffic.requests.map_or(1, |requests| requests as usize);
    if turns < wanted {
        return Err(format!(
            "it holds {} conversations of {turns} turns{steps}, and {wanted} requests are needed, --warmup {warmup} among \
             them; lower --warmup or --requests",
            conversations.len()
        ));
    }
    let mut left = traffic.requests.map_or(usize::MAX, |_| wanted);
    for turns in &mut conversations {
        turns.truncate(left);
        left -= turns.len();
    }
    conversations.retain(|turns| !turns.is_empty());
    if let Some(Arrivals::Closed { concurrency }) = traffic.pace
        && concurrency as usize > conversations.len()
    {
        return Err(format!(
            "{concurrency} users are never there at once with {} conversations{steps}; say fewer in --concurrency",
            conversations.len()
        ));
    }
    Ok(conversations)
}

fn talks(
    traffic: &Traffic,
    conversations: Conversations,
    mut outputs: Draw<impl Iterator<Item = f64>>,
    tokenizer: Option<&Tokenizer>,
) -> Trace {
    let entries = conversations.into_iter().map(|turns| {
        let turns = turns.into_iter().map(|turn| Turn {
            output_tokens: counted(turn.output_tokens, turn.reply.as_deref(), tokenizer)
                .unwrap_or_else(|| outputs.next()),
            messages: turn.messages,
        });
        let turns: Vec<Turn> = turns.collect();
        TraceEntry {
            output_tokens: turns.iter().map(|turn| turn.output_tokens).sum(),
            prompt: TracePrompt::Turns(turns),
        }
    });
    Trace {
        entries: entries.collect(),
        warmup: traffic.warmup,
        arrivals: pace(traffic),
        ramp_up: traffic.ramp_up,
        duration: traffic.duration,
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, Lengths, Prompts, Traffic, WorkloadKind, workload};
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
            output_tokens: Lengths::One(9),
            multi_turn: false,
            ramp_up: None,
            duration: None,
            part,
        };
        let workload = workload(&traffic, 1, None).map_err(|error| error.to_string())?;
        let WorkloadKind::Trace(trace) = workload.kind else {
            panic!("a file is a trace");
        };
        assert!(trace.entries.iter().all(|entry| entry.output_tokens == 9));
        let texts = trace.entries.iter().map(|entry| match &entry.prompt {
            TracePrompt::Text(text) => text.clone(),
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
