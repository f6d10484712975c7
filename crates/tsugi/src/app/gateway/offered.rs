//! The hub as the configuration offers it: with or without control over HTTP, and with servers that are posted to it.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use parking_lot::RwLock;
use serde_json::Value;
use tsugi_gateway::Hub;
use tsugi_gateway::backend::{Backend, Control, Directory, Endpoint, Kept, Looker, Order};
use tsugi_gateway::dashboard::observe::Observe;
use tsugi_gateway::guard::Guard;
use tsugi_gateway::telemetry::Metrics;
use tsugi_process::Redact;
use tsugi_protocol::answer::{Caller, Fault, FaultCode};

use crate::app::gateway::keep::{self, Keeper};
use crate::app::{gateway, server};
use crate::builtin::pm::Boards;
use crate::config::document::{Document, Format};
use crate::config::problem::Problems;
use crate::config::resolve::resolve_posted;
use crate::config::secret::{Secret, Text};
use crate::config::settings::{AdminSettings, OptionSettings, ServerSettings, Settings, Target};

/// The hub, as far as it is offered.
pub(crate) struct Offered {
    pub(crate) hub: Hub,
    pub(crate) terms: Arc<RwLock<Terms>>,
    pub(crate) boards: Arc<Boards>,
    pub(crate) keeper: Arc<Keeper>,
}

/// What holds for servers that are posted; a reload changes it.
pub(crate) struct Terms {
    pub(crate) admin: AdminSettings,
    pub(crate) options: OptionSettings,
}

impl Terms {
    /// Those of a configuration.
    pub(crate) fn of(settings: &Settings) -> Self {
        Terms { admin: settings.gateway.admin_api, options: settings.options.clone() }
    }
}

impl Backend for Offered {
    fn all(&self) -> Endpoint {
        self.hub.all()
    }

    fn server(&self, name: &str) -> Option<Endpoint> {
        self.hub.server(name)
    }

    fn guard(&self) -> Option<Arc<Guard>> {
        self.hub.guard()
    }

    fn directory(&self) -> Option<&dyn Directory> {
        self.hub.directory()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn observe(&self) -> Option<&dyn Observe> {
        self.hub.observe()
    }

    fn settings(&self, server: &str) -> Option<Value> {
        self.hub.settings(server)
    }

    fn board_changes(&self, looker: Looker<'_>) -> Option<BoxStream<'static, Value>> {
        self.boards.changes(looker)
    }

    fn board(
        &self,
        looker: Looker<'_>,
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

    fn metrics(&self) -> Arc<Metrics> {
        self.hub.metrics()
    }
}

impl Control for Offered {
    fn servers(&self) -> Vec<Value> {
        self.hub.servers()
    }

    /// As in a configuration file, but nothing of ours is read for it, and a program is run only where that is allowed.
    fn add(&self, definition: Value) -> BoxFuture<'_, Result<(Value, Kept), Fault>> {
        async move {
            let settings = self.read(&definition)?;
            let added = self.add_posted(&settings)?;
            Ok((added, self.keeper.add(&settings, &definition, keep::has_secrets(&definition))))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Kept, Fault>> {
        async move {
            self.hub.remove(name).await?;
            Ok(self.keeper.remove(name))
        }
        .boxed()
    }

    fn order<'a>(&'a self, name: &'a str, order: Order) -> BoxFuture<'a, Result<Value, Fault>> {
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

impl Offered {
    fn admin(&self) -> AdminSettings {
        self.terms.read().admin
    }

    fn read(&self, definition: &Value) -> Result<ServerSettings, Fault> {
        let terms = self.terms.read();
        if definition.get("command").is_some() && !terms.admin.allow_commands {
            let message = "a command cannot be added over the network";
            let hint =
                "allow it with `gateway.adminApi.allowCommands: true`, or write the server into the configuration";
            return Err(Fault::new(FaultCode::PermissionDenied, message).with_hint(hint));
        }
        let parsed = Document::parse(Path::new("(request)"), definition.to_string(), Format::Json).map_err(Problems);
        let read = parsed.and_then(|document| resolve_posted(&document, terms.admin.allow_commands, &terms.options));
        read.map_err(|problems| unfit(&problems))
    }

    fn add_posted(&self, settings: &ServerSettings) -> Result<Value, Fault> {
        let secrets = secrets(settings);
        let redact = Redact::new(secrets.iter().map(|secret| secret.expose().to_owned()));
        let config = gateway::lasting(server::config(settings, redact, &self.boards)?, settings);
        let shape = gateway::shape(settings).map_err(|error| {
            Fault::new(FaultCode::InvalidParams, error.to_string()).with_hint("mend `allow` or `deny`")
        })?;
        self.hub.add_shown(config, gateway::shown(settings, &secrets), shape)
    }
}

fn unfit(problems: &Problems) -> Fault {
    let told: Vec<&str> = problems.0.iter().map(|problem| problem.message.as_str()).collect();
    let fault = Fault::new(FaultCode::InvalidParams, told.join("; "));
    match problems.0.iter().find_map(|problem| problem.hint.as_ref()) {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}

/// What must not be shown of a server that was posted.
fn secrets(settings: &ServerSettings) -> Vec<Secret> {
    let texts: Vec<&Text> = match &settings.target {
        Target::Command(target) => {
            target.args.iter().chain(target.env.iter().map(|(_, value)| value)).chain([&target.program]).collect()
        }
        Target::Remote(target) => target.headers.iter().map(|(_, value)| value).collect(),
        Target::Builtin(target) => target.args.iter().collect(),
    };
    texts.into_iter().flat_map(Text::secrets).cloned().collect()
}
