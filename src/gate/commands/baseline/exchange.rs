//! Exchange of main's records with the store of CI: push, pull, sign and prune.
//!
//! What comes from a store is anybody's who can write there: each record is looked at before it is used, and
//! one that does not hold is named and left where it is, while the others go on.

use crate::baseline::{
    self, KEY_VARIABLE, Kind, MOST_BYTES, Record, RecordName, Remote, Signer, Store, expired,
};
use crate::calibration::{Certificates, admit_certificate, ready_certificate, sign_certificate};
use crate::session::Error;
use crate::session::project::now;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use verdict::plan::{self, BaselineConfig, BaselineStore};

/// What an exchange did.
#[derive(Debug, Default)]
pub struct Exchanged {
    /// The store, as gates/gate.toml names it.
    pub store: String,
    /// Names of records that were stored, fetched or removed, or that would be.
    pub moved: Vec<String>,
    /// Records that were on both sides already.
    pub there: usize,
    /// Records that were not used: name and reason.
    pub refused: Vec<(String, String)>,
    /// Records of ours that are older than `baseline.keep`, and were not pushed.
    pub expired: usize,
}

/// Both sides of an exchange.
struct Sides {
    local: Store,
    certificates: Certificates,
    remote: Remote,
    /// RFC 3339, UTC.
    now: String,
    /// Records that were made before are pruned; a stamp.
    cut: Option<String>,
    told: Exchanged,
}

impl Sides {
    fn open(start: &Path) -> Result<Self, Error> {
        let root = plan::find_root(start)?;
        let config = plan::baseline_config(&root)?;
        let calibration = plan::calibration_config(&root)?;
        let Some(store) = &config.store else {
            return Err(Error::Usage(
                "gates/gate.toml names no store: write `store = \"git:infergate-baselines\"`, or a bucket such as \
                 \"s3://bucket/prefix\", into its table [baseline]"
                    .into(),
            ));
        };
        let now = now();
        Ok(Self {
            local: Store::open(&root.join(&config.directory)),
            certificates: Certificates::open(&root.join(calibration.directory)),
            remote: open(&root, store)?,
            cut: cut(&config, &now),
            now,
            told: Exchanged {
                store: store.to_string(),
                ..Exchanged::default()
            },
        })
    }

    fn refuse(&mut self, name: &RecordName, reason: String) {
        self.told.refused.push((name.to_string(), reason));
    }

    fn expired(&self, names: &BTreeSet<RecordName>) -> BTreeSet<RecordName> {
        let cut = self.cut.as_ref();
        cut.map_or_else(BTreeSet::new, |cut| expired(names, cut))
    }
}

fn open(root: &Path, store: &BaselineStore) -> Result<Remote, Error> {
    Ok(match store {
        BaselineStore::Git { branch, remote } => Remote::git(root, remote, branch)?,
        BaselineStore::Objects { url } => Remote::objects(url)?,
    })
}

/// The stamp before which records are old.
fn cut(config: &BaselineConfig, now: &str) -> Option<String> {
    let now: jiff::Timestamp = now.parse().ok()?;
    let hours = jiff::Span::new().hours(i64::from(config.keep_days?) * 24);
    let cut = now.checked_sub(hours).ok()?;
    Some(cut.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// Stores what the store lacks: sessions of main, notes on them, and certificates. What is not signed yet is signed, and kept here
/// as it was stored there. Where nothing could be stored nothing changes here.
pub async fn push_baseline(start: &Path, signer: &Signer) -> Result<Exchanged, Error> {
    let mut sides = Sides::open(start)?;
    let mut ours: BTreeMap<RecordName, Vec<u8>> = BTreeMap::new();
    let mut signed_now: BTreeMap<RecordName, Vec<u8>> = BTreeMap::new();
    for name in sides.local.names()? {
        let bytes = sides.local.bytes(&name, MOST_BYTES)?;
        match baseline::ready(&name, &bytes, signer, &sides.now) {
            Ok(signed) => {
                if signed != bytes {
                    signed_now.insert(name.clone(), signed.clone());
                }
                ours.insert(name, signed);
            }
            Err(refused) => sides.refuse(&name, refused.reason()),
        }
    }
    for certificate in sides.certificates.all()? {
        match sign_certificate(&certificate, signer) {
            Ok((name, bytes)) => drop(ours.insert(name, bytes)),
            Err(refused) => {
                let gate = certificate.key.gate.clone();
                let name = format!("the certificate of {gate}");
                sides.told.refused.push((name, refused.reason()));
            }
        }
    }
    let listing = sides.remote.list().await?;
    let known: BTreeSet<RecordName> = listing.records.keys().chain(ours.keys()).cloned().collect();
    // Else the next push would bring back what a prune removed.
    let expired = sides.expired(&known);
    let all = ours.len();
    ours.retain(|name, _| !listing.records.contains_key(name));
    sides.told.there = all - ours.len();
    let lacking = ours.len();
    ours.retain(|name, _| !expired.contains(name));
    sides.told.expired = lacking - ours.len();
    let records: Vec<Record> = ours.into_iter().collect();
    let added = sides.remote.add(&records).await?;
    for name in &added {
        if let Some(signed) = signed_now.get(name) {
            sides.local.put(name, signed)?;
        }
    }
    sides.told.there += records.len() - added.len();
    sides.told.moved = added.iter().map(RecordName::to_string).collect();
    Ok(sides.told)
}

/// Fetches what is missing here: sessions of main, notes on them, and the newest certificate of each key.
pub async fn pull_baseline(start: &Path, signer: &Signer) -> Result<Exchanged, Error> {
    let mut sides = Sides::open(start)?;
    let listing = sides.remote.list().await?;
    sides.told.refused = listing.refused;
    let here: BTreeSet<RecordName> = sides.local.names()?.into_iter().collect();
    let is_certificate = |name: &RecordName| name.kind() == Kind::Certificate;
    let (sessions, certificates): (Vec<_>, Vec<_>) = listing
        .records
        .into_iter()
        .partition(|(name, _)| !is_certificate(name));
    let wanted: Vec<(RecordName, u64)> = sessions
        .iter()
        .filter(|(name, _)| !here.contains(name))
        .cloned()
        .collect();
    sides.told.there = sessions.len() - wanted.len();
    for (name, bytes) in sides.remote.read(&wanted).await? {
        match baseline::hold(&name, &bytes, signer, &sides.now) {
            Ok(()) => {
                sides.local.put(&name, &bytes)?;
                sides.told.moved.push(name.to_string());
            }
            Err(refused) => sides.refuse(&name, refused.reason()),
        }
    }
    pull_certificates(&mut sides, certificates, signer).await?;
    Ok(sides.told)
}

/// Of each key the newest that holds.
async fn pull_certificates(
    sides: &mut Sides,
    stored: Vec<(RecordName, u64)>,
    signer: &Signer,
) -> Result<(), Error> {
    let mut keys: BTreeMap<String, Vec<(RecordName, u64)>> = BTreeMap::new();
    for (name, bytes) in stored {
        let folder = name.folder().to_owned();
        keys.entry(folder).or_default().push((name, bytes));
    }
    for mut names in keys.into_values() {
        names.sort_by(|a, b| b.0.stem().cmp(a.0.stem()));
        for wanted in names {
            let read = sides.remote.read(&[wanted]).await?;
            let Some((name, bytes)) = read.first() else {
                continue;
            };
            match admit_certificate(name, bytes, signer, &sides.now) {
                Ok(certificate) => {
                    let (key, profile) = (&certificate.key, &certificate.profile);
                    let there = sides.certificates.created(key, profile)?;
                    if there.is_some_and(|there| there >= certificate.created) {
                        sides.told.there += 1;
                    } else {
                        sides.certificates.put(&certificate)?;
                        sides.told.moved.push(name.to_string());
                    }
                    break;
                }
                Err(refused) => sides.refuse(name, refused.reason()),
            }
        }
    }
    Ok(())
}

/// Tells which records of the store the key did not sign, and where `is_meant` signs them: with the key, in the store,
/// and here where the same record lies. One whose sign-off does not hold is refused.
pub async fn sign_baseline(
    start: &Path,
    signer: &Signer,
    is_meant: bool,
) -> Result<Exchanged, Error> {
    if signer.key.is_none() {
        return Err(Error::Usage(format!(
            "{KEY_VARIABLE} is not set: `gate baseline sign` signs with the key that it holds"
        )));
    }
    let mut sides = Sides::open(start)?;
    let listing = sides.remote.list().await?;
    sides.told.refused = listing.refused;
    let wanted: Vec<(RecordName, u64)> = listing.records.into_iter().collect();
    let mut signed = Vec::new();
    let mut before = BTreeMap::new();
    for (name, bytes) in sides.remote.read(&wanted).await? {
        let ready = match name.kind() {
            Kind::Session | Kind::Note => baseline::ready(&name, &bytes, signer, &sides.now)
                .map_err(|refused| refused.reason()),
            Kind::Certificate => ready_certificate(&name, &bytes, signer, &sides.now)
                .map_err(|refused| refused.reason()),
        };
        match ready {
            Ok(ready) if ready == bytes => sides.told.there += 1,
            Ok(ready) => {
                signed.push((name.clone(), ready));
                before.insert(name, bytes);
            }
            Err(why) => sides.refuse(&name, why),
        }
    }
    let mut moved: Vec<RecordName> = before.keys().cloned().collect();
    if is_meant {
        moved = sides.remote.replace(&signed).await?;
        let here: BTreeSet<RecordName> = sides.local.names()?.into_iter().collect();
        for (name, bytes) in signed.iter().filter(|(name, _)| here.contains(name)) {
            let is_same = before.get(name) == Some(&sides.local.bytes(name, MOST_BYTES)?);
            if is_same && moved.contains(name) {
                sides.local.put(name, bytes)?;
            }
        }
    }
    sides.told.moved = moved.iter().map(RecordName::to_string).collect();
    Ok(sides.told)
}

/// Tells which records are older than `baseline.keep`, the newest of each key left out, and where `is_meant`
/// removes them, in the store and here.
pub async fn prune_baseline(start: &Path, is_meant: bool) -> Result<Exchanged, Error> {
    let mut sides = Sides::open(start)?;
    if sides.cut.is_none() {
        return Err(Error::Usage(
            "gates/gate.toml does not say how old a record may become: write `keep = \"180 days\"` into its table \
             [baseline]"
                .into(),
        ));
    }
    let listing = sides.remote.list().await?;
    sides.told.refused = listing.refused;
    let here: BTreeSet<RecordName> = sides.local.names()?.into_iter().collect();
    let all: BTreeSet<RecordName> = listing.records.into_keys().chain(here.clone()).collect();
    let expired: Vec<RecordName> = sides.expired(&all).into_iter().collect();
    sides.told.there = all.len() - expired.len();
    sides.told.moved = expired.iter().map(RecordName::to_string).collect();
    if is_meant {
        sides.remote.remove(&expired).await?;
        for name in expired.iter().filter(|name| here.contains(name)) {
            sides.local.remove(name)?;
        }
    }
    Ok(sides.told)
}

/// How a stored session stands with its sign-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// In the named workflow run, or in none.
    Yes(Option<baseline::WorkflowRun>),
    /// Nobody vouched for it; with a key at hand, nobody who has it.
    No,
    /// It is not what was signed.
    Broken,
}

/// Main's stored sessions on this machine with their sign-offs, oldest first.
pub fn stored_sessions(
    start: &Path,
    signer: &Signer,
) -> Result<Vec<(PathBuf, baseline::Entry, Signed)>, Error> {
    let root = plan::find_root(start)?;
    let directory = plan::baseline_directory(&root)?;
    let entries = Store::open(&directory).list()?.into_iter();
    Ok(entries
        .map(|(path, entry)| {
            let signed = match baseline::sign_off_of(&entry, signer) {
                Ok(run) => Signed::Yes(run),
                Err(baseline::SignOffError::Missing | baseline::SignOffError::NoHmac) => Signed::No,
                Err(_) => Signed::Broken,
            };
            (path, entry, signed)
        })
        .collect())
}
