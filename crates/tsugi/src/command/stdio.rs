//! `tsugi stdio`: the gateway over standard input and output, for clients that start their servers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tsugi_gateway::face::stdio::stream;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::{Backend, Endpoint, GatewayConfig, Hub, face};
use tsugi_process::StopGrace;

use super::serve::plan::GatewayPlan;
use super::serve::signals::{ServiceSignals, SignalAction};
use crate::app::audit::GatewayAudit;
use crate::app::vault_watcher::VaultWatcher;
use crate::app::{App, gateway, profile_of_gateway};
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::report::exit::CommandExit;

/// The client is gone, so stopping is quick: with the time of the face itself it fits into a second.
const BRIEF: StopGrace = StopGrace {
    stdin: Duration::from_millis(150),
    terminate: Duration::from_millis(150),
    leftover: Duration::from_millis(50),
};

const EXAMPLES: &str = "\
Examples:
  {\"mcpServers\": {\"tsugi\": {\"command\": \"tsugi\", \"args\": [\"stdio\"]}}}
  tsugi stdio --server files      one server, under its own tool names";

/// Serve the configured servers over standard input and output
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StdioArgs {}

pub(crate) async fn run(app: &App, _: &StdioArgs) -> Result<CommandExit, CommandFailure> {
    let mut signals = ServiceSignals::listen()?;
    let loaded = app.configuration()?;
    let manager = app.manager(&loaded.settings, profile_of_gateway());
    let mut plan = GatewayPlan::make(app, &loaded, manager, None)?;
    plan.servers.iter_mut().for_each(|server| server.job.0.grace = BRIEF);
    let audit = loaded.settings.audit.as_ref().map(GatewayAudit::open).transpose()?.map(Arc::new);
    if let Some(audit) = &audit {
        audit.follow_pins(app.pins.get().and_then(Option::as_ref));
        audit.follow_egress(&mut plan.servers);
    }
    manager.reconcile(plan.servers);
    let guard = Arc::new(AccessGuard::new(&GatewayConfig::default()));
    guard.replace_policy(gateway::policy(&loaded.settings, app.pins.get().and_then(Option::as_ref)));
    let hub = Hub::new(manager.clone(), plan.hub, guard);
    if let Some(audit) = &audit {
        hub.record_to(audit.clone());
    }
    let answer = endpoint(app, &loaded, &hub).answer;
    let (stop, stopped) = oneshot::channel();
    let (input, output) = (stream::input(), stream::output());
    let (limits, grace) = (gateway::config(&loaded.settings, Vec::new()).limits, loaded.settings.gateway.drain_timeout);
    let talk = face::stdio::run_until(answer, limits, input, output, stopped.map(|_| ()), grace);
    let ended = tokio::select! {
        ended = talk => ended.map(|()| CommandExit::Success),
        never = VaultWatcher::new(app, &loaded.settings).follow(manager) => match never {},
        () = until_second_signal(&mut signals, stop) => Ok(CommandExit::Interrupted),
    };
    manager.stop().await;
    if let Some(audit) = &audit {
        audit.close().await;
    }
    Ok(ended?)
}

/// The first signal lets running calls finish; the second does not wait.
async fn until_second_signal(signals: &mut ServiceSignals, stop: oneshot::Sender<()>) {
    until_stopped(signals).await;
    // Fails only if the face has stopped already.
    let _ = stop.send(());
    until_stopped(signals).await;
}

/// With one --server, that server under its own names; otherwise all together.
fn endpoint(app: &App, loaded: &LoadedConfig, hub: &Hub) -> Endpoint {
    match app.chosen(loaded) {
        [name] => hub.server(name).unwrap_or_else(|| hub.all()),
        _ => hub.all(),
    }
}

async fn until_stopped(signals: &mut ServiceSignals) {
    while signals.next().await != SignalAction::Stop {}
}
