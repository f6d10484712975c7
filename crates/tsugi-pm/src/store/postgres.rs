//! The PostgreSQL engine: the same use-cases, run on a blocking thread over a pooled connection.
//!
//! READ COMMITTED with row locks rather than SERIALIZABLE: claimers all read the head of the same index, and under
//! SERIALIZABLE nearly every pair of them would be a conflict. What may not change is locked (see [`super::tx`]).

mod listen;
mod open;
mod run;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::listen::Listener;
use self::run::{Ended, Mode, fault, transact};
use self::tls::Tls;
use super::clock::Clock;
use super::tx::Tx;
use super::{OpenError, Options};
use crate::domain::fault::{Code, Fault};

/// How often a transaction is run again after another overtook it, before the caller hears `busy`.
const TRIES: u32 = 30;

/// The pool and the listener of one database.
pub(super) struct Postgres {
    pool: Pool,
    clock: Option<Arc<dyn Clock>>,
    listener: Listener,
}

impl Postgres {
    /// Connects, migrates, and begins to listen.
    pub(super) async fn open(address: &str, options: Options) -> Result<Self, OpenError> {
        let config = open::config(address)?;
        let tls = Tls::of(&config)?;
        let pool = open::pool(&config, &tls, options.connections)?;
        let client = pool.get().await.map_err(|error| unreachable_database(&error))?;
        open::migrate(client, options.known_migrations).await?;
        let listener = Listener::start(config, tls, pool.clone());
        Ok(Self { pool, clock: options.clock, listener })
    }

    /// Runs one transaction, again if another overtakes it.
    pub(super) async fn write<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        for tries in 0..TRIES {
            let ended = self.once(Mode::Write, Arc::clone(&work)).await?;
            if ended.has_events {
                self.listener.announce();
            }
            if !ended.is_overtaken {
                return ended.result;
            }
            tokio::time::sleep(pause(tries)).await;
        }
        Err(Fault::new(Code::Busy, format!("{TRIES} other transactions were faster")).hint("try again"))
    }

    /// Runs a read. Each statement sees what is committed when it begins; records are never half-written.
    pub(super) async fn read<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.once(Mode::Read, Arc::new(work)).await?.result
    }

    /// Runs a read that sees one moment from beginning to end.
    pub(super) async fn snapshot<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        self.once(Mode::Snapshot, Arc::new(work)).await?.result
    }

    async fn once<T, W>(&self, mode: Mode, work: Arc<W>) -> Result<Ended<T>, Fault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static,
    {
        let client = self.pool.get().await.map_err(|error| unreachable_database(&error))?;
        let (clock, handle) = (self.clock.clone(), Handle::current());
        let running = tokio::task::spawn_blocking(move || {
            let ended = transact(&client, &handle, clock.as_deref(), mode, &*work);
            if ended.is_broken {
                // Never lend a connection again whose transaction may still be open.
                drop(Object::take(client));
            }
            ended
        });
        running.await.map_err(|error| Fault::internal(error.to_string()))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.listener.subscribe()
    }

    pub(super) async fn size(&self) -> Result<u64, Fault> {
        let client = self.pool.get().await.map_err(|error| unreachable_database(&error))?;
        let row = client
            .query_one("SELECT pg_database_size(current_database())", &[])
            .await
            .map_err(|error| fault(&error))?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0))
    }
}

/// A random pause that grows with the number of tries, so that two rivals do not meet again.
fn pause(tries: u32) -> Duration {
    let longest = 2_000_u64 << tries.min(6);
    Duration::from_micros(rand::random_range(200..longest))
}

fn unreachable_database(error: &deadpool_postgres::PoolError) -> Fault {
    match error {
        deadpool_postgres::PoolError::Timeout(_) => {
            Fault::new(Code::Busy, "no database connection became free in time").hint("try again")
        }
        other => Fault::internal(format!("cannot reach the database: {other}")),
    }
}
