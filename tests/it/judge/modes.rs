//! Launches that come in two modes.

use super::*;
use fixture::records::*;
use verdict::record::{Remark, TwoModes};

/// Whether a launch of base is slow, by its block.
const BASE: [bool; 4] = [false, true, false, true];
const HEAD: [bool; 4] = [true, true, false, true];

/// TPOT of the two modes, ms.
fn tpot((arm, block): (Arm, u32), is_slow: bool, gap: f64) -> f64 {
    let mode = if is_slow { 20.0 * (1.0 + gap) } else { 20.0 };
    mode * (1.0 + 0.001 * noise(arm, block))
}

/// A kernel that is chosen at each start: 4 % slower in half of the launches.
#[test]
fn launches_in_two_modes_are_told() {
    let noted = |gap: f64| {
        let session = blocks(4, |arm, block| {
            let slow = if arm == Arm::Base { BASE } else { HEAD };
            around(tpot((arm, block), slow[block as usize], gap))
        });
        notes(first(&judge(&tpot_plan(), &interleaved(session)))).join("; ")
    };
    let told = noted(0.04);
    for part in [
        "two modes, 20",
        "2 of 4 of base and 3 of 4 of head are in the upper one (equal shares: p = 1.00)",
        "within the modes head is +0.0",
        "An engine that draws something at its start",
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!noted(0.001).contains("modes"));
    assert!(!noted(0.002).contains("modes"));
}

/// The slow launches of these arms begin in the other mode.
fn beginning_fast(arms: &[Arm]) -> TwoModes {
    let session = blocks(4, |arm, block| {
        let is_slow = BASE[block as usize];
        let mut samples = around(tpot((arm, block), is_slow, 0.04));
        if arms.contains(&arm) && is_slow {
            samples[..11].clone_from_slice(&around(20.0)[..11]);
        }
        samples
    });
    let verdict = judge(&tpot_plan(), &interleaved(session));
    let mut remarks = first(&verdict).remarks.iter();
    let found = remarks.find_map(|remark| match remark {
        Remark::Modes(found) => Some(*found),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{:?}", first(&verdict)))
}

#[test]
fn modes_that_change_within_launches_are_the_machines_where_bases_do() {
    assert!(beginning_fast(&Arm::BOTH).by_machine);
    assert!(!beginning_fast(&[Arm::Head]).by_machine);
    assert!(!beginning_fast(&[]).by_machine);
}

/// Head starts slow each time, base half of the time, and head's fast launches are missing.
#[test]
fn a_head_that_is_always_slow_is_told_with_its_chance() {
    let session = blocks(8, |arm, block| {
        let is_slow = arm == Arm::Head || block % 2 == 0;
        let mode = if is_slow { 20.8 } else { 20.0 };
        around(mode * (1.0 + 0.0005 * noise(arm, block)))
    });
    let told = notes(first(&judge(&tpot_plan(), &interleaved(session)))).join("; ");
    for part in [
        "4 of 8 of base and 8 of 8 of head",
        "(equal shares: p = 0.0769)",
    ] {
        assert!(told.contains(part), "{told}");
    }
}
