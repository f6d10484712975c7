//! Connecting with a time limit of its own, so that a black hole is told apart from a slow answer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use tokio::net::TcpStream;
use tower_service::Service;

/// Name lookup, TCP and TLS together may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connector for `http` and `https` that gives up after [`CONNECT_LIMIT`].
#[derive(Debug, Clone)]
pub(crate) struct Connector(HttpsConnector<HttpConnector>);

impl Connector {
    pub(crate) fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config().as_ref().clone())
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        Self(https)
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

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

/// The one TLS configuration of the process: the system's certificates, ring, no client certificate.
pub(crate) fn tls_config() -> Arc<ClientConfig> {
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
