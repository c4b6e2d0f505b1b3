//! The verdict of a hostile artifact: its measurements, judged anew by this program with main's own gates.
//!
//! Of the artifact's record the machine, the builds, the launches, the ending, the seed and the time spent are taken.
//! The plan and its files, main's stored sessions, the certificates and the moment of judging are this side's own
//! (docs/decisions/0023-what-is-taken-from-an-artifact.md). Main function: [`judge_anew`]. Refuses to know: GitHub, and
//! how a verdict is told.

use super::artifact::{Claim, Refusal};
use super::limits;
use crate::session::project::now;
use crate::session::{Error, baseline, citation, resume};
use std::path::Path;
use verdict::judge;
use verdict::plan::Plan;
use verdict::plural::first_of;
use verdict::record::{
    Arm, Build, Citation, Comparison, Extent, Input, Interleave, Launch, RunRecord, RunVerdict,
    Shard, Standing,
};

/// Names that a notice holds.
const NAMED: usize = 8;

/// What this side knows by itself.
#[derive(Debug)]
pub struct Ours<'a> {
    /// Root of main's checkout.
    pub root: &'a Path,
    pub plan: Plan,
    pub inputs: Vec<Input>,
    /// The commits that were authorised, whole ids.
    pub head_sha: &'a str,
    pub base_sha: &'a str,
    /// A result without a sandbox is not believed.
    pub require_sandbox: bool,
}

impl Ours<'_> {
    /// The commit that was authorised as this arm.
    fn sha(&self, arm: Arm) -> &str {
        match arm {
            Arm::Head => self.head_sha,
            Arm::Base => self.base_sha,
        }
    }
}

/// A verdict that does not hang on anybody's word but for the measurements themselves.
#[derive(Debug)]
pub struct Trusted {
    pub plan: Plan,
    pub record: RunRecord,
    pub verdict: RunVerdict,
    /// Where the artifact said otherwise.
    pub notices: Vec<String>,
}

/// Judges the record of an artifact.
///
/// # Errors
/// The inner one: the record is not believed. The outer one: main's own stores cannot be read.
pub fn judge_anew(
    ours: Ours<'_>,
    theirs: RunRecord,
    claim: Option<&Claim>,
) -> Result<Result<Trusted, Refusal>, Error> {
    if let Err(refusal) = believable(&ours, &theirs) {
        return Ok(Err(refusal));
    }
    let mut notices = differences(&ours, &theirs);
    let claimed = theirs.calibration.clone();
    let mut record = replaced(&ours, theirs, &claimed)?;
    notices.extend(cite_claims(&mut record, claimed));
    let verdict = judge::judge(&ours.plan, &record);
    notices.extend(claim.and_then(|claim| contradiction(claim, &verdict)));
    Ok(Ok(Trusted {
        plan: ours.plan,
        record,
        verdict,
        notices,
    }))
}

/// Every session of the record is believable, be it one or those of several machines.
fn believable(ours: &Ours<'_>, theirs: &RunRecord) -> Result<(), Refusal> {
    // Those of no session too: reports show them.
    authorised(ours, &theirs.builds).map_err(Refusal::Unsound)?;
    match &theirs.extent {
        Extent::Whole => believable_session(ours, theirs),
        Extent::Shard { .. } => Err(Refusal::Unsound(
            "it is one machine's shard: `gate shard merge` puts the shards of a run together"
                .to_owned(),
        )),
        Extent::Merged { shards } => {
            let counted: u64 = shards.iter().map(|shard| u64::from(shard.launches)).sum();
            if counted != theirs.launches.len() as u64 {
                let why = "its shards do not add up to its launches".to_owned();
                return Err(Refusal::Unsound(why));
            }
            let sessions = theirs.shard_sessions(0);
            sessions
                .iter()
                .try_for_each(|session| believable_session(ours, session))
        }
    }
}

/// The commits are those that were authorised, and the session holds together.
fn believable_session(ours: &Ours<'_>, theirs: &RunRecord) -> Result<(), Refusal> {
    let unsound = |why: String| Err(Refusal::Unsound(why));
    let is_aa = ours.head_sha == ours.base_sha;
    match theirs.comparison {
        Comparison::Interleaved | Comparison::Stored => {}
        Comparison::SameBuild if is_aa => {}
        other => return unsound(format!("it compares nothing with main ({other:?})")),
    }
    // Of an imported session less is asked: nobody knows what its client and its machine did.
    if theirs.is_imported() {
        return unsound("another tool measured it".to_owned());
    }
    for arm in theirs.comparison.arms() {
        commit(&theirs.builds, *arm, ours.sha(*arm)).or_else(unsound)?;
    }
    authorised(ours, &theirs.builds).or_else(unsound)?;
    isolation(ours, theirs).or_else(unsound)?;
    built(theirs).or_else(unsound)?;
    limits::sound(theirs, &ours.plan).or_else(unsound)
}

/// Refuses engines beside one another, and a missing sandbox where the project requires one.
fn isolation(ours: &Ours<'_>, theirs: &RunRecord) -> Result<(), String> {
    let took_turns = |launch: &Launch| launch.interleave == Interleave::Requests;
    if theirs.launches.iter().any(took_turns) {
        return Err(
            "its engines ran at the same time, where head's can send requests to base's and slow it: measure by a profile \
             without `interleave = \"requests\"`"
                .to_owned(),
        );
    }
    let isolation = theirs.machine.isolation.as_ref();
    let is_isolated = isolation.is_some_and(|isolation| !isolation.layers.is_empty());
    if !ours.require_sandbox || is_isolated {
        return Ok(());
    }
    let note = isolation.and_then(|isolation| isolation.note.as_deref());
    let note: String = note
        .unwrap_or("the record does not say")
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    Err(format!(
        "builds and engines ran without a sandbox, which `require_sandbox` in [github] asks for ({note})"
    ))
}

/// Base comes from CI's own build of it, and is another artifact than head: else head may have been measured as both.
fn built(theirs: &RunRecord) -> Result<(), String> {
    let arms = theirs.comparison.arms();
    let (Some(base), Some(head)) = (
        Build::of(&theirs.builds, Arm::Base),
        Build::of(&theirs.builds, Arm::Head),
    ) else {
        return Ok(());
    };
    if !arms.contains(&Arm::Base) {
        return Ok(());
    }
    if base.on_ci != Some(true) {
        return Err("base was not built on CI: let the job that measures build it (a CI sets the variable CI)".to_owned());
    }
    if base.commit != head.commit && base.artifact_sha256 == head.artifact_sha256 {
        return Err(
            "base and head are different commits with one artifact: the change was not measured"
                .to_owned(),
        );
    }
    Ok(())
}

/// Every build that the record names is of an authorised commit, one an arm.
fn authorised(ours: &Ours<'_>, builds: &[Build]) -> Result<(), String> {
    limits::builds(builds)?;
    let mut arms = builds.iter().map(|build| build.arm);
    arms.try_for_each(|arm| commit(builds, arm, ours.sha(arm)))
}

fn commit(builds: &[Build], arm: Arm, expected: &str) -> Result<(), String> {
    let name = arm.name();
    let build = Build::of(builds, arm).ok_or_else(|| format!("it says nothing of {name}"))?;
    if build.dirty {
        return Err(format!("{name} had uncommitted changes"));
    }
    match build.commit.as_deref() {
        Some(commit) if commit == expected => Ok(()),
        Some(commit) => {
            let commit: String = commit
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .take(12)
                .collect();
            Err(format!(
                "it measured {commit} as {name}, {} was authorised",
                &expected[..12.min(expected.len())]
            ))
        }
        None => Err(format!("it names no commit for {name}")),
    }
}

/// The record with everything replaced that this side knows better.
fn replaced(ours: &Ours<'_>, theirs: RunRecord, claimed: &[Citation]) -> Result<RunRecord, Error> {
    let Ours {
        root, plan, inputs, ..
    } = ours;
    // The artifact's own moment would let it choose whether a waiver has expired.
    let created = now();
    let mut record = RunRecord {
        created: created.clone(),
        profile: plan.design.profile.clone(),
        gates: plan.gates.iter().map(|gate| gate.name.clone()).collect(),
        inputs: inputs.clone(),
        // Main's gates judge, whichever the machine's tree had.
        changed_gates: None,
        stored: Vec::new(),
        calibration: Vec::new(),
        described: None,
        ..theirs
    };
    let has_further_args = resume::has_further_args(plan, &record);
    let citations = citation::of_tested(plan).map(|gate| {
        let fingerprint = machine_of(&record, &gate.name);
        let (standing, _) = citation::of_gate(plan, root, gate, fingerprint, &created)?;
        Ok(Citation {
            gate: gate.name.clone(),
            standing: judged_as_measured(
                citation::of_engine(standing, has_further_args),
                claimed.iter().find(|claim| claim.gate == gate.name),
            ),
            learned: None,
        })
    });
    record.calibration = citations.collect::<Result<_, Error>>()?;
    let stored = baseline::sessions_of(root, plan, &record);
    record.stored = match record.comparison {
        Comparison::Stored => stored?,
        // For a remark alone.
        _ => stored.unwrap_or_default(),
    };
    if let Extent::Merged { shards } = &mut record.extent {
        for shard in shards {
            shard.created.clone_from(&created);
            shard.stored = match shard.comparison {
                Comparison::Stored => record.stored.clone(),
                _ => Vec::new(),
            };
        }
    }
    Ok(record)
}

/// Fingerprint of the machine that measured a gate.
fn machine_of<'a>(record: &'a RunRecord, gate: &str) -> &'a str {
    let shards: &[Shard] = match &record.extent {
        Extent::Merged { shards } => shards,
        Extent::Whole | Extent::Shard { .. } => &[],
    };
    let mut measured = shards.iter().filter(|s| s.gates.iter().any(|g| g == gate));
    let machine = measured
        .next()
        .map_or(&record.machine, |shard| &shard.machine);
    &machine.fingerprint
}

/// The certificate of main's checkout, without the variance of launches where the session was not measured by the same: it
/// stopped by another test then, and a claim may be forged.
fn judged_as_measured(standing: Standing, claimed: Option<&Citation>) -> Standing {
    let Standing::Valid(mut ours) = standing else {
        return standing;
    };
    let is_same = claimed.is_some_and(|claimed| match &claimed.standing {
        Standing::Valid(theirs) => theirs.noise == ours.noise && claimed.learned.is_none(),
        Standing::Void { .. } | Standing::Missing => false,
    });
    if !is_same {
        ours.noise.clear();
    }
    Standing::Valid(ours)
}

/// Where main's checkout holds no certificate, the machine's own are cited, and said to be. No verdict depends on
/// them: what they say of launches' variance is left out.
fn cite_claims(record: &mut RunRecord, mut claimed: Vec<Citation>) -> Option<String> {
    let is_missing = |citation: &Citation| citation.standing == Standing::Missing;
    claimed.retain(|citation| record.gates.contains(&citation.gate));
    if !record.calibration.iter().all(is_missing) || claimed.iter().all(is_missing) {
        return None;
    }
    for citation in &mut claimed {
        citation.learned = None;
        if let Standing::Valid(certified) = &mut citation.standing {
            certified.noise.clear();
        }
    }
    record.calibration = claimed;
    let text = "false alarms and smallest effects are told by the machine's own word: main's checkout holds no \
                certificate of it";
    Some(text.to_owned())
}

/// Where the record was planned otherwise than main plans.
fn differences(ours: &Ours<'_>, theirs: &RunRecord) -> Vec<String> {
    let mut notices = Vec::new();
    let plan = &ours.plan;
    if theirs.profile != plan.design.profile {
        notices.push(format!(
            "it was measured with the profile {}, and is judged with {}, which was authorised",
            theirs.profile, plan.design.profile
        ));
    }
    let gates: Vec<&str> = plan.gates.iter().map(|gate| gate.name.as_str()).collect();
    if theirs.gates != gates {
        notices.push(format!(
            "it was measured for the gates {}, and is judged by {}, which were authorised",
            named(theirs.gates.iter().map(String::as_str)),
            named(gates.iter().copied())
        ));
    }
    let text = |inputs: &[Input], path: &str| {
        inputs
            .iter()
            .find(|i| i.path == path)
            .map(|i| i.text.clone())
    };
    let paths = ours
        .inputs
        .iter()
        .chain(&theirs.inputs)
        .map(|input| input.path.as_str());
    let mut changed: Vec<&str> = paths
        .filter(|path| text(&ours.inputs, path) != text(&theirs.inputs, path))
        .collect();
    changed.sort_unstable();
    changed.dedup();
    if !changed.is_empty() {
        notices.push(format!(
            "its gates are not main's ({}): it is judged with main's",
            named(changed.into_iter())
        ));
    }
    if theirs.comparison == Comparison::Stored {
        notices.push(
            "it is compared with main's stored sessions, as main's own store has them".to_owned(),
        );
    }
    notices
}

/// A few names, and how many more there are.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    first_of(&all, NAMED, all.len())
}

/// What the artifact's own verdict says otherwise; `None` where it says the same.
fn contradiction(claim: &Claim, verdict: &RunVerdict) -> Option<String> {
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let other: Vec<String> = checks
        .filter_map(|check| {
            let said = claim.checks.get(&check.id)?;
            let is = check.verdict.name();
            (said != is).then(|| format!("{}: {} → {is}", check.id, word(said)))
        })
        .collect();
    let is = verdict.verdict.name();
    if claim.verdict == is && other.is_empty() {
        return None;
    }
    let mut text = format!(
        "the artifact says `{}`; its measurements, judged here with main's gates, say `{is}`",
        word(&claim.verdict)
    );
    if !other.is_empty() {
        text.push_str(&format!(" ({})", named(other.iter().map(String::as_str))));
    }
    Some(text)
}

fn word(text: &str) -> String {
    match text {
        "" => "nothing".to_owned(),
        text => text.chars().filter(|c| !c.is_control()).take(20).collect(),
    }
}
