//! The servers and the hub of a configuration, computed before anything running is touched.

use tsugi_client::{Manager, ServerConfig};
use tsugi_gateway::HubConfig;

use crate::app::{App, gateway, select};
use crate::config::layer::LoadedConfig;
use crate::config::settings::{CheckedSettings, ServerSettings};
use crate::failure::CommandFailure;

pub(crate) struct GatewayPlan {
    pub(crate) servers: Vec<ServerConfig>,
    pub(crate) hub: HubConfig,
}

impl GatewayPlan {
    /// `old` are the settings in effect.
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

/// The settings of a running server whose entry has not changed, so that a reload leaves it alone. A built-in server
/// that is created again would count as changed.
fn unchanged(server: &ServerSettings, manager: &Manager, old: Option<&CheckedSettings>) -> Option<ServerConfig> {
    let before = old?.servers.iter().find(|before| before.name == server.name)?;
    let running = manager.server(&server.name)?;
    (before == server).then(|| running.config().clone())
}
