//! From the servers there are to the servers there should be, without touching those that stay.

use super::{Held, Manager};
use crate::config::ServerConfig;
use crate::server::What;

/// One step of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A server that stays as it is, with its process.
    Keep(String),
    /// A server that is new.
    Start(String),
    /// A server whose settings changed: the new one starts, takes the name, and the old one drains.
    Replace(String),
    /// A server that is no longer wanted.
    Remove(String),
}

impl Manager {
    /// Brings the servers into line with `wanted`, in that order. New ones start before old ones stop;
    /// unchanged ones never notice. The steps are given back; old servers drain in the background.
    pub fn reconcile(&self, wanted: Vec<ServerConfig>) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut servers = self.0.servers.write();
        let mut old: Vec<Held> = std::mem::take(&mut *servers);
        for config in wanted {
            let name = config.name.clone();
            let found = old.iter().position(|held| held.server.name() == name).map(|index| old.remove(index));
            match found {
                Some(held) if *held.server.config() == config => {
                    steps.push(Step::Keep(name));
                    servers.push(held);
                }
                Some(held) => {
                    steps.push(Step::Replace(name));
                    servers.push(self.hold(config));
                    old.push(held);
                }
                None => {
                    steps.push(Step::Start(name));
                    servers.push(self.hold(config));
                }
            }
        }
        drop(servers);
        self.retire(old, &mut steps);
        steps
    }

    fn retire(&self, old: Vec<Held>, steps: &mut Vec<Step>) {
        for held in old {
            let name = held.server.name().to_owned();
            let is_replaced = steps.contains(&Step::Replace(name.clone()));
            let manager = self.clone();
            if !is_replaced {
                steps.push(Step::Remove(name));
            }
            tokio::spawn(async move {
                held.server.stop().await;
                manager.tell(&held.server, if is_replaced { What::Registered } else { What::Removed });
            });
        }
    }
}
