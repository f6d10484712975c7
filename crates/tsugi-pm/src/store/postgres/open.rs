//! Connecting to PostgreSQL and bringing its schema up to date.

use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{GenericClient, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime, Timeouts};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::fault::fault;
use super::tls::{PostgresTls, plain_words};
use crate::domain::fault::PmFault;
use crate::store::clock::{SystemClock, TimeSource};
use crate::store::migrate::{self, STEPS};
use crate::store::{StoreOpenError, StoreOptions};

/// A waiting claim gives up after five seconds (`LOCK_WAIT`); a transaction whose process hangs is ended by the server;
/// an acknowledged write is on the server's disk; a statement that is used again is not planned again, and not by reading
/// a whole table because it was small when the plan was made.
const SETTINGS: &str = "-c lock_timeout=5000 -c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on \
                        -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
                        -c default_transaction_isolation=read\\ committed";
/// Waiting for another program's migration may take longer than waiting for a claim.
const PATIENT: &str = "SET LOCAL lock_timeout = 60000";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the address and adds our settings to those it names.
pub(super) fn config(address: &str) -> Result<Config, StoreOpenError> {
    let mut config = Config::from_str(&plain_words(address))
        .map_err(|error| PmFault::invalid(format!("bad database address: {error}")))?;
    let options = format!("{} {SETTINGS}", config.get_options().unwrap_or_default());
    config.options(options).connect_timeout(CONNECT_TIMEOUT);
    if config.get_application_name().is_none() {
        config.application_name("tsugi pm");
    }
    Ok(config)
}

/// Where the database is, without who asks for it.
pub(super) fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let ports = config.get_ports().iter().chain(std::iter::repeat(&5432));
    let places: Vec<String> = hosts.zip(ports).map(|(host, port)| format!("{host}:{port}")).collect();
    places.join(", ")
}

/// A pool whose lending waits, but not for ever. The connection that came back last is lent first: its statements are
/// known to the server, and the others may rest.
pub(super) fn pool(config: &Config, tls: &PostgresTls, options: &StoreOptions) -> Result<Pool, StoreOpenError> {
    let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let timeouts =
        Timeouts { wait: Some(options.longest_wait), create: Some(CONNECT_TIMEOUT), recycle: Some(CONNECT_TIMEOUT) };
    Pool::builder(tls.manager(config, how))
        .max_size(options.connections.max(1))
        .timeouts(timeouts)
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| PmFault::internal(error.to_string()).into())
}

/// Takes the missing steps, one transaction each, while no other process migrates the same schema.
pub(super) async fn migrate(mut client: Object, known: usize) -> Result<(), StoreOpenError> {
    while steps_taken(&client, known).await? < known {
        step_forward(&mut client, known).await?;
    }
    Ok(())
}

/// How many steps the schema has taken. Asked without a lock: most programs find nothing to do, and when a whole team
/// starts at once they need not stand in line for it.
async fn steps_taken(client: &impl GenericClient, known: usize) -> Result<usize, StoreOpenError> {
    let is_new = client.query_one("SELECT to_regclass('migration') IS NULL", &[]).await?;
    if is_new.get(0) {
        return Ok(0);
    }
    let rows = client.query(migrate::READ_RECORD, &[]).await?;
    let taken: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    migrate::check(&taken, known, |step| step.postgres)
}

impl From<tokio_postgres::Error> for StoreOpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Storage(fault(&error))
    }
}

/// Takes the next step, as seen under the lock; another process may have taken it already.
async fn step_forward(client: &mut Object, known: usize) -> Result<(), StoreOpenError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(PATIENT).await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('tsugi migrate ' || current_schema(), 0))";
    transaction.execute(lock, &[]).await?;
    let at = steps_taken(&transaction, known).await?;
    if at >= known {
        return Ok(transaction.commit().await?);
    }
    transaction.batch_execute(migrate::CREATE_RECORD).await?;
    transaction.batch_execute(STEPS[at].postgres).await?;
    let (version, name, checksum) = migrate::record(at, STEPS[at].postgres);
    let insert = "INSERT INTO migration (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)";
    transaction.execute(insert, &[&version, &name, &checksum, &SystemClock.now().0]).await?;
    Ok(transaction.commit().await?)
}
