//! What a configuration means for a gateway, worked out in full before anything is touched.

use tsugi_client::{Manager, ServerConfig};
use tsugi_gateway::HubConfig;

use crate::app::{App, gateway, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::{CheckedSettings, ServerSettings};
use crate::failure::CommandFailure;

/// The servers there should be, and how they are shown.
pub(crate) struct GatewayPlan {
    pub(crate) servers: Vec<ServerConfig>,
    pub(crate) hub: HubConfig,
}

impl GatewayPlan {
    /// Of these settings, or why they cannot be used. `old` are those that hold now.
    pub(crate) fn make(
        app: &App,
        loaded: &LoadedConfig,
        manager: &Manager,
        old: Option<&CheckedSettings>,
    ) -> Result<Self, CommandFailure> {
        let wanted = select(loaded, app.chosen(loaded))?;
        let servers = wanted.iter().map(|server| match unchanged(server, manager, old) {
            Some(config) => Ok(config),
            None => app.server_config(&loaded.settings, server).map(|config| gateway::lasting(config, server)),
        });
        Ok(GatewayPlan { servers: servers.collect::<Result<_, _>>()?, hub: gateway::hub(&loaded.settings, &wanted)? })
    }
}

/// The very same settings as those of a running server, so that it is recognised and left alone: a built-in
/// server that is made anew would be another one.
fn unchanged(server: &ServerSettings, manager: &Manager, old: Option<&CheckedSettings>) -> Option<ServerConfig> {
    let before = old?.servers.iter().find(|before| before.name == server.name)?;
    let running = manager.server(&server.name)?;
    (before == server).then(|| running.config().clone())
}
