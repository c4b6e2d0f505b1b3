//! Workloads that a launch has yet to run.

use std::collections::BTreeSet;
use verdict::plan::{Gate, Workload};
use verdict::record::{Arm, Launch};

/// Workloads of a gate that a further launch of the arm runs. A launch of a block that was dropped does not count where a
/// check reads a clock.
pub fn due(gate: &Gate, arm: Arm, done: &[Launch]) -> Vec<Workload> {
    let dropped: BTreeSet<u32> = done
        .iter()
        .filter(|launch| launch.is_throttled())
        .map(|launch| launch.block)
        .collect();
    let ran = |workload: &Workload| {
        let mut checks = gate.checks.iter().filter(|c| c.workload == workload.id);
        let is_by_clock = checks.any(|check| check.metric.is_by_clock());
        let sent = |l: &Launch| l.samples.iter().any(|s| s.workload == workload.id);
        let tested = |l: &Launch| l.suites.iter().any(|run| run.workload == workload.id);
        let counts = |l: &Launch| !(is_by_clock && dropped.contains(&l.block));
        let has = |l: &&Launch| l.arm == arm && counts(l) && (sent(l) || tested(l));
        done.iter().filter(has).count()
    };
    let is_due = |w: &&Workload| w.launches.is_none_or(|limit| ran(w) < limit as usize);
    gate.workloads.iter().filter(is_due).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixture::records::{check, launch, plan, sample, steady, workload};
    use verdict::plan::Rule;
    use verdict::record::{Metric, Statistic};

    #[test]
    fn a_workload_of_a_dropped_block_runs_again_where_a_check_reads_a_clock() {
        let limit = Rule::Ceiling { limit: 0.0 };
        let due_after = |metric, throttled: &[u32]| {
            let only = check("only", metric, Statistic::Median, limit);
            let plan = plan(vec![workload(Some(2), steady())], vec![only]);
            let launches = (0..2).map(|block| {
                let mut launch = launch(2 * block, block, Arm::Head, vec![sample(0)]);
                launch.throttle_bits = throttled.contains(&block).then_some(0x20);
                launch
            });
            let done: Vec<Launch> = launches.collect();
            let [base, head] = [Arm::Base, Arm::Head].map(|arm| due(&plan.gates[0], arm, &done));
            assert_eq!(base.len(), 1, "base has run nothing");
            head.len()
        };
        assert_eq!(due_after(Metric::Tpot, &[]), 0);
        assert_eq!(due_after(Metric::Tpot, &[1]), 1);
        assert_eq!(due_after(Metric::AnswerMismatches, &[1]), 0);
    }
}
