//! The keys of the configuration and of `tsugi key`, and their changes.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tsugi_gateway::guard::api_key::ApiKey;

use crate::app::{App, gateway};
use crate::config::problem::ConfigProblem;
use crate::config::settings::CheckedSettings;
use crate::failure::CommandFailure;
use crate::key_file::KeyFile;
use crate::report;

pub(super) struct KeyWatcher {
    file: Option<KeyFile>,
    signals: mpsc::Receiver<()>,
    /// Dropping it ends the watch.
    _watcher: Option<RecommendedWatcher>,
    is_asking: std::cell::Cell<bool>,
}

impl KeyWatcher {
    /// Reads the key file and watches it.
    pub(super) fn new(app: &App) -> Result<Self, CommandFailure> {
        let (sender, signals) = mpsc::channel(1);
        let file = app.key_file();
        let watcher = file.as_ref().and_then(|file| watch(app, file, sender));
        Ok(KeyWatcher { file, signals, _watcher: watcher, is_asking: false.into() })
    }

    /// The valid keys. Calls carry only the name of their key, so of two keys with one name the configuration's wins,
    /// and a warning names the other.
    pub(super) fn keys(&self, app: &App, settings: &CheckedSettings) -> Result<Vec<ApiKey>, CommandFailure> {
        let mut keys = gateway::keys(&settings.gateway.auth)?;
        let stored = self.file.as_ref().map(|file| file.read()?.to_gateway()).transpose()?.unwrap_or_default();
        for key in stored {
            match keys.iter().any(|known| known.name == key.name) {
                false => keys.push(key),
                true => app.output.message(|paint| report::warnings(&[second(&key.name)], paint)),
            }
        }
        self.is_asking.set(!keys.is_empty());
        Ok(keys)
    }

    /// Whether callers had to have a key when the keys were last read.
    pub(super) fn asks_for_keys(&self) -> bool {
        self.is_asking.get()
    }

    /// Waits until the key file may have changed. Safe to drop.
    pub(super) async fn changed(&mut self) {
        if self.signals.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Watches the directory, since the file is replaced as a whole. Without it, the signal HUP helps.
fn watch(app: &App, file: &KeyFile, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let path = file.path();
    let is_keys = move |event: &notify::Event| event.paths.contains(&path) && !event.kind.is_access();
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| is_keys(&event)) {
            // A pending signal covers this change too.
            let _ = sender.try_send(());
        }
    };
    let started = file.make_directory().map_err(notify::Error::io).and_then(|directory| {
        let mut watcher = notify::recommended_watcher(on_event)?;
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    started.inspect_err(|error| app.output.message(|paint| report::warnings(&[unnoticed(error)], paint))).ok()
}

fn second(name: &str) -> ConfigProblem {
    ConfigProblem::new(format!("a second key is called `{name}`: it opens nothing"))
        .with_hint(format!("`tsugi key revoke {name}`, and add it under another name"))
}

fn unnoticed(error: &notify::Error) -> ConfigProblem {
    ConfigProblem::new(format!("changes of the keys cannot be noticed: {error}"))
        .with_hint("send the signal HUP to have them read again")
}
