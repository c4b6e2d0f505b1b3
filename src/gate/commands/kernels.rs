//! `gate kernels build`: the CUDA kernels compiled ahead, on a machine that needs no GPU, and what each
//! takes of one. Refuses to know: how kernels are compiled.

use crate::cli::format::TableFormat;
use crate::cli::{Exit, output};
use crate::report;
use crate::session::Error;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use engine::{
    AllowedSpill, Arch, CompilerVersion, Element, KernelCache, KernelUsage, Module, Origin,
    allowed_spills, compiler_version, modules, why_not_kept,
};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args)]
pub struct KernelsArgs {
    #[command(subcommand)]
    command: KernelsCommand,
}

#[derive(Subcommand)]
enum KernelsCommand {
    /// Compile every kernel, and say what registers and memory it takes; no GPU is needed, but NVRTC is. One core takes about
    /// a minute for each architecture
    Build(BuildArgs),
}

#[derive(Args)]
struct BuildArgs {
    /// Architectures of GPUs, as sm_90
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sm_80,sm_89,sm_90,sm_100"
    )]
    arch: Vec<Arch>,
    /// Where machine code and kernels.json go [default: the cache that `gate serve` reads]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How to print the table
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

pub fn run(args: KernelsArgs) -> anyhow::Result<Exit> {
    let KernelsCommand::Build(args) = args.command;
    build(&args)
}

/// A row of the table.
#[derive(Serialize)]
struct KernelRow {
    source: &'static str,
    element: Element,
    arch: Arch,
    #[serde(flatten)]
    usage: KernelUsage,
    /// Why it may spill, where it does and may.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
}

impl KernelRow {
    fn is_refused(&self) -> bool {
        self.usage.spills() && self.allowed.is_none()
    }
}

#[derive(Serialize)]
struct Built {
    nvrtc: String,
    refused: usize,
    kernels: Vec<KernelRow>,
}

fn build(args: &BuildArgs) -> anyhow::Result<Exit> {
    let (cache, directory) = place(args.output.as_deref())?;
    // Before the cache is looked at: a full one must not hide that nothing could be compiled.
    let version = compiler_version()?;
    make(&directory)?;
    let allowed = allowed_spills().context("kernels/allowed_spills.json cannot be read")?;
    let mut rows = Vec::new();
    for arch in &args.arch {
        for element in Element::ALL {
            let begun = Instant::now();
            let modules = modules(*arch, element, &cache)?;
            // `gate serve` goes on without a cache; here it is what was asked for.
            if let Some(why) = why_not_kept(&modules, &cache) {
                bail!("{why}; {ELSEWHERE}");
            }
            let seconds = begun.elapsed().as_secs_f64();
            output::note(&progress(*arch, element, &modules, seconds));
            rows.extend(modules.iter().flat_map(|module| rows_of(module, &allowed)));
        }
    }
    let built = Built {
        nvrtc: version.to_string(),
        refused: rows.iter().filter(|row| row.is_refused()).count(),
        kernels: rows,
    };
    let json = report::pretty_json(&built);
    let path = directory.join("kernels.json");
    fs::write(&path, &json).with_context(|| format!("{} cannot be written", path.display()))?;
    let text = match args.format {
        TableFormat::Text => table(&built.kernels, version),
        TableFormat::Json => json,
    };
    output::print(&text).context("cannot write the table to standard output")?;
    Ok(verdict(&built))
}

/// What to do where kernels cannot be kept.
const ELSEWHERE: &str = "name another directory with --output";

/// The cache and its directory.
fn place(output: Option<&Path>) -> anyhow::Result<(KernelCache, PathBuf)> {
    let cache = match output {
        Some(directory) => KernelCache::at(directory.to_owned()),
        None => KernelCache::from_environment(),
    };
    let Some(directory) = cache.directory().map(Path::to_owned) else {
        let nowhere = "no place to keep kernels: INFERGATE_KERNEL_CACHE, XDG_CACHE_HOME and HOME are unset; \
                       name a directory with --output";
        return Err(Error::Usage(nowhere.to_owned()).into());
    };
    Ok((cache, directory))
}

/// Ahead of compiling, which takes minutes: a wrong place must not come out after them.
fn make(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| {
        let directory = directory.display();
        format!("kernels cannot be kept in {directory}; {ELSEWHERE}")
    })
}

fn progress(wanted: Arch, element: Element, modules: &[Module], seconds: f64) -> String {
    let cached = modules
        .iter()
        .filter(|module| module.origin == Origin::Cache);
    let (all, cached) = (modules.len(), cached.count());
    let compiled = all - cached;
    let instead = modules.first().filter(|module| module.arch != wanted);
    let instead = instead.map_or(String::new(), |module| format!(" as {}", module.arch));
    format!(
        "{wanted}{instead} {element}: {compiled} files compiled, {cached} from the cache, {seconds:.1} s"
    )
}

fn rows_of(module: &Module, allowed: &[AllowedSpill]) -> Vec<KernelRow> {
    let reason = |usage: &KernelUsage| {
        let entry = allowed.iter().find(|entry| entry.allows(module, usage))?;
        usage.spills().then(|| entry.reason.clone())
    };
    let row = |usage: &KernelUsage| KernelRow {
        source: module.file,
        element: module.element,
        arch: module.arch,
        allowed: reason(usage),
        usage: usage.clone(),
    };
    module.usage.iter().map(row).collect()
}

fn table(rows: &[KernelRow], version: CompilerVersion) -> String {
    let header = [
        "kernel", "element", "arch", "regs", "shared", "stack", "spilled", "",
    ];
    let cells = |row: &KernelRow| {
        let usage = &row.usage;
        let spilled = usage.spill_store_bytes.max(usage.spill_load_bytes);
        let remark = match (usage.spills(), &row.allowed) {
            (false, _) => "",
            (true, Some(_)) => "allowed",
            (true, None) => "NOT ALLOWED",
        };
        vec![
            usage.kernel.clone(),
            row.element.to_string(),
            row.arch.to_string(),
            usage.registers.to_string(),
            usage.shared_bytes.to_string(),
            usage.stack_bytes.to_string(),
            spilled.to_string(),
            remark.to_owned(),
        ]
    };
    let table = report::columns_with_numbers(
        header.map(str::to_owned).to_vec(),
        rows.iter().map(cells).collect(),
        3..7,
    );
    let count = rows.len();
    format!("{table}\n{count} kernels, NVRTC {version}; shared, stack and spilled are in bytes\n")
}

fn verdict(built: &Built) -> Exit {
    let refused: Vec<&KernelRow> = built
        .kernels
        .iter()
        .filter(|row| row.is_refused())
        .collect();
    if refused.is_empty() {
        return Exit::Pass;
    }
    for row in refused {
        let usage = &row.usage;
        output::note(&format!(
            "{} ({}, {}) spills {} bytes of stores and {} of loads a thread, and kernels/allowed_spills.json \
             does not allow it: use fewer registers, or add an entry with the reason",
            usage.kernel, row.element, row.arch, usage.spill_store_bytes, usage.spill_load_bytes
        ));
    }
    Exit::Fail
}
