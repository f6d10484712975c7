//! Reload: build the new configuration, start its servers, swap, drain the old ones; or change nothing.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tsugi_audit::record::AuditKind;
use tsugi_client::manager::{PreparedServers, ReconcileStep};
use tsugi_gateway::HubConfig;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_protocol::answer::Fault;

use super::plan::GatewayPlan;
use super::source::ConfigSource;
use super::{RunningGateway, arrival};
use crate::app::gateway;
use crate::app::gateway::configured_backend::PostedServerTerms;
use crate::config::layer::LoadedConfig;
use crate::config::problem::ConfigProblem;
use crate::config::settings::{CheckedSettings, LimitSettings};
use crate::config::watch::ConfigChange;
use crate::failure::CommandFailure;
use crate::report;

pub(super) type PendingReload = BoxFuture<'static, PreparedReload>;

/// Settings whose servers are ready, or why they are not.
pub(super) struct PreparedReload {
    loaded: LoadedConfig,
    hub: HubConfig,
    servers: PreparedServers,
    verdict: Result<(), Fault>,
}

/// Waits for the pending reload, if there is one. Cancel-safe.
pub(super) async fn next(coming: &mut Option<PendingReload>) -> PreparedReload {
    let Some(waiting) = coming else { return std::future::pending().await };
    let ready = waiting.await;
    *coming = None;
    ready
}

impl RunningGateway<'_> {
    /// SIGHUP: reads the file again.
    pub(super) fn reread(&mut self, source: &mut ConfigSource) {
        match (source.reread(), self.refused.take()) {
            (Some(change), _) => self.take(change),
            (None, Some(loaded)) => {
                let begun = self.begin(loaded);
                self.tell_if_refused(begun);
            }
            (None, None) => self.app.output.message(|paint| paint.faint("the configuration has not changed")),
        }
        self.replace_keys();
        self.replace_certificates();
    }

    /// Begins to apply a change. Unusable settings change nothing.
    pub(super) fn take(&mut self, change: ConfigChange) {
        let begun = match change {
            ConfigChange::Changed(resolved) => {
                let origin = self.loaded.origin.clone();
                let loaded = LoadedConfig {
                    settings: resolved.settings,
                    warnings: resolved.warnings,
                    dormant: resolved.dormant,
                    origin,
                };
                self.begin(self.keeper.complete(self.args.over(loaded)))
            }
            ConfigChange::Invalid(problems) => {
                self.note_change(AuditKind::Config, "refused", &self.config_name());
                Err(CommandFailure::Problems(problems))
            }
        };
        self.tell_if_refused(begun);
    }

    /// The configuration file, as the audit log names it.
    fn config_name(&self) -> String {
        self.loaded.origin.path().map(|path| path.display().to_string()).unwrap_or_default()
    }

    fn tell_if_refused(&self, outcome: Result<(), CommandFailure>) {
        if let Err(failure) = outcome {
            failure.report(&self.app.output);
            self.app.output.message(|paint| paint.warning("nothing was changed; keeping the old configuration"));
        }
    }

    /// Starts new servers beside the running ones. A pending reload is dropped with its servers.
    fn begin(&mut self, loaded: LoadedConfig) -> Result<(), CommandFailure> {
        // Dropping it stops the servers it was starting.
        self.coming = None;
        let mut plan = GatewayPlan::make(self.app, &loaded, &self.manager, Some(&self.loaded.settings))?;
        if let Some(audit) = &self.audit {
            audit.follow_egress(&mut plan.servers);
        }
        self.keys_of(&loaded.settings)?;
        // The slowest new server decides how long the old configuration stays.
        let patience = plan.servers.iter().map(|server| self.app.patience(server)).max().unwrap_or_default();
        let (servers, hub) = (self.manager.prepare(plan.servers), plan.hub);
        let coming = async move {
            let verdict = servers.ready(patience).await;
            PreparedReload { loaded, hub, servers, verdict }
        };
        self.coming = Some(coming.boxed());
        Ok(())
    }

    /// The valid keys under these settings.
    fn keys_of(&self, settings: &CheckedSettings) -> Result<Vec<ApiKey>, CommandFailure> {
        let keys = self.doorkeeper.keys(self.app, settings)?;
        self.expect_keys(&keys)?;
        Ok(keys)
    }

    /// Refuses settings that would leave a reachable address without any key.
    fn expect_keys(&self, keys: &[ApiKey]) -> Result<(), CommandFailure> {
        let has_others = self.guard.accepts_tokens() || self.guard.knows_certificates();
        if !keys.is_empty() || has_others || !self.guard.needs_keys() || self.guard.refuses_everyone() {
            return Ok(());
        }
        let address = self.handle.addresses()[0];
        let message = format!("other machines can reach {address}, and these settings have no key");
        Err(CommandFailure::usage(message).with_hint("keep a key, or restart with `--insecure`"))
    }

    /// Swaps in the new configuration if its servers are ready; otherwise keeps the old one.
    pub(super) fn finish(&mut self, ready: PreparedReload) {
        // The keys are read again: one may have been revoked while the servers were starting.
        let verdict = ready.verdict.map_err(CommandFailure::from).and_then(|()| self.keys_of(&ready.loaded.settings));
        let keys = match verdict {
            Ok(keys) => keys,
            Err(failure) => {
                self.refused = Some(ready.loaded);
                return self.tell_if_refused(Err(failure));
            }
        };
        self.warn_of_what_waits(&ready.loaded);
        // From here on nothing can fail, so that old and new are never mixed.
        let steps = self.manager.adopt(ready.servers);
        self.hub.reconfigure(ready.hub);
        self.guard.replace_keys(keys);
        self.replace_policy(&ready.loaded.settings);
        self.note_change(AuditKind::Config, "reloaded", &self.config_name());
        *self.terms.write() = PostedServerTerms::of(&ready.loaded.settings);
        self.loaded = ready.loaded;
        self.refused = None;
        self.report_steps(&steps);
    }

    /// Decides by the rules of these settings from now on. Remembered decisions are forgotten.
    fn replace_policy(&self, settings: &CheckedSettings) {
        self.guard.replace_policy(gateway::policy(settings, self.app.pins.get().and_then(Option::as_ref)));
        if settings.policy != self.loaded.settings.policy {
            let action = if settings.policy.is_some() { "replaced" } else { "removed" };
            self.note_change(AuditKind::Policy, action, "policy.files");
            self.hub.announce_lists();
        }
    }

    /// Some settings belong to the open socket or to running calls, and need a restart.
    fn warn_of_what_waits(&self, new: &LoadedConfig) {
        let waiting = settings_needing_restart(&self.loaded.settings, &new.settings);
        if !waiting.is_empty() {
            let names: Vec<String> = waiting.iter().map(|key| format!("`{key}`")).collect();
            let verb = if names.len() == 1 { "takes" } else { "take" };
            let problem = ConfigProblem::new(format!("{} {verb} effect at the next start", names.join(", ")));
            self.app.output.message(|paint| report::warnings(&[problem], paint));
        }
    }

    fn report_steps(&mut self, steps: &[ReconcileStep]) {
        for step in steps {
            let (word, name) = match step {
                ReconcileStep::Keep(_) => continue,
                ReconcileStep::Start(name) => ("starting", name),
                ReconcileStep::Replace(name) => ("replacing", name),
                ReconcileStep::Remove(name) => ("removing", name),
            };
            self.app.output.message(|paint| paint.faint(format!("{word} {name}")));
            let server = self.manager.server(name);
            self.arrivals.extend(server.and_then(|server| arrival(self.app, server)));
        }
        let kept = steps.iter().filter(|step| matches!(step, ReconcileStep::Keep(_))).count();
        self.app.output.message(|paint| paint.faint(format!("configuration applied; {kept} servers untouched")));
    }
}

/// The changed keys that need a restart.
fn settings_needing_restart(old: &CheckedSettings, new: &CheckedSettings) -> Vec<&'static str> {
    let (before, after) = (&old.gateway, &new.gateway);
    // The page size belongs to the hub, which applies it.
    let limits = LimitSettings {
        max_page_items: before.limits.max_page_items,
        max_page_size: before.limits.max_page_size,
        ..after.limits.clone()
    };
    let differs = [
        ("gateway.listen", before.listen != after.listen),
        ("gateway.publicUrl", before.public_url != after.public_url),
        ("gateway.auth.issuers", before.auth.oauth != after.auth.oauth),
        ("gateway.auth.certificates", before.auth.certificates != after.auth.certificates),
        ("gateway.tls", before.tls != after.tls),
        ("gateway.trustedProxies", before.trusted_proxies != after.trusted_proxies),
        ("gateway.insecure", before.insecure != after.insecure),
        ("gateway.allowedHosts", before.allowed_hosts != after.allowed_hosts),
        ("gateway.allowedOrigins", before.allowed_origins != after.allowed_origins),
        ("gateway.limits", before.limits != limits),
        ("gateway.sessionIdleTimeout", before.session_idle_timeout != after.session_idle_timeout),
        ("gateway.keepAliveInterval", before.keep_alive_interval != after.keep_alive_interval),
        ("gateway.stateKey", before.state_key != after.state_key),
        ("gateway.dashboard", before.dashboard != after.dashboard),
        ("gateway.metrics", before.metrics != after.metrics),
        ("audit", old.audit != new.audit),
        ("options.maxParallel", old.options.max_parallel != new.options.max_parallel),
        ("options.maxInFlight", old.options.max_in_flight != new.options.max_in_flight),
        ("options.debug", old.options.debug != new.options.debug),
        ("options.maxConnections", old.options.max_connections != new.options.max_connections),
        ("options.inputPatience", old.options.input_patience != new.options.input_patience),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{ConfigDocument, DocumentFormat};
    use crate::config::resolve::resolve;

    fn settings(text: &str) -> CheckedSettings {
        let document = ConfigDocument::parse("tsugi.yaml".as_ref(), text.to_owned(), DocumentFormat::Yaml).unwrap();
        resolve(&document, &Default::default()).unwrap().settings
    }

    #[test]
    fn what_a_reload_leaves_for_the_next_start_is_named() {
        let old = settings("servers: []");
        for (text, expected) in [
            ("gateway: {listen: 127.0.0.1:1, insecure: yes}", &["gateway.listen", "gateway.insecure"][..]),
            ("gateway: {dashboard: off, metrics: off}", &["gateway.dashboard", "gateway.metrics"]),
            (
                "gateway: {limits: {maxBodySize: 1MiB}, keepAliveInterval: 1s}",
                &["gateway.limits", "gateway.keepAliveInterval"],
            ),
            ("options: {maxParallel: 2, maxInFlight: 3}", &["options.maxParallel", "options.maxInFlight"]),
            ("options: {maxConnections: 4}", &["options.maxConnections"]),
            ("audit: {file: audit.jsonl}", &["audit"]),
            ("options: {inputPatience: 9s}", &["options.inputPatience"]),
            ("gateway: {stateKey: 0123456789-0123456789-0123456789}", &["gateway.stateKey"]),
            ("gateway: {tools: search}", &[]),
            ("gateway: {naming: bare, drainTimeout: 1s, adminApi: {enabled: no}, limits: {maxPageItems: 5}}", &[]),
            ("options: {timeout: 1s, cache: on}", &[]),
        ] {
            assert_eq!(settings_needing_restart(&old, &settings(text)), expected, "{text}");
        }
    }
}
