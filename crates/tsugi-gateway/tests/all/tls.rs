//! TLS from outside: real handshakes against files that change, stall, and are wrong on purpose.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tsugi_gateway::config::Exposure;
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, StartError};
use tsugi_protocol::answer::Reply;
use tsugi_protocol::mcp::Method;
use tsugi_testkit::test_authority::{TestAuthority, TestLeaf};
use tsugi_tls::key_pair::KeyPairFiles;
use tsugi_tls::server::{ReloadEffect, ServerTls, ServerTlsFiles};
use tsugi_tls::upstream::{UpstreamTls, UpstreamTlsSettings};

use crate::world::*;

/// Far above what any machine needs.
const LONG: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);

struct TlsGateway {
    directory: tempfile::TempDir,
    authority: TestAuthority,
    handle: GatewayHandle,
}

fn pair(directory: &Path, leaf: &TestLeaf, name: &str) -> KeyPairFiles {
    let (cert, key) = leaf.write(directory, name);
    KeyPairFiles { cert, key }
}

impl TlsGateway {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A gateway for `localhost` and `other.example`.
    async fn with(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new("root"));
        std::fs::write(directory.path().join("ca.pem"), &authority.pem).unwrap();
        let own = pair(directory.path(), &authority.leaf(&[], &["localhost"]), "own");
        let other = pair(directory.path(), &authority.leaf(&[], &["other.example"]), "other");
        let files = ServerTlsFiles { pairs: vec![own, other], client_auth: None };
        let tls = Some(Arc::new(ServerTls::load(files, SystemTime::now()).unwrap()));
        let mut config = GatewayConfig { tls, ..GatewayConfig::on_free_port() };
        change(&mut config);
        let answer = script(|call| match call.method {
            Method::Listen => {
                Reply::from_source(Events([note("notifications/tools/list_changed", json!({}))].into(), None))
            }
            _ => complete(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}})),
        });
        Self { handle: serve_with(config, answer).await, directory, authority }
    }

    fn address(&self) -> SocketAddr {
        self.handle.addresses()[0]
    }

    async fn connect(&self, host: &'static str, protocol: &str) -> TlsStream<TcpStream> {
        let settings =
            UpstreamTlsSettings { ca: vec![self.directory.path().join("ca.pem")], only: true, ..Default::default() };
        let mut config = Arc::unwrap_or_clone(UpstreamTls::new(settings).config(SystemTime::now()).unwrap().config);
        config.alpn_protocols = vec![protocol.into()];
        let stream = TcpStream::connect(self.address()).await.unwrap();
        let name = ServerName::try_from(host).unwrap();
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream);
        tokio::time::timeout(LONG, shaken).await.expect("the handshake ends in time").unwrap()
    }

    async fn numbers(&self) -> String {
        let mut stream = self.connect("localhost", "http/1.1").await;
        request(&mut stream, "GET", "/metrics").await
    }

    fn certificate(&self, stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

/// Sends a request on a kept connection and reads its answer, which has a length.
async fn request(stream: &mut TlsStream<TcpStream>, verb: &str, path: &str) -> String {
    stream.write_all(format!("{verb} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                return text;
            }
        }
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut answer)).await.expect("the answer comes in time");
        assert!(read.unwrap() > 0, "the connection ended: {text}");
    }
}

#[tokio::test]
async fn http1_and_http2_are_spoken_under_tls() {
    let world = TlsGateway::new().await;
    assert!(world.handle.url().starts_with("https://"));
    let mut stream = world.connect("localhost", "http/1.1").await;
    assert!(request(&mut stream, "GET", "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(request(&mut stream, "GET", "/healthz").await.starts_with("HTTP/1.1 200"), "the connection is kept");
    let stream = world.connect("localhost", "h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(driver);
    let request = http::Request::get("https://localhost/healthz").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    drop(sender);
    driving.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_host_that_a_client_names_decides_the_certificate() {
    let world = TlsGateway::new().await;
    let own = world.connect("localhost", "http/1.1").await;
    let other = world.connect("other.example", "http/1.1").await;
    assert_ne!(world.certificate(&own), world.certificate(&other));
}

#[tokio::test]
async fn a_bad_pair_is_counted_and_the_old_one_stays() {
    let world = TlsGateway::new().await;
    let before = world.certificate(&world.connect("localhost", "http/1.1").await);
    let next = world.authority.leaf(&[], &["localhost"]);
    let over = world.authority.leaf_until(&[], &["localhost"], SystemTime::now() - DAY, 2);
    // The pair is written one file after the other, as most tools do.
    std::fs::write(world.directory.path().join("own.pem"), &next.cert).unwrap();
    assert!(world.handle.reload_tls().unwrap().is_err(), "the key is still the old one");
    over.write(world.directory.path(), "own");
    assert!(world.handle.reload_tls().unwrap().is_err(), "expired");
    assert_eq!(world.certificate(&world.connect("localhost", "http/1.1").await), before);
    let numbers = world.numbers().await;
    assert!(numbers.contains(r#"tsugi_tls_reloads_total{outcome="failed"} 2"#), "{numbers}");
    next.write(world.directory.path(), "own");
    assert_eq!(world.handle.reload_tls().unwrap().unwrap(), ReloadEffect::Replaced);
    assert_ne!(world.certificate(&world.connect("localhost", "http/1.1").await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_under_load_drops_no_connection() {
    let world = Arc::new(TlsGateway::new().await);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for number in 0..16 {
        let (world, is_over) = (world.clone(), is_over.clone());
        clients.push(tokio::spawn(async move {
            let mut kept = world.connect("localhost", "http/1.1").await;
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) || answered == 0 {
                assert!(request(&mut kept, "GET", "/healthz").await.starts_with("HTTP/1.1 200"));
                // Half of the clients also open new connections all the time.
                if number % 2 == 0 {
                    let mut fresh = world.connect("localhost", "http/1.1").await;
                    assert!(request(&mut fresh, "GET", "/healthz").await.starts_with("HTTP/1.1 200"));
                }
                answered += 1;
            }
        }));
    }
    for _ in 0..20 {
        world.authority.leaf(&[], &["localhost"]).write(world.directory.path(), "own");
        assert_eq!(world.handle.reload_tls().unwrap().unwrap(), ReloadEffect::Replaced);
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn stalled_handshakes_do_not_keep_others_out() {
    // More stalled clients than there is room for connections: without a bound of their own they would take it all.
    let world = TlsGateway::with(|config| config.limits.connections = 40).await;
    let mut stalled = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        // The beginning of a handshake record that never ends.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        stalled.push(stream);
    }
    let began = std::time::Instant::now();
    let mut stream = world.connect("localhost", "http/1.1").await;
    assert!(request(&mut stream, "GET", "/healthz").await.starts_with("HTTP/1.1 200"));
    // They end in time by themselves too, far later than this.
    let numbers = world.numbers().await;
    assert!(numbers.contains(r#"tsugi_tls_handshakes_total{outcome="displaced"}"#), "{:?} {numbers}", began.elapsed());
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_off() {
    let world = TlsGateway::new().await;
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(&[22, 3, 1]).await.unwrap();
    let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut Vec::new())).await.expect("it is cut off");
    assert!(ended.is_err() || ended.is_ok_and(|read| read == 0));
}

#[tokio::test]
async fn plain_http_on_the_tls_address_is_told_so() {
    let world = TlsGateway::new().await;
    let answer = Exchange::send(world.address(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
}

#[tokio::test]
async fn a_plain_address_redirects_readers_and_refuses_the_rest() {
    let world = TlsGateway::with(|config| config.redirect = vec!["127.0.0.1:0".parse().unwrap()]).await;
    let client = Client(world.handle.redirect_addresses()[0]);
    let got = client.send("GET", "/mcp/tools?x=1", &[("Host", "localhost")], "").await;
    let expected = format!("https://localhost:{}/mcp/tools?x=1", world.address().port());
    assert_eq!((got.status, got.header("location")), (308, Some(expected.as_str())), "{got:?}");
    let got = client.send("POST", "/mcp", &[("Host", "localhost")], "{}").await;
    assert_eq!((got.status, got.header("location")), (403, None), "{got:?}");
    // The name of another site must not become a redirect to it.
    let got = client.send("GET", "/", &[("Host", "evil.example")], "").await;
    assert_eq!((got.status, got.header("location")), (403, None), "{got:?}");
}

#[tokio::test]
async fn a_public_address_is_redirected_to_and_browsers_are_told_to_stay() {
    let world = TlsGateway::with(|config| {
        config.redirect = vec!["127.0.0.1:0".parse().unwrap()];
        config.public_url = Some("https://mcp.example.com".parse().unwrap());
    })
    .await;
    let got = Client(world.handle.redirect_addresses()[0]).send("GET", "/a", &[("Host", "localhost")], "").await;
    assert_eq!(got.header("location"), Some("https://mcp.example.com/a"));
    let mut stream = world.connect("localhost", "http/1.1").await;
    let answer = request(&mut stream, "GET", "/healthz").await;
    assert!(answer.contains("strict-transport-security: max-age=31536000"), "{answer}");
}

#[tokio::test]
async fn a_quiet_stream_flows_under_tls_and_ends_with_its_client() {
    let world = TlsGateway::with(|config| config.limits.keep_alive = Duration::from_millis(20)).await;
    let listen = modern(json!(1), "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let headers = modern_headers(&listen);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let text = Client(world.address()).request("POST", "/mcp", &headers, &listen.to_string());
    let open = world.handle.connection_count();
    let mut stream = world.connect("localhost", "http/1.1").await;
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let mut later = 0;
    // The keep-alive comments come after the stream was taken from hyper.
    while later < 3 {
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut seen)).await.expect("the stream flows").unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        later += usize::from(String::from_utf8_lossy(&seen).contains("list_changed"));
    }
    assert!(String::from_utf8_lossy(&seen).contains("connection: close"), "it was taken from hyper");
    assert_eq!(open(), 2, "the listener's and this one");
    drop(stream);
    until(|| open() == 1).await;
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tls_a_proxy_or_an_explicit_word() {
    let keyed = GatewayConfig {
        listen: vec!["0.0.0.0:0".parse().unwrap()],
        keys: vec![ApiKey::generate("ann").1],
        ..GatewayConfig::default()
    };
    let backend = || Arc::new(tsugi_gateway::backend::SingleBackend::new(script(|_| complete(json!({})))));
    assert!(matches!(Gateway::serve(keyed.clone(), backend()).await, Err(StartError::Unencrypted(_))));
    let proxied = GatewayConfig { trusted_proxies: vec![AddressRange::parse("10.0.0.0/8").unwrap()], ..keyed.clone() };
    assert!(Gateway::serve(proxied, backend()).await.is_ok());
    let insecure = GatewayConfig { exposure: Exposure::Insecure, ..keyed };
    assert!(Gateway::serve(insecure, backend()).await.is_ok());
}
