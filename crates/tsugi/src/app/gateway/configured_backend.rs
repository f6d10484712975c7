//! The hub as the configuration offers it: with or without control over HTTP, and with servers that are posted to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use parking_lot::RwLock;
use serde_json::Value;
use tsugi_gateway::Hub;
use tsugi_gateway::backend::{
    Backend, BoardViewer, Endpoint, PersistResult, ServerCommand, ServerControl, ToolDirectory,
};
use tsugi_gateway::dashboard::observe::ServerObserver;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::telemetry::GatewayMetrics;
use tsugi_outbound::{DialError, OutboundGuard, OutboundRules};
use tsugi_pins::PinStore;
use tsugi_process::SecretMask;
use tsugi_protocol::answer::{Caller, Fault, FaultCode, FaultReason};

use crate::app::credential_registry::{CredentialRegistry, CredentialTerms};
use crate::app::gateway::persist::{self, ServerPersistence};
use crate::app::server::ServerParts;
use crate::app::{gateway, server};
use crate::builtin::pm::PmBoards;
use crate::config::document::{ConfigDocument, DocumentFormat};
use crate::config::problem::ConfigProblems;
use crate::config::resolve::resolve_posted;
use crate::config::secret::{MaskedText, Secret};
use crate::config::settings::{
    AdminSettings, CheckedSettings, OptionSettings, RemoteTarget, ServerSettings, ServerTarget,
};

/// How long looking up the host of a posted server may take.
const LOOKUP_LIMIT: Duration = Duration::from_secs(3);

/// The hub, as far as it is offered.
pub(crate) struct ConfiguredBackend {
    pub(crate) hub: Hub,
    pub(crate) terms: Arc<RwLock<PostedServerTerms>>,
    pub(crate) boards: Arc<PmBoards>,
    pub(crate) keeper: Arc<ServerPersistence>,
    pub(crate) credentials: Arc<CredentialRegistry>,
}

/// What holds for servers that are posted; a reload changes it.
pub(crate) struct PostedServerTerms {
    pub(crate) admin: AdminSettings,
    pub(crate) options: OptionSettings,
    pub(crate) outbound: OutboundRules,
    pub(crate) sign_in: CredentialTerms,
}

impl PostedServerTerms {
    /// Those of a configuration.
    pub(crate) fn of(settings: &CheckedSettings) -> Self {
        PostedServerTerms {
            admin: settings.gateway.admin_api,
            options: settings.options.clone(),
            outbound: settings.outbound.clone(),
            sign_in: CredentialTerms::of(settings),
        }
    }
}

impl Backend for ConfiguredBackend {
    fn all(&self) -> Endpoint {
        self.hub.all()
    }

    fn server(&self, name: &str) -> Option<Endpoint> {
        self.hub.server(name)
    }

    fn guard(&self) -> Option<Arc<AccessGuard>> {
        self.hub.guard()
    }

    fn directory(&self) -> Option<&dyn ToolDirectory> {
        self.hub.directory()
    }

    fn control(&self) -> Option<&dyn ServerControl> {
        // Not the hub's own control: a server that is posted must be checked here and written into the file.
        Some(self)
    }

    fn observe(&self) -> Option<&dyn ServerObserver> {
        self.hub.observe()
    }

    fn pins(&self) -> Option<&PinStore> {
        self.hub.pins()
    }

    fn pins_changed(&self, server: &str) {
        self.hub.pins_changed(server);
    }

    fn settings(&self, server: &str) -> Option<Value> {
        self.hub.settings(server)
    }

    fn board_changes(&self, looker: BoardViewer<'_>) -> Option<BoxStream<'static, Value>> {
        self.boards.changes(looker)
    }

    fn board(
        &self,
        looker: BoardViewer<'_>,
        look: &str,
        arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        self.boards.look(looker, look, arguments)
    }

    fn board_order(
        &self,
        caller: &Caller,
        order: &str,
        arguments: Value,
    ) -> Option<BoxFuture<'static, Result<Value, Value>>> {
        self.boards.order(caller, order, arguments)
    }

    fn metrics(&self) -> Arc<GatewayMetrics> {
        self.hub.metrics()
    }
}

impl ServerControl for ConfiguredBackend {
    fn servers(&self) -> Vec<Value> {
        self.hub.servers()
    }

    /// As in a configuration file, but nothing of ours is read for it, and a program is run only where that is allowed.
    fn add(&self, definition: Value) -> BoxFuture<'_, Result<(Value, PersistResult), Fault>> {
        async move {
            let settings = self.read(&definition)?;
            check_address(&settings).await?;
            let added = self.add_posted(&settings)?;
            // Written down last: an entry that the hub refuses must not reach the file.
            Ok((added, self.keeper.add(&settings, &definition, persist::has_secrets(&definition))))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PersistResult, Fault>> {
        async move {
            self.hub.remove(name).await?;
            // A server that the hub does not have is not struck from the file either.
            Ok(self.keeper.remove(name))
        }
        .boxed()
    }

    fn order<'a>(&'a self, name: &'a str, order: ServerCommand) -> BoxFuture<'a, Result<Value, Fault>> {
        self.hub.order(name, order)
    }

    fn log(&self, name: &str, lines: usize) -> Result<Vec<String>, Fault> {
        self.hub.log(name, lines)
    }

    fn allows_changes(&self) -> bool {
        self.admin().enabled
    }

    fn allows_commands(&self) -> bool {
        self.admin().allow_commands
    }
}

impl ConfiguredBackend {
    fn admin(&self) -> AdminSettings {
        self.terms.read().admin
    }

    fn read(&self, definition: &Value) -> Result<ServerSettings, Fault> {
        let terms = self.terms.read();
        // `resolve_posted` refuses this too. Checked here, the caller gets a permission error that names the setting.
        if definition.get("command").is_some() && !terms.admin.allow_commands {
            let message = "a command cannot be added over the network";
            let hint =
                "allow it with `gateway.adminApi.allowCommands: true`, or write the server into the configuration";
            return Err(Fault::new(FaultCode::PermissionDenied, message).with_hint(hint));
        }
        let parsed = ConfigDocument::parse(Path::new("(request)"), definition.to_string(), DocumentFormat::Json)
            .map_err(ConfigProblems);
        // A relative path must mean the same now and after a restart, when it is read from the file.
        let directory = self.keeper.directory();
        let read = parsed.and_then(|document| {
            resolve_posted(&document, terms.admin.allow_commands, &terms.options, &terms.outbound, directory)
        });
        read.map_err(|problems| unfit(&problems))
    }

    fn add_posted(&self, settings: &ServerSettings) -> Result<Value, Fault> {
        // The secrets of the configuration were collected when it was read. A posted server brings its own.
        let secrets = secrets(settings);
        let redact = SecretMask::new(secrets.iter().map(|secret| secret.expose().to_owned()));
        let terms = self.terms.read().sign_in.clone();
        let parts = ServerParts { boards: &self.boards, credentials: &self.credentials, terms: &terms };
        let config = gateway::lasting(server::config(settings, redact, &parts)?, settings);
        let shape = gateway::shape(settings).map_err(|error| {
            Fault::new(FaultCode::InvalidParams, error.to_string()).with_hint("mend `allow` or `deny`")
        })?;
        self.hub.add_shown(config, gateway::shown(settings, &secrets), shape)
    }
}

/// Refuses a server at an address that the outbound guard does not allow. A host that cannot be looked up now may be
/// there later: every connection is checked again.
async fn check_address(settings: &ServerSettings) -> Result<(), Fault> {
    let ServerTarget::Remote(RemoteTarget { url, guard: Some(rules), .. }) = &settings.target else { return Ok(()) };
    let guard = OutboundGuard::new(rules.clone());
    let checked = match guard.check(url) {
        // With a proxy, names are not looked up here.
        Ok(_) if rules.proxy.is_some() => return Ok(()),
        Ok(target) => {
            tokio::time::timeout(LOOKUP_LIMIT, guard.resolve(&target)).await.map_or(Ok(()), |found| match found {
                Err(DialError::Refused(refusal)) => Err(refusal),
                _ => Ok(()),
            })
        }
        Err(refusal) => Err(refusal),
    };
    checked.map_err(|refusal| {
        tracing::warn!(
            server = settings.name, rule = refusal.rule(), reason = %refusal,
            "a server was not added: its address is not allowed"
        );
        // The caller learns no more: what stands behind a name is not its business.
        Fault::new(
            FaultCode::PermissionDenied,
            "the address is not allowed for a server that is added over the network",
        )
        .with_reason(FaultReason::AddressRefused)
        .with_hint("write the server into the configuration, or allow its address with `outbound.allow` there")
    })
}

fn unfit(problems: &ConfigProblems) -> Fault {
    let told: Vec<&str> = problems.0.iter().map(|problem| problem.message.as_str()).collect();
    let fault = Fault::new(FaultCode::InvalidParams, told.join("; "));
    match problems.0.iter().find_map(|problem| problem.hint.as_ref()) {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}

/// What must not be shown of a server that was posted.
fn secrets(settings: &ServerSettings) -> Vec<Secret> {
    let texts: Vec<&MaskedText> = match &settings.target {
        ServerTarget::Command(target) => {
            target.args.iter().chain(target.env.iter().map(|(_, value)| value)).chain([&target.program]).collect()
        }
        ServerTarget::Remote(target) => target.headers.iter().map(|(_, value)| value).collect(),
        ServerTarget::Builtin(target) => target.args.iter().collect(),
    };
    texts.into_iter().flat_map(MaskedText::secrets).cloned().collect()
}
