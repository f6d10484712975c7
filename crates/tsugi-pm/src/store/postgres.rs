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
use self::run::{Ended, PostgresSql, fault, transact};
use self::tls::Tls;
use super::clock::{Ahead, Clock};
use super::{Boxed, Mode, OpenError, Options, Work};
use crate::domain::fault::{Code, Fault};

/// How many times as long as for a lock one statement may take. A database that is stopped or cut off says nothing at
/// all, and nobody may wait for it for ever.
const STATEMENT: u32 = 3;
/// How often a transaction is run again after another overtook it, before the caller hears `busy`.
const TRIES: u32 = 30;

/// The pool and the listener of one database.
pub(super) struct Postgres {
    pool: Pool,
    clock: Option<Arc<dyn Clock>>,
    ahead: Arc<Ahead>,
    longest_statement: Duration,
    listener: Listener,
    meter: Option<super::Meter>,
}

impl Postgres {
    /// Connects, migrates, and begins to listen.
    pub(super) async fn open(address: &str, options: Options) -> Result<Self, OpenError> {
        let config = open::config(address)?;
        let tls = Tls::of(&config)?;
        let pool = open::pool(&config, &tls, &options)?;
        // Here a wrong address or certificate is likelier than a database that is away for a moment.
        let first = pool.get().await;
        let client = first.map_err(|error| Fault::internal(format!("cannot reach the database: {error}")))?;
        open::migrate(client, options.known_migrations).await?;
        let listener = Listener::start(config, tls, pool.clone());
        let longest_statement = options.longest_wait * STATEMENT;
        Ok(Self { pool, clock: options.clock, ahead: Arc::default(), longest_statement, listener, meter: options.meter })
    }

    /// Runs one transaction; one that writes, again if another overtakes it.
    pub(super) async fn run(&self, mode: Mode, work: Work) -> Result<Boxed, Fault> {
        let work = Arc::new(work);
        for tries in 0..TRIES {
            let ended = self.once(mode, Arc::clone(&work)).await?;
            if ended.has_events {
                self.listener.announce();
            }
            if mode != Mode::Write || !ended.is_overtaken {
                return ended.result;
            }
            tokio::time::sleep(pause(tries)).await;
        }
        Err(Fault::new(Code::Busy, format!("{TRIES} other transactions were faster")).hint("try again"))
    }

    async fn once(&self, mode: Mode, work: Arc<Work>) -> Result<Ended, Fault> {
        let client = self.pool.get().await.map_err(|error| unreachable_database(&error))?;
        let (clock, ahead) = (self.clock.clone(), Arc::clone(&self.ahead));
        let (handle, longest) = (Handle::current(), self.longest_statement); let meter = self.meter.clone();
        let running = tokio::task::spawn_blocking(move || {
            let ended = transact(PostgresSql::new(&client, &handle, longest, meter.as_ref()), (clock.as_deref(), &ahead), mode, &work);
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
        // It may be there again in a moment: it is started anew, or another takes its place.
        other => Fault::new(Code::Busy, format!("cannot reach the database: {other}")).hint("try again"),
    }
}
