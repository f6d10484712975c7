//! A server's settings as the library wants them: the one place where configuration becomes connections.

mod policy;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tsugi_client::backoff::BackoffPolicy;
use tsugi_client::config::{JobSettings, LimitPolicy, PinPolicy};
use tsugi_client::{ConnectTarget, EraChoice, ServerConfig, StartPolicy, diagnosis};
use tsugi_outbound::OutboundGuard;
use tsugi_process::{EgressAccess, JobCommand, JobOptions, SecretMask, StopGrace};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::mcp::{Era, ProtocolVersion};
use tsugi_tls::upstream::{UpstreamTlsSettings, parse_server_name};
use tsugi_transport::http::HttpTarget;

use super::credential_registry::{CredentialRegistry, CredentialTerms};
use crate::builtin;
use crate::builtin::pm::PmBoards;
use crate::config::secret::MaskedText;
use crate::config::settings::ServerTlsSettings;
use crate::config::settings::{self, CommandTarget, KeyPairSettings, RemoteTarget, RemoteTransport, ServerSettings};

/// How often in a row a server may fail before it is left alone. A user at a terminal sees the first failure.
const MOST_FAILURES: u32 = 3;

/// How long stopping may take: a person waits for it.
const GRACE: Duration = Duration::from_secs(1);

/// How long a server may take to be ready whose program may have to be downloaded first.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// What servers are made of besides their settings.
#[derive(Clone, Copy)]
pub(super) struct ServerParts<'a> {
    pub(super) boards: &'a PmBoards,
    pub(super) credentials: &'a CredentialRegistry,
    pub(super) terms: &'a CredentialTerms,
}

/// The library's settings for a server.
pub(super) fn config(
    server: &ServerSettings,
    redact: SecretMask,
    parts: &ServerParts<'_>,
) -> Result<ServerConfig, Fault> {
    let target = target(&server.name, &server.target, parts)?;
    let grace = StopGrace { stdin: GRACE, ..StopGrace::default() };
    Ok(ServerConfig {
        timeout: Some(server.timeout),
        max_timeout: server.max_timeout,
        tools: server.tools.iter().map(|(name, tool)| (name.clone(), policy::tool(tool))).collect(),
        restart: server.restart,
        backoff: BackoffPolicy { max_retries: Some(MOST_FAILURES), ..BackoffPolicy::default() },
        // Only servers that are needed are registered at all, so each is needed at once.
        start: StartPolicy::Eager,
        era: era(server),
        legacy_version: version(server).filter(|version| version.era() == Era::Legacy),
        job: JobSettings(JobOptions { redact, grace, egress: egress(server), ..JobOptions::default() }),
        validate: server.validate,
        pin: pin(server),
        retry: Some(server.retry.clone()),
        cache: policy::cache(&server.cache),
        breaker: server.breaker,
        limit: Some(LimitPolicy { in_flight: server.max_in_flight, ..LimitPolicy::default() }),
        instances: server.instances,
        max_connections: server.max_connections,
        idle_timeout: server.idle_timeout,
        handshake_timeout: may_download(&target).then_some(DOWNLOAD),
        ..ServerConfig::new(&server.name, target)
    })
}

/// Whether its program may have to be downloaded before it answers.
fn may_download(target: &ConnectTarget) -> bool {
    let ConnectTarget::Stdio(command) = target else { return false };
    diagnosis::package_runner(command).is_some() && diagnosis::offline_runner(command).is_none()
}

/// Built-in servers are part of this program and change with it, so they are not pinned.
fn pin(server: &ServerSettings) -> PinPolicy {
    let is_builtin = matches!(server.target, settings::ServerTarget::Builtin(_));
    if is_builtin { PinPolicy::OFF } else { server.pin }
}

/// A revision that is asked for decides the era where nothing else does.
fn era(server: &ServerSettings) -> EraChoice {
    match (server.era, version(server).map(ProtocolVersion::era)) {
        (EraChoice::Auto, Some(Era::Modern)) => EraChoice::Modern,
        (EraChoice::Auto, Some(Era::Legacy)) => EraChoice::Legacy,
        (written, _) => written,
    }
}

/// The revision that is offered first, where one is asked for.
fn version(server: &ServerSettings) -> Option<ProtocolVersion> {
    server.protocol_version.as_deref().and_then(ProtocolVersion::parse)
}

fn target(name: &str, target: &settings::ServerTarget, parts: &ServerParts<'_>) -> Result<ConnectTarget, Fault> {
    match target {
        settings::ServerTarget::Command(target) => Ok(ConnectTarget::stdio(command(target))),
        settings::ServerTarget::Remote(remote) => self::remote(name, remote, parts),
        settings::ServerTarget::Builtin(target) => {
            builtin::make(name, target, parts.boards).map(ConnectTarget::InProcess)
        }
    }
}

/// What is run for a server.
pub(crate) fn command(target: &CommandTarget) -> JobCommand {
    let mut command = JobCommand::new(target.program.expose()).args(target.args.iter().map(MaskedText::expose));
    command.env = target.env.iter().map(|(name, value)| (name.into(), value.expose().into())).collect();
    command.cwd = target.cwd.clone();
    command.sandbox = target.sandbox.clone();
    command
}

/// What a program finds behind the names that its sandbox lists.
fn egress(server: &ServerSettings) -> Option<EgressAccess> {
    let settings::ServerTarget::Command(CommandTarget { egress: Some(rules), .. }) = &server.target else {
        return None;
    };
    let guard = OutboundGuard::new(rules.clone());
    Some(EgressAccess { server: server.name.clone(), guard, observer: None })
}

fn remote(name: &str, remote: &RemoteTarget, parts: &ServerParts<'_>) -> Result<ConnectTarget, Fault> {
    let credential = parts.credentials.credential(name, remote, parts.terms)?;
    let target = http_target(remote)?;
    let target = credential.into_iter().fold(target, HttpTarget::with_credential);
    Ok(match remote.transport {
        RemoteTransport::Auto => ConnectTarget::Http(target),
        RemoteTransport::Http => ConnectTarget::StreamableHttp(target),
        RemoteTransport::Sse => ConnectTarget::Sse(target),
        RemoteTransport::Rpc => ConnectTarget::PlainRpc(target),
        RemoteTransport::Websocket => ConnectTarget::WebSocket(target),
    })
}

/// The address of a server with its headers, without credentials that change.
pub(crate) fn http_target(remote: &RemoteTarget) -> Result<HttpTarget, Fault> {
    let target = HttpTarget { tls: tls(&remote.tls)?, ..HttpTarget::new(remote.url.clone(), headers(remote)?) };
    let guard = remote.guard.clone().map(OutboundGuard::new);
    Ok(guard.into_iter().fold(target, HttpTarget::guarded))
}

fn tls(settings: &ServerTlsSettings) -> Result<UpstreamTlsSettings, Fault> {
    let unfit = |what: &str| Fault::new(FaultCode::ConfigInvalid, format!("`tls.{what}` cannot be used"));
    let name = settings.server_name.as_deref();
    let pins = settings.pin.iter().map(|pin| pin.parse().map_err(|_| unfit("pin")));
    Ok(UpstreamTlsSettings {
        ca: settings.ca.clone(),
        only: settings.only,
        client: settings.client.as_ref().map(KeyPairSettings::files),
        server_name: name.map(|name| parse_server_name(name).ok_or_else(|| unfit("serverName"))).transpose()?,
        pins: pins.collect::<Result<_, _>>()?,
    })
}

fn headers(remote: &RemoteTarget) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for (name, value) in &remote.headers {
        let unfit =
            || Fault::new(FaultCode::ConfigInvalid, format!("the header `{name}` has a value that cannot be sent"));
        let key = HeaderName::try_from(name).map_err(|_| unfit())?;
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| unfit())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{ConfigDocument, DocumentFormat};
    use crate::config::resolve::resolve;
    use tsugi_client::config::{BreakerPolicy, ValidatePolicy, ValidationMode};

    fn made(settings: &settings::CheckedSettings) -> ServerConfig {
        let (boards, credentials) = (PmBoards::default(), CredentialRegistry::new(None));
        let parts = ServerParts { boards: &boards, credentials: &credentials, terms: &CredentialTerms::of(settings) };
        config(&settings.servers[0], SecretMask::new(Vec::<String>::new()), &parts).unwrap()
    }

    fn configured(fields: &str) -> ServerConfig {
        let text = format!("servers: [{{name: a, command: c, {fields}}}]");
        let document = ConfigDocument::parse("tsugi.yaml".as_ref(), text, DocumentFormat::Yaml).unwrap();
        let settings = resolve(&document, &Default::default()).unwrap().settings;
        made(&settings)
    }

    #[test]
    fn what_is_written_about_a_server_reaches_the_library() {
        assert_eq!(configured("breaker: off").breaker, None);
        let breaker = BreakerPolicy { failure_threshold: 2, ..BreakerPolicy::default() };
        assert_eq!(configured("breaker: {failureThreshold: 2}").breaker, Some(breaker));
        let tool = configured("tools: {t: {validate: {arguments: off}}}").tools["t"].clone();
        assert_eq!(
            tool.validate,
            Some(ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Warn })
        );
        assert_eq!(configured("maxTimeout: 5s").max_timeout, Some(Duration::from_secs(5)));
        assert_eq!(configured("timeout: 5s").max_timeout, None, "a limit that nobody set gives way to others");
    }

    #[test]
    fn the_defaults_of_the_file_are_those_of_the_library() {
        let (file, library) = (configured(""), ServerConfig::new("a", ConnectTarget::stdio(JobCommand::new("c"))));
        assert_eq!(file.retry, library.retry);
        assert_eq!(file.breaker, library.breaker);
        assert_eq!(file.validate, library.validate);
        assert_eq!(file.pin, library.pin);
        assert_eq!((file.restart, file.start, file.era), (library.restart, library.start, library.era));
        assert_eq!((file.instances, file.max_connections), (library.instances, library.max_connections));
        let cached = configured("cache: on").cache;
        assert_eq!(cached, Some(tsugi_client::config::CachePolicy::default()));
    }

    #[test]
    fn codes_of_results_and_numbers_of_servers_are_worth_a_retry() {
        let listed = configured("retryPolicy: {retryableErrors: [EXECUTION_FAILED, '-32603']}").retry.unwrap();
        assert_eq!(listed.retryable_errors, ["EXECUTION_FAILED", "-32603"]);
    }

    #[test]
    fn a_server_that_only_speaks_json_rpc_is_reached_by_its_transport() {
        let text = "servers: [{name: a, url: 'http://127.0.0.1:1/mcp', transport: rpc}]".to_owned();
        let document = ConfigDocument::parse("tsugi.yaml".as_ref(), text, DocumentFormat::Yaml).unwrap();
        let settings = resolve(&document, &Default::default()).unwrap().settings;
        assert_eq!(made(&settings).target.kind(), "rpc");
    }

    #[test]
    fn a_revision_that_is_asked_for_is_offered_first() {
        for (fields, era, version) in [
            ("protocolVersion: 2025-03-26", EraChoice::Legacy, ProtocolVersion::parse("2025-03-26")),
            ("protocolVersion: 2026-07-28", EraChoice::Modern, None),
            ("era: legacy", EraChoice::Legacy, None),
            ("timeout: 5s", EraChoice::Auto, None),
        ] {
            let config = configured(fields);
            assert_eq!((config.era, config.legacy_version), (era, version), "{fields}");
        }
    }
}
