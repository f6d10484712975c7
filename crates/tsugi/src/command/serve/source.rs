//! The configuration file of a running gateway: watched, or reread on a signal.

use std::path::PathBuf;

use crate::app::App;
use crate::config::env::Environment;
use crate::config::layer::{self, LoadedConfig};
use crate::config::watch::{ConfigChange, ConfigWatch};
use crate::report;

pub(super) enum ConfigSource {
    /// A file whose changes are noticed.
    Watched(Box<ConfigWatch>),
    /// A file that cannot be watched, reread on SIGHUP.
    Asked(PathBuf, Environment),
    /// No file at all.
    Nothing,
}

impl ConfigSource {
    /// Watches the file that the settings came from, if it is one.
    pub(super) fn watch(app: &App, loaded: &LoadedConfig) -> Self {
        let Some(path) = loaded.origin.path() else { return ConfigSource::Nothing };
        let environment = loaded.origin.environment(&app.context.environment);
        match ConfigWatch::start(path, environment.clone(), loaded.settings.clone()) {
            Ok(watch) => ConfigSource::Watched(Box::new(watch)),
            Err(problems) => {
                app.output.message(|paint| report::warnings(&problems.0, paint));
                ConfigSource::Asked(path.to_owned(), environment)
            }
        }
    }

    /// Waits for the next change. Cancel-safe.
    pub(super) async fn next(&mut self) -> ConfigChange {
        match self {
            ConfigSource::Watched(watch) => watch.next().await,
            ConfigSource::Asked(..) | ConfigSource::Nothing => std::future::pending().await,
        }
    }

    /// Reads the file now; `None` if its meaning has not changed.
    pub(super) fn reread(&mut self) -> Option<ConfigChange> {
        match self {
            ConfigSource::Watched(watch) => watch.reread(),
            ConfigSource::Asked(path, environment) => Some(match layer::read(path, environment) {
                Ok(resolved) => ConfigChange::Changed(Box::new(resolved)),
                Err(problems) => ConfigChange::Invalid(problems),
            }),
            ConfigSource::Nothing => None,
        }
    }
}
