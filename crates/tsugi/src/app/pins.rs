//! The pins of a configuration: the lock file beside it.

use std::path::Path;
use std::sync::Arc;

use tsugi_pins::PinStore;
use tsugi_pins::store::{PinStoreError, PinWriting, lock_path};

use super::App;
use crate::config::layer::LoadedConfig;
use crate::config::problem::ConfigProblem;
use crate::config::settings::CheckedSettings;
use crate::failure::CommandFailure;
use crate::report;

impl App {
    /// Opens the lock file of a configuration that is a file. A damaged one fails where a server is held to it, and
    /// otherwise leaves everything unpinned with a warning.
    pub(super) fn open_pins(&self, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
        if self.pins.get().is_some() {
            return Ok(());
        }
        let is_wanted = loaded.settings.servers.iter().any(|server| server.pin.is_on());
        let path = loaded.origin.path().filter(|_| is_wanted);
        let store = match path.map(|path| self.open_lock(path)).transpose() {
            Ok(store) => store,
            Err(error) if is_strict(&loaded.settings) || self.pin_writing == PinWriting::OnOrder => {
                return Err(CommandFailure::usage(error.to_string()).with_hint(REPAIR));
            }
            Err(error) => {
                let problem = ConfigProblem::new(format!("nothing is pinned: {error}"));
                self.output.message(|paint| report::warnings(&[problem.with_hint(REPAIR)], paint));
                None
            }
        };
        if let Some(store) = &store {
            store.set_servers(loaded.settings.servers.iter().map(|server| server.name.clone()));
        }
        let _ = self.pins.set(store);
        Ok(())
    }

    fn open_lock(&self, configuration: &Path) -> Result<Arc<PinStore>, PinStoreError> {
        let store = PinStore::open(lock_path(configuration), self.pin_writing)?;
        if self.is_service || self.pin_writing == PinWriting::OnOrder {
            store.look_at_commands();
        }
        Ok(Arc::new(store))
    }
}

const REPAIR: &str = "repair that line, or delete the file and run `tsugi lock`";

fn is_strict(settings: &CheckedSettings) -> bool {
    settings.servers.iter().any(|server| server.pin.mode.is_strict())
}
