//! The PostgreSQL engine: the same use-cases, run on a blocking thread over a pooled connection.
//!
//! READ COMMITTED with row locks rather than SERIALIZABLE: claimers all read the head of the same index, and under
//! SERIALIZABLE nearly every pair of them would be a conflict. What may not change is locked (see [`super::tx`]).

mod fault;
mod listen;
mod open;
mod pipe;
mod run;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Object, Pool, Timeouts};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::fault::{fault, unreachable_at_first, unreachable_now};
use self::listen::PostgresListener;
use self::pipe::{PostgresSql, StatementTimeout};
use self::run::{FinishedTransaction, TransactionSettings, transact};
use self::tls::PostgresTls;
use super::clock::{ClockLead, TimeSource};
use super::tx::TxAttempt;
use super::{BoxedResult, StoreMeter, StoreOpenError, StoreOptions, TxMode, TxWork};
use crate::domain::fault::{Code, PmFault};

/// How many times as long as a call waits for locks one answer may take. A database that is stopped or cut off does not
/// answer, and no call may wait for it for ever.
const STATEMENT: u32 = 3;
/// How often a transaction is run again after another overtook it, before the caller gets `busy`.
const TRIES: u32 = 30;

/// The pool and the listener of one database.
pub(super) struct PostgresEngine {
    pool: Pool,
    /// Where it is, for people.
    place: String,
    clock: Option<Arc<dyn TimeSource>>,
    ahead: Arc<ClockLead>,
    known_migrations: usize,
    longest_wait: Duration,
    listener: PostgresListener,
    meter: Option<StoreMeter>,
}

impl PostgresEngine {
    pub(super) async fn open(address: &str, options: StoreOptions) -> Result<Self, StoreOpenError> {
        let config = open::config(address)?;
        let tls = PostgresTls::of(&config)?;
        let pool = open::pool(&config, &tls, &options)?;
        let place = open::place(&config);
        let client = pool.get().await.map_err(|error| unreachable_at_first(&error, &place))?;
        open::migrate(client, options.known_migrations).await?;
        Ok(Self {
            listener: PostgresListener::new(config, tls, pool.clone()),
            pool,
            place,
            clock: options.clock,
            ahead: Arc::default(),
            known_migrations: options.known_migrations,
            longest_wait: options.longest_wait,
            meter: options.meter,
        })
    }

    /// Runs one transaction, again if another overtakes it, for as long as the call may wait.
    pub(super) async fn run(&self, mode: TxMode, work: TxWork) -> Result<BoxedResult, PmFault> {
        let work = Arc::new(work);
        let deadline = Instant::now() + self.longest_wait;
        let patience = StatementTimeout { longest_answer: self.longest_wait * STATEMENT, deadline };
        let mut attempt = TxAttempt::default();
        for tries in 0..TRIES {
            let ended = self.once(mode, Arc::clone(&work), patience, attempt).await?;
            if !ended.is_overtaken {
                return ended.result;
            }
            attempt = ended.attempt;
            tokio::time::sleep(pause(tries).min(patience.left())).await;
            if patience.left().is_zero() {
                break;
            }
        }
        Err(PmFault::new(Code::Busy, "other transactions were faster again and again").hint("try again"))
    }

    async fn once(
        &self,
        mode: TxMode,
        work: Arc<TxWork>,
        patience: StatementTimeout,
        attempt: TxAttempt,
    ) -> Result<FinishedTransaction, PmFault> {
        let client = self.connection(patience.left()).await?;
        let (clock, ahead, known_migrations) = (self.clock.clone(), Arc::clone(&self.ahead), self.known_migrations);
        let (handle, meter, teller) = (Handle::current(), self.meter.clone(), self.listener.teller());
        let running = tokio::task::spawn_blocking(move || {
            let sql = PostgresSql::new(&client, &handle, patience, meter.as_ref());
            let setting = TransactionSettings { clock: clock.as_deref(), ahead: &ahead, known_migrations };
            let ended = transact(sql, &setting, mode, &work, attempt);
            if ended.has_events {
                teller.committed(&client);
            }
            if ended.is_broken {
                // Never lend a connection again whose transaction may still be open.
                drop(Object::take(client));
            }
            ended
        });
        running.await.map_err(|error| PmFault::internal(error.to_string()))
    }

    /// A connection, waiting for it in line no longer than this.
    async fn connection(&self, longest: Duration) -> Result<Object, PmFault> {
        let timeouts = Timeouts { wait: Some(longest), ..self.pool.timeouts() };
        self.pool.timeout_get(&timeouts).await.map_err(|error| unreachable_now(&error, &self.place))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.listener.subscribe()
    }

    pub(super) async fn size(&self) -> Result<u64, PmFault> {
        let client = self.connection(self.longest_wait).await?;
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
