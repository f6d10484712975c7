//! Another configuration for a running gateway: built, made ready, swapped in, and the old one drained; or nothing.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tsugi_client::manager::{Prepared, Step};
use tsugi_gateway::HubConfig;
use tsugi_gateway::guard::api_key::Key;
use tsugi_protocol::answer::Fault;

use super::plan::Plan;
use super::source::Source;
use super::{Running, arrival};
use crate::config::layer::Loaded;
use crate::config::problem::Problem;
use crate::config::watch::Change;
use crate::failure::Failure;
use crate::report;

/// Settings whose servers are being made ready.
pub(super) type Coming = BoxFuture<'static, Ready>;

/// Settings that can be taken over, or why they cannot.
pub(super) struct Ready {
    loaded: Loaded,
    hub: HubConfig,
    keys: Vec<Key>,
    servers: Prepared,
    verdict: Result<(), Fault>,
}

/// Waits for settings that are being made ready, if there are any. Safe to drop.
pub(super) async fn next(coming: &mut Option<Coming>) -> Ready {
    let Some(waiting) = coming else { return std::future::pending().await };
    let ready = waiting.await;
    *coming = None;
    ready
}

impl Running<'_> {
    /// Someone asked to read the file again.
    pub(super) fn reread(&mut self, source: &mut Source) {
        match (source.reread(), self.refused.take()) {
            (Some(change), _) => self.take(change),
            (None, Some(loaded)) => {
                let begun = self.begin(loaded);
                self.tell_if_refused(begun);
            }
            (None, None) => self.app.output.say(|paint| paint.faint("the configuration is as it was")),
        }
        self.replace_keys();
    }

    /// The new settings, if they can be used; otherwise everything stays as it is.
    pub(super) fn take(&mut self, change: Change) {
        let begun = match change {
            Change::Changed(resolved) => {
                let origin = self.loaded.origin.clone();
                let loaded = Loaded { settings: resolved.settings, warnings: resolved.warnings, origin };
                self.begin(self.keeper.complete(self.args.over(loaded)))
            }
            Change::Invalid(problems) => Err(Failure::Problems(problems)),
        };
        self.tell_if_refused(begun);
    }

    fn tell_if_refused(&self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            failure.tell(&self.app.output);
            self.app.output.say(|paint| paint.warning("nothing was changed; what held goes on holding"));
        }
    }

    /// Starts what is new beside what there is. Settings that were still coming are forgotten, with their servers.
    fn begin(&mut self, loaded: Loaded) -> Result<(), Failure> {
        self.coming = None;
        let plan = Plan::make(self.app, &loaded, &self.manager, Some(&self.loaded.settings))?;
        let keys = self.doorkeeper.keys(&loaded.settings)?;
        let patience = plan.servers.iter().map(|server| self.app.patience(server)).max().unwrap_or_default();
        let (servers, hub) = (self.manager.prepare(plan.servers), plan.hub);
        let coming = async move {
            let verdict = servers.ready(patience).await;
            Ready { loaded, hub, keys, servers, verdict }
        };
        self.coming = Some(coming.boxed());
        Ok(())
    }

    /// Swaps, now that the new servers can be called; or keeps the old ones, now that it is known that they cannot.
    pub(super) fn finish(&mut self, ready: Ready) {
        if let Err(fault) = ready.verdict {
            self.refused = Some(ready.loaded);
            return self.tell_if_refused(Err(fault.into()));
        }
        self.warn_of_what_waits(&ready.loaded);
        let steps = self.manager.adopt(ready.servers);
        self.hub.reconfigure(ready.hub);
        self.guard.replace_keys(ready.keys);
        self.loaded = ready.loaded;
        self.refused = None;
        self.tell_steps(&steps);
    }

    /// Some settings are of the socket itself, which must not be closed.
    fn warn_of_what_waits(&self, new: &Loaded) {
        let (old, new) = (&self.loaded.settings.gateway, &new.settings.gateway);
        let is_same = old.listen == new.listen
            && old.limits == new.limits
            && old.allowed_hosts == new.allowed_hosts
            && old.allowed_origins == new.allowed_origins
            && old.admin_api == new.admin_api
            && (old.session_idle, old.keep_alive) == (new.session_idle, new.keep_alive);
        if !is_same {
            let problem = Problem::new("the address, the limits and the allowed hosts hold from the next start on");
            self.app.output.say(|paint| report::warnings(&[problem], paint));
        }
    }

    fn tell_steps(&mut self, steps: &[Step]) {
        for step in steps {
            let (word, name) = match step {
                Step::Keep(_) => continue,
                Step::Start(name) => ("starting", name),
                Step::Replace(name) => ("replacing", name),
                Step::Remove(name) => ("removing", name),
            };
            self.app.output.say(|paint| paint.faint(format!("{word} {name}")));
            let server = self.manager.server(name);
            self.arrivals.extend(server.and_then(|server| arrival(self.app, server)));
        }
        let kept = steps.iter().filter(|step| matches!(step, Step::Keep(_))).count();
        self.app.output.say(|paint| paint.faint(format!("configuration taken over; {kept} servers untouched")));
    }
}
