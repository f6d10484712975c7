//! A client for a running gateway: finds the right one and calls its control API.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_transport::http::{HttpClient, HttpResponse, HttpTarget};
use url::Url;

use crate::app::App;
use crate::cli::NoServerFlags;
use crate::config::env::{TSUGI_GATEWAY, TSUGI_KEY};
use crate::config::layer::{self, ConfigOrigin, LoadedConfig};
use crate::config::secret::Secret;
use crate::failure::CommandFailure;
use crate::gateway_record::{self, GatewayRecord};
use crate::output::OutputFormat;

/// How long the gateway may take to answer. Restarting a server waits for the old process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const GATEWAY_SELECTION: &str = "Gateway selection";

/// Which gateway to ask, and with which key.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GatewayFlags {
    #[command(flatten)]
    _no_servers: NoServerFlags,
    /// The gateway's address, such as http://127.0.0.1:7600 [default: TSUGI_GATEWAY, then the running gateway of this
    /// configuration or directory, then `gateway.listen`]
    #[arg(long, value_name = "URL", help_heading = GATEWAY_SELECTION)]
    gateway: Option<String>,
    /// An admin key, if the gateway requires one [default: TSUGI_KEY]
    #[arg(long, value_name = "KEY", help_heading = GATEWAY_SELECTION)]
    key: Option<String>,
}

/// A gateway to ask.
pub(crate) struct GatewayClient {
    base: Url,
    /// How messages name this gateway.
    description: String,
    client: HttpClient,
    /// Other gateways that run, to suggest when this one does not answer.
    others: Vec<GatewayRecord>,
}

impl GatewayClient {
    /// Finds the gateway without contacting it.
    pub(crate) fn of(app: &App, which: &GatewayFlags) -> Result<Self, CommandFailure> {
        // First, so that a bad key is reported before anything is searched.
        let headers = credentials(app, which)?;
        let running = app.state_directory().map(|state| gateway_record::running(&state)).unwrap_or_default();
        let (base, record) = match named(app, which)? {
            Some(base) => (base, None),
            None => found(app, &running)?,
        };
        // An address that was named may belong to a known gateway, whose process and file are worth showing.
        let record = record.or_else(|| running.iter().find(|record| is_same_address(record, &base)).cloned());
        let description = record.as_ref().map_or_else(|| shown(&base), GatewayRecord::describe);
        let others = running.into_iter().filter(|record| !is_same_address(record, &base)).collect();
        let target = HttpTarget::new(base.clone(), headers);
        Ok(GatewayClient { client: HttpClient::new(target), base, description, others })
    }

    /// Says which gateway answered: as a message for people, as a member of the answer for programs.
    pub(crate) fn identify(&self, app: &App, answer: &mut Value) {
        match app.output.form() {
            OutputFormat::Json => answer["gateway"] = json!(shown(&self.base)),
            OutputFormat::Text if app.common.quiet => {}
            OutputFormat::Text => app.output.message(|paint| paint.faint(format!("gateway {}", self.description))),
        }
    }

    pub(crate) async fn get(&self, path: &[&str], query: &str) -> Result<Value, CommandFailure> {
        let client = self.at(path, query);
        let answer = self.wait(client.get(HeaderMap::new())).await;
        self.with_names(path, answer).await
    }

    /// Adds the names of the servers to a not-found error.
    async fn with_names(&self, path: &[&str], answer: Result<Value, CommandFailure>) -> Result<Value, CommandFailure> {
        let Err(CommandFailure::Fault(fault)) = answer else { return answer };
        if fault.code != FaultCode::ServerNotFound || path.first() != Some(&"servers") {
            return Err(CommandFailure::Fault(fault));
        }
        // If this fails too, the original error is what matters.
        let all = self.wait(self.at(&["servers"], "").get(HeaderMap::new())).await.unwrap_or_default();
        let names: Vec<&str> =
            all["servers"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
        Err(fault.with_hint(format!("there are {}", names.join(", "))).into())
    }

    pub(crate) async fn post(&self, path: &[&str]) -> Result<Value, CommandFailure> {
        let client = self.at(path, "");
        let answer = self.wait(client.post(Bytes::from_static(b"{}"), HeaderMap::new())).await;
        self.with_names(path, answer).await
    }

    fn at(&self, path: &[&str], query: &str) -> HttpClient {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            // Segments are encoded, so that a server name with a slash stays one segment.
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
        let message = format!("no gateway answers at {}: {error}", shown(&self.base));
        let hint = match self.others.as_slice() {
            [] => "start one with `tsugi serve`, or name it with --gateway URL".to_owned(),
            others => format!("start one with `tsugi serve`, or choose a running one with --gateway: {}", list(others)),
        };
        Fault::new(FaultCode::ConnectionFailed, message).with_hint(hint).into()
    }
}

/// What a gateway answers to a command that would use it.
pub(crate) enum GatewayAnswer {
    /// The names of its servers that can be called. One that is broken is tried by the command itself, which then says
    /// what is wrong with it.
    Servers(Vec<String>),
    /// The key is known, and not an administrator's.
    Forbidden,
    /// It needs a key, or another one.
    Unauthorized,
    Silent,
}

impl GatewayClient {
    /// Asks a gateway which servers it has.
    pub(crate) async fn probe(base: &Url, key: Option<&Secret>, patience: Duration) -> GatewayAnswer {
        let Ok(headers) = bearer(key.map(Secret::expose)) else { return GatewayAnswer::Unauthorized };
        let Ok(url) = base.join("/servers") else { return GatewayAnswer::Silent };
        let client = HttpClient::new(HttpTarget::new(url, headers));
        let asked = async {
            let response = client.get(HeaderMap::new()).await.ok()?;
            let status = response.status;
            Some((status, response.bytes().await.ok()?))
        };
        match tokio::time::timeout(patience, asked).await {
            Ok(Some((StatusCode::OK, body))) => {
                let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
                let is_usable = |one: &&Value| one["state"] == "connected" || one["fault"].is_null();
                let servers = answer["servers"].as_array().into_iter().flatten().filter(is_usable);
                GatewayAnswer::Servers(servers.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
            }
            Ok(Some((StatusCode::UNAUTHORIZED, _))) => GatewayAnswer::Unauthorized,
            Ok(Some((StatusCode::FORBIDDEN, _))) => GatewayAnswer::Forbidden,
            _ => GatewayAnswer::Silent,
        }
    }
}

/// The gateway of `--gateway` or `TSUGI_GATEWAY`.
fn named(app: &App, which: &GatewayFlags) -> Result<Option<Url>, CommandFailure> {
    let environment = &app.context.environment;
    let named = which.gateway.as_deref().or_else(|| environment.filled(TSUGI_GATEWAY.name));
    let Some(text) = named else { return Ok(None) };
    // `127.0.0.1:7600` alone is what people type.
    let address = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match Url::parse(&address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(Some(url)),
        _ => Err(CommandFailure::usage(format!("`{text}` is not the address of a gateway"))
            .with_hint("write it as http://127.0.0.1:7600")),
    }
}

/// Where a command looks for its gateway.
struct SearchPlace {
    /// The configuration file that holds here.
    config: Option<PathBuf>,
    /// Whether that file was named or lies here, and is not merely the user's default.
    is_own: bool,
    directory: PathBuf,
    /// The address of `gateway.listen`.
    listen: Url,
}

/// What a search among the running gateways found.
#[derive(Debug, PartialEq)]
enum SearchResult<'a> {
    Found(&'a GatewayRecord),
    Several(Vec<&'a GatewayRecord>),
    /// The configured address belongs to the gateway of another configuration.
    Foreign(&'a GatewayRecord),
    /// No running gateway is known to match; the configured address is all there is.
    Unknown,
}

fn found(app: &App, running: &[GatewayRecord]) -> Result<(Url, Option<GatewayRecord>), CommandFailure> {
    let place = SearchPlace::of(app)?;
    match place.search(running) {
        SearchResult::Found(record) => {
            let url = Url::parse(&record.url).map_err(|_| several(&[record]))?;
            Ok((url, Some(record.clone())))
        }
        SearchResult::Unknown => Ok((place.listen, None)),
        SearchResult::Several(records) => Err(several(&records)),
        SearchResult::Foreign(record) => {
            let here = place.config.unwrap_or_default();
            let message = format!("the gateway at {} does not serve {}", record.describe(), here.display());
            let hint = format!("start one with `tsugi serve`, or use that one with --gateway {}", record.url);
            Err(CommandFailure::usage(message).with_hint(hint))
        }
    }
}

fn several(records: &[&GatewayRecord]) -> CommandFailure {
    let records: Vec<GatewayRecord> = records.iter().map(|record| (*record).clone()).collect();
    CommandFailure::usage(format!("several gateways are running: {}", list(&records)))
        .with_hint("choose one with --gateway URL")
}

fn list(records: &[GatewayRecord]) -> String {
    records.iter().map(GatewayRecord::describe).collect::<Vec<_>>().join(", ")
}

impl SearchPlace {
    fn of(app: &App) -> Result<Self, CommandFailure> {
        let LoadedConfig { settings, origin, .. } = layer::load(&app.wish(), &app.context)?;
        let mut listen = settings.gateway.listen;
        if listen.ip().is_unspecified() {
            listen.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let is_own = matches!(origin, ConfigOrigin::Named(_) | ConfigOrigin::WorkingDirectory(_));
        Ok(SearchPlace {
            config: origin.path().map(gateway_record::canonical),
            is_own,
            directory: gateway_record::canonical(&app.context.directory),
            listen: Url::parse(&format!("http://{listen}")).expect("a socket address makes an address"),
        })
    }

    /// The gateway of this configuration, else of this directory, else the only one there is.
    fn search<'a>(&self, running: &'a [GatewayRecord]) -> SearchResult<'a> {
        let of_config = |record: &&GatewayRecord| self.config.is_some() && record.config == self.config;
        let of_directory = |record: &&GatewayRecord| !self.is_own && record.directory == self.directory;
        // The file is more specific than the directory, which can have several gateways.
        for matches in [&of_config as &dyn Fn(&&GatewayRecord) -> bool, &of_directory] {
            match running.iter().filter(matches).collect::<Vec<_>>().as_slice() {
                [] => {}
                [one] => return SearchResult::Found(one),
                several => return SearchResult::Several(several.to_vec()),
            }
        }
        match running.iter().find(|record| is_same_address(record, &self.listen)) {
            // A file that lies here would be ignored silently.
            Some(record) if self.is_own => return SearchResult::Foreign(record),
            Some(record) => return SearchResult::Found(record),
            None => {}
        }
        match running {
            [one] if self.config.is_none() => SearchResult::Found(one),
            [_, _, ..] if self.config.is_none() => SearchResult::Several(running.iter().collect()),
            _ => SearchResult::Unknown,
        }
    }
}

fn is_same_address(record: &GatewayRecord, url: &Url) -> bool {
    Url::parse(&record.url).is_ok_and(|known| known.origin() == url.origin())
}

/// An address as `tsugi serve` prints it.
fn shown(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

fn credentials(app: &App, which: &GatewayFlags) -> Result<HeaderMap, CommandFailure> {
    bearer(which.key.as_deref().or_else(|| app.context.environment.filled(TSUGI_KEY.name)))
}

fn bearer(key: Option<&str>) -> Result<HeaderMap, CommandFailure> {
    let Some(key) = key else { return Ok(HeaderMap::new()) };
    let value = HeaderValue::try_from(format!("Bearer {key}"));
    let mut value = value.map_err(|_| CommandFailure::usage("the key has characters that cannot be sent"))?;
    // Keeps the key out of debug output.
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

/// The answer, or the error that the gateway reports.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(port: u16, config: Option<&str>, directory: &str) -> GatewayRecord {
        let url = format!("http://127.0.0.1:{port}");
        GatewayRecord { url, pid: 7, config: config.map(PathBuf::from), directory: directory.into() }
    }

    fn place(config: Option<&str>, is_own: bool) -> SearchPlace {
        let listen = Url::parse("http://127.0.0.1:7600").unwrap();
        SearchPlace { config: config.map(PathBuf::from), is_own, directory: "/a".into(), listen }
    }

    #[test]
    fn the_gateway_of_the_own_configuration_is_found_wherever_it_listens() {
        let running = [record(7600, Some("/b/tsugi.yaml"), "/b"), record(9, Some("/a/tsugi.yaml"), "/elsewhere")];
        assert_eq!(place(Some("/a/tsugi.yaml"), true).search(&running), SearchResult::Found(&running[1]));
    }

    #[test]
    fn a_gateway_of_another_configuration_at_the_configured_address_is_refused() {
        let running = [record(7600, Some("/b/tsugi.yaml"), "/b")];
        assert_eq!(place(Some("/a/tsugi.yaml"), true).search(&running), SearchResult::Foreign(&running[0]));
        // Without a file of its own, this directory has no claim to another gateway.
        assert_eq!(place(None, false).search(&running), SearchResult::Found(&running[0]));
    }

    #[test]
    fn without_a_file_the_directory_counts_and_then_the_only_gateway() {
        let (here, there) = (record(1, Some("/x/team.yaml"), "/a"), record(2, None, "/b"));
        let both = [here.clone(), there.clone()];
        assert_eq!(place(None, false).search(&both), SearchResult::Found(&both[0]));
        assert_eq!(place(None, false).search(&both[1..]), SearchResult::Found(&both[1]));
        let strangers = [there, record(3, None, "/c")];
        assert_eq!(place(None, false).search(&strangers), SearchResult::Several(strangers.iter().collect()));
        assert_eq!(place(Some("/a/tsugi.yaml"), true).search(&strangers), SearchResult::Unknown);
    }
}
