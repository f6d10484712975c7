//! From the servers there are to the servers there should be, without touching those that stay.

use std::time::Duration;

use super::{Manager, RegisteredServer};
use crate::config::{ServerConfig, StartPolicy};
use crate::connection::state::ConnectionState;
use crate::server::ServerEvent;
use tsugi_protocol::answer::Fault;

/// How long a replaced server still takes calls: a caller that looked its name up just before has the old handle.
const LAST_CALLS: Duration = Duration::from_millis(250);

/// One step of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconcileStep {
    /// A server that stays as it is, with its process.
    Keep(String),
    /// A server that is new.
    Start(String),
    /// A server whose settings changed: the new one starts, takes the name, and the old one drains.
    Replace(String),
    /// A server that is not in the new set.
    Remove(String),
}

/// Servers that should be there, the new ones started beside those that still answer. Dropping it ends them, and
/// nothing has changed.
pub struct PreparedServers(Vec<WantedServer>);

enum WantedServer {
    Kept(ServerConfig),
    /// Started, but not visible yet.
    Fresh {
        held: RegisteredServer,
        replaces: ReplacedTarget,
    },
}

/// What a fresh server takes the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplacedTarget {
    Nothing,
    /// One that could not be called anyway.
    Broken,
    /// One that works, and goes on working until this one does.
    Working,
}

impl PreparedServers {
    /// Waits until every new server that takes the place of one that works can be called. Fails with the first one
    /// that cannot: a caller that then drops this has changed nothing. It does not wait for new names, nor for servers
    /// that start lazily or did not work before, since no client loses anything by them.
    pub async fn ready(&self, limit: Duration) -> Result<(), Fault> {
        let waiting = self.0.iter().filter_map(|wanted| match wanted {
            WantedServer::Fresh { held, replaces: ReplacedTarget::Working } => Some(&held.server),
            _ => None,
        });
        let eager = waiting.filter(|server| server.config().start == StartPolicy::Eager);
        futures_util::future::try_join_all(eager.map(|server| server.settled(limit))).await.map(drop)
    }
}

impl Manager {
    /// Brings the servers into line with `wanted`, in that order. New ones start before old ones stop;
    /// unchanged ones never notice. The steps are given back; old servers drain in the background.
    pub fn reconcile(&self, wanted: Vec<ServerConfig>) -> Vec<ReconcileStep> {
        self.adopt(self.prepare(wanted))
    }

    /// Starts what is new in `wanted` beside what there is. Nothing changes until [`adopt`](Self::adopt).
    pub fn prepare(&self, wanted: Vec<ServerConfig>) -> PreparedServers {
        let prepare = |config: ServerConfig| match self.server(&config.name) {
            Some(server) if *server.config() == config => WantedServer::Kept(config),
            Some(server) if server.status().state == ConnectionState::Connected => WantedServer::Fresh {
                held: self.spawn_server(config, Some(&server)),
                replaces: ReplacedTarget::Working,
            },
            Some(server) => {
                WantedServer::Fresh { held: self.spawn_server(config, Some(&server)), replaces: ReplacedTarget::Broken }
            }
            None => WantedServer::Fresh { held: self.spawn_server(config, None), replaces: ReplacedTarget::Nothing },
        };
        PreparedServers(wanted.into_iter().map(prepare).collect())
    }

    /// Makes prepared servers those that are called. Old ones drain in the background.
    pub fn adopt(&self, prepared: PreparedServers) -> Vec<ReconcileStep> {
        let mut steps = Vec::new();
        let mut servers = self.0.servers.write();
        let mut old = servers.take();
        for wanted in prepared.0 {
            let (held, step) = match wanted {
                WantedServer::Kept(config) => {
                    let found = old.iter().position(|held| held.server.name() == config.name);
                    let name = config.name.clone();
                    match found {
                        Some(index) => (old.remove(index), ReconcileStep::Keep(name)),
                        // It was removed in between.
                        None => (self.spawn_server(config, None), ReconcileStep::Start(name)),
                    }
                }
                WantedServer::Fresh { held, replaces: ReplacedTarget::Nothing } => step(held, ReconcileStep::Start),
                WantedServer::Fresh { held, .. } => step(held, ReconcileStep::Replace),
            };
            servers.push(held);
            steps.push(step);
        }
        drop(servers);
        self.retire(old, &mut steps);
        steps
    }

    fn retire(&self, old: Vec<RegisteredServer>, steps: &mut Vec<ReconcileStep>) {
        for held in old {
            let name = held.server.name().to_owned();
            let is_replaced = self.server(&name).is_some();
            let manager = self.clone();
            if !is_replaced {
                steps.push(ReconcileStep::Remove(name));
            }
            self.0.leaving.spawn(async move {
                if is_replaced {
                    tokio::time::sleep(LAST_CALLS).await;
                }
                held.server.stop().await;
                manager
                    .announce(&held.server, if is_replaced { ServerEvent::Registered } else { ServerEvent::Removed });
            });
        }
        for step in steps.iter() {
            if let ReconcileStep::Start(name) | ReconcileStep::Replace(name) = step
                && let Some(server) = self.server(name)
            {
                self.announce(&server, ServerEvent::Registered);
            }
        }
    }
}

fn step(held: RegisteredServer, make: fn(String) -> ReconcileStep) -> (RegisteredServer, ReconcileStep) {
    let name = held.server.name().to_owned();
    (held, make(name))
}
