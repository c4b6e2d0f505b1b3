//! A store in a bucket (S3 and what speaks like it, Google's, Azure's) or in a directory that machines share.
//!
//! Objects never change: one is put on the condition that there is none of its name, so that of two writers at
//! once neither takes anything from the other. Credentials come from the environment alone (AWS_…, GOOGLE_…,
//! AZURE_…), or from the machine's own role.
//!
//! Main type: [`ObjectsStore`]. Refuses to know: what a record holds.

use super::bounds::MOST_BYTES;
use super::name::RecordName;
use super::redact::redact;
use super::remote::{Listing, Record, RemoteError, check_size};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientConfigKey, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
};
use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

/// Requests under way at once.
const AT_ONCE: usize = 8;
/// Repetitions of a request that failed by the server or on the way.
const RETRIES: usize = 5;
/// … and the time after which there are no more.
const RETRY_FOR: Duration = Duration::from_secs(60);
const CONNECT_WITHIN: &str = "10 seconds";
const ANSWER_WITHIN: &str = "60 seconds";

/// A bucket with a prefix, or a directory.
#[derive(Debug)]
pub struct ObjectsStore {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    /// As errors name it.
    name: String,
}

impl ObjectsStore {
    pub fn open(url: &str) -> Result<Self, RemoteError> {
        let name = redact(url);
        let refused = |cause: String| RemoteError::Address {
            store: redact(url),
            cause,
        };
        let (scheme, place) = url
            .split_once("://")
            .ok_or_else(|| refused("it has no scheme".to_owned()))?;
        let prefix = match scheme {
            "file" => "",
            _ => place.split_once('/').map_or("", |(_, prefix)| prefix),
        };
        let prefix = Path::parse(prefix).map_err(|error| refused(error.to_string()))?;
        if scheme == "file" {
            std::fs::create_dir_all(place).map_err(|error| RemoteError::Failed {
                store: name.clone(),
                what: "open",
                cause: format!("{place}: {error}"),
            })?;
        }
        let store = build(scheme, url, place).map_err(refused)?;
        Ok(Self {
            store,
            prefix,
            name,
        })
    }

    pub async fn list(&self) -> Result<Listing, RemoteError> {
        let mut objects = self.store.list(Some(&self.prefix));
        let mut listing = Listing::default();
        while let Some(object) = objects.next().await {
            let object = self.ask("list", object)?;
            let parts = object.location.prefix_match(&self.prefix);
            let name: Vec<String> = parts.map_or_else(Vec::new, |parts| {
                parts.map(|part| part.as_ref().to_owned()).collect()
            });
            listing.take(&name.join("/"), object.size, None);
            listing.check(&self.name)?;
        }
        Ok(listing)
    }

    pub async fn read(&self, wanted: &[(RecordName, u64)]) -> Result<Vec<Record>, RemoteError> {
        check_size(&self.name, wanted.iter().map(|(_, bytes)| *bytes))?;
        let reads = wanted.iter().map(|(name, _)| async move {
            let bytes = self.get(name).await?;
            Ok((name.clone(), bytes))
        });
        stream::iter(reads).buffered(AT_ONCE).try_collect().await
    }

    /// One object; what is longer than a record may be is cut just beyond that, and refused by whoever reads it.
    async fn get(&self, name: &RecordName) -> Result<Vec<u8>, RemoteError> {
        let got = self.ask("read", self.store.get(&self.path(name)).await)?;
        let mut chunks = got.into_stream();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let room = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX) + 1 - bytes.len();
            let chunk = self.ask("read", chunk)?;
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if bytes.len() as u64 > MOST_BYTES {
                break;
            }
        }
        Ok(bytes)
    }

    pub async fn add(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        let puts = records.iter().map(|(name, bytes)| async move {
            let is_new = self.put(name, bytes).await?;
            Ok(is_new.then(|| name.clone()))
        });
        let puts = stream::iter(puts).buffered(AT_ONCE);
        let added: Vec<Option<RecordName>> = puts.try_collect().await?;
        Ok(added.into_iter().flatten().collect())
    }

    /// Whether it was not there. A put that was repeated since its answer was lost finds its own object, which
    /// is told from another's by its content.
    async fn put(&self, name: &RecordName, bytes: &[u8]) -> Result<bool, RemoteError> {
        let only_new = PutOptions::from(PutMode::Create);
        let path = self.path(name);
        let put = self.store.put_opts(&path, bytes.to_vec().into(), only_new);
        match put.await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                if self.get(name).await? == bytes {
                    return Ok(false);
                }
                Err(RemoteError::Other {
                    store: self.name.clone(),
                    name: name.to_string(),
                })
            }
            Err(error) => self.ask("write to", Err(error)),
        }
    }

    /// Puts these in the place of what is there.
    pub async fn replace(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        for (name, bytes) in records {
            let put = self.store.put(&self.path(name), bytes.clone().into()).await;
            self.ask("write to", put)?;
        }
        Ok(records.iter().map(|(name, _)| name.clone()).collect())
    }

    pub async fn remove(&self, names: &[RecordName]) -> Result<(), RemoteError> {
        for name in names {
            match self.store.delete(&self.path(name)).await {
                // Another prune was faster.
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return self.ask("remove from", Err(error)),
            }
        }
        Ok(())
    }

    fn path(&self, name: &RecordName) -> Path {
        let parts = name.to_string();
        parts
            .split('/')
            .fold(self.prefix.clone(), |path, part| path.join(part))
    }

    fn ask<T>(&self, what: &'static str, answer: Result<T, Error>) -> Result<T, RemoteError> {
        answer.map_err(|error| RemoteError::Failed {
            store: self.name.clone(),
            what,
            cause: told(&error),
        })
    }
}

/// An error with its causes, each once.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = next.source();
    }
    redact(&text)
}

fn build(scheme: &str, url: &str, place: &str) -> Result<Box<dyn ObjectStore>, String> {
    // Whoever was first has installed the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        max_retries: RETRIES,
        retry_timeout: RETRY_FOR,
        ..RetryConfig::default()
    };
    let (connect, answer) = (ClientConfigKey::ConnectTimeout, ClientConfigKey::Timeout);
    let built = match scheme {
        "s3" => AmazonS3Builder::from_env()
            .with_url(url)
            .with_retry(retry)
            .with_config(AmazonS3ConfigKey::Client(connect), CONNECT_WITHIN)
            .with_config(AmazonS3ConfigKey::Client(answer), ANSWER_WITHIN)
            .build()
            .map(|store| Box::new(store) as _),
        "gs" => GoogleCloudStorageBuilder::from_env()
            .with_url(url)
            .with_retry(retry)
            .with_config(GoogleConfigKey::Client(connect), CONNECT_WITHIN)
            .with_config(GoogleConfigKey::Client(answer), ANSWER_WITHIN)
            .build()
            .map(|store| Box::new(store) as _),
        "az" => MicrosoftAzureBuilder::from_env()
            .with_url(url)
            .with_retry(retry)
            .with_config(AzureConfigKey::Client(connect), CONNECT_WITHIN)
            .with_config(AzureConfigKey::Client(answer), ANSWER_WITHIN)
            .build()
            .map(|store| Box::new(store) as _),
        "file" => LocalFileSystem::new_with_prefix(place).map(|store| Box::new(store) as _),
        _ => return Err(format!("`{scheme}` is none of s3, gs, az and file")),
    };
    built.map_err(|error| told(&error))
}
