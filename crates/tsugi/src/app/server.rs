//! A server's settings as the library wants them: the one place where configuration becomes connections.

use http::{HeaderMap, HeaderName, HeaderValue};
use tsugi_client::config::JobSettings;
use tsugi_client::connection::backoff::BackoffPolicy;
use tsugi_client::{EraChoice, Restart, ServerConfig, Start, Target, ToolConfig};
use tsugi_process::{Command, JobOptions, Redact};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::mcp::{Era, Version};
use tsugi_transport::http::HttpTarget;

use crate::builtin;
use crate::config::secret::Text;
use crate::config::settings::{self, CommandTarget, RemoteTarget, RemoteTransport, ServerSettings, ToolSettings};

/// How long we try with a server that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endurance {
    /// Once: the person at the terminal can try again.
    Once,
    /// A few times, for work of many calls.
    Few,
}

/// How often a server is brought back during work of many calls.
const FEW: u32 = 3;

/// The library's settings for a server.
pub(super) fn config(server: &ServerSettings, redact: Redact, endurance: Endurance) -> Result<ServerConfig, Fault> {
    let mut config = ServerConfig::new(&server.name, target(&server.target)?);
    config.timeout = Some(server.timeout);
    config.max_timeout = server.max_timeout;
    config.tools = server.tools.iter().map(|(name, tool)| (name.clone(), tool_config(tool))).collect();
    config.restart = match (server.restart, endurance) {
        (settings::Restart::OnFailure, Endurance::Few) => Restart::OnFailure,
        _ => Restart::Never,
    };
    config.backoff = BackoffPolicy { max_retries: Some(FEW), ..BackoffPolicy::default() };
    // Only servers that are needed are registered at all, so each is needed at once.
    config.start = Start::Eager;
    config.era = era(server);
    config.job = JobSettings(JobOptions { redact, ..JobOptions::default() });
    Ok(config)
}

fn tool_config(tool: &ToolSettings) -> ToolConfig {
    ToolConfig { timeout: tool.timeout, is_quiet: tool.quiet, ..ToolConfig::default() }
}

/// A revision that is asked for decides the era where nothing else does.
fn era(server: &ServerSettings) -> EraChoice {
    let of_version = || server.protocol_version.as_deref().and_then(Version::parse).map(Version::era);
    match (server.era, of_version()) {
        (settings::EraChoice::Modern, _) | (settings::EraChoice::Auto, Some(Era::Modern)) => EraChoice::Modern,
        (settings::EraChoice::Legacy, _) | (settings::EraChoice::Auto, Some(Era::Legacy)) => EraChoice::Legacy,
        (settings::EraChoice::Auto, None) => EraChoice::Auto,
    }
}

fn target(target: &settings::Target) -> Result<Target, Fault> {
    match target {
        settings::Target::Command(target) => Ok(Target::stdio(command(target))),
        settings::Target::Remote(remote) => self::remote(remote),
        settings::Target::Builtin(target) => builtin::make(target).map(Target::InProcess),
    }
}

fn command(target: &CommandTarget) -> Command {
    let mut command = Command::new(target.program.expose()).args(target.args.iter().map(Text::expose));
    command.env = target.env.iter().map(|(name, value)| (name.into(), value.expose().into())).collect();
    command.cwd = target.cwd.clone();
    command.sandbox = target.sandbox.clone();
    command
}

fn remote(remote: &RemoteTarget) -> Result<Target, Fault> {
    let target = HttpTarget { url: remote.url.clone(), headers: headers(remote)? };
    Ok(match remote.transport {
        RemoteTransport::Auto => Target::Http(target),
        RemoteTransport::Http => Target::StreamableHttp(target),
        RemoteTransport::Sse => Target::Sse(target),
        RemoteTransport::Websocket => Target::WebSocket(target),
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
