//! Where credentials are kept between runs: bytes by key, and one lock per key.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::record::CredentialKey;

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreProblem(pub String);

/// The secrets of a record, sealed or not.
pub type RecordBytes = Zeroizing<Vec<u8>>;

/// Keeps credentials. All changes of one key happen while its lock is held.
pub trait CredentialStore: Send + Sync {
    fn read<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<RecordBytes>, StoreProblem>>;

    /// Writes a record, or removes it.
    fn write<'a>(
        &'a self,
        key: &'a CredentialKey,
        record: Option<RecordBytes>,
    ) -> BoxFuture<'a, Result<(), StoreProblem>>;

    /// Waits until this task alone, of all processes that use the store, may change the key.
    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn StoreLock>, StoreProblem>>;
}

/// A lock that ends when it is dropped.
pub trait StoreLock: Send {}

impl StoreLock for tokio::sync::OwnedMutexGuard<()> {}

/// Credentials that end with the process.
#[derive(Default)]
pub struct MemoryStore {
    records: Mutex<HashMap<CredentialKey, RecordBytes>>,
    locks: Mutex<HashMap<CredentialKey, Arc<tokio::sync::Mutex<()>>>>,
}

impl CredentialStore for MemoryStore {
    fn read<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<RecordBytes>, StoreProblem>> {
        let found = self.records.lock().get(key).cloned();
        Box::pin(async { Ok(found) })
    }

    fn write<'a>(
        &'a self,
        key: &'a CredentialKey,
        record: Option<RecordBytes>,
    ) -> BoxFuture<'a, Result<(), StoreProblem>> {
        let mut records = self.records.lock();
        match record {
            Some(record) => drop(records.insert(key.clone(), record)),
            None => drop(records.remove(key)),
        }
        Box::pin(async { Ok(()) })
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn StoreLock>, StoreProblem>> {
        let lock = self.locks.lock().entry(key.clone()).or_default().clone();
        Box::pin(async move { Ok(Box::new(lock.lock_owned().await) as Box<dyn StoreLock>) })
    }
}
