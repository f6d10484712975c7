//! The configuration file of a running gateway: what changes in it, noticed or asked for.

use std::path::PathBuf;

use crate::app::App;
use crate::config::env::Environment;
use crate::config::layer::{self, Loaded};
use crate::config::watch::{Change, Watch};
use crate::report;

/// Where new settings come from.
pub(super) enum Source {
    /// A file whose changes are noticed.
    Watched(Box<Watch>),
    /// A file that is read when someone asks.
    Asked(PathBuf, Environment),
    /// No file at all.
    Nothing,
}

impl Source {
    /// Watches the file that the settings came from, if it is one.
    pub(super) fn watch(app: &App, loaded: &Loaded) -> Self {
        let Some(path) = loaded.origin.path() else { return Source::Nothing };
        let environment = app.surroundings.environment.clone();
        match Watch::start(path, environment.clone(), loaded.settings.clone()) {
            Ok(watch) => Source::Watched(Box::new(watch)),
            Err(problems) => {
                app.output.say(|paint| report::warnings(&problems.0, paint));
                Source::Asked(path.to_owned(), environment)
            }
        }
    }

    /// Waits for the next change. Safe to drop.
    pub(super) async fn next(&mut self) -> Change {
        match self {
            Source::Watched(watch) => watch.next().await,
            Source::Asked(..) | Source::Nothing => std::future::pending().await,
        }
    }

    /// Reads the file at once; nothing if it means what it meant before.
    pub(super) fn reread(&mut self) -> Option<Change> {
        match self {
            Source::Watched(watch) => watch.reread(),
            Source::Asked(path, environment) => Some(match layer::read(path, environment) {
                Ok(resolved) => Change::Changed(Box::new(resolved)),
                Err(problems) => Change::Invalid(problems),
            }),
            Source::Nothing => None,
        }
    }
}
