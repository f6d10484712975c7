//! Lines in a table: the same chain, each `seq` once.

use std::path::Path;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{LineSink, SinkError, SinkReply, tls};
use crate::checkpoint::AuditPublicKey;
use crate::follow::FollowedLine;

const TABLE: &str = "create table if not exists tsugi_audit (
    chain text not null,
    seq bigint not null,
    line text not null,
    primary key (chain, seq)
)";
/// A line that is there already is left as it is.
const INSERT: &str = "insert into tsugi_audit (chain, seq, line)
    select $1, new.seq, new.line from unnest($2::bigint[], $3::text[]) as new(seq, line)
    on conflict (chain, seq) do nothing";
const DIFFERING: &str = "select count(*) from tsugi_audit as old
    join unnest($2::bigint[], $3::text[]) as new(seq, line) on old.seq = new.seq
    where old.chain = $1 and old.line <> new.line";

/// A table `tsugi_audit`, which several gateways may share: each chain is named after the key that signs it.
pub struct PostgresSink {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    chain: String,
    client: Option<Client>,
}

impl PostgresSink {
    pub fn new(url: &str, ca: Option<&Path>, key: &AuditPublicKey) -> Result<Self, String> {
        // The text may hold a password, so that the error does not repeat it.
        // To check the certificate is what `require` means here.
        let url = url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require");
        let config = url.parse().map_err(|_| "the address of the PostgreSQL sink cannot be read".to_owned())?;
        let tls = MakeRustlsConnect::new(tls::client_config(ca)?);
        Ok(Self { config, tls, chain: key.to_string(), client: None })
    }

    async fn client(&mut self) -> Result<&mut Client, SinkError> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            // `prefer` would let anyone who sits between us and the server say no for it, so that it means plain.
            let client = if matches!(self.config.get_ssl_mode(), SslMode::Disable | SslMode::Prefer) {
                let (client, connection) = self.config.connect(NoTls).await.map_err(SinkError::unavailable)?;
                tokio::spawn(connection);
                client
            } else {
                let (client, connection) =
                    self.config.connect(self.tls.clone()).await.map_err(SinkError::unavailable)?;
                tokio::spawn(connection);
                client
            };
            client.batch_execute(TABLE).await.map_err(SinkError::unavailable)?;
            self.client = Some(client);
        }
        self.client.as_mut().ok_or_else(|| SinkError::unavailable("there is no connection"))
    }

    async fn insert(&mut self, lines: &[FollowedLine]) -> Result<(), SinkError> {
        let seqs: Vec<i64> = lines.iter().map(|line| i64::try_from(line.seq).unwrap_or(i64::MAX)).collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let chain = self.chain.clone();
        let client = self.client().await?;
        let transaction = client.transaction().await.map_err(SinkError::unavailable)?;
        transaction.execute(INSERT, &[&chain, &seqs, &texts]).await.map_err(SinkError::unavailable)?;
        let differing =
            transaction.query_one(DIFFERING, &[&chain, &seqs, &texts]).await.map_err(SinkError::unavailable)?;
        let differing: i64 = differing.get(0);
        transaction.commit().await.map_err(SinkError::unavailable)?;
        match differing {
            0 => Ok(()),
            _ => Err(SinkError::Rejected(format!("the table has {differing} other lines under the same numbers"))),
        }
    }
}

impl LineSink for PostgresSink {
    fn send<'a>(&'a mut self, lines: &'a [FollowedLine]) -> SinkReply<'a> {
        Box::pin(async move {
            let result = self.insert(lines).await;
            if let Err(SinkError::Unavailable { .. }) = &result {
                // A connection in an unknown state is not used again.
                self.client = None;
            }
            result
        })
    }
}
