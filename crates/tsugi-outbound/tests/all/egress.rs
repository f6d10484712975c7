//! The egress proxy: listed hosts are reached, and nothing else is, however it is asked for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tsugi_outbound::egress::{EgressProxy, EgressRefusal};
use tsugi_outbound::{AllowList, EgressList, NameLookup, OutboundGuard, OutboundRules};

use super::world::CountingSink;

struct ProxyUnderTest {
    address: SocketAddr,
    refusals: Arc<Mutex<Vec<EgressRefusal>>>,
    lookups: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for ProxyUnderTest {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A proxy whose lookup says `good.test` and `*.good.test` are at loopback, which the operator allows to that name
/// alone, and everything else is at loopback too, which is not allowed.
async fn proxy(list: &[String]) -> ProxyUnderTest {
    let lookups = Arc::<AtomicUsize>::default();
    let counted = lookups.clone();
    let lookup = NameLookup::from_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])]))
    });
    let allow = AllowList::parse(["good.test", "*.good.test"]).unwrap();
    let guard = OutboundGuard::new(OutboundRules { allow, ..OutboundRules::default() }).with_lookup(lookup);
    let refusals = Arc::<Mutex<Vec<EgressRefusal>>>::default();
    let seen = refusals.clone();
    let list = EgressList::parse(list.iter().map(String::as_str)).unwrap();
    let proxy = EgressProxy::new("files", list, guard)
        .with_observer(Arc::new(move |refusal| seen.lock().unwrap().push(refusal.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(proxy.serve(listener));
    ProxyUnderTest { address, refusals, lookups, task }
}

impl ProxyUnderTest {
    /// Sends a head and returns all that comes back.
    async fn send(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Asks for a tunnel and sends one request through it.
    async fn tunnel(&self, authority: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return String::from_utf8_lossy(&head).into_owned(),
            }
        }
        if !head.starts_with(b"HTTP/1.1 200") {
            return String::from_utf8_lossy(&head).into_owned();
        }
        stream.write_all(b"GET /inside HTTP/1.1\r\nhost: inside\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn a_listed_host_is_reached_by_a_tunnel_and_by_a_plain_request() {
    let sink = CountingSink::start().await;
    let port = sink.port();
    let proxy = proxy(&[format!("good.test:{port}"), format!("*.good.test:{port}"), format!("127.0.0.1:{port}")]).await;
    for host in ["good.test", "a.good.test", "127.0.0.1"] {
        let answer = proxy.tunnel(&format!("{host}:{port}")).await;
        assert!(answer.contains("GET /inside HTTP/1.1|inside"), "{answer}");
        // The header names another host than the address: what was checked counts.
        let head = format!(
            "GET http://{host}:{port}/x?y=1 HTTP/1.1\r\nhost: other.test\r\nproxy-authorization: z\r\nconnection: close\r\n\r\n"
        );
        let answer = proxy.send(&head).await;
        assert!(answer.contains(&format!("GET /x?y=1 HTTP/1.1|{host}:{port}")), "{answer}");
    }
    assert_eq!(sink.count(), 6);
    assert!(proxy.refusals.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_not_listed_is_refused_before_its_name_is_looked_up() {
    let sink = CountingSink::start().await;
    let port = sink.port();
    let proxy = proxy(&[format!("good.test:{port}"), format!("*.good.test:{port}")]).await;
    let others = [
        format!("other.test:{port}"),
        format!("good.test.evil.test:{port}"),
        format!("evilgood.test:{port}"),
        format!("evil-good.test:{port}"),
        "good.test:22".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("127.1:{port}"),
        format!("2130706433:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("localhost:{port}"),
        format!("169.254.169.254:{port}"),
        format!("metadata.google.internal:{port}"),
    ];
    for authority in &others {
        assert!(proxy.tunnel(authority).await.starts_with("HTTP/1.1 403"), "CONNECT {authority}");
        let head = format!("GET http://{authority}/ HTTP/1.1\r\nhost: good.test:{port}\r\nconnection: close\r\n\r\n");
        assert!(proxy.send(&head).await.starts_with("HTTP/1.1 403"), "GET {authority}");
    }
    assert_eq!(sink.count(), 0);
    assert_eq!(proxy.lookups.load(Ordering::SeqCst), 0, "a lookup would carry data out in a name");
    let refusals = proxy.refusals.lock().unwrap();
    assert_eq!(refusals.len(), others.len() * 2, "each refusal is an event");
    assert!(refusals.iter().all(|event| event.server == "files" && event.refusal.rule() == "egress-list"));
}

#[tokio::test]
async fn a_request_that_hides_its_host_is_not_a_request() {
    let sink = CountingSink::start().await;
    let port = sink.port();
    let proxy = proxy(&[format!("good.test:{port}")]).await;
    for head in [
        format!("GET / HTTP/1.1\r\nhost: good.test:{port}\r\nconnection: close\r\n\r\n"),
        format!("GET http://good.test:{port}@127.0.0.1:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n"),
        format!("GET https://good.test:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n"),
        format!("GET ftp://good.test:{port}/ HTTP/1.1\r\nconnection: close\r\n\r\n"),
        "CONNECT good.test HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT good.test:{port}@127.0.0.1:{port} HTTP/1.1\r\n\r\n"),
        format!("CONNECT good.test:{port}:{port} HTTP/1.1\r\n\r\n"),
        "CONNECT good.test:99999 HTTP/1.1\r\n\r\n".to_owned(),
        "\r\n\r\n\r\n\r\nnonsense\r\n\r\n".to_owned(),
    ] {
        let answer = proxy.send(&head).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{head} → {answer}");
    }
    assert_eq!(sink.count(), 0);
}

/// The list names a host whose owner points it at our network: the list alone does not open that.
#[tokio::test]
async fn a_listed_name_that_leads_to_a_private_address_is_refused_unless_the_address_is_listed_too() {
    let sink = CountingSink::start().await;
    let port = sink.port();
    let rebound = [format!("*.example.com:{port}"), format!("api.example.com:{port}")];
    let by_name = proxy(&rebound).await;
    assert!(by_name.tunnel(&format!("api.example.com:{port}")).await.starts_with("HTTP/1.1 403"));
    assert_eq!((sink.count(), by_name.lookups.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(by_name.refusals.lock().unwrap()[0].refusal.rule(), "network");
    let with_address = proxy(&[rebound[0].clone(), format!("127.0.0.1:{port}")]).await;
    assert!(with_address.tunnel(&format!("api.example.com:{port}")).await.contains("200 OK"));
    let localhost = proxy(&[format!("localhost:{port}")]).await;
    assert!(localhost.tunnel(&format!("localhost:{port}")).await.contains("200 OK"));
    assert_eq!(sink.count(), 2);
}

#[tokio::test]
async fn no_list_opens_a_metadata_service() {
    let list = ["0.0.0.0/0", "::/0", "*.google.internal", "metadata.google.internal"].map(str::to_owned);
    let proxy = proxy(&list).await;
    for host in ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "metadata.google.internal"] {
        assert!(proxy.tunnel(&format!("{host}:80")).await.starts_with("HTTP/1.1 403"), "{host}");
    }
    assert!(proxy.refusals.lock().unwrap().iter().all(|event| event.refusal.rule() == "metadata"));
}

#[tokio::test]
async fn connections_end_with_the_proxy() {
    let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = host.local_addr().unwrap().port();
    let proxy = proxy(&[format!("good.test:{port}")]).await;
    let mut program = TcpStream::connect(proxy.address).await.unwrap();
    program.write_all(format!("CONNECT good.test:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut reached, _) = host.accept().await.unwrap();
    drop(proxy);
    let mut rest = Vec::new();
    assert!(matches!(reached.read_to_end(&mut rest).await, Ok(0) | Err(_)), "the tunnel is closed");
}
