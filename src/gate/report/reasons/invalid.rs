//! Sentences on checks that are no measurement, and on engines that do not answer.

use super::super::numbers::{number, percent, signed_percent};
use super::words::gate_of;
use verdict::plural::{count, first_of};
use verdict::record::{
    Arm, CheckVerdict, Exit, Facts, Failed, LaunchFact, Metric, Reason, RuleId, VoidRule, Voids,
};

const FREE_LENGTH: &str = "set `forces_length = false` under [engine] in gates/gate.toml";

pub fn sentence(check: &CheckVerdict, reason: &Reason) -> String {
    let metric = check.metric;
    match &reason.facts {
        Facts::Fingerprints { first, other } => {
            let ((at, first), (later, other)) = (first, other);
            format!(
                "the machine changed within the session: {first:?} at launch {at}, {other:?} at launch {later}"
            )
        }
        Facts::OtherAnswers { other, all, first } => format!(
            "{other} of {all} answers of head differ from base's from their beginning on ({first}), so that what was timed \
             may be other work. Goldens (gate golden make) tell whether they are right; if they are meant to differ, waive \
             this check (gates/waivers.toml)"
        ),
        Facts::LateEnd {
            base_ms,
            head_ms,
            whole_ms,
        } => format!(
            "head's streams end {} ms after their last token, base's {} ms (whole answer: {} ms): clients wait for that, and \
             {metric} does not show it; see what the server does before it ends a stream",
            number(*head_ms),
            number(*base_ms),
            number(*whole_ms)
        ),
        Facts::SlowWarmUp { base_ms, head_ms } => format!(
            "head's slowest warm-up request takes {} ms, base's {} ms: the first users wait for that, and no measured request \
             does; see what the engine now does at the first use of a shape (compile, capture graphs, tune), or do it before \
             the engine is ready",
            number(*head_ms),
            number(*base_ms)
        ),
        Facts::MovedLogprobs {
            base_nats,
            head_nats,
        } => format!(
            "log-probabilities of the same tokens are {} nats from base's, base's own {} from one another: head computes less \
             exactly, or with other numbers. If that is meant, compare its quality with the gate `e2e`",
            number(*head_nats),
            number(*base_nats)
        ),
        Facts::TreeFiles { arm, files } => {
            const NAMED: usize = 3;
            if files.is_empty() {
                return format!(
                    "whether {arm}'s engine reads files of the working tree that are not as in {arm}'s commit could not be \
                     watched, so that what was measured may not be {arm}'s: raise fs.inotify.max_user_watches and \
                     fs.inotify.max_user_instances (sysctl), or check out {arm}'s commit",
                    arm = arm.name()
                );
            }
            let quoted: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
            let is_setting =
                |file: &String| file.contains(".cargo/config") || file.contains("rust-toolchain");
            if files.iter().all(is_setting) {
                return format!(
                    "{arm}'s build also took {} from the working tree around it, which is not as in {arm}'s commit, so that what \
                     was measured may not be {arm}'s: put such settings into Cargo.toml (`[profile.release]`), or merge \
                     them in a pull request of their own",
                    first_of(&quoted, NAMED, quoted.len()),
                    arm = arm.name()
                );
            }
            format!(
                "{arm}'s engine read {} of the working tree while it started, which is not as in {arm}'s commit, so that \
                 what was measured may not be {arm}'s: let the build copy what the engine needs, and start it from there \
                 (`{{artifact}}`)",
                first_of(&quoted, NAMED, quoted.len()),
                arm = arm.name()
            )
        }
        Facts::FewerTurns { base, head } => format!(
            "head's conversations had {} turns, base's {}, so that less could grow: raise the workload's `duration`",
            number(*head),
            number(*base)
        ),
        Facts::Resent { base, head } => format!(
            "head closed {head} kept connections without an answer, base {base}, and the client sent these requests again: \
             head may drop requests. If it means to close connections, set keep_alive = false under [engine]"
        ),
        Facts::Bursts { base_ms, head_ms } => format!(
            "head's outputs come {} ms apart, base's {} ms: its tokens come in bursts, which no time per token shows. If that is \
             meant, as with speculative decoding, waive this check; a check of `icl` judges the gaps themselves",
            number(*head_ms),
            number(*base_ms)
        ),
        Facts::UnkeptConnections { base, head } => format!(
            "head closes connections after its answers: of requests within a second of one, {} opened a new connection, and {} \
             of base's. Clients of a network wait for each, and no time here shows it. If it means to, set keep_alive = \
             false under [engine]",
            percent(*head),
            percent(*base)
        ),
        Facts::InARow {
            arm,
            launches,
            from,
        } => format!(
            "{launches} launches of {} in a row from launch {from}: a drift of the machine would count as a change",
            arm.name()
        ),
        Facts::Exits { base, head } => exits(check, reason.rule, base.as_ref(), head.as_ref()),
        Facts::Unanswered { arm, voids } => unanswered(check, reason.rule, *arm, voids),
        Facts::NoDone { streams, all } => format!(
            "{streams} of {all} streams of head ended without `data: [DONE]`, and all of base's with it: clients that wait \
             for it hang"
        ),
        Facts::Untrusted { voids, .. } if reason.rule == RuleId::Reliability => format!(
            "head's answers break the API, and base's to the same requests do not: {}",
            listed(voids)
        ),
        Facts::Untrusted { voids, only_head } => {
            let whose = if *only_head {
                " of head, and none of base"
            } else {
                ""
            };
            // Such an engine may end an answer as its model does.
            let ends_early = voids.counts.contains_key(&VoidRule::FinishReason);
            let remedy = match ends_early && !only_head {
                true => format!("; if the engine does not honour `ignore_eos`, {FREE_LENGTH}"),
                false => String::new(),
            };
            format!("invalid requests{whose}: {}{remedy}", listed(voids))
        }
        Facts::Launch {
            position,
            arm,
            fact,
        } => of_launch(check, reason.rule, (*position, *arm), fact),
        Facts::Tokens { base, head } => format!(
            "head answers with {} tokens a request, base with {}: they did not do the same work; force the length, or \
             see why one stops",
            number(*head),
            number(*base)
        ),
        Facts::PromptTokens { base, head } => format!(
            "head counts {} tokens in a prompt, base {} in the same texts: they did not do the same work, or one counts \
             wrongly; see what of the tokenizer or the template has changed",
            number(*head),
            number(*base)
        ),
        Facts::Zeros { arm, launches } => {
            let n = count(*launches, "launch");
            let of = arm.map_or_else(String::new, |arm| format!(" of {}", arm.name()));
            format!("{metric} is 0 in all of {n}{of}: {}", why_vacuous(metric))
        }
        Facts::AllFailed { launches, head } => format!(
            "no request succeeded in {} of both arms ({head}): where all fail, no more can; correct the workload, or how \
             the engine is started",
            count(*launches, "launch")
        ),
        Facts::Drift { arm, drift } => format!(
            "{metric} moves by {:+.1} % within a launch ({}, last third against first): the warm-up is too short; raise {} in \
             gates/{}.toml",
            drift.exp_m1() * 100.0,
            arm.map_or("both arms", Arm::name),
            match check.metric {
                Metric::PrefillDrift | Metric::PrefillExcess => "`warmup_turns`",
                _ => "`warmup`",
            },
            gate_of(check)
        ),
        Facts::ThrottledLaunches { base, head } => format!(
            "the GPU throttled in {head} launches of head and {base} of base: head may draw more power"
        ),
        Facts::PassesWithoutThrottled {
            base,
            head,
            change,
            ceiling,
        } => {
            let change = change.map_or_else(
                || "The change with them cannot be computed".to_owned(),
                |change| format!("With them, the change is {}", signed_percent(change)),
            );
            format!(
                "{metric} passes only without the blocks in which the machine throttled ({} of head, {base} of base). {change}, \
                 which is not shown to be below the ceiling of {}. Head may be slower by its own heat: improve the cooling \
                 or lower the power limit, and measure again",
                count(*head, "launch"),
                percent(*ceiling)
            )
        }
        Facts::ThrottledBlocks { dropped, blocks } => format!(
            "the GPU throttled in {dropped} of {blocks} blocks: improve its cooling, or lower its power limit"
        ),
        // The caller's: a list, so that new facts are not forgotten here.
        Facts::None
        | Facts::Said(_)
        | Facts::NoBase { .. }
        | Facts::NoStoredBase(_)
        | Facts::StoredBase { .. }
        | Facts::TooFew(_)
        | Facts::Exact { .. }
        | Facts::Limit { .. }
        | Facts::ShareLimit { .. }
        | Facts::Tested(_)
        | Facts::Open { .. }
        | Facts::WaiverExpired { .. } => String::new(),
    }
}

fn exits(
    check: &CheckVerdict,
    rule: RuleId,
    base: Option<&Failed>,
    head: Option<&Failed>,
) -> String {
    if let (Some(base), Some(head)) = (base, head) {
        let (what, of_base) = (ending(head), at(base.position, base.arm));
        let how = match ending(base) == what {
            true => format!("{of_base} and {} {what}", at(head.position, head.arm)),
            false => format!("{}; {}", failed(base), failed(head)),
        };
        return format!("both arms failed: {how}");
    }
    let how = base.or(head).map(failed).unwrap_or_default();
    match rule {
        RuleId::EngineAltered => how,
        RuleId::Reliability => match check.launches.0 {
            0 => how,
            n => format!("{how}; base ran without errors ({})", count(n, "launch")),
        },
        _ if base.is_none() => {
            format!("{how}, and base was not launched: there is nothing to compare with")
        }
        _ => format!("{how}; there is nothing to compare with"),
    }
}

fn failed(failed: &Failed) -> String {
    format!("{} {}", at(failed.position, failed.arm), ending(failed))
}

/// `did not start: the detail`.
fn ending(failed: &Failed) -> String {
    let (what, detail) = match &failed.exit {
        Exit::Stopped => ("ran without errors", ""),
        Exit::NeverReady { detail, .. } => ("did not start", detail.as_str()),
        Exit::Crashed { detail, .. } => ("crashed", detail.as_str()),
        Exit::Hung { detail, .. } => ("hung", detail.as_str()),
        Exit::Altered { detail } => ("was not started", detail.as_str()),
    };
    let colon = if detail.is_empty() { "" } else { ": " };
    let lost = failed.request.as_ref().map_or_else(String::new, |lost| {
        let kind = lost.kind.as_ref().map(|kind| format!(" ({kind})"));
        let kind = kind.unwrap_or_default();
        format!(
            "; unanswered: request {} of {}{kind}",
            lost.index, lost.workload
        )
    });
    format!("{what}{colon}{detail}{lost}")
}

/// `launch 7 (head)`.
fn at(position: u32, arm: Arm) -> String {
    format!("launch {position} ({})", arm.name())
}

fn unanswered(check: &CheckVerdict, rule: RuleId, arm: Option<Arm>, voids: &Voids) -> String {
    let arms = arm.map_or("both arms", Arm::name);
    let end = match (rule, arm, check.launches.0) {
        (RuleId::Reliability, _, 0) => String::new(),
        (RuleId::Reliability, _, n) => {
            format!("; base answered all requests in {}", count(n, "launch"))
        }
        (_, Some(Arm::Head), _) => {
            ", and base was not launched: there is nothing to compare with".to_owned()
        }
        _ => String::new(),
    };
    // A model may end at once where the length is not forced.
    let is_empty = voids.counts.contains_key(&VoidRule::NoOutput) && arm.is_none();
    let advice = match is_empty {
        true => format!(
            "; if the model ends these answers at once, {FREE_LENGTH}, or send other prompts"
        ),
        false => String::new(),
    };
    format!("{arms} failed to answer: {}{end}{advice}", listed(voids))
}

/// `the detail (request 7 of tpot/decode in launch 2 of head; in all 3 × cut-stream, 1 × status)`.
fn listed(voids: &Voids) -> String {
    let Voids {
        counts,
        index,
        workload,
        launch,
        arm,
        detail,
    } = voids;
    let arm = arm.name();
    let mut counts: Vec<_> = counts.iter().map(|(rule, n)| (rule.name(), n)).collect();
    counts.sort_unstable();
    let counts: Vec<String> = counts
        .iter()
        .map(|(rule, n)| format!("{n} × {rule}"))
        .collect();
    let counts = counts.join(", ");
    let detail = detail.trim_end_matches('.');
    format!("{detail} (request {index} of {workload} in launch {launch} of {arm}; in all {counts})")
}

fn of_launch(
    check: &CheckVerdict,
    rule: RuleId,
    (position, arm): (u32, Arm),
    fact: &LaunchFact,
) -> String {
    let metric = check.metric;
    let text = match fact {
        LaunchFact::Value(v) => {
            let remark = match rule {
                RuleId::NotFinite => "",
                _ => ", which is impossible",
            };
            return format!("launch {position}: {metric} is {v}{remark}");
        }
        LaunchFact::NoGap(v) => {
            return format!(
                "launch {position}: {metric} of {v} is meaningless: most events arrived together with another"
            );
        }
        LaunchFact::Constant { values, distinct } => {
            return format!(
                "launch {position}: {values} values of {metric} have fewer than {distinct} distinct values"
            );
        }
        LaunchFact::PageCache {
            wanted,
            resident_share,
        } => {
            let found = resident_share.map_or_else(
                || {
                    "its state was never read: name the engine's files in `engine.files`, and see that util-linux's \
                     `fincore` is installed"
                        .to_owned()
                },
                |share| format!("{} % of the engine's files were in memory", number(share * 100.0)),
            );
            format!("the page cache should be {}, but {found}", wanted.name())
        }
        LaunchFact::OthersOnGpu { gpu, others } => format!(
            "{} on GPU {gpu}: what they took would count as the engine's",
            count(*others, "other process")
        ),
        LaunchFact::OthersCpu { cores, limit } => format!(
            "other processes used {} cores, {} are allowed: stop them, or measure when the machine is idle",
            number(*cores),
            number(*limit)
        ),
        LaunchFact::BusyBeside { cores, limit } => {
            let used = cores.map_or("was not read".to_owned(), |cores| {
                format!("was {} cores", number(cores))
            });
            format!(
                "the engine's CPU time while the other arm's answered {used}, {} are allowed, since it slows the other one: \
                 leave `interleave` out of the profile in gates/gate.toml",
                number(*limit)
            )
        }
        LaunchFact::Samples {
            workload,
            got,
            need,
            left_out,
        } => {
            let text = format!("{got} valid requests of {workload}; {need} are needed");
            match left_out {
                0 => text,
                _ => format!(
                    "{text}. {left_out} more arrived at one moment and have no time per token. {SEND_AT_ONCE}"
                ),
            }
        }
        LaunchFact::WrongAnswers { wrong, all, first } => {
            format!("{wrong} of {all} answers are wrong, so their times do not count; {first}")
        }
        LaunchFact::ClientLate {
            delay_ms,
            moved,
            bearable,
        } => format!(
            "the load client was late by {} ms, {} of what {metric} measures; the limit is {}. Give it a processor of \
             its own, or less load",
            number(*delay_ms),
            percent(*moved),
            percent(*bearable)
        ),
        LaunchFact::SharedEvents { share, bearable } => {
            let (events, instead) = match metric {
                Metric::Ttft => ("first events arrived together with a later one", ""),
                Metric::Icl | Metric::Itl => (
                    "events arrived together with a later one",
                    ". Or check TPOT, which reads no single event",
                ),
                _ => ("events after the first arrived together with it", ""),
            };
            format!(
                "{} of the {events}, so only an upper bound of their time is known; the limit is {}. \
                 {SEND_AT_ONCE}{instead}",
                percent(*share),
                percent(*bearable)
            )
        }
        LaunchFact::AtOnce { share, bearable } => format!(
            "{} of the answers arrived at one moment and have no time per token; the limit is {}. {SEND_AT_ONCE}",
            percent(*share),
            percent(*bearable)
        ),
        LaunchFact::Streams { asked, reached } => {
            format!("at most {reached} of {asked} requested streams were in flight")
        }
        LaunchFact::HeldBack { sending, whole } => format!(
            "first to last token took {} of base's time, and whole answers took {} of base's: what was saved after the \
             first token was lost before it, so output may have been held back. Judge e2e or ttft; if the engine is meant to \
             start later, waive this check",
            percent(*sending),
            percent(*whole)
        ),
        LaunchFact::Said(text) => match rule {
            RuleId::ServerTimings => format!("in the middle of its requests {text}"),
            RuleId::ImplausiblePhases => format!(
                "{text}. If the engine is that fast and every first token waits, give engine.plausible a tpot_floor"
            ),
            _ => text.clone(),
        },
    };
    format!("{}: {text}", at(position, arm))
}

/// Remedy for events that arrive together.
pub const SEND_AT_ONCE: &str = "Let the server send each event as soon as it is made (TCP_NODELAY, a flush after each \
                                event), and turn off buffering in any proxy between; if it does, leave the client a \
                                processor of its own (taskset), or use Linux 6.12 or newer";

/// Why zero in every launch proves that nothing was measured.
fn why_vacuous(metric: Metric) -> &'static str {
    match metric {
        Metric::KvBytes | Metric::KvUsage => {
            "an engine that holds a conversation holds some bytes of it"
        }
        Metric::PrefilledTokens => "an answer needs at least one computed prompt token",
        Metric::GpuMemory => "a model that is loaded takes some memory",
        Metric::Goodput => "where no request is within the SLO, none can be lost",
        _ => "where no case is right, none can be lost",
    }
}
