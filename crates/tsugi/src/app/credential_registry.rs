//! The sign-ins to remote servers: one credential per server, kept over reloads, all from one vault.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustls::ClientConfig;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::signer::JwsSigner;
use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;
use tsugi_client::Manager;
use tsugi_oauth::assertion::AssertionFile;
use tsugi_oauth::client_auth::ClientKey;
use tsugi_oauth::credential::OauthCredential;
use tsugi_oauth::credential::options::{
    EnterpriseLogin, GrantChoice, OauthOptions, ProviderQuirks, SignInNeed, SignInWay,
};
use tsugi_oauth::discovery::DiscoveryRules;
use tsugi_oauth::record::{CredentialKey, CredentialOwner};
use tsugi_oauth::registration::{ClientChoice, ConfiguredClient};
use tsugi_oauth::store::CredentialStore;
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_transport::guarded_fetch::GuardedFetch;
use tsugi_transport::http::{RequestCredential, TargetCredential, tls_config};
use tsugi_vault::file::FileVault;
use tsugi_vault::key_source::{VaultKeyRing, VaultKeySource};
use tsugi_vault::postgres::PostgresVault;
use tsugi_vault::seal::{VaultKey, VaultProblem};
use url::Url;

use crate::config::secret::Secret;
use crate::config::settings::{
    CheckedSettings, ProviderQuirk, RemoteTarget, RemoteTransport, UpstreamAuthMode, UpstreamAuthSettings,
    UpstreamClientSettings, UpstreamProviderSettings, VaultSettings,
};

/// The name that people see when a provider asks them for consent.
const CLIENT_NAME: &str = "tsugi";

/// The credentials of this run.
pub(crate) struct CredentialRegistry {
    state_directory: Option<PathBuf>,
    known: Mutex<HashMap<String, Arc<OauthCredential>>>,
    /// The servers stand in no file, so that `tsugi login` knows them by their address alone.
    is_by_address: AtomicBool,
}

/// Where credentials come from: the vault, and what may be reached to renew them.
#[derive(Debug, Clone, Default)]
pub(crate) struct CredentialTerms {
    pub(crate) vault: VaultSettings,
    pub(crate) outbound: OutboundRules,
}

impl CredentialTerms {
    /// Those of a configuration.
    pub(crate) fn of(settings: &CheckedSettings) -> Self {
        Self { vault: settings.vault.clone(), outbound: settings.outbound.clone() }
    }
}

impl CredentialRegistry {
    pub(crate) fn new(state_directory: Option<PathBuf>) -> Self {
        Self { state_directory, known: Mutex::default(), is_by_address: AtomicBool::new(false) }
    }

    /// From now on servers are named by their address in advice.
    pub(crate) fn name_by_address(&self) {
        self.is_by_address.store(true, Ordering::Relaxed);
    }

    /// What signs the requests to a server, unless it has a key of its own. It never signs in by itself: `tsugi login`
    /// does, in another process.
    pub(crate) fn credential(
        &self,
        name: &str,
        remote: &RemoteTarget,
        terms: &CredentialTerms,
    ) -> Result<Option<TargetCredential>, Fault> {
        if !may_sign_in(remote) {
            return Ok(None);
        }
        let Some(vault) = self.vault(&terms.vault).map_err(|problem| unusable(&problem.to_string()))? else {
            return Ok(None);
        };
        let word = if self.is_by_address.load(Ordering::Relaxed) { &remote.shown } else { name };
        let made = credential(word, remote, terms, vault, SignInWay::Elsewhere, &[])?;
        let mut known = self.known.lock();
        // A reload must not forget what a credential has found out.
        let kept = known.get(name).filter(|known| known.label() == made.label()).cloned();
        let credential = kept.unwrap_or(made);
        known.insert(name.to_owned(), credential.clone());
        Ok(Some(TargetCredential::new(credential)))
    }

    /// The file of the vault; none without a state directory, or with a database.
    pub(crate) fn vault_file(&self, settings: &VaultSettings) -> Option<PathBuf> {
        if settings.url.is_some() {
            return None;
        }
        settings.file.clone().or_else(|| Some(self.state_directory.as_ref()?.join("vault.json")))
    }

    /// Where sign-ins are kept; nowhere without a state directory.
    pub(crate) fn vault(&self, settings: &VaultSettings) -> Result<Option<CredentialVault>, VaultProblem> {
        if let (Some(url), Some(key)) = (&settings.url, &settings.key) {
            let tls = ClientConfig::clone(&tls_config());
            let vault = PostgresVault::new(url.expose(), key_ring(settings, key)?, tls)?;
            return Ok(Some(CredentialVault::Database(vault)));
        }
        let Some(file) = self.vault_file(settings) else { return Ok(None) };
        let keys = match &settings.key {
            Some(key) => VaultKeySource::Given(key_ring(settings, key)?),
            None => VaultKeySource::File(file.with_extension("key")),
        };
        Ok(Some(CredentialVault::File(FileVault::new(file, keys))))
    }

    /// The vault has changed: every credential looks again, and servers that wait for a sign-in try it.
    pub(crate) fn reload(&self, manager: &Manager) {
        self.known.lock().values().for_each(|credential| credential.reload());
        manager.servers().iter().filter(|server| server.status().needs_sign_in()).for_each(|server| server.start());
    }
}

/// The file or the database that sign-ins are kept in.
pub(crate) enum CredentialVault {
    File(FileVault),
    Database(PostgresVault),
}

impl CredentialVault {
    /// Whose sign-ins there are.
    pub(crate) async fn owners(&self) -> Result<Vec<CredentialKey>, VaultProblem> {
        match self {
            Self::File(vault) => vault.owners(),
            Self::Database(vault) => vault.owners().await,
        }
    }

    /// Seals everything with the newest key.
    pub(crate) async fn rekey(&self) -> Result<usize, VaultProblem> {
        match self {
            Self::File(vault) => vault.rekey(),
            Self::Database(vault) => vault.rekey().await,
        }
    }

    fn into_store(self) -> Arc<dyn CredentialStore> {
        match self {
            Self::File(vault) => Arc::new(vault),
            Self::Database(vault) => Arc::new(vault),
        }
    }
}

fn key_ring(settings: &VaultSettings, key: &Secret) -> Result<VaultKeyRing, VaultProblem> {
    let before = settings.previous_key.iter().map(|key| VaultKey::parse(key.expose()));
    Ok(VaultKeyRing::new(VaultKey::parse(key.expose())?, before.collect::<Result<_, _>>()?))
}

/// Whether OAuth is a way into this server: not over a WebSocket, and not beside a key that is written down. A server that
/// came over the network gets no sign-in of the person who runs us, unless that person wrote `auth` into its entry.
pub(crate) fn may_sign_in(remote: &RemoteTarget) -> bool {
    if remote.guard.is_some() && remote.auth.is_none() {
        return false;
    }
    let has_key = remote.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let is_header = remote.auth.as_ref().is_some_and(|auth| auth.mode == UpstreamAuthMode::Header);
    remote.transport != RemoteTransport::Websocket && !has_key && !is_header
}

/// The address under which a server's sign-in is kept. A password in it is not part of who the server is.
pub(crate) fn vault_address(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url.into()
}

/// The credential for a server, signed in the way that is given. `word` is what `tsugi login` knows the server by.
pub(crate) fn credential(
    word: &str,
    remote: &RemoteTarget,
    terms: &CredentialTerms,
    vault: CredentialVault,
    way: SignInWay,
    more_scopes: &[String],
) -> Result<Arc<OauthCredential>, Fault> {
    let auth = remote.auth.as_ref();
    let plain = if terms.outbound.insecure_loopback { PlainHttp::LoopbackOnly } else { PlainHttp::Refused };
    let scopes: ScopeSet = auth.iter().flat_map(|auth| &auth.scopes).chain(more_scopes).map(String::as_str).collect();
    let options = OauthOptions {
        key: CredentialKey { server: vault_address(&remote.url), owner: CredentialOwner::Everyone },
        discovery: DiscoveryRules {
            server: remote.url.clone(),
            issuer: auth.and_then(|auth| auth.issuer.clone()),
            legacy: auth.is_none_or(|auth| auth.legacy_discovery),
            plain,
        },
        grant: grant(auth, way),
        client: client(auth)?,
        scopes: (!scopes.is_empty()).then_some(scopes),
        quirks: quirks(auth),
        need: if auth.is_some() { SignInNeed::Always } else { SignInNeed::WhenAsked },
        advice: Some(format!("run `tsugi login {word}`")).filter(|_| is_of_person(auth)),
    };
    let fetch = GuardedFetch::new(OutboundGuard::new(terms.outbound.clone()));
    Ok(OauthCredential::new(options, fetch, vault.into_store()))
}

/// Whether a person signs in, and not a program.
pub(crate) fn is_of_person(auth: Option<&UpstreamAuthSettings>) -> bool {
    auth.is_none_or(|auth| auth.mode == UpstreamAuthMode::Oauth)
}

fn grant(auth: Option<&UpstreamAuthSettings>, way: SignInWay) -> GrantChoice {
    let Some(auth) = auth else { return GrantChoice::SignIn(way) };
    match (auth.mode, &auth.token_file, &auth.provider) {
        (UpstreamAuthMode::ClientCredentials, _, _) => GrantChoice::ClientCredentials,
        (UpstreamAuthMode::Workload, Some(file), _) => GrantChoice::Workload(Arc::new(AssertionFile(file.clone()))),
        (UpstreamAuthMode::Enterprise, _, Some(provider)) => GrantChoice::Enterprise(Arc::new(enterprise(provider))),
        _ => GrantChoice::SignIn(way),
    }
}

fn enterprise(provider: &UpstreamProviderSettings) -> EnterpriseLogin {
    EnterpriseLogin {
        issuer: provider.issuer.clone(),
        client_id: provider.client_id.clone(),
        client_secret: provider.client_secret.as_ref().map(|secret| SecretText::new(secret.expose())),
        subject: Arc::new(AssertionFile(provider.token_file.clone())),
    }
}

fn client(auth: Option<&UpstreamAuthSettings>) -> Result<ClientChoice, Fault> {
    let configured = auth.and_then(|auth| auth.client.as_ref()).map(configured).transpose()?;
    let document = auth.and_then(|auth| auth.metadata_url.clone());
    Ok(ClientChoice { configured, document, name: CLIENT_NAME.to_owned() })
}

fn configured(client: &UpstreamClientSettings) -> Result<ConfiguredClient, Fault> {
    let key = client.key.as_ref().map(|file| client_key(client, file)).transpose()?;
    Ok(ConfiguredClient {
        id: client.id.clone(),
        secret: client.secret.as_ref().map(|secret| SecretText::new(secret.expose())),
        key,
        issuer: client.issuer.clone(),
    })
}

fn client_key(client: &UpstreamClientSettings, file: &Path) -> Result<ClientKey, Fault> {
    let failed = |why: &dyn std::fmt::Display| unusable(&format!("the client's key `{}`: {why}", file.display()));
    let pem = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let signer = JwsSigner::from_pem(&pem, client.algorithm).map_err(|problem| failed(&problem))?;
    Ok(ClientKey { signer: Arc::new(signer), key_id: client.key_id.clone() })
}

fn quirks(auth: Option<&UpstreamAuthSettings>) -> ProviderQuirks {
    let has = |quirk| auth.is_some_and(|auth| auth.quirks.contains(&quirk));
    ProviderQuirks { assume_pkce: has(ProviderQuirk::AssumePkce), no_resource: has(ProviderQuirk::NoResource) }
}

fn unusable(why: &str) -> Fault {
    Fault::new(FaultCode::ConfigInvalid, format!("the sign-in cannot be used: {why}"))
}
