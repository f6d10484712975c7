//! Hearing of commits: `LISTEN` wakes readers, who then read the history; a lost wake-up costs time, never an event.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use deadpool_postgres::{Client, Pool};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Config, NoTls, Socket};

use super::tls::PostgresTls;

/// Announcements are gathered for this long, so that a thousand commits a second are not a thousand announcements.
const GATHER: Duration = Duration::from_millis(10);
const RECONNECT: Duration = Duration::from_secs(1);

/// Announces a commit afterwards, in a separate transaction: `NOTIFY` inside the transaction would make every commit of
/// the whole database wait for the one before, disk included.
const ANNOUNCE: &str = "NOTIFY tsugi_pm";

/// Announces our commits to other processes and receives theirs; its tasks end with it.
pub(super) struct PostgresListener {
    config: Config,
    tls: PostgresTls,
    teller: CommitNotifier,
    tell: JoinHandle<()>,
    /// Started by the first subscriber: with sixty-four processes on a database, every commit would otherwise wake all of
    /// them for nothing.
    hear: OnceLock<JoinHandle<()>>,
}

impl PostgresListener {
    pub(super) fn new(config: Config, tls: PostgresTls, pool: Pool) -> Self {
        let teller = CommitNotifier::default();
        let tell = tokio::spawn(tell(pool, Arc::clone(&teller.late)));
        Self { config, tls, teller, tell, hear: OnceLock::new() }
    }

    pub(super) fn teller(&self) -> CommitNotifier {
        self.teller.clone()
    }

    /// Changes its value after every commit. What was committed before a wake-up can arrive is the caller's to look for,
    /// once more when the first one comes.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let ticks = &self.teller.ticks;
        self.hear.get_or_init(|| tokio::spawn(hear(self.config.clone(), self.tls.clone(), Arc::clone(ticks))));
        ticks.subscribe()
    }
}

impl Drop for PostgresListener {
    fn drop(&mut self) {
        self.tell.abort();
        if let Some(hear) = self.hear.get() {
            hear.abort();
        }
    }
}

/// Says that we committed something, here and to other processes.
#[derive(Clone, Default)]
pub(super) struct CommitNotifier {
    ticks: Arc<watch::Sender<u64>>,
    late: Arc<Notify>,
    last: Arc<Mutex<Option<Instant>>>,
}

impl CommitNotifier {
    /// Right behind the commit on the same connection, without waiting for an answer: the next user of the connection
    /// waits for it, and no other has to be opened. After another announcement it is left to [`tell`].
    pub(super) fn committed(&self, client: &Client) {
        tick(&self.ticks);
        if self.is_soon() {
            return self.late.notify_one();
        }
        // Sent with the first poll. An announcement that is lost costs readers time: they look by themselves.
        let _ = client.batch_execute(ANNOUNCE).now_or_never();
    }

    /// Whether the last announcement was a moment ago.
    fn is_soon(&self) -> bool {
        let mut last = self.last.lock();
        let is_soon = last.is_some_and(|at| at.elapsed() < GATHER);
        if !is_soon {
            *last = Some(Instant::now());
        }
        is_soon
    }
}

fn tick(ticks: &watch::Sender<u64>) {
    ticks.send_modify(|count| *count += 1);
}

/// Announces what was committed too soon after another announcement.
async fn tell(pool: Pool, late: Arc<Notify>) {
    loop {
        late.notified().await;
        tokio::time::sleep(GATHER).await;
        let Ok(client) = pool.get().await else { continue };
        if let Err(error) = client.batch_execute(ANNOUNCE).await {
            tracing::debug!(%error, "an announcement was lost; readers look by themselves");
        }
    }
}

/// Keeps one connection listening, for ever.
async fn hear(config: Config, tls: PostgresTls, ticks: Arc<watch::Sender<u64>>) {
    loop {
        let heard = match &tls {
            PostgresTls::Plain => hear_once(&config, NoTls, &ticks).await,
            PostgresTls::Checked(tls) => hear_once(&config, tls.clone(), &ticks).await,
        };
        if let Err(error) = heard {
            tracing::debug!(%error, "the listening connection was lost");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn hear_once<T>(config: &Config, tls: T, ticks: &watch::Sender<u64>) -> Result<(), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect(tls).await?;
    let hearing = async {
        while let Some(message) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message?, AsyncMessage::Notification(_)) {
                tick(ticks);
            }
        }
        Ok(())
    };
    let asking = async {
        client.batch_execute("LISTEN tsugi_pm").await?;
        // Something may have been committed while the connection was down.
        tick(ticks);
        std::future::pending().await
    };
    tokio::select! {
        result = hearing => result,
        result = asking => result,
    }
}
