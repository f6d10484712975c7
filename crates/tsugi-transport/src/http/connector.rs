//! Connecting with a time limit of its own, so that a black hole is told apart from a slow answer.

use std::future::Future;
use std::io;
use std::pin::Pin;
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
/// A connection that is silent for this long is looked after.
const IDLE: Duration = Duration::from_secs(60);

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type UpstreamStream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connector for `http` and `https` that gives up after [`CONNECT_LIMIT`].
#[derive(Debug, Clone)]
pub(crate) struct UpstreamConnector(HttpsConnector<HttpConnector<NameResolver>>);

impl UpstreamConnector {
    pub(crate) fn new() -> Self {
        Self(https().enable_all_versions().wrap_connector(tcp()))
    }

    /// A connector for connections that are to be upgraded, which only HTTP/1.1 can. They have no deadline per
    /// request, so the system ends one whose other side does not take what is sent.
    pub(crate) fn for_upgrades() -> Self {
        let mut tcp = tcp();
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(IDLE));
        Self(https().enable_http1().wrap_connector(tcp))
    }
}

impl Service<Uri> for UpstreamConnector {
    type Response = UpstreamStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s").into()),
            }
        })
    }
}

fn https() -> HttpsConnectorBuilder<WantsProtocols1> {
    HttpsConnectorBuilder::new().with_tls_config(tls_config().as_ref().clone()).https_or_http()
}

fn tcp() -> HttpConnector<NameResolver> {
    let mut tcp = HttpConnector::new_with_resolver(NameResolver(GaiResolver::new()));
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    // The other side may vanish without a word: it is asked after a minute of silence, three times.
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
    CONFIG.get_or_init(|| Arc::new(build_tls_config())).clone()
}

fn build_tls_config() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read is one authority less, not a reason to stop.
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
