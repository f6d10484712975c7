//! The hub's servers as an administrator controls them.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Server, ServerConfig, ServerSignIn, not_found};
use tsugi_protocol::answer::{Fault, FaultCode};

use super::observe::confinement;
use super::presentation::ServerPresentation;
use super::{Hub, HubConfig};
use crate::backend::{PersistResult, ServerCommand, ServerControl};

impl ServerControl for Hub {
    fn servers(&self) -> Vec<Value> {
        self.manager().servers().iter().map(describe).collect()
    }

    /// Only addresses can be added this way: a command from the network would be a way to run anything.
    fn add(&self, definition: Value) -> BoxFuture<'_, Result<(Value, PersistResult), Fault>> {
        async move {
            let server = self.manager().register(read(&definition)?)?;
            Ok((describe(&server), nowhere()))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<PersistResult, Fault>> {
        async move { if self.manager().remove(name).await { Ok(nowhere()) } else { Err(not_found::server(name)) } }
            .boxed()
    }

    fn order<'a>(&'a self, name: &'a str, order: ServerCommand) -> BoxFuture<'a, Result<Value, Fault>> {
        async move {
            // Looked up by name each time: a reload may have replaced it.
            let server = self.manager().server(name).ok_or_else(|| not_found::server(name))?;
            match order {
                ServerCommand::Start => server.start(),
                ServerCommand::Stop => server.hold().await,
                ServerCommand::Restart => server.restart().await,
            }
            Ok(describe(&server))
        }
        .boxed()
    }

    fn log(&self, name: &str, lines: usize) -> Result<Vec<String>, Fault> {
        self.manager().server(name).map(|server| server.log(lines)).ok_or_else(|| not_found::server(name))
    }
}

impl Hub {
    /// Adds a server with what people may read of its settings, and how it is shown; gives how it stands.
    pub fn add_shown(
        &self,
        config: ServerConfig,
        settings: Value,
        shape: Option<ServerPresentation>,
    ) -> Result<Value, Fault> {
        let name = config.name.clone();
        let server = self.manager().register(config)?;
        // A reload may store another configuration at the same time; then this runs again.
        self.0.feed.config.rcu(|held| {
            let mut held = HubConfig::clone(held);
            held.settings.insert(name.clone(), settings.clone());
            match &shape {
                Some(shape) => held.presentations.insert(name.clone(), shape.clone()),
                None => held.presentations.remove(&name),
            };
            held
        });
        // The hub may show the server already, without these settings. This makes it look again.
        self.0.feed.reconfigured.notify_one();
        Ok(describe(&server))
    }
}

/// A hub has no file.
fn nowhere() -> PersistResult {
    PersistResult { file: None, why_not: Some("this gateway has no configuration file".to_owned()) }
}

fn describe(server: &Server) -> Value {
    let status = server.status();
    let catalog = server.catalog();
    let sandbox = confinement(server);
    let since = status.since.duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let description = json!({
        "name": server.name(),
        "state": status.state_word(),
        "since": since,
        "transport": status.transport,
        "protocolVersion": status.version.map(|version| version.as_str()),
        "serverInfo": status.identity.and_then(|identity| identity.info.clone()),
        "pid": status.pid,
        "restarts": status.restarts,
        "inFlight": status.in_flight,
        "waiting": status.waiting,
        "parked": status.parked,
        "signIn": status.sign_in.as_ref().map(sign_in),
        "cache": status.cache.map(|cache| json!({"hits": cache.hits, "misses": cache.misses, "shared": cache.shared})),
        "tools": catalog.as_ref().map(|catalog| catalog.tools.items.len()),
        "resources": catalog.as_ref().map(|catalog| catalog.resources.items.len()),
        "prompts": catalog.as_ref().map(|catalog| catalog.prompts.items.len()),
        "sandbox": sandbox.as_ref().map(|(word, _)| word),
        "sandboxLacks": sandbox.as_ref().and_then(|(_, lacks)| lacks.as_ref()),
        "stopped": status.is_held,
        "leftAlone": status.left_alone,
        "unusableTools": server.unusable_tools(),
        "fault": status.fault.or_else(|| catalog.as_ref()?.faults().next().cloned()),
    });
    masked(description, &|text| server.config().job.0.redact.mask(text))
}

/// How a sign-in stands, for those who read JSON.
fn sign_in(sign_in: &ServerSignIn) -> Value {
    match sign_in {
        ServerSignIn::Needed => json!({"state": "needed"}),
        ServerSignIn::Present { until, is_renewed } => {
            json!({"state": "signed-in", "until": until, "renewed": is_renewed})
        }
    }
}

/// The same with every secret value of the configuration masked, in whatever text it appears.
pub(super) fn masked(value: Value, mask: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(mask(&text)),
        Value::Array(items) => items.into_iter().map(|item| masked(item, mask)).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, masked(value, mask))).collect(),
        other => other,
    }
}

fn read(definition: &Value) -> Result<ServerConfig, Fault> {
    let invalid = |message: &str| Fault::new(FaultCode::InvalidParams, message);
    // Refused by its presence, whatever its value: a command would run on this machine.
    if definition.get("command").is_some() {
        let message = "a command cannot be added over the network; put it into the configuration";
        return Err(Fault::new(FaultCode::PermissionDenied, message));
    }
    let name = definition["name"].as_str().filter(|name| is_name(name));
    let name = name.ok_or_else(|| invalid("`name` must be 1 to 64 of the characters A-Z a-z 0-9 _ -"))?;
    let url = definition["url"].as_str().and_then(|url| url::Url::parse(url).ok());
    let url = url.ok_or_else(|| invalid("`url` must be an address"))?;
    let mut headers = HeaderMap::new();
    for (key, value) in definition["headers"].as_object().into_iter().flatten() {
        let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok());
        let key = HeaderName::try_from(key.as_str()).ok();
        headers.insert(
            key.ok_or_else(|| invalid("a header has a name that cannot be sent"))?,
            value.ok_or_else(|| invalid("a header has a value that cannot be sent"))?,
        );
    }
    let target =
        ConnectTarget::url(url, headers).ok_or_else(|| invalid("`url` must begin with http, https, ws or wss"))?;
    let mut config = ServerConfig::new(name, target);
    // The value of any header may be a secret, whatever the header is called.
    let values = definition["headers"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
    config.job.0.redact.extend(values.map(str::to_owned));
    Ok(config)
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}
