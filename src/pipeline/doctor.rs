//! Reads what a machine is and has, for `gate doctor`. Nothing is started, written or asked of the network.

use super::Error;
use crate::doctor::{self, Facts, Finding, Fitness, Found, Program};
use crate::measure;
use crate::plan::{self, Plan, Selection};
use crate::telemetry;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a project asks of the machine, held against the machine; the worst of it last.
pub fn doctor(start: &Path, selection: &Selection) -> Result<(Vec<Finding>, Fitness), Error> {
    let root = plan::find_root(start)?;
    let (plan, _) = plan::from_directory(&root, selection)?;
    let findings = doctor::findings(&plan, &facts(&plan, &root));
    let worst = findings.iter().map(|finding| finding.fitness).max();
    Ok((findings, worst.unwrap_or(Fitness::Fit)))
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
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        open_files: getrlimit(Resource::RLIMIT_NOFILE)
            .ok()
            .map(|(soft, _)| soft),
        is_root: nix::unistd::geteuid().is_root(),
        programs: programs(plan, root),
        files: files.map(|name| found(root, name)).collect(),
        caches: caches.map(|name| found(root, name)).collect(),
        gpus: telemetry::gpus(),
    }
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn load() -> Option<f64> {
    text("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn disk_free_bytes(root: &Path) -> Option<u64> {
    let disk = statvfs(root).ok()?;
    Some(disk.blocks_available() * disk.fragment_size())
}

/// Those that the project names, and the one that builds or starts the engine.
fn programs(plan: &Plan, root: &Path) -> Vec<Program> {
    let (engine, host) = (&plan.engine, &plan.host);
    let build = engine
        .build
        .iter()
        .filter_map(|build| build.command.first());
    let serve = engine.serve.first().filter(|word| !word.contains('{'));
    let mut names: BTreeSet<String> = host.programs.iter().cloned().collect();
    names.extend(build.chain(serve).cloned());
    if engine.build.is_some() {
        names.insert("git".to_owned());
    }
    let program = |name: String| Program {
        path: program_path(root, &name),
        name,
    };
    names.into_iter().map(program).collect()
}

/// Where a shell would find it; a name with a slash is a path from the project's root.
fn program_path(root: &Path, name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let found = fs::metadata(path);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(root.join(name)).filter(is_program);
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(is_program)
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
