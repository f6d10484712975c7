//! Hearing of commits: `LISTEN` wakes readers, who then read the history; a lost wake-up costs time, never an event.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Config, NoTls, Socket};

use super::tls::Tls;

/// Announcements are gathered for this long, so that a thousand commits a second are not a thousand announcements.
const GATHER: Duration = Duration::from_millis(10);
const RECONNECT: Duration = Duration::from_secs(1);

/// Tells other processes of our commits and hears of theirs; its tasks end with it.
pub(super) struct Listener {
    ticks: Arc<watch::Sender<u64>>,
    ours: Arc<Notify>,
    tasks: [JoinHandle<()>; 2],
}

impl Listener {
    pub(super) fn start(config: Config, tls: Tls, pool: Pool) -> Self {
        let ticks = Arc::new(watch::Sender::new(0));
        let ours = Arc::new(Notify::new());
        let hear = tokio::spawn(hear(config, tls, Arc::clone(&ticks)));
        let tell = tokio::spawn(tell(pool, Arc::clone(&ours)));
        Self { ticks, ours, tasks: [hear, tell] }
    }

    /// Says that we committed something.
    pub(super) fn announce(&self) {
        tick(&self.ticks);
        self.ours.notify_one();
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn tick(ticks: &watch::Sender<u64>) {
    ticks.send_modify(|count| *count += 1);
}

/// Announces commits afterwards, in a transaction of its own: `NOTIFY` inside the transaction would make every commit
/// of the whole database wait for the one before, disk included.
async fn tell(pool: Pool, ours: Arc<Notify>) {
    loop {
        ours.notified().await;
        tokio::time::sleep(GATHER).await;
        let Ok(client) = pool.get().await else { continue };
        if let Err(error) = client.batch_execute("NOTIFY tsugi_pm").await {
            tracing::debug!(%error, "an announcement was lost; readers look by themselves");
        }
    }
}

/// Keeps one connection listening, for ever.
async fn hear(config: Config, tls: Tls, ticks: Arc<watch::Sender<u64>>) {
    loop {
        let heard = match &tls {
            Tls::Plain => hear_once(&config, NoTls, &ticks).await,
            Tls::Checked(tls) => hear_once(&config, tls.clone(), &ticks).await,
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
        // Something may have been committed while nobody listened.
        tick(ticks);
        std::future::pending().await
    };
    tokio::select! {
        result = hearing => result,
        result = asking => result,
    }
}
