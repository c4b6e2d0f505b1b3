//! The cells of a matrix as a table: a row for each cache, context and mode, a column for each batch.

use super::numbers;
use minijinja::context;
use minijinja::value::Value;
use verdict::record::{CellVerdict, CheckVerdict, Unit};

/// A table's words, none of which an engine can write.
#[derive(Debug, PartialEq, Eq)]
pub struct Grid {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The table of a check that was judged cell by cell: each cell's outcome and the median time of a whole answer.
pub fn grid(check: &CheckVerdict) -> Option<Grid> {
    let mut batches: Vec<u32> = check.cells.iter().map(|cell| cell.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let mut kinds: Vec<_> = check.cells.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let header = std::iter::once("cells of head".to_owned());
    let header = header.chain(batches.iter().map(|batch| format!("batch {batch}")));
    let row = |&at: &(_, _, _)| {
        let name = name(at);
        let of = |batch: &u32| {
            let cell = check.cells.iter();
            let cell = cell.filter(|cell| kind(cell) == at && cell.batch == *batch);
            cell.map(shown).next().unwrap_or_else(|| "–".to_owned())
        };
        std::iter::once(name)
            .chain(batches.iter().map(of))
            .collect()
    };
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    (!rows.is_empty()).then(|| Grid {
        header: header.collect(),
        rows,
    })
}

/// The same for a template: `header`, `rows`.
pub fn for_template(check: &CheckVerdict) -> Option<Value> {
    grid(check).map(|grid| context! { header => grid.header, rows => grid.rows })
}

/// What the cells of a row have in common: whole or streamed, cache, context.
type CellKind = (bool, verdict::record::CacheState, u32);

fn kind(cell: &CellVerdict) -> CellKind {
    (cell.streamed, cell.cache, cell.context)
}

fn name((streamed, cache, context): CellKind) -> String {
    let mode = if streamed { "streamed" } else { "whole" };
    format!("{mode}, {}, {context} tokens", cache.name())
}

fn shown(cell: &CellVerdict) -> String {
    match cell.e2e_ms {
        Some(ms) => {
            let time = numbers::value(ms, Unit::Milliseconds);
            format!("{} {time}", cell.outcome.name())
        }
        None => cell.outcome.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::{
        CacheState, CellOutcome, Facts, Metric, Reason, Rule, RuleId, Statistic, Verdict,
    };

    fn check(cells: Vec<CellVerdict>) -> CheckVerdict {
        CheckVerdict {
            id: "matrix/cells".into(),
            metric: Metric::FailedCells,
            statistic: Statistic::Single,
            rule: Rule::Ceiling { limit: 0.0 },
            verdict: Verdict::Fail,
            series: None,
            over: None,
            reason: Reason::new(RuleId::Ceiling, Facts::None),
            base: None,
            head: None,
            change: None,
            interval: None,
            p_fail: None,
            p_pass: None,
            launches: (1, 1),
            smallest_effect: None,
            remarks: Vec::new(),
            cells,
            waiver: None,
        }
    }

    fn cell(batch: u32, cache: CacheState, outcome: CellOutcome, e2e_ms: f64) -> CellVerdict {
        CellVerdict {
            batch,
            cache,
            context: 1024,
            streamed: true,
            outcome,
            e2e_ms: (e2e_ms > 0.0).then_some(e2e_ms),
        }
    }

    #[test]
    fn a_row_is_a_cache_and_a_column_a_batch() {
        let cells = vec![
            cell(2, CacheState::Warm, CellOutcome::Fail, 0.0),
            cell(1, CacheState::Cold, CellOutcome::Ok, 12.345),
            cell(1, CacheState::Warm, CellOutcome::Warn, 8.0),
        ];
        let grid = grid(&check(cells)).unwrap();
        assert_eq!(grid.header, ["cells of head", "batch 1", "batch 2"]);
        assert_eq!(
            grid.rows,
            [
                ["streamed, cold, 1024 tokens", "OK 12.35 ms", "–"],
                ["streamed, warm, 1024 tokens", "WARN 8 ms", "FAIL"],
            ]
        );
    }

    #[test]
    fn a_check_without_cells_has_no_table() {
        assert_eq!(grid(&check(Vec::new())), None);
    }
}
