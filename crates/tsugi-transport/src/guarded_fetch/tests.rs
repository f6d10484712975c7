//! What a guarded fetch reaches and what it accepts, seen from the servers that it was meant to reach or not.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tsugi_outbound::{AllowList, NameLookup, OutboundRules};

use super::*;
use crate::http::{HttpClient, HttpTarget};

const SPELLINGS: &str = include_str!("../../../tsugi-outbound/tests/spellings.txt");

fn spellings() -> impl Iterator<Item = &'static str> {
    SPELLINGS.lines().filter(|line| !line.starts_with('#') && !line.is_empty())
}

/// A server on loopback that answers by path, counts its connections and keeps the heads of requests.
struct ScriptedHost {
    port: u16,
    count: Arc<AtomicUsize>,
    heads: Arc<parking_lot::Mutex<Vec<String>>>,
}

impl ScriptedHost {
    async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = Self { port, count: Arc::default(), heads: Arc::default() };
        let (count, heads, answer) = (host.count.clone(), host.heads.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (heads, answer) = (heads.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(head) = read_head(&mut stream).await else { return };
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    heads.lock().push(head);
                    let _ = stream.write_all(answer(&path).as_bytes()).await;
                });
            }
        });
        host
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut read = Vec::new();
    while !read.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    Some(String::from_utf8_lossy(&read).into_owned())
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn redirect(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

/// A guard that may use loopback, as in development, and whose names lead to loopback too.
fn local_guard() -> OutboundGuard {
    let rules = OutboundRules { insecure_loopback: true, ..OutboundRules::default() };
    OutboundGuard::new(rules).with_lookup(to_loopback())
}

fn to_loopback() -> NameLookup {
    NameLookup::from_fn(|_| std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])))
}

/// A guard without exceptions.
fn strict_guard() -> OutboundGuard {
    OutboundGuard::default().with_lookup(to_loopback())
}

#[tokio::test]
async fn a_document_and_the_answer_to_a_form_are_returned() {
    let host = ScriptedHost::start(|_| json(r#"{"issuer":"x"}"#)).await;
    let fetch = GuardedFetch::new(local_guard());
    let got = fetch.get_json(&host.url("/meta?a=1"), FetchLimits::METADATA).await.unwrap();
    assert_eq!((got.status.as_u16(), &got.body[..]), (200, &br#"{"issuer":"x"}"#[..]));
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Basic x"));
    fetch.post_form(&host.url("/token"), &[("code", "a b&c")], headers, FetchLimits::TOKEN).await.unwrap();
    let heads = host.heads.lock().clone();
    assert!(heads[0].starts_with("GET /meta?a=1 HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains(&format!("host: 127.0.0.1:{}\r\n", host.port)), "{}", heads[0]);
    assert!(heads[1].contains("authorization: Basic x") && heads[1].ends_with("code=a+b%26c"), "{}", heads[1]);
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_reached_by_any_way_of_asking() {
    let sink = ScriptedHost::start(|_| json("{}")).await;
    let fetch = GuardedFetch::new(strict_guard());
    for host in spellings() {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://{host}:{}/", sink.port);
            let got = fetch.get_json(&url, FetchLimits::METADATA).await.unwrap_err();
            let formed = fetch.post_form(&url, &[], HeaderMap::new(), FetchLimits::TOKEN).await.unwrap_err();
            let posted = fetch.post_json(&url, Bytes::new(), HeaderMap::new(), FetchLimits::TOKEN).await.unwrap_err();
            assert!(got.is_refused() && formed.is_refused() && posted.is_refused(), "{url}");
            assert_eq!(got.to_string(), "the address could not be fetched", "the sentence says no more");
            // The wires of servers that were added over HTTP.
            let Ok(url) = url.parse() else { continue };
            let target = HttpTarget::new(url, HeaderMap::new()).guarded(strict_guard());
            let error = HttpClient::new(target.clone()).post(Bytes::new(), HeaderMap::new()).await.unwrap_err();
            assert_eq!(error.reason, Some(tsugi_protocol::answer::FaultReason::AddressRefused), "{error}");
            assert!(crate::sse::connect(target.clone()).await.is_err());
            let web_socket = target.url.as_str().replacen("http", "ws", 1).parse().unwrap();
            assert!(crate::ws::connect(&HttpTarget { url: web_socket, ..target }).await.is_err());
        }
    }
    assert_eq!(sink.count(), 0);
    // The same client without a guard reaches it: the sink does count.
    let open = HttpTarget::new(sink.url("/").parse().unwrap(), HeaderMap::new());
    HttpClient::new(open).post(Bytes::new(), HeaderMap::new()).await.unwrap();
    assert_eq!(sink.count(), 1);
}

#[tokio::test]
async fn a_redirect_leads_only_where_the_guard_would_let_a_first_request_go() {
    let sink = ScriptedHost::start(|_| json("{}")).await;
    let sink_port = sink.port;
    let host = ScriptedHost::start(move |path| match path.trim_start_matches('/').parse::<usize>() {
        Ok(index) => redirect(&format!("https://{}:{sink_port}/", spellings().nth(index).unwrap())),
        Err(_) => redirect("/0"),
    })
    .await;
    let fetch = GuardedFetch::new(local_guard());
    // Loopback is allowed here, or no host could redirect.
    for (index, spelling) in spellings().enumerate().filter(|(_, spelling)| !spelling_is_loopback(spelling)) {
        let error = fetch.get_json(&host.url(&format!("/{index}")), FetchLimits::METADATA).await.unwrap_err();
        // A location that is not ASCII is not an address at all.
        assert!(error.is_refused() || !spelling.is_ascii(), "{spelling}: {}", error.reason());
    }
    assert_eq!(sink.count(), 0);
    // Without redirects the chain is not even begun.
    let before = host.count();
    let error = fetch.get_json(&host.url("/x"), FetchLimits::KEY_SET).await.unwrap_err();
    assert_eq!((error.status().map(|status| status.as_u16()), host.count()), (Some(302), before + 1));
    let error = fetch.post_form(&host.url("/x"), &[], HeaderMap::new(), FetchLimits::METADATA).await.unwrap_err();
    assert_eq!((error.status().map(|status| status.as_u16()), host.count()), (Some(302), before + 2));
}

/// Hosts that `insecureLoopback` allows on purpose.
fn spelling_is_loopback(host: &str) -> bool {
    url::Url::parse(&format!("https://{host}/")).ok().and_then(|url| TargetHost::of(&url)).is_some_and(
        |host| match host {
            TargetHost::Address(address) => address.is_loopback(),
            TargetHost::Name(name) => name.ends_with("localhost"),
        },
    )
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    let host = ScriptedHost::start(|path| match path {
        "/0" => json("{}"),
        path => redirect(&format!("/{}", path.trim_start_matches('/').parse::<u32>().unwrap() - 1)),
    })
    .await;
    let fetch = GuardedFetch::new(local_guard());
    assert!(fetch.get_json(&host.url("/3"), FetchLimits::METADATA).await.is_ok());
    let error = fetch.get_json(&host.url("/4"), FetchLimits::METADATA).await.unwrap_err();
    assert!(matches!(error.kind(), FetchErrorKind::Redirected { .. }), "{}", error.reason());
}

#[tokio::test]
async fn a_name_of_another_party_does_not_lead_to_loopback_even_in_development() {
    let sink = ScriptedHost::start(|_| json("{}")).await;
    let host = ScriptedHost::start({
        let port = sink.port;
        move |_| redirect(&format!("https://rebinding.test:{port}/"))
    })
    .await;
    let fetch = GuardedFetch::new(local_guard());
    assert!(fetch.get_json(&host.url("/"), FetchLimits::METADATA).await.unwrap_err().is_refused());
    let url = format!("https://rebinding.test:{}/", sink.port);
    assert!(fetch.get_json(&url, FetchLimits::METADATA).await.unwrap_err().is_refused());
    assert_eq!((sink.count(), host.count()), (0, 1));
    // Careless control: the same redirect, followed by a client that connects wherever the name leads.
    let mut stream = TcpStream::connect(("127.0.0.1", sink.port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(sink.count(), 1);
}

#[tokio::test]
async fn only_json_within_the_limit_is_accepted() {
    let host = ScriptedHost::start(|path| match path {
        "/html" => "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
        "/lie" => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n<htm>".to_owned(),
        "/keys" => json("{}").replace("application/json", "Application/JWK-Set+JSON; charset=utf-8"),
        "/error" => json(r#"{"error":"invalid_grant"}"#).replace("200 OK", "400 Bad Request"),
        "/announced" => {
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000000\r\n\r\n[".to_owned()
        }
        "/endless" => {
            let chunk = format!("{:x}\r\n{}\r\n", 60 << 10, " ".repeat(60 << 10));
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}"
            )
        }
        _ => String::new(),
    })
    .await;
    let fetch = GuardedFetch::new(local_guard());
    let get = async |path: &str| fetch.get_json(&host.url(path), FetchLimits::METADATA).await;
    let html = get("/html").await.unwrap_err();
    assert!(matches!(html.kind(), FetchErrorKind::NotJson { .. }));
    assert_eq!(html.status(), Some(StatusCode::NOT_FOUND), "discovery goes on after 404");
    assert!(matches!(get("/lie").await.unwrap_err().kind(), FetchErrorKind::NotJson { .. }));
    assert!(matches!(get("/announced").await.unwrap_err().kind(), FetchErrorKind::TooLarge { .. }));
    assert!(matches!(get("/endless").await.unwrap_err().kind(), FetchErrorKind::TooLarge { .. }));
    assert!(get("/keys").await.is_ok());
    assert_eq!(get("/error").await.unwrap().status, StatusCode::BAD_REQUEST, "OAuth says in JSON what is wrong");
    assert!(matches!(get("/closed").await.unwrap_err().kind(), FetchErrorKind::Unreachable(_)));
}

#[tokio::test]
async fn a_host_that_trickles_its_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[").await;
        // Held open: the end of the fetch ends it.
        let _ = stream.read(&mut [0; 1]).await;
    });
    let limits = FetchLimits { time: Duration::from_millis(300), ..FetchLimits::METADATA };
    let error = GuardedFetch::new(local_guard()).get_json(&url, limits).await.unwrap_err();
    assert!(matches!(error.kind(), FetchErrorKind::TimedOut(_)), "{}", error.reason());
    serving.await.unwrap();
}

/// The certificate must be for the name that was asked, whatever address the name leads to.
#[tokio::test]
async fn tls_proves_the_name_that_was_asked_for_and_no_redirect_leaves_it() {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["good.test".into()]).unwrap().self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sink = ScriptedHost::start(|_| json("{}")).await;
    let plain = sink.url("/");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let head = read_head(&mut stream).await.unwrap_or_default();
            let answer = if head.starts_with("GET /down") { redirect(&plain) } else { json("{}") };
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let allow = AllowList::parse(["good.test", "other.test"]).unwrap();
    let rules = OutboundRules { allow, insecure_loopback: true, proxy: None };
    let guard = OutboundGuard::new(rules).with_lookup(to_loopback());
    let fetch = GuardedFetch::with_tls(guard, tls.into());
    assert!(fetch.get_json(&format!("https://good.test.:{port}/"), FetchLimits::METADATA).await.is_ok());
    let error = fetch.get_json(&format!("https://other.test:{port}/"), FetchLimits::METADATA).await.unwrap_err();
    assert!(matches!(error.kind(), FetchErrorKind::Unreachable(_)), "{}", error.reason());
    let error = fetch.get_json(&format!("https://good.test:{port}/down"), FetchLimits::METADATA).await.unwrap_err();
    assert!(matches!(error.kind(), FetchErrorKind::Redirected { .. }), "https stays https: {}", error.reason());
    assert_eq!(sink.count(), 0);
}

/// The operator may name any server but a metadata service, in any spelling.
#[tokio::test]
async fn a_configured_server_may_be_private_but_not_a_metadata_service() {
    let host = ScriptedHost::start(|_| json("{}")).await;
    let post = async |url: &str| {
        let client = HttpClient::new(HttpTarget::new(url.parse().unwrap(), HeaderMap::new()));
        client.post(Bytes::new(), HeaderMap::new()).await.map(|_| ()).map_err(|error| error.reason)
    };
    assert_eq!(post(&host.url("/")).await, Ok(()));
    let refused = Err(Some(tsugi_protocol::answer::FaultReason::AddressRefused));
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "metadata.google.internal",
    ] {
        assert_eq!(post(&format!("http://{host}/")).await, refused, "{host}");
    }
}
