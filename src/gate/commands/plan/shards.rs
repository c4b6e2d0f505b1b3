//! A run over several machines: what each gate costs, which machine measures it, and what a shard is told.

use crate::baseline::{Entry, Spent, Store};
use crate::session::Error;
use crate::session::baseline::key_on;
use crate::session::launch_cost::spent;
use crate::session::project::Project;
use crate::session::results::{directories, read_record};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use verdict::judge;
use verdict::plan::{self, Gate, Piece, Plan, PlanError, Selection, ShardPlan};
use verdict::record::{Comparison, Extent, RunRecord};

/// Result directories that are read for durations, the newest by name.
const MOST_READ: usize = 10;

/// The part of the run that a session with these gates is to be.
pub fn extent(project: &Project, together: &[String]) -> Result<Extent, Error> {
    if together.is_empty() {
        return Ok(Extent::Whole);
    }
    let all = Selection {
        profile: project.plan.design.profile.clone(),
        gates: together.to_vec(),
    };
    let (all, _) = plan::from_directory(&project.root, &all)?;
    let names: Vec<String> = all.gates.iter().map(|gate| gate.name.clone()).collect();
    let strays = project.plan.gates.iter().map(|gate| &gate.name);
    if let Some(stray) = strays.into_iter().find(|name| !names.contains(name)) {
        return Err(Error::Usage(format!(
            "the gate {stray} is not among those of --together; name in --gate this shard's gates, in --together \
             those of all shards"
        )));
    }
    Ok(Extent::Shard {
        together: names,
        checks: judge::family(&all),
    })
}

#[derive(Clone, Debug)]
pub struct LayoutOptions {
    pub start: PathBuf,
    pub selection: Selection,
    /// How many machines; `None`: the plan as it is.
    pub shards: Option<usize>,
}

/// The plan, what its gates cost, and where they go.
#[derive(Clone, Debug)]
pub struct Layout {
    pub plan: Plan,
    /// One a gate, in plan order.
    pub costs: Vec<Cost>,
    /// Empty where nobody asked for any.
    pub shards: Vec<ShardPlan>,
}

/// What a launch of one gate's engine takes.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Equal for gates that share launches; from 0.
    pub group: usize,
    /// What the gates are divided by; seconds only as far as [`Cost::seconds`] says.
    pub spent: Spent,
    pub source: CostSource,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// A result directory of this machine.
    Results,
    /// A stored session of main.
    Stored,
    /// Nobody measured it: the tokens that its file asks for, at the pace of what was measured.
    Guessed,
    /// Nothing at all was measured, so there is no pace: the numbers hold against each other and are no seconds.
    Unknown,
}

impl Cost {
    /// Seconds, where anybody knows them or can guess them.
    pub fn seconds(&self) -> Option<Spent> {
        (self.source != CostSource::Unknown).then_some(self.spent)
    }
}

impl Layout {
    /// Seconds that a session with this number of blocks takes: both arms, without builds. `None` if a gate's cost is unknown.
    pub fn session_s(&self, blocks: u32) -> Option<f64> {
        let mut starts: BTreeMap<usize, f64> = BTreeMap::new();
        let mut work_s = 0.0;
        for (gate, cost) in self.plan.gates.iter().zip(&self.costs) {
            let spent = cost.seconds()?;
            let launches = f64::from(gate.blocks_of(blocks));
            let start_s = starts.entry(cost.group).or_default();
            *start_s = start_s.max(spent.start_s * launches);
            work_s += spent.work_s * launches;
        }
        Some(2.0 * (starts.values().sum::<f64>() + work_s))
    }

    /// Minutes of a shard's session at the most: both arms, up to the last look, within the budget. Of gates that nobody
    /// knows it is the budget.
    pub fn minutes(&self, shard: &ShardPlan) -> f64 {
        let design = &self.plan.design;
        let budget_s = design.budget.as_secs_f64();
        let mut gates = self.plan.gates.iter().zip(&self.costs);
        if gates.any(|(gate, cost)| cost.seconds().is_none() && shard.gates.contains(&gate.name)) {
            return budget_s / 60.0;
        }
        let blocks = f64::from(design.looks.last().copied().unwrap_or_default());
        (2.0 * blocks * shard.seconds).min(budget_s) / 60.0
    }
}

/// Reads the plan and what is known of its durations, and places the gates. Refuses what one machine cannot decide
/// within the budget.
pub fn layout(options: &LayoutOptions) -> Result<Layout, Error> {
    let root = plan::find_root(&options.start)?;
    let (plan, inputs) = plan::from_directory(&root, &options.selection)?;
    plan::refuse_unfilled(&inputs)?;
    let stored = Store::open(&root.join(&plan.baseline.directory)).list()?;
    let stored: Vec<Entry> = stored.into_iter().map(|(_, entry)| entry).collect();
    let records = records(&root);
    let known: Vec<Option<(Spent, CostSource)>> = plan
        .gates
        .iter()
        .map(|gate| in_results(gate, &records).or_else(|| in_store(&plan, gate, &stored)))
        .collect();
    let costs = costs(&plan, known, others(&records));
    let blocks = plan.most_blocks().max(1);
    let pieces: Vec<Piece> = plan
        .gates
        .iter()
        .zip(&costs)
        .map(|(gate, cost)| Piece {
            gate: gate.name.clone(),
            group: cost.group,
            start_s: cost.spent.start_s,
            work_s: cost.spent.work_s * f64::from(gate.blocks_of(blocks)) / f64::from(blocks),
        })
        .collect();
    let shards = options
        .shards
        .map(|machines| plan::shards(&pieces, machines));
    let layout = Layout {
        shards: shards.unwrap_or_default(),
        costs,
        plan,
    };
    refuse_too_long(&layout)?;
    Ok(layout)
}

/// Each machine has the whole budget.
fn refuse_too_long(layout: &Layout) -> Result<(), Error> {
    let refused =
        |plan: &Plan| plan::refuse_too_long(plan, Comparison::Interleaved).map_err(PlanError::from);
    if layout.shards.is_empty() {
        refused(&layout.plan)?;
    }
    for shard in &layout.shards {
        let mut of_shard = layout.plan.clone();
        of_shard
            .gates
            .retain(|gate| shard.gates.contains(&gate.name));
        refused(&of_shard)?;
    }
    Ok(())
}

/// The newest sessions of this project's result directories. One that cannot be read tells nothing, and the times of several
/// machines' launches nothing of each other.
fn records(root: &Path) -> Vec<(Plan, RunRecord)> {
    let newest = directories(root).into_iter().take(MOST_READ);
    newest
        .filter_map(|path| {
            let record = read_record(&path).ok()?;
            let plan = plan::from_record(&record).ok()?;
            let is_merged = matches!(record.extent, Extent::Merged { .. });
            (!is_merged).then_some((plan, record))
        })
        .collect()
}

fn in_results(gate: &Gate, records: &[(Plan, RunRecord)]) -> Option<(Spent, CostSource)> {
    records.iter().find_map(|(plan, record)| {
        let same = plan.gates.iter().find(|then| then.hash == gate.hash)?;
        let spent = spent(plan, record, same)?;
        (spent.work_s > 0.0).then_some((spent, CostSource::Results))
    })
}

/// Of main's sessions of the gate as it is defined now, on whatever machine, the newest.
fn in_store(plan: &Plan, gate: &Gate, stored: &[Entry]) -> Option<(Spent, CostSource)> {
    stored.iter().rev().find_map(|entry| {
        let is_same = entry.key == key_on(plan, gate, &entry.key.fingerprint);
        let spent = entry.spent.filter(|_| is_same)?;
        Some((spent, CostSource::Stored))
    })
}

/// Times and efforts of the gates in the newest session that has any, of whichever profile.
fn others(records: &[(Plan, RunRecord)]) -> Vec<(Spent, f64)> {
    let of = |(plan, record): &(Plan, RunRecord)| {
        let gates = plan.gates.iter().filter_map(|gate| {
            let spent = spent(plan, record, gate).filter(|spent| spent.work_s > 0.0)?;
            Some((spent, plan::effort(gate)))
        });
        let gates: Vec<_> = gates.collect();
        (!gates.is_empty()).then_some(gates)
    };
    records.iter().find_map(of).unwrap_or_default()
}

/// Every gate's cost, guessed where nobody knows it: at the pace of the gates that are known, else of `others`. Where none
/// is, the sizes hold against each other only, on a scale on which the whole plan fills its budget.
fn costs(
    plan: &Plan,
    known: Vec<Option<(Spent, CostSource)>>,
    others: Vec<(Spent, f64)>,
) -> Vec<Cost> {
    let effort: Vec<f64> = plan.gates.iter().map(plan::effort).collect();
    let pairs = known.iter().zip(&effort);
    let mut measured: Vec<(Spent, f64)> = pairs
        .filter_map(|(known, effort)| Some((known.as_ref()?.0, *effort)))
        .collect();
    if measured.is_empty() {
        measured = others;
    }
    let tokens: f64 = measured.iter().map(|(_, effort)| effort).sum();
    let work_s: f64 = measured.iter().map(|(spent, _)| spent.work_s).sum();
    let starts: Vec<f64> = measured.iter().map(|(spent, _)| spent.start_s).collect();
    let start_s = verdict::stats::mean(&starts).unwrap_or_default();
    let (pace, otherwise) = if tokens > 0.0 {
        (work_s / tokens, CostSource::Guessed)
    } else {
        let blocks = f64::from(plan.design.looks.last().copied().unwrap_or(1));
        let all: f64 = effort.iter().sum();
        let pace = plan.design.budget.as_secs_f64() / (2.0 * blocks * all.max(1.0));
        (pace, CostSource::Unknown)
    };
    let mut groups: Vec<&Gate> = Vec::new();
    let mut costs = Vec::new();
    for ((gate, known), effort) in plan.gates.iter().zip(known).zip(&effort) {
        let shares = |other: &&Gate| other.shares_launches_with(gate);
        let group = groups.iter().position(shares).unwrap_or_else(|| {
            groups.push(gate);
            groups.len() - 1
        });
        let guess = Spent {
            start_s,
            work_s: (pace * effort).max(plan::least_s(gate)),
        };
        let (spent, source) = known.unwrap_or((guess, otherwise));
        costs.push(Cost {
            group,
            spent,
            source,
        });
    }
    costs
}

/// Whether two records can be shards of one run by what they compared: an A/A run is a comparison in which one
/// machine built the same bytes twice.
pub fn is_alike(a: Comparison, b: Comparison) -> bool {
    let kind = |comparison| match comparison {
        Comparison::SameBuild => Comparison::Interleaved,
        other => other,
    };
    kind(a) == kind(b)
}
