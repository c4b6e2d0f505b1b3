//! Reads what a machine is and has, for `gate doctor`. Nothing is asked of the network, and nothing started but a shell
//! that tries the sandbox out.

use crate::doctor::{self, Diagnosis, Facts, Fitness, Found, Program};
use crate::launch::{self, Repository};
use crate::measure;
use crate::sandbox::Sandbox;
use crate::session::Error;
use client::telemetry;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use std::path::Path;
use std::{env, fs};
use verdict::plan::{self, Diagnostic, Plan, PlanError, Selection};
use verdict::plural::count;
use verdict::record::Input;

/// What a project asks of the machine, held against the machine; the worst of it last.
pub fn doctor(start: &Path, selection: &Selection) -> Result<(Vec<Diagnosis>, Fitness), Error> {
    let root = plan::find_root(start)?;
    let (plan, inputs) = plan::from_directory(&root, selection)?;
    let mut findings = doctor::findings(&plan, &facts(&plan, &root));
    findings.extend(unfilled(&inputs));
    let worst = findings.iter().map(|finding| finding.fitness).max();
    Ok((findings, worst.unwrap_or(Fitness::Fit)))
}

/// The lines that `gate init` marked FILL IN and nobody has completed.
fn unfilled(inputs: &[Input]) -> Option<Diagnosis> {
    let marked = match plan::refuse_unfilled(inputs) {
        Err(PlanError::Refused(marked)) => marked,
        _ => return None,
    };
    let line = |mark: &Diagnostic| {
        let before = mark.source.get(..mark.span.start).unwrap_or_default();
        (before.matches('\n').count() + 1).to_string()
    };
    let lines: Vec<String> = marked.iter().map(line).collect();
    Some(Diagnosis {
        what: "gates/gate.toml".to_owned(),
        fitness: Fitness::Unfit,
        found: format!("{} marked FILL IN", count(marked.len(), "line")),
        remedy: format!("complete what is marked in line {}", lines.join(", ")),
    })
}

fn facts(plan: &Plan, root: &Path) -> Facts {
    let tokenizer = plan.engine.tokenizer.iter();
    let tokenizer = tokenizer.map(|path| path.to_string_lossy().into_owned());
    let files = plan.engine.files.iter().cloned().chain(tokenizer);
    // What the build makes is not there before it.
    let files = files.filter(|name| !name.contains("{artifact}"));
    let caches = plan.host.caches.iter().map(|cache| cache.path.clone());
    Facts {
        machine: measure::machine(),
        disk_free_bytes: disk_free_bytes(root),
        load: load(),
        governor: measure::read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        open_files: getrlimit(Resource::RLIMIT_NOFILE)
            .ok()
            .map(|(soft, _)| soft),
        is_root: nix::unistd::geteuid().is_root(),
        isolation: Sandbox::choose(&plan.host.sandbox, Repository::tree_around(root))
            .map(|sandbox| sandbox.isolation().clone())
            .map_err(|error| error.to_string()),
        programs: programs(plan, root),
        files: files.map(|name| found(root, name)).collect(),
        caches: caches.map(|name| found(root, name)).collect(),
        gpus: telemetry::gpus(),
    }
}

fn load() -> Option<f64> {
    measure::read("/proc/loadavg")?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn disk_free_bytes(root: &Path) -> Option<u64> {
    let disk = statvfs(root).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

/// Those that the project names, and those that build and start the engine, each where it would be found then.
fn programs(plan: &Plan, root: &Path) -> Vec<Program> {
    let (engine, host) = (&plan.engine, &plan.host);
    let found = |name: &str, env: &[(String, String)]| Program {
        path: launch::program(name, root, env),
        name: name.to_owned(),
    };
    let mut programs: Vec<Program> = host.programs.iter().map(|name| found(name, &[])).collect();
    if let Some(build) = &engine.build {
        programs.push(found("git", &[]));
        programs.extend(build.command.first().map(|name| found(name, &build.env)));
    }
    let serve = engine.serve.first().filter(|word| !word.contains('{'));
    programs.extend(serve.map(|name| found(name, &engine.env)));
    // Of one that is looked for in several ways, the way in which it is missing.
    programs.sort_unstable_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    programs.dedup_by(|a, b| a.name == b.name);
    programs
}

/// A file or folder, relative to the project's root; `~/` is the user's own folder.
fn found(root: &Path, name: String) -> Found {
    let path = match (name.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => root.join(&name),
    };
    Found {
        bytes: size(&path),
        name,
    }
}

/// Bytes of a file, or of all files within a folder. Links within are followed no further than to files: a cache
/// of models is a folder of links to files beside it, and each is counted where it stands.
fn size(path: &Path) -> Option<u64> {
    let here = fs::metadata(path).ok()?;
    if !here.is_dir() {
        return Some(here.len());
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => size(&entry.path()).unwrap_or_default(),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |file| file.len()),
        _ => 0,
    });
    Some(sizes.sum())
}
