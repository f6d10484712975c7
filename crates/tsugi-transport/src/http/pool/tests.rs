//! Which connections are used again, over plain HTTP, TLS and HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::{ConnectionPool, NewConnection};
use crate::http::connector::UpstreamConnector;
use crate::http::http1::{ExchangeFailure, Http1Wire, OutgoingMessage, ResponseHead};
use crate::http::{HttpClient, HttpTarget};

const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const BEGUN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}";

const EMPTY: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// A server that answers every request with the same bytes.
struct FixedServer {
    accepted: AtomicUsize,
    asked: AtomicUsize,
    closed: Notify,
    answer: &'static [u8],
    /// Closes each connection after so many answers.
    answers: usize,
}

impl FixedServer {
    async fn start(answer: &'static [u8], answers: usize) -> (Arc<Self>, HttpClient) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let client = HttpClient::new(target(&format!("http://{host}/mcp?x=1")));
        let server = Self::new(answer, answers);
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream, host.clone()));
            }
        });
        (server, client)
    }

    /// The same behind TLS.
    async fn start_tls(answer: &'static [u8]) -> (Arc<Self>, HttpClient) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (acceptor, connector) = tls(&[b"http/1.1"]);
        let client = HttpClient::with_connector(target(&format!("https://{host}/mcp?x=1")), connector);
        let server = Self::new(answer, usize::MAX);
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stream = acceptor.accept(stream).await.unwrap();
                tokio::spawn(serving.clone().serve(stream, host.clone()));
            }
        });
        (server, client)
    }

    fn new(answer: &'static [u8], answers: usize) -> Arc<Self> {
        let (accepted, asked, closed) = (AtomicUsize::new(0), AtomicUsize::new(0), Notify::new());
        Arc::new(Self { accepted, asked, closed, answer, answers })
    }

    async fn serve(self: Arc<Self>, mut stream: impl AsyncRead + AsyncWrite + Unpin, host: String) {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let mut buffer = vec![0; 4096];
        for _ in 0..self.answers {
            let Ok(length @ 1..) = stream.read(&mut buffer).await else { break };
            let head = String::from_utf8_lossy(&buffer[..length]).to_lowercase();
            assert!(head.starts_with("post /mcp?x=1 http/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("\r\nhost: {host}\r\n")), "{head}");
            self.asked.fetch_add(1, Ordering::SeqCst);
            stream.write_all(self.answer).await.unwrap();
        }
        drop(stream);
        self.closed.notify_one();
    }

    fn counts(&self) -> (usize, usize) {
        (self.accepted.load(Ordering::SeqCst), self.asked.load(Ordering::SeqCst))
    }
}

fn target(url: &str) -> HttpTarget {
    HttpTarget::new(url.parse().unwrap(), Default::default())
}

/// A server's side of TLS for 127.0.0.1 that offers these protocols, and a connector that trusts it.
fn tls(protocols: &[&[u8]]) -> (TlsAcceptor, UpstreamConnector) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), UpstreamConnector::trusting(roots))
}

/// An HTTP/2 server behind TLS that answers `{}`; told to, it closes its connections.
async fn start_http2(accepted: Arc<AtomicUsize>, closing: Arc<Notify>) -> HttpClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (acceptor, connector) = tls(&[b"h2", b"http/1.1"]);
    let url = format!("https://{host}/mcp");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
            let (host, closing) = (host.clone(), closing.clone());
            tokio::spawn(async move {
                let answer = service_fn(move |request: Request<Incoming>| {
                    assert_eq!((request.version(), request.uri().path()), (Version::HTTP_2, "/mcp"));
                    assert_eq!(request.uri().authority().unwrap().as_str(), host);
                    async { Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"{}")))) }
                });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let mut serving = std::pin::pin!(serving.serve_connection(stream, answer));
                tokio::select! {
                    _ = serving.as_mut() => {}
                    () = closing.notified() => {
                        serving.as_mut().graceful_shutdown();
                        let _ = serving.await;
                    }
                }
            });
        }
    });
    HttpClient::with_connector(target(&url), connector)
}

#[tokio::test]
async fn calls_over_tls_that_follow_each_other_use_one_connection() {
    let (server, client) = FixedServer::start_tls(WHOLE).await;
    for _ in 0..3 {
        assert_eq!(&post(&client).await[..], b"{}");
    }
    assert_eq!(server.counts(), (1, 3));
    futures_util::future::join_all((0..3).map(|_| post(&client))).await;
    assert_eq!(server.counts(), (3, 6));
}

#[tokio::test]
async fn calls_at_the_same_time_share_an_http2_connection() {
    let accepted = Arc::<AtomicUsize>::default();
    let client = start_http2(accepted.clone(), Arc::default()).await;
    assert_eq!(&post(&client).await[..], b"{}");
    let answers = futures_util::future::join_all((0..20).map(|_| post(&client))).await;
    assert!(answers.iter().all(|answer| &answer[..] == b"{}"));
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_http2_connection_that_the_server_closed_takes_no_request() {
    let (accepted, closing) = (Arc::<AtomicUsize>::default(), Arc::<Notify>::default());
    let client = start_http2(accepted.clone(), closing.clone()).await;
    for round in 1..4 {
        assert_eq!(&post(&client).await[..], b"{}");
        assert_eq!(accepted.load(Ordering::SeqCst), round);
        closing.notify_one();
        let is_open = || client.pool().idle.lock().http2.as_ref().is_some_and(|shared| !shared.sender.is_closed());
        while is_open() {
            tokio::task::yield_now().await;
        }
    }
}

async fn post(client: &HttpClient) -> Bytes {
    let response = client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap();
    response.bytes().await.unwrap()
}

#[tokio::test]
async fn calls_that_follow_each_other_use_one_connection() {
    let (server, client) = FixedServer::start(WHOLE, usize::MAX).await;
    for _ in 0..3 {
        assert_eq!(&post(&client).await[..], b"{}");
    }
    assert_eq!(server.counts(), (1, 3));
}

#[tokio::test]
async fn calls_at_the_same_time_have_a_connection_each() {
    let (server, client) = FixedServer::start(WHOLE, usize::MAX).await;
    futures_util::future::join_all((0..5).map(|_| post(&client))).await;
    assert_eq!(server.counts(), (5, 5));
    futures_util::future::join_all((0..5).map(|_| post(&client))).await;
    assert_eq!(server.counts(), (5, 10));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_takes_no_request() {
    let (server, client) = FixedServer::start(WHOLE, 1).await;
    for round in 1..4 {
        post(&client).await;
        server.closed.notified().await;
        assert_eq!(server.counts(), (round, round));
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_closes_its_connection() {
    let (server, client) = FixedServer::start(BEGUN, usize::MAX).await;
    let response = client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap();
    drop(response);
    server.closed.notified().await;
    assert_eq!(server.counts(), (1, 1));
}

#[tokio::test]
async fn nothing_is_kept_once_the_client_is_gone() {
    let (server, client) = FixedServer::start(WHOLE, usize::MAX).await;
    post(&client).await;
    drop(client);
    server.closed.notified().await;
}

#[tokio::test]
async fn however_many_calls_there_were_one_task_looks_after_kept_connections() {
    let (server, client) = FixedServer::start(WHOLE, usize::MAX).await;
    post(&client).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        post(&client).await;
    }
    assert_eq!((server.counts(), tasks()), ((1, 21), before));
}

#[tokio::test]
async fn an_answer_without_a_body_leaves_its_connection_to_others_unread() {
    let (server, client) = FixedServer::start(EMPTY, usize::MAX).await;
    for _ in 0..3 {
        drop(client.post(Bytes::from_static(b"{}"), Default::default()).await.unwrap());
    }
    assert_eq!(server.counts(), (1, 3));
}

/// A connection that was used, and whose end has arrived since.
async fn just_closed() -> (Box<Http1Wire>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let connected = ConnectionPool::new(UpstreamConnector::new(None, &Default::default())).connect(&uri).await.unwrap();
    let NewConnection::Http1(mut wire) = connected else { panic!("plain HTTP is HTTP/1") };
    let answering = async {
        let mut stream = listener.accept().await.unwrap().0;
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(EMPTY).await.unwrap();
        stream
    };
    let (answered, mut stream) = tokio::join!(exchange(&mut wire), answering);
    assert!(answered.unwrap().is_kept);
    stream.shutdown().await.unwrap();
    while wire.is_silent() {
        tokio::task::yield_now().await;
    }
    (wire, stream)
}

async fn exchange(wire: &mut Http1Wire) -> Result<ResponseHead, ExchangeFailure> {
    let (method, uri, headers) = (Method::POST, Uri::from_static("http://server/"), HeaderMap::new());
    let body = Bytes::from_static(b"{}");
    wire.exchange(OutgoingMessage { method: &method, uri: &uri, headers: &headers, body: &body }).await
}

#[tokio::test]
async fn a_request_that_meets_the_end_of_its_connection_was_not_sent() {
    let (mut wire, _stream) = just_closed().await;
    let answered = tokio::time::timeout(Duration::from_secs(20), exchange(&mut wire)).await;
    assert!(!answered.expect("it does not hang").unwrap_err().may_be_sent);
}
