//! Sentences on a value that was compared: by a test, exactly, or against a limit.

use super::super::numbers::{self, bare, percent, uncut};
use super::launches;
use super::words::{self, gate_of, name_of};
use verdict::plural::count;
use verdict::record::{
    Advice, Cases, CheckVerdict, Held, Hypothesis, Limit, Metric, Side, Tested, Verdict,
};

/// Words for breaking a limit and for keeping it.
fn broken_and_kept(limit: Limit) -> (&'static str, &'static str) {
    match limit.side {
        Side::Ceiling => ("above", "below"),
        Side::Floor => ("below", "above"),
    }
}

/// `the ceiling of 20 ms`.
fn stated(check: &CheckVerdict, limit: Limit) -> String {
    let rule = limit.rule().name();
    format!("the {rule} of {}", uncut(limit.value, check.metric.unit()))
}

/// `TPOT 20.64 → 21.9 ms`.
pub fn changed(check: &CheckVerdict) -> String {
    let name = name_of(check);
    match (check.base, check.head) {
        (Some(base), Some(head)) => {
            format!("{name} {}", words::change(check.metric, base, head))
        }
        _ => name,
    }
}

/// Of launches that all have the same value.
pub fn exact(check: &CheckVerdict, margin: f64, is_beyond: bool) -> String {
    let how = if is_beyond { "beyond" } else { "within" };
    let by = check
        .change
        .map_or("up from nothing".to_owned(), numbers::signed_percent);
    format!(
        "{}: {by}, {how} the margin of {} (identical in {})",
        changed(check),
        percent(margin),
        launches(check)
    )
}

/// Of head's worst launch against a limit, by no test.
pub fn against(check: &CheckVerdict, limit: Limit, held: Held, remarks: &[String]) -> String {
    let name = name_of(check);
    let head = uncut(check.head.unwrap_or(f64::NAN), check.metric.unit());
    let subject = format!("{name} {head}{}", beside_base(check));
    let (broken, _) = broken_and_kept(limit);
    let stated = stated(check, limit);
    if held == Held::Kept {
        let behind = count(check.launches.1, "launch");
        return format!("{subject}, not {broken} {stated} ({behind})");
    }
    let remarks = match remarks {
        [] => String::new(),
        remarks => format!(": {}", remarks.join("; ")),
    };
    let meant = match check.metric {
        Metric::AnswerMismatches if held == Held::Broken => {
            ". If they are meant to differ, waive this check (gates/waivers.toml)"
        }
        _ => "",
    };
    let text = format!("{subject}, {broken} {stated}{remarks}{meant}");
    match held {
        Held::Unsure => format!("{text}; {}", why_unsure(check)),
        _ => text,
    }
}

fn why_unsure(check: &CheckVerdict) -> String {
    let file = gate_of(check);
    let why = match check.metric {
        Metric::AnswerMismatches => {
            return format!(
                "these are faults, or near-ties: two tokens about equally likely, chosen by rounding. To settle it, set `top_k`, \
                 and a `near_tie` as wide as the engine's own, in gates/{file}.toml, if it gives log-probabilities; else set \
                 `prompts` four times as high there. If they are meant, waive this check (gates/waivers.toml)"
            );
        }
        Metric::StreamMismatches => {
            "these may be near-ties: two tokens about equally likely, chosen by rounding. To settle it, raise `passes` \
             of the workload"
        }
        Metric::GoldenMismatches => {
            "these may be near-ties, and the goldens have no log-probabilities to tell: `gate golden make --model` \
             stores them. If main's answers have changed, make the goldens anew"
        }
        _ => {
            "the readings vary so much that this may be chance: use a longer workload, or read telemetry more often"
        }
    };
    why.to_owned()
}

/// ` (base 20 ms)`, where base was measured.
fn beside_base(check: &CheckVerdict) -> String {
    let base = check.base;
    base.map_or_else(String::new, |base| {
        format!(" (base {})", uncut(base, check.metric.unit()))
    })
}

/// `TPOT 20 ms [19, 21]`.
fn with_interval(check: &CheckVerdict, (low, high): (f64, f64)) -> String {
    let metric = check.metric;
    format!(
        "{} {} [{}, {}]",
        name_of(check),
        uncut(check.head.unwrap_or(f64::NAN), metric.unit()),
        bare(low, metric.unit()),
        bare(high, metric.unit())
    )
}

/// Of the cases of a launch against a limit of 0 or 1.
pub fn share_against(check: &CheckVerdict, limit: Limit, is_broken: bool, cases: Cases) -> String {
    let how = match is_broken {
        true => broken_and_kept(limit).0,
        false => "not beyond",
    };
    format!("{}, {how} {}", share(check, cases), stated(check, limit))
}

fn share(check: &CheckVerdict, cases: Cases) -> String {
    let interval = check.interval.unwrap_or((0.0, 1.0));
    let subject = with_interval(check, interval);
    format!("{subject}, {} of {}", cases.right, count(cases.all, "case"))
}

/// `, for example …`; nothing without remarks.
pub fn for_example(remarks: &[String]) -> String {
    match remarks {
        [] => String::new(),
        remarks => format!(", for example {}", remarks.join("; ")),
    }
}

/// A test in words.
struct Words {
    subject: String,
    beyond: String,
    within: String,
    /// Evidence: launches or cases.
    behind: String,
}

pub fn by_test(check: &CheckVerdict, tested: &Tested) -> String {
    let Words {
        subject,
        beyond,
        within,
        behind,
    } = in_words(check, &tested.hypothesis);
    let pass = numbers::p(check.p_pass.unwrap_or(1.0));
    let fail = numbers::p(tested.holm);
    let fail = match tested.family {
        1 => format!("p = {fail}"),
        n => format!("p = {fail}, corrected for {n} checks"),
    };
    let alpha = numbers::p(tested.alpha);
    match (tested.outcome, tested.advice) {
        // Without this, a p close to its level would look like a close call.
        (Verdict::Fail, _) if tested.is_smallest => {
            format!("{subject}, {beyond} ({fail}, the least that {behind} can show)")
        }
        (Verdict::Fail, _) => format!("{subject}, {beyond} ({fail}; {behind})"),
        (Verdict::Pass, _) => format!("{subject}, {within} (p = {pass}; {behind})"),
        (_, Some(Advice::NotShown)) => format!(
            "{subject}, {beyond} by its interval, so it does not pass; not shown well enough to fail ({fail}, needs ≤ \
             {alpha}; {behind})"
        ),
        (_, Some(Advice::FewLaunches { blocks })) => {
            let more = match blocks {
                Some(blocks) => {
                    format!("{blocks} + {blocks} can, and fewer after `gate calibrate`")
                }
                None => "raise the workload's `launches`, or the profile's last look, or run `gate calibrate`".to_owned(),
            };
            format!(
                "{subject}, {beyond} by its interval, so it does not pass; {behind} are too few to fail, since all may be in \
                 one of two modes: {more}"
            )
        }
        (_, advice) => format!(
            "{subject}: shown neither to be {beyond} ({fail}, needs ≤ {alpha}) nor {within} (p = {pass}, needs ≤ {}) by \
             {behind}{}",
            numbers::p(tested.beta),
            advice.map_or_else(String::new, |advice| advise(check, advice))
        ),
    }
}

fn in_words(check: &CheckVerdict, hypothesis: &Hypothesis) -> Words {
    match hypothesis {
        Hypothesis::Change { margin, ceiling } => {
            let change = check.change.zip(check.interval);
            let change =
                change.map(|(change, interval)| numbers::signed_percents(change, interval));
            Words {
                subject: format!("{}: {}", changed(check), change.unwrap_or_default()),
                behind: launches(check),
                ..of_change(*margin, *ceiling)
            }
        }
        Hypothesis::Lost {
            margin,
            ceiling,
            lost,
            gained,
            cases,
            launches,
        } => {
            let of = count(*cases, "case");
            Words {
                subject: format!("{}: {lost} of {of} lost, {gained} gained", changed(check)),
                behind: cases_behind(*cases, *launches),
                ..of_change(*margin, *ceiling)
            }
        }
        Hypothesis::Limit(limit) => {
            let interval = check.interval.unwrap_or((f64::NAN, f64::NAN));
            Words {
                subject: with_interval(check, interval) + &beside_base(check),
                behind: count(check.launches.1, "launch"),
                ..of_limit(check, *limit)
            }
        }
        Hypothesis::ShareLimit {
            limit,
            cases,
            launches,
            remarks,
        } => {
            let words = of_limit(check, *limit);
            Words {
                subject: share(check, *cases),
                beyond: words.beyond + &for_example(remarks),
                behind: cases_behind(cases.all, *launches),
                within: words.within,
            }
        }
    }
}

fn of_change(margin: f64, ceiling: f64) -> Words {
    Words {
        subject: String::new(),
        beyond: format!("beyond the margin of {}", percent(margin)),
        within: format!("below the ceiling of {}", percent(ceiling)),
        behind: String::new(),
    }
}

fn of_limit(check: &CheckVerdict, limit: Limit) -> Words {
    let stated = stated(check, limit);
    let (broken, kept) = broken_and_kept(limit);
    Words {
        subject: String::new(),
        beyond: format!("{broken} {stated}"),
        within: format!("{kept} {stated}"),
        behind: String::new(),
    }
}

/// `100 cases`, `100 cases in each of 4 launches`.
fn cases_behind(cases: u64, launches: usize) -> String {
    let cases = count(cases, "case");
    match launches {
        1 => cases,
        n => format!("{cases} in each of {}", count(n, "launch")),
    }
}

fn advise(check: &CheckVerdict, advice: Advice) -> String {
    match advice {
        Advice::TooNoisy {
            cap,
            effect,
            ceiling,
        } => {
            let launches = match cap {
                Some(cap) => format!("{} an arm", count(cap, "launch")),
                None => launches(check),
            };
            format!(
                "; too noisy: {launches} find {} at best, the ceiling is {}: measure on a quieter machine (see `gate doctor`) or raise the \
                 ceiling",
                numbers::effect(effect),
                percent(ceiling)
            )
        }
        Advice::FewLaunches { .. } | Advice::NotShown => String::new(),
        Advice::MoreCases { cases, needed } => format!(
            "; {} cannot show it even if all are right: {} are needed",
            count(cases, "case"),
            numbers::number(needed)
        ),
    }
}
