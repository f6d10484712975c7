//! The TLS of a listener: read from files, and replaced as a whole or not at all.

mod certificate_selector;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ResolvesServerCert};

use crate::acme_challenge::{CHALLENGE_PROTOCOL, ChallengeTable};
use crate::certificate::CertificateFacts;
use crate::client_auth::{CertificateIdentity, ClientAuthFiles, ClientTrust, UntrustedCertificate};
use crate::error::TlsFileError;
use crate::key_pair::{CheckedKeyPair, KeyPairFiles};
use crate::{pem_file, provider};
use certificate_selector::CertificateSelector;

/// What is offered to clients, best first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where everything is that a listener needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsFiles {
    /// At least one. The first one is for clients that name no host, or an unknown one.
    pub pairs: Vec<KeyPairFiles>,
    pub client_auth: Option<ClientAuthFiles>,
}

impl ServerTlsFiles {
    /// Every file, once.
    pub fn paths(&self) -> Vec<&Path> {
        let pairs = self.pairs.iter().flat_map(|pair| [&pair.cert, &pair.key]);
        let of_clients = self.client_auth.iter().flat_map(|files| files.ca.iter().chain(&files.crl));
        let mut paths: Vec<&Path> = pairs.chain(of_clients).map(PathBuf::as_path).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

/// The TLS of a listener. Connections take the state of the moment when they begin and keep it.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerTlsFiles,
    /// Present where certificates come from an ACME authority.
    challenges: Option<Arc<ChallengeTable>>,
    state: ArcSwap<ServerTlsState>,
    /// Held while the files are read, so that two reloads do not overtake each other.
    reloading: Mutex<()>,
}

/// Everything that came from one reading of the files.
#[derive(Debug)]
struct ServerTlsState {
    contents: FileContents,
    config: Arc<ServerConfig>,
    clients: Option<Arc<ClientTrust>>,
    certificates: Vec<CertificateFacts>,
}

/// What a reload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadEffect {
    /// New connections use what was read.
    Replaced,
    /// The files hold what they held before.
    Unchanged,
}

impl ServerTls {
    /// Reads and checks all files.
    pub fn load(files: ServerTlsFiles, now: SystemTime) -> Result<Self, TlsFileError> {
        Self::load_with_challenges(files, None, now)
    }

    /// The same for a listener that also answers the challenges of an ACME authority.
    pub fn load_with_challenges(
        files: ServerTlsFiles,
        challenges: Option<Arc<ChallengeTable>>,
        now: SystemTime,
    ) -> Result<Self, TlsFileError> {
        let contents = FileContents::read(&files)?;
        let state = ServerTlsState::build(&files, contents, challenges.as_ref(), None, now)?;
        Ok(Self { files, challenges, state: ArcSwap::from_pointee(state), reloading: Mutex::new(()) })
    }

    /// What is answered to an ACME authority, where certificates come from one.
    pub fn challenges(&self) -> Option<&Arc<ChallengeTable>> {
        self.challenges.as_ref()
    }

    /// Reads the files again. If anything is wrong with them, everything stays as it is: connections, handshakes
    /// under way, and new connections.
    pub fn reload(&self, now: SystemTime) -> Result<ReloadEffect, TlsFileError> {
        let _one_at_a_time = self.reloading.lock();
        let contents = FileContents::read(&self.files)?;
        let current = self.state.load();
        if current.contents == contents {
            return Ok(ReloadEffect::Unchanged);
        }
        let state = ServerTlsState::build(&self.files, contents, self.challenges.as_ref(), Some(&current), now)?;
        self.state.store(Arc::new(state));
        Ok(ReloadEffect::Replaced)
    }

    /// What the next connection begins with.
    pub fn begin(&self) -> ConnectionTls {
        let state = self.state.load();
        ConnectionTls { config: state.config.clone(), clients: state.clients.clone() }
    }

    /// Says who shows this chain, by what is trusted now.
    pub fn identify(
        &self,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<CertificateIdentity, UntrustedCertificate> {
        let state = self.state.load();
        state.clients.as_ref().ok_or(UntrustedCertificate::Missing)?.identify(chain, now)
    }

    /// Whether what is trusted now is what was trusted when this connection began.
    pub fn is_current(&self, connection: &ConnectionTls) -> bool {
        match (&self.state.load().clients, &connection.clients) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (None, None) => true,
            _ => false,
        }
    }

    /// The certificates in use, in the order of the files.
    pub fn certificates(&self) -> Vec<CertificateFacts> {
        self.state.load().certificates.clone()
    }

    pub fn files(&self) -> &ServerTlsFiles {
        &self.files
    }
}

/// What one connection began with.
#[derive(Debug, Clone)]
pub struct ConnectionTls {
    pub config: Arc<ServerConfig>,
    clients: Option<Arc<ClientTrust>>,
}

impl ConnectionTls {
    /// Whether callers are asked for a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.clients.is_some()
    }

    /// Says who shows this chain. A resumed session was verified when it began, so the chain is verified here again:
    /// it may have expired since.
    pub fn identify(
        &self,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<CertificateIdentity, UntrustedCertificate> {
        self.clients.as_ref().ok_or(UntrustedCertificate::Missing)?.identify(chain, now)
    }
}

impl ServerTlsState {
    fn build(
        files: &ServerTlsFiles,
        contents: FileContents,
        challenges: Option<&Arc<ChallengeTable>>,
        before: Option<&ServerTlsState>,
        now: SystemTime,
    ) -> Result<Self, TlsFileError> {
        let mut pairs = Vec::with_capacity(files.pairs.len());
        for pair in &files.pairs {
            pairs.push(CheckedKeyPair::check(pair, contents.of(&pair.cert), contents.of(&pair.key), now)?);
        }
        // Callers that were trusted before stay so only if nothing about them changed, with the tickets they hold.
        let same = before.filter(|before| before.contents.is_same_trust(&contents, files));
        let clients = match (same, &files.client_auth) {
            (Some(before), _) => before.clients.clone(),
            (None, Some(files)) => Some(Arc::new(contents.trust(files)?)),
            (None, None) => None,
        };
        let tickets = match same {
            Some(before) => before.config.ticketer.clone(),
            None => Ticketer::new().map_err(TlsFileError::Tickets)?,
        };
        let certificates = pairs.iter().map(|pair| pair.facts.clone()).collect();
        let selector = CertificateSelector::new(pairs).ok_or(TlsFileError::NoPair)?.answering(challenges.cloned());
        let mut config = server_config(Arc::new(selector), clients.as_deref(), tickets);
        if challenges.is_some() {
            // Last: a client that could use HTTP as well is not an authority.
            config.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        let config = Arc::new(config);
        Ok(Self { contents, config, clients, certificates })
    }
}

fn server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    clients: Option<&ClientTrust>,
    tickets: Arc<dyn ProducesTickets>,
) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = PROTOCOLS.map(Vec::from).into();
    // Sessions resume by tickets that clients hold, so nothing is kept here for clients that do not come back.
    config.ticketer = tickets;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config
}

/// The bytes of all files at one moment.
#[derive(PartialEq)]
struct FileContents(HashMap<PathBuf, Vec<u8>>);

/// Private keys are among the contents.
impl std::fmt::Debug for FileContents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl FileContents {
    fn read(files: &ServerTlsFiles) -> Result<Self, TlsFileError> {
        let paths = files.paths().into_iter();
        paths.map(|path| Ok((path.to_owned(), pem_file::read(path)?))).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, path: &Path) -> &[u8] {
        self.0.get(path).map(Vec::as_slice).unwrap_or_default()
    }

    fn trust(&self, files: &ClientAuthFiles) -> Result<ClientTrust, TlsFileError> {
        let all = |paths: &[PathBuf]| -> Vec<Vec<u8>> { paths.iter().map(|path| self.of(path).to_vec()).collect() };
        ClientTrust::check(files, &all(&files.ca), &all(&files.crl))
    }

    /// Whether callers' certificates are judged as before.
    fn is_same_trust(&self, other: &Self, files: &ServerTlsFiles) -> bool {
        let mut of_clients = files.client_auth.iter().flat_map(|files| files.ca.iter().chain(&files.crl));
        of_clients.all(|path| self.of(path) == other.of(path))
    }
}

#[cfg(test)]
mod tests;
