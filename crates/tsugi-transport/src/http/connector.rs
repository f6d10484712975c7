//! Connects with its own time limit, so that an unreachable host is not mistaken for a slow response.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::RootCertStore;
use tokio::net::TcpStream;
use tower_service::Service;
use tsugi_outbound::{DialError, GuardedTarget, OutboundGuard, OutboundRefusal, TargetHost, check_configured};
use tsugi_protocol::answer::FaultReason;
use tsugi_tls::error::TlsFileError;
use tsugi_tls::upstream::{UpstreamConfig, UpstreamTls, UpstreamTlsSettings, system_roots};

use crate::error::{TransportError, TransportErrorKind};

/// Name lookup, TCP and TLS together may take this long.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// After this much silence the system probes whether the other side is still there.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type UpstreamStream = MaybeHttpsStream<TokioIo<TcpStream>>;

type SecureConnector = HttpsConnector<TcpDialer>;

/// A connector for `http` and `https` that gives up after [`CONNECT_LIMIT`].
#[derive(Debug, Clone)]
pub(crate) enum UpstreamConnector {
    /// Secures as the system does it.
    System(SecureConnector),
    /// Secures by files, which may change between two connections.
    Own { tls: Arc<UpstreamTls>, dialer: TcpDialer, is_upgraded: bool },
}

impl UpstreamConnector {
    /// A connector to a server of the configuration, or through a guard to one that another party named.
    pub(crate) fn new(guard: Option<&OutboundGuard>, tls: &UpstreamTlsSettings) -> Self {
        let dialer = TcpDialer::new(guard, tcp());
        if tls.is_default() {
            return Self::System(https(&tls_config()).enable_all_versions().wrap_connector(dialer));
        }
        Self::Own { tls: Arc::new(UpstreamTls::new(tls.clone())), dialer, is_upgraded: false }
    }

    /// A connector that trusts these certificates instead of the system's.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        let dialer = TcpDialer::new(None, tcp());
        Self::System(https(&build_tls_config(roots)).enable_all_versions().wrap_connector(dialer))
    }

    /// Connects to the host of `uri`. A black hole fails after [`CONNECT_LIMIT`], long before the call's own timeout.
    pub(crate) async fn connect(&self, uri: Uri) -> Result<UpstreamStream, BoxError> {
        let mut connector = match self {
            Self::System(connector) => connector.clone(),
            Self::Own { tls, dialer, is_upgraded } => own_connector(tls, dialer.clone(), *is_upgraded)?,
        };
        match tokio::time::timeout(CONNECT_LIMIT, connector.call(uri)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 5 s").into()),
        }
    }

    /// A connector for connections that are to be upgraded, which only HTTP/1.1 can. They have no deadline per
    /// request, so the system closes one whose other side does not acknowledge what is sent.
    pub(crate) fn for_upgrades(guard: Option<&OutboundGuard>, tls: &UpstreamTlsSettings) -> Self {
        let mut tcp = tcp();
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(IDLE));
        let dialer = TcpDialer::new(guard, tcp);
        if tls.is_default() {
            return Self::System(https(&tls_config()).enable_http1().wrap_connector(dialer));
        }
        Self::Own { tls: Arc::new(UpstreamTls::new(tls.clone())), dialer, is_upgraded: true }
    }
}

/// A connector for one new connection. Making it costs little beside the handshake, and sessions are resumed all the
/// same, since the configuration keeps them.
fn own_connector(tls: &UpstreamTls, dialer: TcpDialer, is_upgraded: bool) -> Result<SecureConnector, TlsFileError> {
    let UpstreamConfig { config, reload_error } = tls.config(SystemTime::now())?;
    if let Some(error) = reload_error {
        tracing::warn!(%error, "the TLS files of a server changed and cannot be used; the ones from before stay in use");
    }
    let mut builder = https(&config);
    if let Some(name) = &tls.settings().server_name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone()));
    }
    Ok(match is_upgraded {
        true => builder.enable_http1().wrap_connector(dialer),
        false => builder.enable_all_versions().wrap_connector(dialer),
    })
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

/// Makes the TCP connections beneath HTTP and TLS.
#[derive(Debug, Clone)]
pub(crate) enum TcpDialer {
    /// To servers of the operator's configuration: anywhere but to metadata services.
    Configured(HttpConnector<NameResolver>),
    /// To servers that another party named.
    Guarded(OutboundGuard),
}

impl TcpDialer {
    fn new(guard: Option<&OutboundGuard>, tcp: HttpConnector<NameResolver>) -> Self {
        guard.cloned().map_or(Self::Configured(tcp), Self::Guarded)
    }
}

impl Service<Uri> for TcpDialer {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<TcpStream>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Self::Configured(tcp) => tcp.poll_ready(context).map_err(Into::into),
            Self::Guarded(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Configured(tcp) => {
                // A literal address is not looked up, so the resolver below would never see it.
                let host = uri.host().and_then(TargetHost::parse);
                let address = if let Some(TargetHost::Address(address)) = &host { Some(*address) } else { None };
                let checked = host.map_or(Ok(()), |host| check_configured(&host, address));
                let connecting = tcp.call(uri);
                async move {
                    checked.map_err(|refusal| refuse_address(&refusal))?;
                    Ok(connecting.await?)
                }
                .boxed()
            }
            Self::Guarded(guard) => guarded(guard.clone(), uri).boxed(),
        }
    }
}

async fn guarded(guard: OutboundGuard, uri: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
    let refused = |refusal: OutboundRefusal| refuse_address(&refusal);
    let target: GuardedTarget = guard.parse(&uri.to_string()).map_err(refused)?;
    match guard.dial(&target).await {
        Ok(stream) => {
            // As for configured servers: the other side may vanish without closing the connection.
            let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
            let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, IDLE);
            Ok(TokioIo::new(stream))
        }
        Err(DialError::Refused(refusal)) => Err(refused(refusal).into()),
        Err(DialError::Lookup { error, .. }) => Err(TransportError::name_lookup(&error).into()),
        Err(DialError::Connect { error, .. }) => Err(error.into()),
        Err(error @ DialError::Proxy(_)) => Err(error.into()),
    }
}

/// An address that the guard does not allow. Its text does not say why: it may reach the party that named the address.
fn refuse_address(refusal: &OutboundRefusal) -> TransportError {
    tracing::warn!(rule = refusal.rule(), reason = %refusal, "a connection to a server was refused");
    TransportError::unsent(TransportErrorKind::Connect, "the address is not allowed")
        .with_reason(Some(FaultReason::AddressRefused))
}

/// The system's name lookup, whose failures have a type of their own: hyper-util only says "dns error" in the text.
#[derive(Debug, Clone)]
pub(crate) struct NameResolver(GaiResolver);

impl Service<Name> for NameResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = TransportError;
    type Future = BoxFuture<'static, Result<Self::Response, TransportError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        self.0.poll_ready(context).map_err(|error| TransportError::name_lookup(&error))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let host = TargetHost::Name(name.as_str().to_ascii_lowercase());
        let finding = self.0.call(name);
        async move {
            let found: Vec<SocketAddr> = finding.await.map_err(|error| TransportError::name_lookup(&error))?.collect();
            let mut checked = found.iter().map(|address| check_configured(&host, Some(address.ip())));
            checked.try_for_each(|checked| checked.map_err(|refusal| refuse_address(&refusal)))?;
            drop(checked);
            Ok(found.into_iter())
        }
        .boxed()
    }
}

/// The one TLS configuration of the process: the system's certificates, ring, no client certificate.
pub fn tls_config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG.get_or_init(|| Arc::new(build_tls_config(system_roots().clone()))).clone()
}

fn build_tls_config(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
