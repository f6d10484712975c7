//! Connects with its own time limit, so that an unreachable host is not mistaken for a slow response.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::MapErr;
use http::Uri;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiFuture, GaiResolver, Name};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use tokio::net::TcpStream;
use tower_service::Service;

/// Name lookup, TCP and TLS together may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// After this much silence the system probes whether the other side is still there.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type UpstreamStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connector for `http` and `https` that gives up after [`CONNECT_LIMIT`].
#[derive(Debug, Clone)]
pub(crate) struct UpstreamConnector(HttpsConnector<HttpConnector<NameResolver>>);

impl UpstreamConnector {
    pub(crate) fn new() -> Self {
        Self(https(&tls_config()).enable_all_versions().wrap_connector(tcp()))
    }

    /// A connector that trusts these certificates instead of the system's.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        Self(https(&build_tls_config(roots)).enable_all_versions().wrap_connector(tcp()))
    }

    /// Connects to the host of `uri`. A black hole fails after [`CONNECT_LIMIT`], long before the call's own timeout.
    pub(crate) async fn connect(&self, uri: Uri) -> Result<UpstreamStream, BoxError> {
        let mut connector = self.0.clone();
        match tokio::time::timeout(CONNECT_LIMIT, connector.call(uri)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s").into()),
        }
    }

    /// A connector for connections that are to be upgraded, which only HTTP/1.1 can. They have no deadline per
    /// request, so the system closes one whose other side does not acknowledge what is sent.
    pub(crate) fn for_upgrades() -> Self {
        let mut tcp = tcp();
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(IDLE));
        Self(https(&tls_config()).enable_http1().wrap_connector(tcp))
    }
}

fn https(tls: &ClientConfig) -> HttpsConnectorBuilder<WantsProtocols1> {
    HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http()
}

fn tcp() -> HttpConnector<NameResolver> {
    let mut tcp = HttpConnector::new_with_resolver(NameResolver(GaiResolver::new()));
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    // The other side may vanish without closing the connection: three probes after a minute of silence.
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(IDLE / 6));
    tcp.set_keepalive_retries(Some(3));
    tcp
}

/// The system's name lookup, whose failures have a type of their own: hyper-util only says "dns error" in the text.
#[derive(Debug, Clone)]
struct NameResolver(GaiResolver);

/// A host name that could not be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NameLookupError(String);

impl From<io::Error> for NameLookupError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl Service<Name> for NameResolver {
    type Response = GaiAddrs;
    type Error = NameLookupError;
    type Future = MapErr<GaiFuture, fn(io::Error) -> NameLookupError>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NameLookupError>> {
        self.0.poll_ready(context).map_err(NameLookupError::from)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        self.0.call(name).map_err(NameLookupError::from)
    }
}

/// The one TLS configuration of the process: the system's certificates, ring, no client certificate.
fn tls_config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG.get_or_init(|| Arc::new(build_tls_config(system_roots()))).clone()
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // An unreadable certificate only means one authority less.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn build_tls_config(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
