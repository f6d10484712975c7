//! The lock file and its changes: what `tsugi lock accept` pins takes effect in a running gateway.

use std::sync::Arc;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tsugi_client::Manager;
use tsugi_pins::PinStore;

use crate::app::App;

pub(super) struct PinWatcher {
    store: Option<Arc<PinStore>>,
    signals: mpsc::Receiver<()>,
    /// Dropping it ends the watch.
    _watcher: Option<RecommendedWatcher>,
}

impl PinWatcher {
    /// Watches the lock file, where there is one.
    pub(super) fn new(app: &App) -> Self {
        let (sender, signals) = mpsc::channel(1);
        let store = app.pins.get().cloned().flatten();
        let watcher = store.as_ref().and_then(|store| watch(store, sender));
        Self { store, signals, _watcher: watcher }
    }

    /// Waits until the lock file may have changed. Safe to drop.
    pub(super) async fn changed(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Reads the file again, and has every server judged again where it differs.
    pub(super) fn reload(&self, manager: &Manager) {
        let Some(store) = &self.store else { return };
        match store.reload() {
            Ok(true) => manager.servers().iter().for_each(|server| server.refresh()),
            Ok(false) => {}
            // A file that is being edited by hand is read again when it is saved again.
            Err(error) => tracing::error!(%error, "the lock file cannot be used: the previous pins stay in force"),
        }
    }
}

/// Watches the directory, since the file is replaced as a whole. Without it, a change is seen with the next list.
fn watch(store: &PinStore, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let path = store.path();
    let directory = path.parent()?.canonicalize().ok()?;
    let file = directory.join(path.file_name()?);
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| event.paths.contains(&file) && !event.kind.is_access()) {
            // A pending signal covers this change too.
            let _ = sender.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(on_event).ok()?;
    watcher.watch(&directory, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}
