//! The TLS of connections to one server: whom to trust, what to show, which key to expect.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use crate::error::TlsFileError;
use crate::key_pair::{CheckedKeyPair, KeyPairFiles};
use crate::pin::{KeyPin, PinVerifier};
use crate::{pem_file, provider};

/// How connections to one server are secured. The default trusts the system's authorities and shows nothing.
/// There is deliberately no way to skip verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamTlsSettings {
    /// Authorities beside those of the system, as PEM files.
    pub ca: Vec<PathBuf>,
    /// Trust `ca` alone.
    pub only: bool,
    /// The certificate that we show.
    pub client: Option<KeyPairFiles>,
    /// The name that the server's certificate must have, if it is not that of the address.
    pub server_name: Option<ServerName<'static>>,
    /// Keys that the server may have, in addition to a trusted certificate. Empty: any.
    pub pins: Vec<KeyPin>,
}

impl UpstreamTlsSettings {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let client = self.client.iter().flat_map(|pair| [&pair.cert, &pair.key]);
        self.ca.iter().chain(client).map(PathBuf::as_path)
    }
}

/// The TLS of connections to one server, which follows its files.
#[derive(Debug)]
pub struct UpstreamTls {
    settings: UpstreamTlsSettings,
    built: Mutex<Option<BuiltConfig>>,
}

/// The configuration for one connection.
#[derive(Debug)]
pub struct UpstreamConfig {
    pub config: Arc<ClientConfig>,
    /// What keeps the files from being used as they are now. It is given once for each state of the files.
    pub reload_error: Option<TlsFileError>,
}

#[derive(Debug)]
struct BuiltConfig {
    marks: Vec<FileMark>,
    config: Arc<ClientConfig>,
    /// The state of the files that could not be used and was reported.
    refused: Option<Vec<FileMark>>,
}

/// Shows whether a file was replaced, without reading it.
type FileMark = Option<(SystemTime, u64)>;

impl UpstreamTls {
    /// Nothing is read yet.
    pub fn new(settings: UpstreamTlsSettings) -> Self {
        Self { settings, built: Mutex::new(None) }
    }

    pub fn settings(&self) -> &UpstreamTlsSettings {
        &self.settings
    }

    /// The configuration for the next connection. Files that changed are read again; if they cannot be used, the
    /// configuration from before stays, as long as there is one.
    ///
    /// An authority whose file is gone is not trusted any more: taking the file away is how it is withdrawn. No
    /// connection is made until the file is back or the settings do not name it.
    pub fn config(&self, now: SystemTime) -> Result<UpstreamConfig, TlsFileError> {
        let marks: Vec<FileMark> = self.settings.paths().map(mark).collect();
        let mut built = self.built.lock();
        if let Some(built) = built.as_ref().filter(|built| built.marks == marks) {
            return Ok(UpstreamConfig { config: built.config.clone(), reload_error: None });
        }
        match (client_config(&self.settings, now), built.as_mut()) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *built = Some(BuiltConfig { marks, config: config.clone(), refused: None });
                Ok(UpstreamConfig { config, reload_error: None })
            }
            (Err(error), Some(before)) if !self.has_lost_authority(&marks) => {
                let is_new = before.refused.as_ref() != Some(&marks);
                before.refused = Some(marks);
                Ok(UpstreamConfig { config: before.config.clone(), reload_error: is_new.then_some(error) })
            }
            (Err(error), _) => Err(error),
        }
    }

    fn has_lost_authority(&self, marks: &[FileMark]) -> bool {
        // The files of authorities come first.
        marks.iter().take(self.settings.ca.len()).any(Option::is_none)
    }
}

fn mark(path: &Path) -> FileMark {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn client_config(settings: &UpstreamTlsSettings, now: SystemTime) -> Result<ClientConfig, TlsFileError> {
    let mut roots = if settings.only { RootCertStore::empty() } else { system_roots().clone() };
    for path in &settings.ca {
        for certificate in pem_file::certificates(path, &pem_file::read(path)?)? {
            let unfit = |error| TlsFileError::Authority { path: path.clone(), error: Box::new(error) };
            roots.add(certificate).map_err(unfit)?;
        }
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions");
    let builder = match settings.pins.is_empty() {
        true => builder.with_root_certificates(roots),
        // Dangerous only if it verified less than webpki does; it verifies more.
        false => builder.dangerous().with_custom_certificate_verifier(pinned(settings, roots)?),
    };
    let Some(files) = &settings.client else { return Ok(builder.with_no_client_auth()) };
    let pair = CheckedKeyPair::check(files, &pem_file::read(&files.cert)?, &pem_file::read(&files.key)?, now)?;
    let certified = Arc::unwrap_or_clone(pair.certified);
    Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))))
}

fn pinned(settings: &UpstreamTlsSettings, roots: RootCertStore) -> Result<Arc<dyn ServerCertVerifier>, TlsFileError> {
    let path = settings.ca.first().cloned().unwrap_or_default();
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| TlsFileError::Authority { path, error: Box::new(error) })?;
    Ok(Arc::new(PinVerifier { inner, pins: settings.pins.clone() }))
}

/// The name in a certificate: a host name or an address.
pub fn parse_server_name(text: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(text.to_owned()).ok()
}

/// The authorities of the system, read once.
pub fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // An unreadable certificate only means one authority less.
        let certificates: Vec<CertificateDer<'static>> = rustls_native_certs::load_native_certs().certs;
        roots.add_parsable_certificates(certificates);
        roots
    })
}
