//! A vault in a PostgreSQL table, for gateways on several machines.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use rustls::ClientConfig;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tsugi_oauth::record::CredentialKey;
use tsugi_oauth::store::{CredentialStore, RecordBytes, StoreLock, StoreProblem};

use crate::key_source::VaultKeyRing;
use crate::seal::VaultProblem;

const TABLE: &str = "create table if not exists tsugi_vault (owner text primary key, sealed text not null)";
/// Taken for a moment to make the table: two sessions that make one at the same time fail otherwise.
const TABLE_LOCK: &str = "select pg_advisory_xact_lock(7290136401)";
const READ: &str = "select sealed from tsugi_vault where owner = $1";
const WRITE: &str = "insert into tsugi_vault (owner, sealed) values ($1, $2)
    on conflict (owner) do update set sealed = excluded.sealed";
const REMOVE: &str = "delete from tsugi_vault where owner = $1";
/// It ends with its connection, and so with its process.
const LOCK: &str = "select pg_advisory_lock(hashtextextended('tsugi_vault ' || $1, 0))";

/// A table `tsugi_vault`. Records are sealed here, so the database never sees a token.
#[derive(Clone)]
pub struct PostgresVault(Arc<VaultConnection>);

struct VaultConnection {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    keys: VaultKeyRing,
    client: tokio::sync::Mutex<Option<Arc<Client>>>,
}

impl PostgresVault {
    /// A vault at this address. Nothing is connected yet. `sslmode=require` checks the server's certificate.
    pub fn new(url: &str, keys: VaultKeyRing, tls: ClientConfig) -> Result<Self, VaultProblem> {
        // The address may hold a password, so that the error does not repeat it.
        let url = url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
        let config = url.parse().map_err(|_| VaultProblem::BadAddress)?;
        let client = tokio::sync::Mutex::default();
        Ok(Self(Arc::new(VaultConnection { config, tls: MakeRustlsConnect::new(tls), keys, client })))
    }

    /// Whose records there are.
    pub async fn owners(&self) -> Result<Vec<CredentialKey>, VaultProblem> {
        let rows = self.0.client().await?.query("select owner from tsugi_vault order by owner", &[]).await;
        let rows = rows.map_err(unreachable)?;
        Ok(rows.iter().filter_map(|row| CredentialKey::parse(row.get(0))).collect())
    }

    /// Seals every record with the first key. All or nothing.
    pub async fn rekey(&self) -> Result<usize, VaultProblem> {
        let mut client = self.0.connect().await?;
        let transaction = client.transaction().await.map_err(unreachable)?;
        // No other process writes a record until this is done.
        transaction.batch_execute("lock table tsugi_vault in exclusive mode").await.map_err(unreachable)?;
        let rows = transaction.query("select owner, sealed from tsugi_vault", &[]).await.map_err(unreachable)?;
        for row in &rows {
            let (owner, sealed): (&str, &str) = (row.get(0), row.get(1));
            let record = self.0.keys.open(owner, &decode(sealed)?)?;
            let sealed = STANDARD.encode(self.0.keys.seal(owner, &record)?);
            transaction.execute(WRITE, &[&owner, &sealed]).await.map_err(unreachable)?;
        }
        transaction.commit().await.map_err(unreachable)?;
        Ok(rows.len())
    }
}

impl VaultConnection {
    /// The connection that reads and writes share.
    async fn client(&self) -> Result<Arc<Client>, VaultProblem> {
        let mut held = self.client.lock().await;
        match held.as_ref().filter(|client| !client.is_closed()) {
            Some(client) => Ok(client.clone()),
            None => Ok(held.insert(Arc::new(self.connect().await?)).clone()),
        }
    }

    async fn connect(&self) -> Result<Client, VaultProblem> {
        // `prefer` would let anyone who sits between us and the server say no for it, so that it means plain.
        let mut client = if matches!(self.config.get_ssl_mode(), SslMode::Disable | SslMode::Prefer) {
            let (client, connection) = self.config.connect(NoTls).await.map_err(unreachable)?;
            // It ends with the client.
            tokio::spawn(connection);
            client
        } else {
            let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(unreachable)?;
            tokio::spawn(connection);
            client
        };
        let transaction = client.transaction().await.map_err(unreachable)?;
        transaction.query_one(TABLE_LOCK, &[]).await.map_err(unreachable)?;
        transaction.batch_execute(TABLE).await.map_err(unreachable)?;
        transaction.commit().await.map_err(unreachable)?;
        Ok(client)
    }

    async fn read(&self, owner: String) -> Result<Option<RecordBytes>, VaultProblem> {
        let row = self.client().await?.query_opt(READ, &[&owner]).await.map_err(unreachable)?;
        row.map(|row| self.keys.open(&owner, &decode(row.get(0))?)).transpose()
    }

    async fn write(&self, owner: String, record: Option<RecordBytes>) -> Result<(), VaultProblem> {
        let client = self.client().await?;
        let written = match record {
            Some(record) => {
                let sealed = STANDARD.encode(self.keys.seal(&owner, &record)?);
                client.execute(WRITE, &[&owner, &sealed]).await
            }
            None => client.execute(REMOVE, &[&owner]).await,
        };
        written.map(drop).map_err(unreachable)
    }
}

fn decode(sealed: &str) -> Result<Vec<u8>, VaultProblem> {
    STANDARD.decode(sealed).map_err(|_| VaultProblem::Damaged)
}

/// The cause goes to the log: it may describe our own network.
fn unreachable(error: tokio_postgres::Error) -> VaultProblem {
    tracing::warn!(%error, "the vault's database does not answer");
    VaultProblem::Unreachable
}

fn problem(problem: VaultProblem) -> StoreProblem {
    StoreProblem(problem.to_string())
}

/// A lock among all gateways that use the database.
struct DatabaseLock {
    _client: Client,
}

impl StoreLock for DatabaseLock {}

impl CredentialStore for PostgresVault {
    fn read<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<RecordBytes>, StoreProblem>> {
        Box::pin(async { self.0.read(key.to_string()).await.map_err(problem) })
    }

    fn write<'a>(
        &'a self,
        key: &'a CredentialKey,
        record: Option<RecordBytes>,
    ) -> BoxFuture<'a, Result<(), StoreProblem>> {
        Box::pin(async { self.0.write(key.to_string(), record).await.map_err(problem) })
    }

    /// On a connection of its own, which ends with the lock.
    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Box<dyn StoreLock>, StoreProblem>> {
        Box::pin(async {
            let client = self.0.connect().await.map_err(problem)?;
            client.execute(LOCK, &[&key.to_string()]).await.map_err(unreachable).map_err(problem)?;
            Ok(Box::new(DatabaseLock { _client: client }) as Box<dyn StoreLock>)
        })
    }
}
