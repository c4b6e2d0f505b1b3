//! Remarks and waivers as notes beside a check.

use super::super::numbers::{self, number, percent, signed_percent, signed_percents, value};
use super::super::row;
use verdict::plural::count;
use verdict::record::{Arm, CheckVerdict, FirstEvents, Remark, TwoModes, Verdict, Waiver};

/// The note of every comparison of an A/A run.
pub const SAME_BUILD: &str = "both arms are one build: an A/A run";

/// Notes beside a check, the waiver last.
pub fn notes(check: &CheckVerdict) -> Vec<String> {
    let remarks = check.remarks.iter();
    // What both arms have is said once.
    let is_said = |remark: &&Remark| match remark {
        Remark::FirstEvents(Arm::Head, _) => has_both_alike(check),
        _ => false,
    };
    let remarks = remarks.filter(|remark| !is_said(remark));
    let remarks = remarks.flat_map(|remark| note(check, remark));
    let remarks = remarks.chain(beyond_the_margin(check));
    let valid = check.waiver.iter().filter(|waiver| !waiver.is_expired);
    let waived = valid.map(|waiver| waived(check, waiver));
    remarks.chain(waived).collect()
}

/// Those that are about the machine: every check that stayed open has the same.
pub fn disturbances(check: &CheckVerdict) -> Vec<String> {
    let remarks = check.remarks.iter();
    let noise = remarks.filter(|remark| matches!(remark, Remark::Noise { .. }));
    noise.flat_map(|remark| note(check, remark)).collect()
}

/// That TPOT estimates the first events' tokens; `answers` names the answers.
pub fn first_events(answers: &str, events: FirstEvents) -> String {
    format!(
        "{answers} have {} tokens an event, and nothing tells how many the first one had: TPOT takes {} for it, an \
         estimate",
        number(events.an_event),
        number(events.first)
    )
}

/// True if both arms' first events are estimated, by the same numbers.
fn has_both_alike(check: &CheckVerdict) -> bool {
    let of = |wanted: Arm| {
        let mut remarks = check.remarks.iter();
        remarks.find_map(|remark| match remark {
            Remark::FirstEvents(arm, events) if *arm == wanted => Some(first_events("", *events)),
            _ => None,
        })
    };
    of(Arm::Base).is_some() && of(Arm::Base) == of(Arm::Head)
}

/// Of a check that passed although its estimate is beyond the margin.
fn beyond_the_margin(check: &CheckVerdict) -> Option<String> {
    let (margin, ceiling) = row::limits(check)?;
    let loss = check.change? * check.metric.direction().sign();
    let is_passed = check.verdict == Verdict::Pass && loss > margin && ceiling > margin;
    is_passed.then(|| {
        format!(
            "the change may be more than the margin of {}, but that is not shown; it is shown to be less than the ceiling of {}, \
             so the check passes. Lower the ceiling to be stricter",
            percent(margin),
            percent(ceiling)
        )
    })
}

fn waived(check: &CheckVerdict, waiver: &Waiver) -> String {
    let (expires, owner, issue) = (&waiver.expires, &waiver.owner, &waiver.issue);
    match check.verdict {
        Verdict::Pass => {
            format!("its waiver (until {expires}, {owner}, {issue}) is not needed: delete it")
        }
        red if check.is_waived() => format!(
            "{}, waived until {expires} by {owner}: {} ({issue})",
            red.name(),
            waiver.reason
        ),
        _ => format!("its waiver (until {expires}, {owner}, {issue}) does not cover this"),
    }
}

fn note(check: &CheckVerdict, remark: &Remark) -> Vec<String> {
    let text = match remark {
        Remark::SameBuild => SAME_BUILD.to_owned(),
        Remark::Better { is_exact } => better(check, *is_exact),
        Remark::Later {
            change,
            interval,
            launches,
        } => format!(
            "passed after {}; all {} + {}, which other checks needed, give {}: look at them",
            super::launches(check),
            launches.0,
            launches.1,
            signed_percents(*change, *interval)
        ),
        Remark::LaunchesDiffer {
            arm,
            least,
            greatest,
        } => format!(
            "launches of {} answer differently, {} to {} right: a verdict must hold by each of them",
            arm.name(),
            percent(least.unwrap_or(f64::NAN)),
            percent(greatest.unwrap_or(f64::NAN))
        ),
        Remark::Worst {
            launch,
            launches,
            remarks,
            hidden,
        } => return worst((*launch, *launches), remarks, *hidden),
        Remark::EndedEarly {
            arm,
            ended,
            all,
            tokens,
        } => format!(
            "{ended} of {all} answers of {} ended by themselves, after {} tokens on average",
            arm.name(),
            number(*tokens)
        ),
        Remark::Noise { stolen, others } => noise(*stolen, *others),
        Remark::Modes(found) => modes(check, found),
        Remark::OthersCpu { cores, launch } => format!(
            "other processes used {} processors beside head's launch {launch}: measure again when the machine is idle; \
             `telemetry.others_cpu` in gates/gate.toml bounds what a launch may have beside it",
            number(*cores)
        ),
        Remark::Empty { empty, all } => format!(
            "{empty} of {all} requests are not compared: in both arms the model ended its answer before the first token"
        ),
        Remark::Blank { arm, blank, all } => format!(
            "{blank} of {all} answers of {} are blank: see whether they should be",
            arm.name()
        ),
        Remark::FirstEvents(arm, events) => format!(
            "{} (return_token_ids = true, if the engine can)",
            match has_both_alike(check) {
                true => first_events("answers of both arms", *events),
                false => first_events(&format!("answers of {}", arm.name()), *events),
            }
        ),
        Remark::Repeated { repeated, all } => format!(
            "{repeated} of {all} answers of head are one token over and over: see whether they should be"
        ),
        Remark::MachineMoved {
            change,
            interval,
            sessions,
        } => format!(
            "the machine has moved: base is {} from the {sessions} stored sessions of main; both arms feel it alike",
            signed_percents(*change, *interval)
        ),
        Remark::EndsLater { ttft_ms, e2e_ms } => format!(
            "answers end later although their tokens come as fast: E2E {} → {} ms, TTFT {} → {} ms; a check of e2e or ttft \
             judges that",
            number(e2e_ms.0),
            number(e2e_ms.1),
            number(ttft_ms.0),
            number(ttft_ms.1)
        ),
        Remark::Resent { requests } => format!(
            "{requests} requests of head were sent again, because the engine closed a kept connection without an answer: it \
             fails at them (see its log), or closes connections anyway (then set keep_alive = false under [engine])"
        ),
        Remark::Said(text) => text.clone(),
    };
    vec![text]
}

fn better(check: &CheckVerdict, is_exact: bool) -> String {
    let change = check.change.zip(check.interval).filter(|_| !is_exact);
    let change =
        change.map(|(change, interval)| format!(": {}", signed_percents(change, interval)));
    format!(
        "better by more than the margin{}: check that the engine still does all the work",
        change.unwrap_or_default()
    )
}

/// One note a remark, the first with its launch where there are several.
fn worst((launch, launches): (u32, usize), remarks: &[String], hidden: usize) -> Vec<String> {
    let mut notes = remarks.to_vec();
    if hidden > 0 {
        notes.push(format!("and {hidden} more"));
    }
    if let Some(first) = notes.first_mut().filter(|_| launches > 1) {
        let launches = count(launches, "launch");
        *first = format!("launch {launch}, the worst of {launches}: {first}");
    }
    notes
}

fn modes(check: &CheckVerdict, found: &TwoModes) -> String {
    let unit = check.metric.unit();
    let TwoModes {
        values: (low, high),
        base,
        head,
        share_p,
        ..
    } = *found;
    let within = found.within.map(|(change, interval)| {
        let change = signed_percents(change, interval);
        format!("; within the modes head is {change} from base")
    });
    let is_disturbed = check
        .remarks
        .iter()
        .any(|remark| matches!(remark, Remark::Noise { .. }));
    let cause = match found.by_machine {
        _ if is_disturbed => {
            "Other work on the machine may make them: measure when it rests. If they stay, the engine may draw something at its \
             start (a kernel chosen by its timing, huge pages, the processor)"
        }
        true => {
            "The mode changes while launches are measured, base's too: the machine has it (other work, clocks, the \
             host). Measure when it rests"
        }
        false => {
            "An engine that draws something at its start does that (a kernel chosen by its timing, huge pages, the \
             processor): fix what is drawn, or measure more launches"
        }
    };
    format!(
        "launches come in two modes, {} and {} ({}): {} of {} of base and {} of {} of head are in the upper one \
         (equal shares: p = {}){}. {cause}",
        value(low, unit),
        value(high, unit),
        signed_percent(high / low - 1.0),
        base.0,
        base.1,
        head.0,
        head.1,
        numbers::p(share_p),
        within.unwrap_or_default(),
    )
}

fn noise(stolen: Option<(f64, u32)>, others: Option<(f64, u32)>) -> String {
    let stolen = stolen.map(|(share, launch)| {
        let taken = percent(share);
        format!("the host took up to {taken} of the processors' time (launch {launch})")
    });
    let others = others.map(|(cores, launch)| {
        let used = number(cores);
        format!("other processes used up to {used} processors (launch {launch})")
    });
    let causes: Vec<String> = stolen.into_iter().chain(others).collect();
    format!(
        "disturbed: {}; measure on an idle machine, or run `gate calibrate`: then launches that run beside each \
         other are compared in pairs, so that what disturbs both cancels",
        causes.join(", ")
    )
}
