//! Where everything is kept: SQLite on one machine or PostgreSQL for a team, behind one door.

pub mod clock;
pub mod feed;
pub mod migrate;

mod cell;
pub(crate) mod dialect;
mod postgres;
mod sqlite;
pub(crate) mod table;
mod terms;
pub(crate) mod tx;
pub(crate) mod value;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use self::clock::TimeSource;
use self::feed::EventFeed;
use self::postgres::PostgresEngine;
use self::sqlite::SqliteEngine;
use self::tx::Tx;
use crate::domain::fault::{Code, PmFault};

/// Where the database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreLocation {
    /// Reads what a person writes after `--db`: a PostgreSQL address, or the path of a file.
    pub fn parse(text: &str) -> Self {
        // Everything else is a path: a file may be called anything.
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Self::Postgres(text.to_owned());
        }
        Self::Sqlite(PathBuf::from(text.strip_prefix("sqlite://").unwrap_or(text)))
    }
}

/// What the work done inside the database has cost, for tests that hold the cost flat.
#[derive(Clone, Debug, Default)]
pub struct StoreMeter(Arc<StoreCounts>);

#[derive(Debug, Default)]
struct StoreCounts {
    steps: AtomicU64,
    trips: AtomicU64,
}

impl StoreMeter {
    /// Steps of SQLite's virtual machine so far.
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }

    /// How often a transaction has waited for an answer of PostgreSQL so far.
    pub fn trips(&self) -> u64 {
        self.0.trips.load(Ordering::Relaxed)
    }

    fn add_steps(&self, steps: u64) {
        // Only read when the work is over.
        self.0.steps.fetch_add(steps, Ordering::Relaxed);
    }

    fn add_trip(&self) {
        self.0.trips.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call that waits longer returns `busy`, and its caller decides.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How to open a store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Where the database is.
    pub location: StoreLocation,
    /// Whose time counts; unset means the database host's.
    pub clock: Option<Arc<dyn TimeSource>>,
    /// Whether a SQLite file may lie on a network file system, whose locks cannot be trusted.
    pub allow_network_file_system: bool,
    /// Read connections (SQLite) or connections in all (PostgreSQL).
    pub connections: usize,
    /// The SQLite file layer, by name; tests put a faulty one underneath.
    pub vfs: Option<String>,
    /// Counts what the work costs.
    pub meter: Option<StoreMeter>,
    /// How many migrations this binary knows; tests play an older binary.
    pub known_migrations: usize,
    /// How long a call waits, in line and for locks, before it returns `busy`.
    pub longest_wait: Duration,
}

impl StoreOptions {
    /// The usual way to open a location.
    pub fn new(location: StoreLocation) -> Self {
        // Readers of a file are threads, so few; a pool for a team needs more.
        let connections = match location {
            StoreLocation::Sqlite(_) => 3,
            StoreLocation::Postgres(_) => 16,
        };
        Self {
            location,
            clock: None,
            allow_network_file_system: false,
            connections,
            vfs: None,
            meter: None,
            known_migrations: migrate::KNOWN,
            longest_wait: LONGEST_WAIT,
        }
    }

    #[must_use]
    pub fn with_clock(mut self, clock: impl TimeSource + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// A newer tsugi has been here.
    #[error("the database has schema {found}, this tsugi knows up to {known}")]
    Newer {
        /// The schema of the database.
        found: i64,
        /// The newest schema we know.
        known: usize,
    },
    /// The record of migrations was altered.
    #[error("migration {version} of the database is not the one this tsugi knows")]
    Altered { version: i64 },
    /// The file lies where locks cannot be trusted.
    #[error("{path} is on a network file system ({kind}), where SQLite's locks cannot be trusted")]
    NetworkFileSystem { path: PathBuf, kind: &'static str },
    /// The SQLite we were linked with has known faults.
    #[error("SQLite {found} is too old, 3.51.3 is needed")]
    OldSqlite { found: String },
    /// Anything else the database said.
    #[error("cannot open the database: {0}")]
    Storage(#[from] PmFault),
}

impl StoreOpenError {
    /// What kind of refusal it is to a caller.
    pub fn code(&self) -> Code {
        match self {
            Self::Storage(fault) => fault.code,
            _ => Code::Internal,
        }
    }

    pub fn hint(&self) -> &str {
        match self {
            Self::Newer { .. } => "install a newer tsugi; nothing was changed",
            Self::Altered { .. } => "restore the database from a backup or an export",
            Self::NetworkFileSystem { .. } => "use PostgreSQL (--db postgres://…), or a local disk, or say --i-know",
            Self::OldSqlite { .. } => "build tsugi with its bundled SQLite",
            // The engine knows better what to try.
            Self::Storage(fault) if !fault.hint.is_empty() => &fault.hint,
            Self::Storage(_) => "check the path or address, and that it can be written",
        }
    }
}

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxMode {
    /// Look. On PostgreSQL each statement sees what is committed when it begins.
    Read,
    /// Look at one moment from beginning to end.
    Snapshot,
    Write,
}

/// What a transaction answers, with its type left behind.
type BoxedResult = Box<dyn Any + Send>;

/// The work of a transaction. The engines are not generic over it: compiled for every use-case, their code would be half
/// of the program, and a small server's memory is mostly the program.
type TxWork = Box<dyn Fn(&mut Tx<'_>) -> Result<BoxedResult, PmFault> + Send + Sync>;

enum StoreEngine {
    Sqlite(Box<SqliteEngine>),
    Postgres(PostgresEngine),
}

/// An open database. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct PmStore {
    engine: Arc<StoreEngine>,
    /// The refusal of the first transaction that found a schema newer than this program.
    outdated: Arc<watch::Sender<Option<PmFault>>>,
}

impl PmStore {
    /// Opens a database, bringing its schema up to date.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreOpenError> {
        // The options move into the engine.
        let engine = match options.location.clone() {
            StoreLocation::Sqlite(path) => StoreEngine::Sqlite(Box::new(SqliteEngine::open(path, options).await?)),
            StoreLocation::Postgres(address) => StoreEngine::Postgres(PostgresEngine::open(&address, options).await?),
        };
        Ok(Self { engine: Arc::new(engine), outdated: Arc::default() })
    }

    /// Runs work that changes things, as one transaction; answers after it is durable.
    ///
    /// The work may run several times when another transaction overtakes it, so it must have no effect outside the transaction.
    /// Dropping the future does not stop the work: it commits or fails as if the caller still waited. A store that is locked
    /// or overloaded for too long answers `busy`, and then nothing was done.
    pub(crate) async fn write<T, W>(&self, work: W) -> Result<T, PmFault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, PmFault> + Send + Sync + 'static,
    {
        self.run(TxMode::Write, boxed(work)).await.map(unboxed)
    }

    /// Runs work that only reads. On PostgreSQL each of its statements sees what is committed when it begins.
    pub(crate) async fn read<T, W>(&self, work: W) -> Result<T, PmFault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, PmFault> + Send + Sync + 'static,
    {
        self.run(TxMode::Read, boxed(work)).await.map(unboxed)
    }

    /// Runs work that reads a great deal, on one consistent view from beginning to end.
    pub(crate) async fn snapshot<T, W>(&self, work: W) -> Result<T, PmFault>
    where
        T: Send + 'static,
        W: Fn(&mut Tx<'_>) -> Result<T, PmFault> + Send + Sync + 'static,
    {
        self.run(TxMode::Snapshot, boxed(work)).await.map(unboxed)
    }

    async fn run(&self, mode: TxMode, work: TxWork) -> Result<BoxedResult, PmFault> {
        let result = match &*self.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.run(mode, work).await,
            StoreEngine::Postgres(postgres) => postgres.run(mode, work).await,
        };
        if let Err(fault) = &result
            // Checked on every transaction, so that the program learns it from whichever comes first.
            && fault.code == Code::Outdated
        {
            self.outdated.send_replace(Some(fault.clone()));
        }
        result
    }

    /// Waits until a transaction finds that a newer program has changed the schema. From then on every transaction is
    /// refused, and the program should end.
    pub async fn until_outdated(&self) -> PmFault {
        let mut outdated = self.outdated.subscribe();
        match outdated.wait_for(Option::is_some).await.map(|found| found.clone()) {
            Ok(Some(fault)) => fault,
            // The sender lives as long as the store, so this cannot happen while it is used.
            _ => std::future::pending().await,
        }
    }

    /// Every event after `since_seq`, in order, none missing, as they come; also those of other processes.
    pub fn subscribe(&self, since_seq: i64) -> EventFeed {
        EventFeed::new(self.clone(), since_seq)
    }

    /// Changes its value after every commit with events, in this process or another.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        match &*self.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.changes(),
            StoreEngine::Postgres(postgres) => postgres.changes(),
        }
    }

    /// How large the database and, on SQLite, its write-ahead log are, in bytes.
    pub async fn size(&self) -> Result<(u64, u64), PmFault> {
        match &*self.engine {
            StoreEngine::Sqlite(sqlite) => Ok(sqlite.size()),
            StoreEngine::Postgres(postgres) => postgres.size().await.map(|size| (size, 0)),
        }
    }

    /// Asks the engine itself whether the database is sound; answers the complaints.
    pub async fn check(&self) -> Result<Vec<String>, PmFault> {
        match &*self.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.check().await,
            StoreEngine::Postgres(_) => Ok(Vec::new()),
        }
    }
}

fn boxed<T, W>(work: W) -> TxWork
where
    T: Send + 'static,
    W: Fn(&mut Tx<'_>) -> Result<T, PmFault> + Send + Sync + 'static,
{
    // Boxed once here, so that the engines are compiled once.
    Box::new(move |tx| work(tx).map(|answer| Box::new(answer) as BoxedResult))
}

fn unboxed<T: 'static>(answer: BoxedResult) -> T {
    *answer.downcast().expect("work answers what it was asked for")
}
