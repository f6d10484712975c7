//! The vault and its changes: a sign-in by `tsugi login` takes effect in a running process.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tsugi_client::Manager;

use super::App;
use super::credential_registry::CredentialRegistry;
use crate::config::settings::CheckedSettings;

pub(crate) struct VaultWatcher {
    credentials: Arc<CredentialRegistry>,
    signals: mpsc::Receiver<()>,
    /// Dropping it ends the watch.
    _watcher: Option<RecommendedWatcher>,
}

impl VaultWatcher {
    /// Watches the vault of these settings, where there can be one.
    pub(crate) fn new(app: &App, settings: &CheckedSettings) -> Self {
        let (sender, signals) = mpsc::channel(1);
        let file = app.credentials.vault_file(&settings.vault);
        let watcher = file.and_then(|file| watch(&file, sender));
        Self { credentials: app.credentials.clone(), signals, _watcher: watcher }
    }

    /// Waits until the vault may have changed. Safe to drop.
    pub(crate) async fn changed(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Has sign-ins read again, and servers that wait for one try it.
    pub(crate) fn reload(&self, manager: &Manager) {
        self.credentials.reload(manager);
    }

    /// Follows the vault for as long as this is polled.
    pub(crate) async fn follow(mut self, manager: &Manager) -> std::convert::Infallible {
        loop {
            self.changed().await;
            self.reload(manager);
        }
    }
}

/// Watches the directory, since the file is replaced as a whole. Without it, a call finds the sign-in a little later.
fn watch(file: &Path, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    // The first sign-in makes the directory, and it must be watched before that.
    DirBuilder::new().recursive(true).mode(0o700).create(directory).ok()?;
    let directory = directory.canonicalize().ok()?;
    let file = directory.join(file.file_name()?);
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
