//! A running gateway seen from another process: where it is, and what it says when asked.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_transport::http::{HttpClient, HttpResponse, HttpTarget};
use url::Url;

use crate::app::App;
use crate::config::env::{TSUGI_GATEWAY, TSUGI_KEY};
use crate::config::layer;
use crate::failure::CommandFailure;

/// How long the gateway may take: restarting a server waits for the old process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Which gateway, and with which key.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GatewayFlags {
    /// The gateway's address, such as http://127.0.0.1:7600; otherwise TSUGI_GATEWAY, then `gateway.listen`
    #[arg(long, value_name = "URL", help_heading = "Which gateway")]
    gateway: Option<String>,
    /// An admin key, where the gateway asks for one; otherwise TSUGI_KEY
    #[arg(long, value_name = "KEY", help_heading = "Which gateway")]
    key: Option<String>,
}

/// A gateway to ask.
pub(crate) struct GatewayClient {
    base: Url,
    client: HttpClient,
}

impl GatewayClient {
    /// The gateway that is meant. It is not asked anything yet.
    pub(crate) fn of(app: &App, which: &GatewayFlags) -> Result<Self, CommandFailure> {
        let base = base(app, which)?;
        let target = HttpTarget { url: base.clone(), headers: credentials(app, which)? };
        Ok(GatewayClient { client: HttpClient::new(target), base })
    }

    /// Asks for something.
    pub(crate) async fn get(&self, path: &[&str], query: &str) -> Result<Value, CommandFailure> {
        let client = self.at(path, query);
        let answer = self.wait(client.get(HeaderMap::new())).await;
        self.with_names(path, answer).await
    }

    /// Who names a server that is not there is told which are.
    async fn with_names(&self, path: &[&str], answer: Result<Value, CommandFailure>) -> Result<Value, CommandFailure> {
        let Err(CommandFailure::Fault(fault)) = answer else { return answer };
        if fault.code != FaultCode::ServerNotFound || path.first() != Some(&"servers") {
            return Err(CommandFailure::Fault(fault));
        }
        let all = self.wait(self.at(&["servers"], "").get(HeaderMap::new())).await.unwrap_or_default();
        let names: Vec<&str> =
            all["servers"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
        Err(fault.with_hint(format!("there are {}", names.join(", "))).into())
    }

    /// Tells it to do something.
    pub(crate) async fn post(&self, path: &[&str]) -> Result<Value, CommandFailure> {
        let client = self.at(path, "");
        let answer = self.wait(client.post(Bytes::from_static(b"{}"), HeaderMap::new())).await;
        self.with_names(path, answer).await
    }

    fn at(&self, path: &[&str], query: &str) -> HttpClient {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        self.client.at(url).expect("the origin is the same")
    }

    async fn wait<E: std::fmt::Display>(
        &self,
        asked: impl Future<Output = Result<HttpResponse, E>>,
    ) -> Result<Value, CommandFailure> {
        let answered = async {
            let response = asked.await.map_err(|error| self.unreachable(&error))?;
            let status = response.status;
            let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
            read(status, &body)
        };
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::new(FaultCode::Timeout, format!("the gateway at {} is silent", self.base)).into()),
        }
    }

    fn unreachable(&self, error: &dyn std::fmt::Display) -> CommandFailure {
        let message = format!("no gateway answers at {}: {error}", self.base);
        let hint = "start one with `tsugi serve`, or say where it is with --gateway URL";
        Fault::new(FaultCode::ConnectionFailed, message).with_hint(hint).into()
    }
}

/// What was said on the command line, in the environment, or in the configuration.
fn base(app: &App, which: &GatewayFlags) -> Result<Url, CommandFailure> {
    let environment = &app.context.environment;
    let said = which.gateway.as_deref().or_else(|| environment.filled(TSUGI_GATEWAY.name));
    let Some(text) = said else { return Ok(configured(app)?) };
    let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match Url::parse(&address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(CommandFailure::usage(format!("`{text}` is not the address of a gateway"))
            .with_hint("write it as http://127.0.0.1:7600")),
    }
}

fn configured(app: &App) -> Result<Url, crate::config::problem::ConfigProblems> {
    let mut listen = layer::load(&app.wish(), &app.context)?.settings.gateway.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Ok(Url::parse(&format!("http://{listen}")).expect("a socket address makes an address"))
}

fn credentials(app: &App, which: &GatewayFlags) -> Result<HeaderMap, CommandFailure> {
    let key = which.key.as_deref().or_else(|| app.context.environment.filled(TSUGI_KEY.name));
    let Some(key) = key else { return Ok(HeaderMap::new()) };
    let value = HeaderValue::try_from(format!("Bearer {key}"));
    let mut value = value.map_err(|_| CommandFailure::usage("the key has characters that cannot be sent"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// The answer, or the gateway's own words for why there is none.
fn read(status: StatusCode, body: &[u8]) -> Result<Value, CommandFailure> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    if status.is_success() {
        return Ok(value);
    }
    let said = value["error"]["message"].as_str();
    let message = said.map_or_else(|| format!("the gateway answered with {status}"), str::to_owned);
    Err(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Fault::new(FaultCode::PermissionDenied, message).with_hint("give an admin key with --key or TSUGI_KEY")
        }
        StatusCode::NOT_FOUND => Fault::new(FaultCode::ServerNotFound, message),
        _ => Fault::new(FaultCode::ExecutionFailed, message),
    }
    .into())
}
