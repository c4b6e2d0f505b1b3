//! Gates over machines: which gates are measured together, so that the last machine ends soon.
//!
//! Rule: gates that share launches (equal `engine_args` and `page_cache`) pay for one start of the engine together, so
//! they go together at first: of these groups the one that takes longest is placed first, each on the machine that
//! would then be done soonest (longest processing time first, Graham 1969). Then, as long as the machine that ends
//! last would end sooner without one of its gates, that gate moves to another machine and pays for a start of its own
//! there. A gate is never taken apart: both its arms run where its other launches do. Where no two gates share
//! launches the last machine ends within 4/3 of the best.
//!
//! Refuses to know: where the seconds come from.

/// A gate to be placed.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub gate: String,
    /// Equal for gates that share launches.
    pub group: usize,
    /// Seconds of a launch's start, which the group shares.
    pub start_s: f64,
    /// Seconds of this gate's own requests in a launch.
    pub work_s: f64,
}

/// What one machine measures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardPlan {
    /// Names of gates, in plan order.
    pub gates: Vec<String>,
    /// Seconds of one launch of each of its groups.
    pub seconds: f64,
}

/// At most `machines` shards, none of them empty.
pub fn shards(pieces: &[Piece], machines: usize) -> Vec<ShardPlan> {
    let mut loads: Vec<Vec<&Piece>> = vec![Vec::new(); machines.clamp(1, pieces.len().max(1))];
    for group in groups(pieces) {
        let with = |load: &Vec<&Piece>| seconds(&[load.as_slice(), &group].concat());
        let best = (0..loads.len()).min_by(|&a, &b| with(&loads[a]).total_cmp(&with(&loads[b])));
        loads[best.unwrap_or_default()].extend(group);
    }
    while let Some(better) = moved(&loads) {
        loads = better;
    }
    let place = |gate: &str| pieces.iter().position(|piece| piece.gate == gate);
    let shard = |load: Vec<&Piece>| {
        let mut gates: Vec<String> = load.iter().map(|piece| piece.gate.clone()).collect();
        gates.sort_by_key(|gate| place(gate));
        ShardPlan {
            gates,
            seconds: seconds(&load),
        }
    };
    let used = loads.into_iter().filter(|load| !load.is_empty());
    used.map(shard).collect()
}

/// Gates that share launches, together; the group that takes longest first.
fn groups(pieces: &[Piece]) -> Vec<Vec<&Piece>> {
    let mut groups: Vec<Vec<&Piece>> = Vec::new();
    for piece in pieces {
        match groups
            .iter_mut()
            .find(|group| group[0].group == piece.group)
        {
            Some(group) => group.push(piece),
            None => groups.push(vec![piece]),
        }
    }
    // Stable: groups that take equally long stay in plan order.
    groups.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    groups
}

/// The best that one gate's move from the machine that ends last makes of it, if that is better.
fn moved<'p>(loads: &[Vec<&'p Piece>]) -> Option<Vec<Vec<&'p Piece>>> {
    let last =
        (0..loads.len()).max_by(|&a, &b| seconds(&loads[a]).total_cmp(&seconds(&loads[b])))?;
    let mut best = (ends(loads), None);
    for at in (0..loads[last].len()).rev() {
        for to in (0..loads.len()).filter(|to| *to != last) {
            let mut candidate = loads.to_vec();
            let piece = candidate[last].remove(at);
            candidate[to].push(piece);
            let ends = ends(&candidate);
            if is_sooner(&ends, &best.0) {
                best = (ends, Some(candidate));
            }
        }
    }
    best.1
}

/// When each machine ends, the last one first.
fn ends(loads: &[Vec<&Piece>]) -> Vec<f64> {
    let mut ends: Vec<f64> = loads.iter().map(|load| seconds(load)).collect();
    ends.sort_by(|a, b| b.total_cmp(a));
    ends
}

/// The last machine ends sooner; where it does not, the one before it, and so on. What rounding alone tells apart is
/// equal.
fn is_sooner(ends: &[f64], than: &[f64]) -> bool {
    const EQUAL_S: f64 = 1e-6;
    let differ = ends
        .iter()
        .zip(than)
        .find(|(a, b)| (*a - *b).abs() > EQUAL_S);
    differ.is_some_and(|(a, b)| a < b)
}

/// Each group's start once, and every gate's requests.
fn seconds(load: &[&Piece]) -> f64 {
    let work: f64 = load.iter().map(|piece| piece.work_s).sum();
    let first = |(at, piece): &(usize, &&Piece)| {
        let earlier = load[..*at].iter();
        !earlier.into_iter().any(|other| other.group == piece.group)
    };
    let starts = load.iter().enumerate().filter(first);
    work + starts.map(|(_, piece)| piece.start_s).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gates called a, b, c, …, each `(group, start, work)`.
    fn pieces(gates: &[(usize, f64, f64)]) -> Vec<Piece> {
        let named = ('a'..).zip(gates);
        named
            .map(|(name, &(group, start_s, work_s))| Piece {
                gate: name.to_string(),
                group,
                start_s,
                work_s,
            })
            .collect()
    }

    fn check(gates: &[(usize, f64, f64)], machines: usize, expect: &[(&str, f64)]) {
        let got = shards(&pieces(gates), machines);
        let got: Vec<(String, f64)> = got.iter().map(|s| (s.gates.join(" "), s.seconds)).collect();
        let expect: Vec<(String, f64)> =
            expect.iter().map(|(g, s)| ((*g).to_owned(), *s)).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn the_longest_goes_first_to_whoever_is_done_soonest() {
        check(&[], 3, &[]);
        check(&[(0, 1.0, 5.0)], 3, &[("a", 6.0)]);
        let apart = [(0, 0.0, 3.0), (1, 0.0, 5.0), (2, 0.0, 4.0), (3, 0.0, 2.0)];
        check(&apart, 1, &[("a b c d", 14.0)]);
        check(&apart, 2, &[("b d", 7.0), ("a c", 7.0)]);
        check(&apart, 9, &[("b", 5.0), ("c", 4.0), ("a", 3.0), ("d", 2.0)]);
    }

    #[test]
    fn gates_that_share_launches_stay_together_while_a_start_costs_more() {
        // A start of 60 s is paid once: another machine for `b` would not be done sooner.
        check(
            &[(0, 60.0, 10.0), (0, 60.0, 10.0), (1, 5.0, 50.0)],
            2,
            &[("a b", 80.0), ("c", 55.0)],
        );
        // A start of 1 s is worth a second machine.
        check(
            &[(0, 1.0, 10.0), (0, 1.0, 10.0)],
            2,
            &[("a", 11.0), ("b", 11.0)],
        );
    }

    /// The best split, by trying all of them.
    fn best(pieces: &[Piece], machines: usize) -> f64 {
        let count = machines.pow(u32::try_from(pieces.len()).unwrap());
        let longest = |code: usize| {
            let mut loads = vec![Vec::new(); machines];
            let mut code = code;
            for piece in pieces {
                loads[code % machines].push(piece);
                code /= machines;
            }
            loads.iter().map(|load| seconds(load)).fold(0.0, f64::max)
        };
        (0..count).map(longest).fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn every_gate_has_one_machine(
            gates in prop::collection::vec((0..3_usize, 0.0..9.0_f64, 0.0..9.0_f64), 0..12),
            machines in 1..6_usize,
        ) {
            let pieces = pieces(&gates);
            let got = shards(&pieces, machines);
            let mut names: Vec<&String> = got.iter().flat_map(|shard| &shard.gates).collect();
            names.sort();
            prop_assert!(names.into_iter().eq(pieces.iter().map(|piece| &piece.gate)));
            prop_assert!(got.len() <= machines && got.iter().all(|shard| !shard.gates.is_empty()));
        }

        #[test]
        fn without_starts_it_is_near_the_best(
            work in prop::collection::vec(0.1..9.0_f64, 1..7),
            machines in 1..4_usize,
        ) {
            let gates: Vec<_> = work.iter().enumerate().map(|(i, w)| (i, 0.0, *w)).collect();
            let pieces = pieces(&gates);
            let got = shards(&pieces, machines).iter().map(|s| s.seconds).fold(0.0, f64::max);
            prop_assert!(got <= 4.0 / 3.0 * best(&pieces, machines) + 1e-9);
        }
    }
}
