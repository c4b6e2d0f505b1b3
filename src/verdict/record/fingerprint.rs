//! In what two machines' fingerprints differ: the driver, a clock, the hardware, the kernel.
//!
//! A fingerprint is one line, its parts between ` | `: CPU, cores, memory and kernel, then what there is of
//! clocks and GPUs. `measure` writes it.
//!
//! Refuses to know: how the parts are read from a machine.

/// Each part that differs, as `driver 570.86 → 580.12`; empty for equal lines. Lines of another form, such as
/// those of imported results, are told whole.
pub fn machine_changes(then: &str, now: &str) -> Vec<String> {
    if then == now {
        return Vec::new();
    }
    let (old, new) = match (facts(then), facts(now)) {
        (Some(old), Some(new)) => (old, new),
        _ => return vec![format!("machine {then} → {now}")],
    };
    let names = old.iter().chain(&new).map(|(name, _)| *name);
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    let changed = seen.into_iter().filter_map(|name| {
        let [then, now] = [&old, &new].map(|facts| of(facts, name));
        (then != now).then(|| format!("{name} {then} → {now}"))
    });
    changed.collect()
}

type MachineFacts<'a> = Vec<(&'static str, &'a str)>;

/// All values of one name, as one.
fn of(facts: &MachineFacts<'_>, name: &str) -> String {
    let values = facts.iter().filter(|(of, _)| *of == name);
    let values: Vec<&str> = values.map(|(_, value)| *value).collect();
    match values.as_slice() {
        [] => "none".to_owned(),
        _ => values.join(" + "),
    }
}

/// The parts by name; `None` for a line of another form.
fn facts(line: &str) -> Option<MachineFacts<'_>> {
    let parts: Vec<&str> = line.split(" | ").collect();
    let [cpu, cores, memory, kernel, rest @ ..] = parts.as_slice() else {
        return None;
    };
    let mut facts = vec![
        ("CPU", *cpu),
        ("processors", cores.strip_suffix(" cores")?),
        ("memory", *memory),
        ("kernel", *kernel),
    ];
    for part in rest {
        match part
            .strip_suffix(')')
            .and_then(|p| p.split_once(" (driver "))
        {
            Some((gpu, driver)) => {
                facts.push(("GPU", gpu));
                facts.push(("driver", driver));
            }
            None => facts.push(("clock", *part)),
        }
    }
    Some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_named() {
        const H100: &str =
            "Xeon 8480 | 16 cores | 128 GiB | 6.8.0 | performance | NVIDIA H100 (driver 570.86)";
        let check = |from: &str, to: &str, expect: &[&str]| {
            assert_eq!(machine_changes(H100, &H100.replace(from, to)), expect);
        };
        check("x", "x", &[]);
        check("570.86", "580.12", &["driver 570.86 → 580.12"]);
        check("6.8.0", "6.11.2", &["kernel 6.8.0 → 6.11.2"]);
        check(
            "performance",
            "powersave",
            &["clock performance → powersave"],
        );
        check("performance | ", "", &["clock performance → none"]);
        check("H100", "H200", &["GPU NVIDIA H100 → NVIDIA H200"]);
        check(
            "16 cores | 128 GiB",
            "8 cores | 64 GiB",
            &["processors 16 → 8", "memory 128 GiB → 64 GiB"],
        );
        check(
            " (driver 570.86)",
            " (driver 570.86) | NVIDIA H100 (driver 570.86)",
            &[
                "GPU NVIDIA H100 → NVIDIA H100 + NVIDIA H100",
                "driver 570.86 → 570.86 + 570.86",
            ],
        );
        let told = machine_changes("unknown: imported", H100);
        assert_eq!(told, [format!("machine unknown: imported → {H100}")]);
    }
}
