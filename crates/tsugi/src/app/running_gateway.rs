//! Commands that call use the running gateway of their configuration, so that its servers are not started a second time.

use std::time::Duration;

use tsugi_client::EraChoice;
use tsugi_client::config::{InstancePolicy, PinPolicy, RetryPolicy, ValidatePolicy, ValidationMode};
use url::Url;

use super::App;
use crate::config::env::TSUGI_KEY;
use crate::config::layer::{ConfigOrigin, LoadedConfig};
use crate::config::secret::{MaskedText, Secret};
use crate::config::settings::{RemoteTarget, RemoteTransport, ServerSettings, ServerTarget, ServerTlsSettings};
use crate::failure::CommandFailure;
use crate::gateway_client::{GatewayAnswer, GatewayClient};
use crate::gateway_record::{self, GatewayRecord};
use crate::output::OutputFormat;

/// How long a gateway may take to say that it is there. It runs on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a command may use the running gateway.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct GatewayUse {
    /// Start the servers here, even if a gateway of this configuration is running
    #[arg(long)]
    pub(crate) alone: bool,
}

impl App {
    /// The configuration for a command that calls. If a gateway of the same configuration runs, its servers are
    /// reached through it.
    pub(crate) async fn calling_configuration(&self, usage: GatewayUse) -> Result<LoadedConfig, CommandFailure> {
        let mut loaded = self.configuration()?;
        if usage.alone {
            return Ok(loaded);
        }
        let Some(record) = self.gateway_of(&loaded) else { return Ok(loaded) };
        let Ok(base) = Url::parse(&record.url) else { return Ok(loaded) };
        let key = self.gateway_key(&loaded);
        match GatewayClient::probe(&base, key.as_ref(), PATIENCE).await {
            GatewayAnswer::Servers(names) => {
                redirect(&mut loaded, &base, key.as_ref(), |name| names.iter().any(|known| known == name))
            }
            // A key that may call need not be an administrator's.
            GatewayAnswer::Forbidden => redirect(&mut loaded, &base, key.as_ref(), |_| true),
            GatewayAnswer::Unauthorized => {
                self.tell(|| {
                    format!("the gateway {} needs a key (TSUGI_KEY): the servers are started here", record.describe())
                });
                return Ok(loaded);
            }
            GatewayAnswer::Silent => return Ok(loaded),
        }
        self.tell(|| format!("gateway {}", record.describe()));
        Ok(loaded)
    }

    /// The only running gateway of this configuration, if it can be reached without checking a certificate.
    fn gateway_of(&self, loaded: &LoadedConfig) -> Option<GatewayRecord> {
        let is_same: Box<dyn Fn(&GatewayRecord) -> bool> = match &loaded.origin {
            ConfigOrigin::AdHoc | ConfigOrigin::Variable => return None,
            ConfigOrigin::Nothing => {
                let directory = gateway_record::canonical(&self.context.directory);
                Box::new(move |record| record.config.is_none() && record.directory == directory)
            }
            origin => {
                let path = gateway_record::canonical(origin.path()?);
                Box::new(move |record| record.config.as_ref() == Some(&path))
            }
        };
        let mut found = gateway_record::running(&self.state_directory()?).into_iter().filter(|record| is_same(record));
        let first = found.next().filter(|record| record.url.starts_with("http://"))?;
        // With two of them it is not known which one is meant.
        found.next().is_none().then_some(first)
    }

    /// The key of the environment, or the one that the configuration holds in full. Others are stored as hashes.
    fn gateway_key(&self, loaded: &LoadedConfig) -> Option<Secret> {
        let named = self.context.environment.filled(TSUGI_KEY.name).map(Secret::new);
        named.or_else(|| loaded.settings.gateway.auth.admin_key.clone())
    }

    /// A message for people, and none for programs.
    fn tell(&self, text: impl FnOnce() -> String) {
        if self.output.form() == OutputFormat::Text && !self.common.quiet {
            let text = text();
            self.output.message(|paint| paint.faint(text));
        }
    }
}

/// Reaches the servers that the gateway has through it. What the gateway does for every caller is not done twice.
fn redirect(loaded: &mut LoadedConfig, base: &Url, key: Option<&Secret>, is_known: impl Fn(&str) -> bool) {
    let headers: Vec<(String, MaskedText)> = key
        .map(|key| ("Authorization".to_owned(), MaskedText::plain(format!("Bearer {}", key.expose())).into_secret()))
        .into_iter()
        .collect();
    loaded.settings.secrets.extend(key.cloned());
    for server in loaded.settings.servers.iter_mut().filter(|server| server.enabled && is_known(&server.name)) {
        let mut url = base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["servers", &server.name, "mcp"]);
        }
        reach_through(server, url, headers.clone());
    }
}

fn reach_through(server: &mut ServerSettings, url: Url, headers: Vec<(String, MaskedText)>) {
    server.target = ServerTarget::Remote(RemoteTarget {
        shown: url.to_string(),
        url,
        headers,
        transport: RemoteTransport::Http,
        guard: None,
        tls: ServerTlsSettings::default(),
        auth: None,
    });
    server.era = EraChoice::Modern;
    server.protocol_version = None;
    server.pin = PinPolicy::OFF;
    server.retry = RetryPolicy { max_retries: 0, ..server.retry.clone() };
    server.cache.enabled = false;
    server.breaker = None;
    server.instances = InstancePolicy::Shared;
    server.validate = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
}
