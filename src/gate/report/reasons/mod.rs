//! A verdict's reasons, remarks and summary in sentences: the judge's facts, put into words.
//!
//! Main functions: [`sentence`], [`notes`] and [`summary`].

mod headline;
mod invalid;
mod remark;
mod tested;
mod words;

pub use headline::{decisive, summary};
pub use invalid::SEND_AT_ONCE;
pub use remark::{SAME_BUILD, disturbances, first_events, notes};
pub use words::capital;

use super::numbers;
use verdict::plural::count;
use verdict::record::{
    CheckVerdict, Direction, Ended, Facts, Reason, RuleId, StoredSessions, TooFew, Verdict,
    machine_changes,
};

/// One sentence: why the check has its verdict.
pub fn sentence(check: &CheckVerdict) -> String {
    of(check, &check.reason)
}

/// [`sentence`] without its examples, and the examples, which are easier to read as a list.
pub fn sentence_and_examples(check: &CheckVerdict) -> (String, Vec<String>) {
    let sentence = sentence(check);
    let examples = examples(check);
    let joined = format!(": {}", examples.join("; "));
    match sentence.split_once(&joined) {
        Some((before, after)) if examples.len() > 1 => {
            (format!("{before}{after}"), examples.to_vec())
        }
        _ => (sentence, Vec::new()),
    }
}

/// The examples in the sentence, where `; ` joins them.
fn examples(check: &CheckVerdict) -> &[String] {
    let mut facts = &check.reason.facts;
    while let Facts::Open { before, .. } | Facts::WaiverExpired { before, .. } = facts {
        facts = &before.facts;
    }
    match facts {
        Facts::Limit { remarks, .. } => remarks,
        _ => &[],
    }
}

/// The reason in words, which may be a part of the check's own.
fn of(check: &CheckVerdict, reason: &Reason) -> String {
    match &reason.facts {
        Facts::None => by_rule(check, reason.rule),
        Facts::Said(text) => said(reason.rule, text),
        Facts::NoBase { anchored } => no_base(*anchored).to_owned(),
        Facts::NoStoredBase(stored) => no_stored_base(stored),
        Facts::StoredBase { sessions } => stored_base(check, *sessions),
        Facts::TooFew(few) => too_few(check, *few),
        Facts::Exact { margin, is_beyond } => tested::exact(check, *margin, *is_beyond),
        Facts::Limit {
            limit,
            held,
            remarks,
        } => tested::against(check, *limit, *held, remarks),
        Facts::ShareLimit {
            limit,
            is_broken,
            cases,
            remarks,
        } => {
            tested::share_against(check, *limit, *is_broken, *cases) + &tested::for_example(remarks)
        }
        Facts::Tested(tested) => tested::by_test(check, tested),
        Facts::Open { before, ended } => {
            format!("{}; {}", of(check, before), how_it_ended(check, ended))
        }
        Facts::WaiverExpired { was, before } => waiver_expired(check, *was, before),
        _ => invalid::sentence(check, reason),
    }
}

/// Where the rule says it all.
fn by_rule(check: &CheckVerdict, rule: RuleId) -> String {
    let metric = check.metric;
    match rule {
        RuleId::OneArtifact => {
            "head and base differ, but built identical artifacts: the change was not measured. Let \
             engine.build.artifact name all that the engine is started from"
                .to_owned()
        }
        RuleId::NoPairedCases => {
            "stored sessions keep no single cases, and shares are compared case by case: use --base REF".to_owned()
        }
        RuleId::NoRelativeScale => format!(
            "{metric} is 0 or below in some launch, and no change is a share of that: ask for longer contexts, or \
             give it a ceiling"
        ),
        RuleId::CounterVaries => {
            let limit = match metric.direction() {
                Direction::LowerIsBetter => "ceiling",
                Direction::HigherIsBetter => "floor",
            };
            format!(
                "{metric} differs between launches of one build and touches zero: there is no scale to compare on; \
                 give it a {limit} instead"
            )
        }
        other => other.name().to_owned(),
    }
}

fn said(rule: RuleId, text: &str) -> String {
    match rule {
        RuleId::UnknownWorkload => format!("the plan has no workload {text}"),
        RuleId::NoVariance => format!("no test is possible: {text}"),
        _ => text.to_owned(),
    }
}

fn no_base(anchored: bool) -> &'static str {
    match anchored {
        true => {
            "recorded beside its anchor, not judged against it: `gate history` reads main's course"
        }
        false => "head was measured alone: there is nothing to compare it with",
    }
}

fn no_stored_base(stored: &StoredSessions) -> String {
    let StoredSessions {
        usable,
        needed,
        elsewhere,
        old,
        max_age_days,
        without,
        moved,
    } = stored;
    let moved = moved.as_ref().map_or_else(String::new, |(then, now)| {
        let changes = machine_changes(then, now).join(", ");
        format!("; a new series starts, since the machine has changed: {changes}")
    });
    format!(
        "{usable} of {needed} stored sessions of main that a stored comparison needs ({elsewhere} more of another \
         machine, {old} older than {max_age_days} days, {without} without this check): `gate baseline record` on main \
         adds one{moved}"
    )
}

fn stored_base(check: &CheckVerdict, sessions: usize) -> String {
    format!(
        "{}: {} against {sessions} stored sessions of main. That is advice: a driver, clocks or cooling that changed \
         since then look like a change of the engine, or hide one. `--base main` measures main beside head, and decides",
        tested::changed(check),
        numbers::interval(check.change, check.interval)
    )
}

fn too_few(check: &CheckVerdict, few: TooFew) -> String {
    let launches = launches(check);
    match few {
        TooFew::NoCases => "no launch answered the cases".to_owned(),
        _ if check.launches == (0, 0) => "not measured".to_owned(),
        TooFew::SoFar => format!("only {launches}"),
        TooFew::NextLook { blocks } => {
            format!("{launches}; next tested after {blocks} blocks")
        }
        TooFew::Needed { an_arm } => {
            format!("{launches} in all: a t-test needs {an_arm} an arm")
        }
    }
}

/// `8 + 8 launches`, base first; `8 launches` where there is no base.
fn launches(check: &CheckVerdict) -> String {
    match check.launches {
        (0, head) => count(head, "launch"),
        (base, head) => format!("{base} + {head} launches"),
    }
}

fn how_it_ended(check: &CheckVerdict, ended: &Ended) -> String {
    match ended {
        // True also of a run that its budget or a signal ended.
        Ended::Failed { check: failed } => {
            let gate = |id: &str| id.split('/').next().unwrap_or_default().to_owned();
            let own = gate(&check.id);
            let alone = match gate(failed) == own {
                true => String::new(),
                false => format!(" (`gate check --gate {own}` measures {own} alone)"),
            };
            format!("left open, since {failed} failed and decides the run{alone}")
        }
        Ended::EngineFailed { detail } => format!("the session ended: {detail}"),
        Ended::Budget {
            blocks,
            cap,
            starting,
        } => {
            let remedy = match starting {
                Some(starting) => format!(", while {starting}"),
                None => ": raise `budget` of the profile in gates/gate.toml".to_owned(),
            };
            let cap = count(*cap, "block");
            format!("the time budget ran out after {blocks} of at most {cap}{remedy}")
        }
        Ended::Interrupted { blocks, cap } => {
            let cap = count(*cap, "block");
            format!("the session was interrupted after {blocks} of at most {cap}")
        }
    }
}

fn waiver_expired(check: &CheckVerdict, was: Verdict, before: &Reason) -> String {
    let waiver = check.waiver.as_ref().map(|waiver| {
        let (expires, owner) = (&waiver.expires, &waiver.owner);
        format!("{expires} ({owner}, {}: {})", waiver.issue, waiver.reason)
    });
    format!(
        "its waiver expired on {}: renew it in gates/waivers.toml, or delete it; without it: {}, {}",
        waiver.unwrap_or_default(),
        was.name(),
        of(check, before)
    )
}
