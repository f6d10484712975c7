//! Callers with certificates, from outside: who the upstream sees, and what revocation and other web pages change.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::certificate::CertificateRule;
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_gateway::{Gateway, GatewayConfig, GatewayHandle, Hub, HubConfig};
use tsugi_protocol::answer::{Answer, Call};
use tsugi_protocol::mcp::Method;
use tsugi_testkit::test_authority::{TestAuthority, TestLeaf};
use tsugi_tls::client_auth::{ClientAuthFiles, ClientAuthMode, NameSource};
use tsugi_tls::key_pair::KeyPairFiles;
use tsugi_tls::server::{ReloadEffect, ServerTls, ServerTlsFiles};
use tsugi_tls::upstream::{UpstreamTls, UpstreamTlsSettings};

use crate::world::*;

/// Far above what any machine needs.
const LONG: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);
const AGENT: &str = "spiffe://corp.example/agent/one";

/// Who called, as the server behind the gateway has seen it.
type Journal = Arc<Mutex<Vec<String>>>;

struct CertificateWorld {
    directory: tempfile::TempDir,
    authority: TestAuthority,
    key: String,
    journal: Journal,
    handle: GatewayHandle,
    _manager: Manager,
}

fn journaling(journal: Journal) -> Arc<dyn Answer> {
    script(move |call: Call| match call.method {
        Method::Discover => complete(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "up", "version": "1"}}
        })),
        Method::ToolsList => listed("tools", json!([{"name": "touch", "inputSchema": {"type": "object"}}])),
        _ => {
            journal.lock().push(call.caller.identity().to_string());
            complete(json!({"resultType": "complete", "content": []}))
        }
    })
}

impl CertificateWorld {
    async fn new(mode: ClientAuthMode) -> Self {
        Self::with(mode, None).await
    }

    /// A gateway with a key, which asks for certificates of one authority and knows what it has revoked.
    async fn with(mode: ClientAuthMode, rules: Option<Vec<CertificateRule>>) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new("root"));
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("ca.pem"), &authority.pem).unwrap();
        std::fs::write(path("crl.pem"), authority.revoked(&[])).unwrap();
        let own = pair(directory.path(), &authority.leaf(&[], &["localhost"]), "own");
        let client_auth = ClientAuthFiles {
            mode,
            ca: vec![path("ca.pem")],
            crl: vec![path("crl.pem")],
            names: NameSource::DEFAULT.into(),
            trust_domain: None,
        };
        let files = ServerTlsFiles { pairs: vec![own], client_auth: Some(client_auth) };
        let (key, ann) = ApiKey::generate("ann");
        let mut config = GatewayConfig {
            tls: Some(Arc::new(ServerTls::load(files, SystemTime::now()).unwrap())),
            keys: vec![ann],
            ..GatewayConfig::on_free_port()
        };
        config.limits.keep_alive = Duration::from_millis(20);
        let journal = Journal::default();
        let manager = Manager::new(ManagerOptions::default());
        let server = ServerConfig::new("up", ConnectTarget::InProcess(journaling(journal.clone())));
        manager.register(server).unwrap().ready(Duration::from_secs(60)).await.unwrap();
        let guard = AccessGuard::new(&config);
        let guard = rules.into_iter().fold(guard, AccessGuard::with_certificate_rules);
        let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(guard));
        let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
        Self { directory, authority, key, journal, handle, _manager: manager }
    }

    fn agent(&self, name: &str, serial: u64) -> TestLeaf {
        self.authority.leaf_until(&[name], &[], SystemTime::now() + DAY, serial)
    }

    /// A connection that shows this certificate. A gateway that refuses it may say so with the first answer only.
    async fn connect(&self, own: Option<&TestLeaf>) -> std::io::Result<TlsStream<TcpStream>> {
        let settings = UpstreamTlsSettings {
            ca: vec![self.directory.path().join("ca.pem")],
            only: true,
            client: own.map(|leaf| pair(self.directory.path(), leaf, "client")),
            ..Default::default()
        };
        let mut config = Arc::unwrap_or_clone(UpstreamTls::new(settings).config(SystemTime::now()).unwrap().config);
        config.alpn_protocols = vec![b"http/1.1".into()];
        let stream = TcpStream::connect(self.handle.addresses()[0]).await?;
        let name = ServerName::try_from("localhost").unwrap();
        tokio::time::timeout(LONG, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
    }

    /// Calls the tool; the status, or `None` when the connection was refused.
    async fn call(&self, own: Option<&TestLeaf>, headers: &[(&str, &str)]) -> Option<u16> {
        let mut stream = self.connect(own).await.ok()?;
        call_on(&mut stream, headers).await
    }

    fn callers(&self) -> Vec<String> {
        std::mem::take(&mut *self.journal.lock())
    }

    fn revoke(&self, serials: &[u64]) {
        std::fs::write(self.directory.path().join("crl.pem"), self.authority.revoked(serials)).unwrap();
        assert_eq!(self.handle.reload_tls().unwrap().unwrap(), ReloadEffect::Replaced);
    }
}

fn pair(directory: &Path, leaf: &TestLeaf, name: &str) -> KeyPairFiles {
    let (cert, key) = leaf.write(directory, name);
    KeyPairFiles { cert, key }
}

/// Sends a call on a kept connection, and reads the head of its answer and all of its body.
async fn call_on(stream: &mut TlsStream<TcpStream>, headers: &[(&str, &str)]) -> Option<u16> {
    let body = json!({"server": "up", "toolName": "touch", "input": {}}).to_string();
    let own = [&[("Content-Type", "application/json")], headers].concat();
    let own: String = own.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!("POST /mcp/call HTTP/1.1\r\nHost: localhost\r\n{own}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                return head.split(' ').nth(1)?.parse().ok();
            }
        }
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut answer)).await.expect("an answer or an end");
        if !read.is_ok_and(|read| read > 0) {
            return None;
        }
    }
}

/// Opens an event stream and waits for its first event.
async fn open_stream(world: &CertificateWorld, own: &TestLeaf) -> TlsStream<TcpStream> {
    let mut stream = world.connect(Some(own)).await.unwrap();
    stream.write_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("event: endpoint") {
        assert!(read_on(&mut stream, &mut seen).await, "{}", String::from_utf8_lossy(&seen));
    }
    stream
}

/// Reads what comes next; false at the end.
async fn read_on(stream: &mut TlsStream<TcpStream>, seen: &mut Vec<u8>) -> bool {
    let read = tokio::time::timeout(LONG, stream.read_buf(seen)).await.expect("the stream flows or ends");
    read.is_ok_and(|read| read > 0)
}

/// Whether the stream goes on with keep-alive comments that were sent after now.
async fn still_flows(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut seen = Vec::new();
    // What was on its way already must not count.
    while seen.len() < 4096 {
        if !read_on(stream, &mut seen).await {
            return false;
        }
        if seen.iter().filter(|&&byte| byte == b':').count() >= 5 {
            break;
        }
    }
    true
}

#[tokio::test]
async fn a_certificate_names_its_caller_and_a_key_in_the_request_comes_first() {
    let world = CertificateWorld::new(ClientAuthMode::Optional).await;
    let agent = world.agent(AGENT, 7);
    let key = [("X-Api-Key", world.key.as_str())];
    assert_eq!(world.call(Some(&agent), &[]).await, Some(200));
    assert_eq!(world.callers(), [format!("certificate:{AGENT}")]);
    assert_eq!(world.call(Some(&agent), &key).await, Some(200));
    assert_eq!(world.call(None, &key).await, Some(200));
    assert_eq!(world.callers(), ["key:ann", "key:ann"]);
    // A wrong key does not fall back to the certificate, and no certificate is not an anonymous administrator.
    assert_eq!(world.call(Some(&agent), &[("X-Api-Key", "wrong")]).await, Some(401));
    assert_eq!(world.call(Some(&agent), &[("Authorization", "Bearer ey.a.b")]).await, Some(401));
    assert_eq!(world.call(None, &[]).await, Some(401));
    assert_eq!(world.callers(), [] as [&str; 0]);
}

#[tokio::test]
async fn no_or_a_foreign_certificate_is_refused_where_one_is_required() {
    let world = CertificateWorld::new(ClientAuthMode::Required).await;
    let key = [("X-Api-Key", world.key.as_str())];
    assert_eq!(world.call(Some(&world.agent(AGENT, 7)), &[]).await, Some(200));
    assert_eq!(world.callers().len(), 1);
    let foreign = TestAuthority::new("root").leaf(&[AGENT], &[]);
    // Without a certificate even a good key does not help.
    for (own, why) in [(None, "none"), (Some(&foreign), "of another authority")] {
        assert_eq!(world.call(own, &key).await, None, "{why}");
    }
    // One that is shown must be good where none is required, too.
    let optional = CertificateWorld::new(ClientAuthMode::Optional).await;
    assert_eq!(optional.call(Some(&foreign), &[("X-Api-Key", optional.key.as_str())]).await, None);
    assert_eq!((world.callers().len(), optional.callers().len()), (0, 0));
}

#[tokio::test]
async fn the_first_rule_that_matches_a_certificate_says_what_its_holder_may_do() {
    let admins =
        CertificateRule { role: KeyRole::Admin, ..CertificateRule::new("spiffe://corp.example/ops/*").unwrap() };
    let nothing = Some(Arc::new(AccessPermit::new(&["other/*"], &[]).unwrap()));
    let narrow = CertificateRule { permit: nothing, ..CertificateRule::new("spiffe://corp.example/guest").unwrap() };
    let agents = CertificateRule::new("spiffe://corp.example/agent/*").unwrap();
    let world = CertificateWorld::with(ClientAuthMode::Required, Some(vec![admins, narrow, agents])).await;
    let status = async |name: &str| world.call(Some(&world.agent(name, 1)), &[]).await;
    assert_eq!(status(AGENT).await, Some(200));
    assert_eq!(world.callers().len(), 1);
    for name in
        ["spiffe://corp.example/guest", "spiffe://corp.example/agent/one/root", "spiffe://evil.example/agent/one"]
    {
        assert_eq!(status(name).await, Some(403), "{name}");
    }
    assert_eq!(world.callers(), [] as [&str; 0]);
    // The careless gateway, without rules, lets every certificate of the authority call.
    let careless = CertificateWorld::new(ClientAuthMode::Required).await;
    assert_eq!(careless.call(Some(&careless.agent("spiffe://evil.example/agent/one", 1)), &[]).await, Some(200));
    // Only an administrator stops servers.
    for (name, expected) in [(AGENT, "403"), ("spiffe://corp.example/ops/ann", "200")] {
        let mut stream = world.connect(Some(&world.agent(name, 1))).await.unwrap();
        stream
            .write_all(b"POST /servers/up/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        let mut seen = Vec::new();
        assert!(read_on(&mut stream, &mut seen).await);
        let text = String::from_utf8_lossy(&seen).into_owned();
        assert_eq!(text.split(' ').nth(1), Some(expected), "{name}: {text}");
    }
}

#[tokio::test]
async fn a_revoked_certificate_ends_open_streams_and_kept_connections_and_no_others() {
    let world = CertificateWorld::new(ClientAuthMode::Optional).await;
    let (stolen, other) = (world.agent("x:stolen", 8), world.agent("x:other", 7));
    let mut stolen_stream = open_stream(&world, &stolen).await;
    let mut other_stream = open_stream(&world, &other).await;
    let mut stolen_kept = world.connect(Some(&stolen)).await.unwrap();
    let mut other_kept = world.connect(Some(&other)).await.unwrap();
    assert_eq!(call_on(&mut stolen_kept, &[]).await, Some(200));
    assert_eq!(call_on(&mut other_kept, &[]).await, Some(200));
    world.callers();
    world.revoke(&[8]);
    assert_eq!(call_on(&mut stolen_kept, &[]).await, Some(401));
    let mut seen = Vec::new();
    while read_on(&mut stolen_stream, &mut seen).await {}
    assert_eq!(world.call(Some(&stolen), &[]).await, None, "a new handshake is refused");
    assert_eq!(world.callers(), [] as [&str; 0]);
    assert_eq!(call_on(&mut other_kept, &[]).await, Some(200));
    assert_eq!(call_on(&mut other_kept, &[]).await, Some(200));
    assert!(still_flows(&mut other_stream).await);
    assert_eq!(world.callers(), ["certificate:x:other", "certificate:x:other"]);
}

#[tokio::test]
async fn a_browser_does_not_lend_its_certificate_to_another_page() {
    let world = CertificateWorld::new(ClientAuthMode::Required).await;
    let agent = world.agent(AGENT, 7);
    // A page of this machine passes as an origin, and a browser would show the certificate for its requests.
    for header in [("Origin", "http://localhost:3000"), ("Sec-Fetch-Site", "cross-site")] {
        assert_eq!(world.call(Some(&agent), &[header]).await, Some(403), "{header:?}");
    }
    assert_eq!(world.callers(), [] as [&str; 0]);
    assert_eq!(world.call(Some(&agent), &[("Origin", "https://localhost")]).await, Some(200));
    // What a page knows itself, it may use.
    let key = ("X-Api-Key", world.key.as_str());
    assert_eq!(world.call(Some(&agent), &[("Origin", "http://localhost:3000"), key]).await, Some(200));
    assert_eq!(world.callers(), [format!("certificate:{AGENT}"), "key:ann".to_owned()]);
}

#[tokio::test]
async fn all_connections_of_a_caller_share_its_quota() {
    let rule = CertificateRule { quota: Some(CallQuota::per_minute(2)), ..CertificateRule::new("**").unwrap() };
    let world = CertificateWorld::with(ClientAuthMode::Required, Some(vec![rule])).await;
    let (one, two) = (world.agent(AGENT, 1), world.agent("x:two", 2));
    for expected in [200, 200, 429] {
        assert_eq!(world.call(Some(&one), &[]).await, Some(expected));
    }
    assert_eq!(world.call(Some(&two), &[]).await, Some(200));
}

#[tokio::test]
async fn an_open_stream_outlives_new_and_broken_certificates_and_new_connections_get_the_new_one() {
    let world = CertificateWorld::new(ClientAuthMode::Optional).await;
    let agent = world.agent(AGENT, 7);
    let mut stream = open_stream(&world, &agent).await;
    let shown = |stream: &TlsStream<TcpStream>| -> CertificateDer<'static> {
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    };
    let before = shown(&stream);
    let next = world.authority.leaf(&[], &["localhost"]);
    next.write(world.directory.path(), "own");
    assert_eq!(world.handle.reload_tls().unwrap().unwrap(), ReloadEffect::Replaced);
    let fresh = world.connect(Some(&agent)).await.unwrap();
    assert_eq!(shown(&fresh), next.certificate);
    assert_ne!(shown(&fresh), before);
    assert!(still_flows(&mut stream).await);
    std::fs::write(world.directory.path().join("own.pem"), "half a certif").unwrap();
    assert!(world.handle.reload_tls().unwrap().is_err());
    assert_eq!(shown(&world.connect(Some(&agent)).await.unwrap()), next.certificate);
    assert!(still_flows(&mut stream).await);
}
