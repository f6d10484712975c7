//! Every spelling of a private address is refused, as text or when it is looked up, and a public one is not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tsugi_outbound::{AllowList, DialError, NameLookup, OutboundGuard, OutboundRefusal, OutboundRules};

use super::world::{CountingSink, lying_lookup, spellings};

fn rules(allow: &[&str], insecure_loopback: bool) -> OutboundRules {
    OutboundRules { allow: AllowList::parse(allow.iter().copied()).unwrap(), insecure_loopback, proxy: None }
}

fn guard(allow: &[&str], insecure_loopback: bool) -> OutboundGuard {
    OutboundGuard::new(rules(allow, insecure_loopback)).with_lookup(lying_lookup().0)
}

/// The refusal of an address: as text, or when it is dialled.
async fn refusal(guard: &OutboundGuard, url: &str) -> Option<OutboundRefusal> {
    match guard.parse(url) {
        Err(refusal) => Some(refusal),
        Ok(target) => guard.resolve(&target).await.err().and_then(|error| error.refusal().cloned()),
    }
}

#[tokio::test]
async fn every_spelling_of_a_private_or_metadata_address_is_refused_and_reaches_no_one() {
    let sink = CountingSink::start().await;
    assert!(spellings().len() >= 60, "{}", spellings().len());
    for host in spellings() {
        let (lookup, asked) = lying_lookup();
        // The name that is public at first was resolved once already.
        asked.store(1, Ordering::SeqCst);
        let guard = OutboundGuard::new(rules(&[], false)).with_lookup(lookup);
        let url = format!("https://{host}:{}/", sink.port());
        assert!(refusal(&guard, &url).await.is_some(), "{url} must be refused");
        if let Ok(target) = guard.parse(&url) {
            assert!(matches!(guard.dial(&target).await, Err(DialError::Refused(_))), "{url} must not be dialled");
        }
    }
    assert_eq!(sink.count(), 0);
}

/// What many gateways do: compare the text with what private addresses look like, then connect by name.
async fn careless(host: &str, port: u16) -> Option<TcpStream> {
    let looks_private = ["127.", "10.", "192.168.", "172.16.", "169.254.", "localhost", "[::1]"];
    if looks_private.iter().any(|front| host.starts_with(front)) {
        return None;
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    TcpStream::connect((host, port)).await.ok()
}

#[tokio::test]
async fn a_careless_check_of_the_text_lets_the_same_spellings_through() {
    let sink = CountingSink::start().await;
    let mut through = Vec::new();
    // Only spellings that cannot leave this machine whatever the system makes of them.
    for host in
        ["0177.0.0.1", "0x7f.1", "0x7f000001", "2130706433", "0", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"]
    {
        if let Some(mut stream) = careless(host, sink.port()).await {
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
            through.push(host);
        }
    }
    assert_eq!(sink.count(), through.len());
    assert!(through.len() >= 4, "the attack must work against a careless check: {through:?}");
}

#[tokio::test]
async fn a_public_name_passes_and_all_its_addresses_are_given() {
    let guard = guard(&[], false);
    let target = guard.parse("https://GOOD.test./path?x=1").unwrap();
    let found = guard.resolve(&target).await.unwrap();
    assert_eq!(
        found,
        ["93.184.216.34:443", "[2606:2800:220:1::1]:443"].map(|text| text.parse::<SocketAddr>().unwrap())
    );
}

#[test]
fn the_text_of_an_address_must_be_plain() {
    let guard = guard(&[], false);
    for (url, rule) in [
        ("http://good.test/", "scheme"),
        ("ftp://good.test/", "scheme"),
        ("file:///etc/passwd", "address"),
        ("javascript:alert(1)", "address"),
        ("data:application/json,{}", "address"),
        ("https://user@good.test/", "user-part"),
        ("https://user:word@good.test/", "user-part"),
        ("https://good.test@127.0.0.1/", "user-part"),
        ("https://good.test:22/", "port"),
        ("https://good.test:80/", "port"),
        ("https://good.test:1023/", "port"),
        ("https://good..test/", "address"),
        ("https://./", "address"),
        ("https:///", "address"),
        ("https://", "address"),
        ("good.test", "address"),
        ("//good.test/", "address"),
        ("https://[::1", "address"),
        ("https://good.test:99999/", "address"),
    ] {
        assert_eq!(guard.parse(url).map(|_| ()).map_err(|refusal| refusal.rule()), Err(rule), "{url}");
    }
    for url in [
        "https://good.test/",
        "https://good.test:443/",
        "https://good.test:8443/",
        "wss://good.test/",
        "HTTPS:\\\\good.test\\",
    ] {
        assert!(guard.parse(url).is_ok(), "{url}");
    }
}

#[tokio::test]
async fn plain_http_is_for_loopback_alone_and_only_where_it_is_switched_on() {
    for host in ["127.0.0.1", "localhost", "[::1]", "127.1"] {
        let url = format!("http://{host}:8080/");
        assert!(refusal(&guard(&[], false), &url).await.is_some(), "{url}");
        let on = guard(&[], true);
        assert!(on.parse(&url).is_ok(), "{url}");
        assert_eq!(refusal(&on, &url).await, None, "{url}");
    }
    // Another party's name must not lead to loopback, with or without TLS.
    for url in [
        "http://rebinding.test:8080/",
        "https://rebinding.test:8080/",
        "http://10.0.0.1:8080/",
        "http://good.test:8080/",
    ] {
        assert!(refusal(&guard(&[], true), url).await.is_some(), "{url}");
    }
}

#[tokio::test]
async fn an_allowed_network_or_name_may_be_private_but_never_a_metadata_service() {
    let by_network = guard(&["10.0.0.0/8"], false);
    assert_eq!(refusal(&by_network, "https://private.test/").await, None);
    assert_eq!(refusal(&by_network, "https://10.9.9.9/").await, None);
    assert!(refusal(&by_network, "https://192.168.0.1/").await.is_some());
    let by_name = guard(&["*.test"], false);
    assert_eq!(refusal(&by_name, "https://private.test/").await, None);
    assert!(refusal(&by_name, "https://10.0.0.1/").await.is_some(), "a name allows no literal address");
    assert!(refusal(&by_name, "https://private.test.evil/").await.is_some());
    let everything = guard(&["0.0.0.0/0", "::/0", "*.test", "*.internal", "metadata.google.internal"], true);
    for host in
        ["169.254.169.254", "[::ffff:169.254.169.254]", "metadata.google.internal", "translated.test", "168.63.129.16"]
    {
        let rule = refusal(&everything, &format!("https://{host}/")).await.map(|refusal| refusal.rule());
        assert_eq!(rule, Some("metadata"), "{host}");
    }
}

#[tokio::test]
async fn one_private_answer_among_public_ones_refuses_them_all() {
    let refused = refusal(&guard(&[], false), "https://mixed.test/").await;
    assert!(
        matches!(refused, Some(OutboundRefusal::SpecialAddress { address, .. }) if address.is_loopback()),
        "{refused:?}"
    );
}

/// A name that changes its answer between the check and the connection.
#[tokio::test]
async fn a_name_is_looked_up_once_so_that_its_second_answer_is_never_used() {
    let (good, sink) = (CountingSink::start().await, CountingSink::start().await);
    let asked = Arc::<AtomicUsize>::default();
    let (counted, good_address) = (asked.clone(), good.address.ip());
    let lookup = NameLookup::from_fn(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(vec![good_address]))
    });
    let guard = OutboundGuard::new(rules(&["rebinding.test"], false)).with_lookup(lookup);
    let target = guard.parse(&format!("https://rebinding.test:{}/", good.port())).unwrap();
    let mut stream = guard.dial(&target).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!((good.count(), sink.count(), asked.load(Ordering::SeqCst)), (1, 0, 1));
    // The careless way resolves for the check and again for the connection.
    let (lookup, _) = lying_lookup();
    let checked = lookup.find("rebound.test").await.unwrap();
    assert!(checked.iter().all(|address| !address.is_loopback()), "the check sees a public address");
    let used = lookup.find("rebound.test").await.unwrap();
    let mut stream = TcpStream::connect((used[0], sink.port())).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(sink.count(), 1, "the connection goes to a private one");
}

#[tokio::test]
async fn with_an_outbound_proxy_the_name_goes_to_the_proxy_and_is_not_looked_up_here() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for status in ["200 OK", "403 Forbidden"] {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let count = stream.read(&mut head).await.unwrap();
            heads.push(String::from_utf8_lossy(&head[..count]).into_owned());
            stream.write_all(format!("HTTP/1.1 {status}\r\nx: y\r\n\r\nhello").as_bytes()).await.unwrap();
        }
        heads
    });
    let proxied = OutboundRules { proxy: Some(format!("http://{address}").parse().unwrap()), ..rules(&[], false) };
    let (lookup, asked) = lying_lookup();
    let guard = OutboundGuard::new(proxied).with_lookup(lookup);
    let target = guard.parse("https://private.test/").unwrap();
    let mut tunnel = guard.dial(&target).await.unwrap();
    let mut first = [0; 5];
    tunnel.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"hello", "nothing of the tunnel is lost");
    assert!(matches!(guard.dial(&target).await, Err(DialError::Proxy(line)) if line.contains("403")));
    let heads = serving.await.unwrap();
    assert!(heads[0].starts_with("CONNECT private.test:443 HTTP/1.1\r\n"), "{heads:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert!(guard.parse("https://169.254.169.254/").is_err(), "a literal address is checked all the same");
}
