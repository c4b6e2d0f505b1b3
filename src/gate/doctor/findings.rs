//! Each fact held against what is asked, with what to do about it.

use super::facts::{Facts, Found};
use client::telemetry::GpuAtRest;
use verdict::plan::{Cached, Plan};

/// How the machine stands in one respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fitness {
    Fit,
    /// It can be measured on, but results will be worse than they might be.
    Doubtful,
    /// What is asked is not there: nothing should be measured.
    Unfit,
}

impl Fitness {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Doubtful => "doubtful",
            Self::Unfit => "unfit",
        }
    }
}

/// One respect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub what: String,
    pub fitness: Fitness,
    /// What the machine has, and what was asked where that differs.
    pub found: String,
    /// What to do; empty where nothing is to be done.
    pub remedy: String,
}

/// Files that a client of many connections and an engine need open at once.
const OPEN_FILES: u64 = 4_096;

/// Free room for two builds and the records of a session, where the project asks for nothing else.
const DISK_BYTES: f64 = 5.0 * GIB;

/// Work of others, as a share of the processors, above which results are disturbed.
const LOAD_SHARE: f64 = 0.25;

/// NVML: the GPU runs below its clocks since nothing is asked of it.
const THROTTLE_IDLE: u64 = 1;

const GIB: f64 = (1_u64 << 30) as f64;

/// The program's name without its path, which the next column shows.
fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Every respect in a fixed order: the machine, programs, files, caches, GPUs.
pub fn findings(plan: &Plan, facts: &Facts) -> Vec<Diagnosis> {
    let mut all = machine(plan, facts);
    all.extend(facts.programs.iter().map(|program| match &program.path {
        Some(path) => fit(last_part(&program.name), path.display().to_string()),
        None => unfit(
            &program.name,
            "not found".into(),
            "install it, and see that it is on the PATH of the service that runs the jobs".into(),
        ),
    }));
    all.extend(facts.files.iter().map(file));
    let caches = plan.host.caches.iter().zip(&facts.caches);
    all.extend(caches.map(|(asked, found)| cache(asked, found)));
    all.extend(gpus(plan, facts));
    all
}

fn machine(plan: &Plan, facts: &Facts) -> Vec<Diagnosis> {
    let (host, machine) = (&plan.host, &facts.machine);
    let cores = at_least(
        "processors",
        Some(f64::from(machine.cores)),
        host.cores.map(f64::from),
        |n| format!("{n:.0}"),
    );
    let memory = at_least(
        "memory",
        Some(machine.memory_bytes as f64),
        host.memory_bytes,
        gib,
    );
    let disk = facts.disk_free_bytes.map(|bytes| bytes as f64);
    let disk = at_least(
        "free disk",
        disk,
        Some(host.disk_bytes.unwrap_or(DISK_BYTES)),
        gib,
    );
    let mut all = vec![cores, memory, disk];
    all.extend(facts.load.map(|load| busy(load, machine.cores)));
    all.extend(facts.governor.as_deref().map(governor));
    all.extend(facts.open_files.map(open_files));
    all.push(user(facts.is_root));
    all.push(isolation(facts));
    all
}

fn fit(what: &str, found: String) -> Diagnosis {
    let what = what.to_owned();
    Diagnosis {
        what,
        fitness: Fitness::Fit,
        found,
        remedy: String::new(),
    }
}

fn doubtful(what: &str, found: String, remedy: String) -> Diagnosis {
    Diagnosis {
        fitness: Fitness::Doubtful,
        remedy,
        ..fit(what, found)
    }
}

fn unfit(what: &str, found: String, remedy: String) -> Diagnosis {
    Diagnosis {
        fitness: Fitness::Unfit,
        remedy,
        ..fit(what, found)
    }
}

fn gib(bytes: f64) -> String {
    format!("{:.1} GiB", bytes / GIB)
}

/// A quantity that must not be less than what was asked.
fn at_least(
    what: &str,
    found: Option<f64>,
    asked: Option<f64>,
    shown: impl Fn(f64) -> String,
) -> Diagnosis {
    match (found, asked) {
        (Some(found), Some(asked)) if found < asked => unfit(
            what,
            format!("{}, {} required", shown(found), shown(asked)),
            format!("use another machine, make room, or require less in [host] of {PROJECT}"),
        ),
        (Some(found), _) => fit(what, shown(found)),
        (None, Some(asked)) => unfit(
            what,
            format!("unknown, {} required", shown(asked)),
            "this could not be read".into(),
        ),
        (None, None) => doubtful(what, "unknown".into(), "this could not be read".into()),
    }
}

const PROJECT: &str = "gates/gate.toml";

fn busy(load: f64, cores: u32) -> Diagnosis {
    let found = format!("{load:.2} on {cores} processors");
    match load > LOAD_SHARE * f64::from(cores) {
        false => fit("load", found),
        true => doubtful(
            "load",
            found,
            "see what else runs (`top`), and run one job at a time on this machine".into(),
        ),
    }
}

fn governor(governor: &str) -> Diagnosis {
    match governor {
        "performance" => fit("CPU governor", governor.to_owned()),
        other => doubtful(
            "CPU governor",
            other.to_owned(),
            "`cpupower frequency-set --governor performance`, at every boot".into(),
        ),
    }
}

fn open_files(limit: u64) -> Diagnosis {
    match limit >= OPEN_FILES {
        true => fit("open files", limit.to_string()),
        false => doubtful(
            "open files",
            format!("{limit}, {OPEN_FILES} recommended"),
            format!(
                "`LimitNOFILE={OPEN_FILES}` in the service's unit, or `ulimit -n {OPEN_FILES}`"
            ),
        ),
    }
}

fn user(is_root: bool) -> Diagnosis {
    match is_root {
        false => fit("user", "not root".into()),
        true => doubtful(
            "user",
            "root".into(),
            "what is measured runs as root too: use a user without rights (docs/runner-setup.md of infergate)"
                .into(),
        ),
    }
}

fn isolation(facts: &Facts) -> Diagnosis {
    const WHAT: &str = "isolation";
    let remedy = "see docs/sandbox.md: what a pull request's code may do here without it";
    match &facts.isolation {
        Err(why) => unfit(
            WHAT,
            why.clone(),
            "change `sandbox` in [host], or the machine".into(),
        ),
        Ok(isolation) => match (isolation.layers.as_slice(), &isolation.note) {
            ([], note) => {
                let note = note.as_deref().unwrap_or_default();
                doubtful(WHAT, format!("none: {note}"), remedy.into())
            }
            (_, None) => fit(WHAT, isolation.names()),
            (_, Some(note)) => fit(WHAT, format!("{} ({note})", isolation.names())),
        },
    }
}

fn file(found: &Found) -> Diagnosis {
    match found.bytes {
        Some(bytes) => fit(&found.name, gib(bytes as f64)),
        None => unfit(
            &found.name,
            "not there".into(),
            format!(
                "the engine reads it: put it there, or correct `engine.files` or `engine.tokenizer` in {PROJECT}"
            ),
        ),
    }
}

fn cache(asked: &Cached, found: &Found) -> Diagnosis {
    let remedy = || format!("warm it, as the user of the jobs: {}", asked.warm);
    match (found.bytes, asked.bytes) {
        (None, _) => unfit(&found.name, "not there".into(), remedy()),
        (Some(bytes), Some(least)) if (bytes as f64) < least => unfit(
            &found.name,
            format!("{}, {} required", gib(bytes as f64), gib(least)),
            remedy(),
        ),
        (Some(bytes), _) => fit(&found.name, gib(bytes as f64)),
    }
}

fn gpus(plan: &Plan, facts: &Facts) -> Vec<Diagnosis> {
    let host = &plan.host;
    let asked = host.gpus.unwrap_or_default();
    let gpus = match &facts.gpus {
        Ok(gpus) => gpus,
        Err(why) if asked > 0 => {
            let remedy = "install NVIDIA's driver, and see that `nvidia-smi` works for this user";
            return vec![unfit("GPUs", why.clone(), remedy.into())];
        }
        Err(_) => return vec![fit("GPUs", "none (none required)".into())],
    };
    let is_meant = |gpu: &&GpuAtRest| host.gpu.as_ref().is_none_or(|name| gpu.name.contains(name));
    let meant = gpus.iter().filter(is_meant).count();
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let found = match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    let mut all = vec![match meant < asked as usize {
        false => fit("GPUs", found),
        true => {
            let kind = host.gpu.as_deref().unwrap_or("GPUs");
            let found = format!("{found}; {asked} {kind} required");
            unfit(
                "GPUs",
                found,
                "see `nvidia-smi`, and the runner's labels".into(),
            )
        }
    }];
    for (index, gpu) in gpus.iter().enumerate() {
        all.extend(one_gpu(&format!("GPU {index}"), gpu, host.gpu_memory_bytes));
    }
    all
}

fn one_gpu(name: &str, gpu: &GpuAtRest, memory: Option<f64>) -> Vec<Diagnosis> {
    let of = |what: &str| format!("{name} {what}");
    let bytes = gpu.memory_bytes.map(|bytes| bytes as f64);
    let mut all = vec![at_least(&of("memory"), bytes, memory, gib)];
    all.extend(gpu.is_persistent.map(|on| match on {
        true => fit(&of("persistence"), "on".into()),
        false => doubtful(
            &of("persistence"),
            "off: every engine start reloads the driver".into(),
            "`systemctl enable --now nvidia-persistenced`".into(),
        ),
    }));
    if gpu.is_partitioned == Some(true) {
        let found = "MIG is on: other instances may disturb it".into();
        let remedy = "measure on a whole GPU: `nvidia-smi -mig 0`".into();
        all.push(doubtful(&of("partition"), found, remedy));
    }
    all.extend(gpu.processes.map(|count| match count {
        0 => fit(&of("processes"), "none".into()),
        count => doubtful(
            &of("processes"),
            format!("{count} run on it"),
            "stop them (`nvidia-smi`): a launch beside another process is void".into(),
        ),
    }));
    let bits = gpu.throttle_bits.map(|bits| bits & !THROTTLE_IDLE);
    all.extend(bits.map(|bits| match bits {
        0 => fit(&of("clocks"), "not throttled".into()),
        bits => doubtful(
            &of("clocks"),
            format!("throttled while idle, reasons {bits:#x}"),
            "see `nvidia-smi -q -d PERFORMANCE`: a power cap, heat, or clocks that are set".into(),
        ),
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> GpuAtRest {
        GpuAtRest {
            name: "NVIDIA H100 80GB HBM3".into(),
            memory_bytes: Some(80 << 30),
            is_persistent: Some(true),
            is_partitioned: Some(false),
            processes: Some(0),
            throttle_bits: Some(THROTTLE_IDLE),
        }
    }

    fn worst(findings: &[Diagnosis]) -> Fitness {
        let worst = findings.iter().map(|finding| finding.fitness).max();
        worst.unwrap_or(Fitness::Fit)
    }

    #[test]
    fn a_gpu_at_rest_is_held_against_what_is_asked() {
        let check = |change: &dyn Fn(&mut GpuAtRest), memory: Option<f64>, expect: Fitness| {
            let mut gpu = gpu();
            change(&mut gpu);
            let found = one_gpu("GPU 0", &gpu, memory);
            assert_eq!(worst(&found), expect, "{found:?}");
            let silent = |f: &Diagnosis| f.fitness != Fitness::Fit && f.remedy.is_empty();
            assert!(!found.iter().any(silent), "{found:?}");
        };
        check(&|_| (), None, Fitness::Fit);
        check(&|_| (), Some(80.0 * GIB), Fitness::Fit);
        check(&|_| (), Some(81.0 * GIB), Fitness::Unfit);
        check(&|gpu| gpu.memory_bytes = None, Some(1.0), Fitness::Unfit);
        check(
            &|gpu| gpu.is_persistent = Some(false),
            None,
            Fitness::Doubtful,
        );
        check(
            &|gpu| gpu.is_partitioned = Some(true),
            None,
            Fitness::Doubtful,
        );
        check(&|gpu| gpu.processes = Some(2), None, Fitness::Doubtful);
        check(
            &|gpu| gpu.throttle_bits = Some(0x20),
            None,
            Fitness::Doubtful,
        );
        // A GPU that tells nothing of these is not thereby worse.
        let silent = |gpu: &mut GpuAtRest| {
            (gpu.is_persistent, gpu.processes, gpu.throttle_bits) = (None, None, None);
        };
        check(&silent, None, Fitness::Fit);
    }

    #[test]
    fn a_cache_that_is_missing_or_too_small_is_told_with_its_command() {
        let asked = |bytes| Cached {
            path: "/models/m".into(),
            bytes,
            warm: "fetch-it --all".into(),
        };
        let check = |least: Option<f64>, bytes: Option<u64>, expect: Fitness| {
            let found = Found {
                name: "/models/m".into(),
                bytes,
            };
            let finding = cache(&asked(least), &found);
            assert_eq!(finding.fitness, expect);
            assert_eq!(
                finding.remedy.contains("fetch-it --all"),
                expect == Fitness::Unfit
            );
        };
        check(None, Some(0), Fitness::Fit);
        check(None, None, Fitness::Unfit);
        check(Some(10.0), Some(9), Fitness::Unfit);
        check(Some(10.0), Some(10), Fitness::Fit);
    }

    #[test]
    fn quantities_that_are_not_known_do_not_pass_for_enough() {
        let check = |found, asked, expect| {
            let finding = at_least("memory", found, asked, gib);
            assert_eq!(finding.fitness, expect);
        };
        check(Some(2.0), None, Fitness::Fit);
        check(Some(2.0), Some(2.0), Fitness::Fit);
        check(Some(1.0), Some(2.0), Fitness::Unfit);
        check(None, Some(2.0), Fitness::Unfit);
        check(None, None, Fitness::Doubtful);
    }
}
