//! The server that is signed in to: by its name or its address, and what it says to a request without credentials.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tsugi_audit::timestamp::AuditTime;
use tsugi_oauth::OauthFailure;
use tsugi_oauth::credential::options::SignInWay;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_transport::http::{HttpClient, TargetCredential};
use url::Url;

use crate::app::credential_registry::{
    CredentialTerms, CredentialVault, credential, is_of_person, may_sign_in, vault_address,
};
use crate::app::{App, http_target, named};
use crate::config::layer::{self, ConfigSelection, LoadedConfig};
use crate::config::settings::{RemoteTarget, RemoteTransport, ServerSettings, ServerTarget};
use crate::failure::CommandFailure;

/// Any request of the protocol: a server that wants a sign-in refuses it before it looks at it.
const QUESTION: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// A remote server.
pub(crate) struct LoginTarget {
    pub(crate) name: String,
    pub(crate) remote: RemoteTarget,
}

/// What a server says to a request without credentials.
pub(crate) struct LoginRefusal {
    /// The headers of its 401.
    pub(crate) headers: Option<HeaderMap>,
    /// It did not refuse.
    pub(crate) is_open: bool,
}

impl LoginTarget {
    /// The server of this name or address. An address need not be configured.
    pub(crate) fn find(app: &App, loaded: &LoadedConfig, word: &str) -> Result<Self, CommandFailure> {
        if !word.contains("://") {
            // One that is switched off until someone signs in is a server, too.
            let known = loaded.settings.servers.iter().find(|server| server.name == word);
            return Self::of(known.map_or_else(|| named(loaded, word), Ok)?);
        }
        match Self::configured(loaded, word) {
            Some(target) => Ok(target),
            None => Self::of_address(app, word),
        }
    }

    /// The configured server whose sign-in is kept under this address.
    pub(crate) fn configured(loaded: &LoadedConfig, address: &str) -> Option<Self> {
        let address = vault_address(&Url::parse(address).ok()?);
        let mut targets = loaded.settings.servers.iter().filter_map(|server| Self::of(server).ok());
        targets.find(|target| vault_address(&target.remote.url) == address)
    }

    /// The server at an address, with nothing written about it.
    pub(crate) fn of_address(app: &App, address: &str) -> Result<Self, CommandFailure> {
        let wish = ConfigSelection { url: Some(address.to_owned()), ..ConfigSelection::default() };
        let alone = layer::load(&wish, &app.context)?;
        let server = alone.settings.servers.first().ok_or_else(|| CommandFailure::usage("this is not an address"))?;
        Ok(Self { name: address.to_owned(), ..Self::of(server)? })
    }

    fn of(server: &ServerSettings) -> Result<Self, CommandFailure> {
        match &server.target {
            ServerTarget::Remote(remote) => Ok(Self { name: server.name.clone(), remote: remote.clone() }),
            _ => Err(CommandFailure::usage(format!("`{}` is not a remote server: there is no sign-in", server.name))),
        }
    }

    /// Refuses a server that no person signs in to.
    pub(crate) fn expect_person(&self) -> Result<(), CommandFailure> {
        if self.remote.guard.is_some() && self.remote.auth.is_none() {
            let message = format!("`{}` came over the network, so it uses no sign-in", self.name);
            return Err(
                CommandFailure::usage(message).with_hint("write `auth: { mode: oauth }` into its entry to allow it")
            );
        }
        if !may_sign_in(&self.remote) {
            let message = format!("`{}` has a key in `headers`, so there is no sign-in", self.name);
            return Err(CommandFailure::usage(message).with_hint("take the header `Authorization` out of its entry"));
        }
        if !is_of_person(self.remote.auth.as_ref()) {
            let message = format!("`{}` signs in by itself, as `auth.mode` of its entry says", self.name);
            return Err(CommandFailure::usage(message).with_hint(format!("`tsugi doctor {}` tries it", self.name)));
        }
        Ok(())
    }
}

/// Where sign-ins are kept.
pub(crate) fn vault(app: &App, terms: &CredentialTerms) -> Result<CredentialVault, CommandFailure> {
    let vault = app.credentials.vault(&terms.vault).map_err(|problem| CommandFailure::usage(problem.to_string()))?;
    vault.ok_or_else(|| {
        CommandFailure::usage("there is no place to keep the sign-in").with_hint("set HOME, or `vault.file`")
    })
}

/// Asks the server for anything, to hear which sign-in it wants.
pub(crate) async fn ask(target: &LoginTarget) -> Result<LoginRefusal, CommandFailure> {
    let client = HttpClient::new(http_target(&target.remote)?);
    let answer = match target.remote.transport {
        RemoteTransport::Sse => client.get(HeaderMap::new()).await,
        _ => client.post(Bytes::from_static(QUESTION), HeaderMap::new()).await,
    };
    let answer = answer.map_err(|error| {
        let fault = Fault::new(FaultCode::ConnectionFailed, error.message).on_server(&target.name);
        error.hint.into_iter().fold(fault, Fault::with_hint)
    })?;
    let is_refused = matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    Ok(LoginRefusal { headers: is_refused.then_some(answer.headers), is_open: !is_refused })
}

/// Uses the new sign-in once. A fault means that the server does not take it, which the provider cannot know.
pub(crate) async fn try_out(app: &App, terms: &CredentialTerms, target: &LoginTarget) -> Option<Fault> {
    let vault = app.credentials.vault(&terms.vault).ok()??;
    let made = credential(&target.name, &target.remote, terms, vault, SignInWay::Elsewhere, &[]).ok()?;
    let http = http_target(&target.remote).ok()?.with_credential(TargetCredential::new(made));
    let client = HttpClient::new(http);
    let answer = match target.remote.transport {
        RemoteTransport::Sse => client.get(HeaderMap::new()).await,
        _ => client.post(Bytes::from_static(QUESTION), HeaderMap::new()).await,
    };
    let refused = match answer {
        Err(error) => format!("the server does not take the sign-in: {}", error.message),
        Ok(answer) if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            format!("the server does not take the sign-in: it answers {}", answer.status)
        }
        Ok(_) => return None,
    };
    Some(Fault::new(FaultCode::AuthRequired, refused).on_server(&target.name))
}

/// Why a person could not sign in to this server now; `None` when nothing speaks against it.
pub(crate) async fn obstacle(app: &App, loaded: &LoadedConfig, name: &str) -> Option<OauthFailure> {
    let target = LoginTarget::of(named(loaded, name).ok()?).ok()?;
    let terms = CredentialTerms::of(&loaded.settings);
    let vault = app.credentials.vault(&terms.vault).ok()??;
    let made = credential(&target.name, &target.remote, &terms, vault, SignInWay::Elsewhere, &[]).ok()?;
    let refusal = ask(&target).await.ok()?;
    made.examine(refusal.headers.as_ref()).await.err()
}

/// Why there is no sign-in. A server that did not ask for one may simply need none.
pub(crate) fn sign_in_failure(name: &str, failure: &OauthFailure, is_open: bool) -> CommandFailure {
    let code = if failure.is_transient() { FaultCode::ConnectionFailed } else { FaultCode::AuthRequired };
    let names_none = matches!(failure, OauthFailure::NoAuthorizationServer | OauthFailure::NoEndpoint(_));
    let fault = match is_open && names_none {
        true => Fault::new(code, "the server asks for no sign-in, and names no authorization server"),
        false => Fault::new(code, failure.to_string()),
    };
    let fault = fault.on_server(name);
    CommandFailure::from(failure.hint().into_iter().fold(fault, Fault::with_hint))
}

/// A moment in UTC, to the second.
pub(crate) fn moment(seconds: u64) -> String {
    let text = AuditTime::from_micros(seconds.saturating_mul(1_000_000)).to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}
