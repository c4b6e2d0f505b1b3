//! `gate baseline push | pull | sign | prune`: what passes between this machine and the store of gates/gate.toml.

use super::exchange::Exchanged;
use crate::cli::runtime::block_on;
use crate::cli::signer::signer;
use crate::cli::{Exit, output};
use clap::Args;
use std::env;

#[derive(Args)]
pub struct PruneArgs {
    /// Remove them; without this they are only listed
    #[arg(long)]
    delete: bool,
}

#[derive(Args)]
pub struct SignArgs {
    /// Sign them; without this they are only listed
    #[arg(long)]
    write: bool,
}

/// Most names that are printed one by one.
const SHOWN: usize = 40;

pub fn push() -> anyhow::Result<Exit> {
    let here = env::current_dir()?;
    let signer = signer()?;
    let told = block_on(super::exchange::push_baseline(&here, &signer))??;
    refused(&told);
    let old = match told.expired {
        0 => String::new(),
        n => format!("; {n} older than baseline.keep stayed here"),
    };
    let text = format!("pushed {} to {}{old}\n", counts(&told), told.store);
    output::print(&text)?;
    // What is here and could not be stored is work that was not done.
    Ok(if told.refused.is_empty() {
        Exit::Pass
    } else {
        Exit::Infrastructure
    })
}

pub fn pull() -> anyhow::Result<Exit> {
    let here = env::current_dir()?;
    let signer = signer()?;
    let told = block_on(super::exchange::pull_baseline(&here, &signer))??;
    refused(&told);
    output::print(&format!("pulled {} from {}\n", counts(&told), told.store))?;
    // A record that somebody spoiled must not stop everybody's runs: it is told, and not used.
    Ok(Exit::Pass)
}

pub fn prune(args: &PruneArgs) -> anyhow::Result<Exit> {
    let here = env::current_dir()?;
    let told = block_on(super::exchange::prune_baseline(&here, args.delete))??;
    refused(&told);
    moved("old", &told, SHOWN);
    let (old, kept) = (records(told.moved.len()), told.there);
    let text = match (args.delete, told.moved.len()) {
        (_, 0) => format!("nothing in {} is old enough to be removed\n", told.store),
        (true, _) => format!("removed {old} from {}, kept {kept}\n", told.store),
        (false, _) => format!(
            "would remove {old} from {} and keep {kept}; `gate baseline prune --delete` does\n",
            told.store
        ),
    };
    output::print(&text)?;
    Ok(Exit::Pass)
}

pub fn sign(args: &SignArgs) -> anyhow::Result<Exit> {
    let here = env::current_dir()?;
    let signer = signer()?;
    let told = block_on(super::exchange::sign_baseline(&here, &signer, args.write))??;
    refused(&told);
    // The signer answers for each of them.
    moved(
        if args.write { "signed" } else { "unsigned" },
        &told,
        usize::MAX,
    );
    let (unsigned, there) = (records(told.moved.len()), told.there);
    let text = match (args.write, told.moved.len()) {
        (_, 0) => format!(
            "nothing in {} is left to sign: {there} were signed\n",
            told.store
        ),
        (true, _) => format!("signed {unsigned} in {}; {there} were signed\n", told.store),
        (false, _) => format!(
            "would sign {unsigned} in {}; {there} are signed; `gate baseline sign --write` does\n",
            told.store
        ),
    };
    output::print(&text)?;
    Ok(if told.refused.is_empty() {
        Exit::Pass
    } else {
        Exit::Infrastructure
    })
}

/// Names what was moved, or would be.
fn moved(what: &str, told: &Exchanged, most: usize) {
    for name in told.moved.iter().take(most) {
        output::note(&format!("{what}: {name}"));
    }
    if told.moved.len() > most {
        output::note(&format!("… and {} more", told.moved.len() - most));
    }
}

fn refused(told: &Exchanged) {
    for (name, why) in told.refused.iter().take(SHOWN) {
        output::error(&format!("refused: {name}: {why}"));
    }
    if told.refused.len() > SHOWN {
        let more = told.refused.len() - SHOWN;
        output::error(&format!("refused: {more} more"));
    }
}

/// `3 records (12 were there, 1 refused)`.
fn counts(told: &Exchanged) -> String {
    let moved = records(told.moved.len());
    let mut beside = Vec::new();
    if told.there > 0 {
        beside.push(format!("{} were there", told.there));
    }
    if !told.refused.is_empty() {
        beside.push(format!("{} refused", told.refused.len()));
    }
    if beside.is_empty() {
        return moved;
    }
    format!("{moved} ({})", beside.join(", "))
}

fn records(n: usize) -> String {
    match n {
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    }
}
