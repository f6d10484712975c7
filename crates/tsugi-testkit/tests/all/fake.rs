//! The fake peer: that it sends exactly what it says, and records what it got.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use tsugi_testkit::fake::tls::Certificate;
use tsugi_testkit::fake::{BlackHole, Fake, Steps, refused, reply};

use crate::peer::{open_post, post, read_all};

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn answer(steps: impl Fn() -> Steps + Send + Sync + 'static) -> String {
    post(&Fake::start(move |_| steps()).url(), &[], BODY)
}

#[test]
fn what_it_got_is_recorded() {
    let fake = Fake::start(|request| reply::json(&format!("{{\"id\":{}}}", request.id())));
    assert!(post(&fake.url(), &[("Mcp-Method", "ping")], BODY).ends_with("{\"id\":1}"));
    post(&fake.url(), &[], BODY);
    let recorded = fake.recorded();
    assert_eq!((recorded.len(), fake.requests(), fake.connections()), (2, 2, 2));
    assert_eq!(
        (recorded[0].method.as_str(), recorded[0].path.as_str(), recorded[0].header("mcp-method")),
        ("POST", "/mcp", Some("ping"))
    );
    assert_eq!((recorded[1].number, recorded[1].connection, &recorded[1].body[..]), (2, 2, BODY.as_bytes()));
}

#[test]
fn a_connection_is_used_again() {
    let fake = Fake::start(|_| reply::json(BODY));
    let mut socket = open_post(&fake.url(), &[], BODY);
    read_all(&mut socket);
    socket.write_all(b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(read_all(&mut socket).ends_with(BODY));
    assert_eq!((fake.requests(), fake.connections()), (2, 1));
}

#[test]
fn resets_are_resets() {
    assert_eq!(answer(reply::reset_before_head), "<ConnectionReset>");
    assert!(answer(|| reply::reset_in_body(BODY)).ends_with("<ConnectionReset>"));
    let cut = answer(|| reply::sse_reset(&[BODY]));
    assert!(cut.contains(&format!("data: {BODY}")) && cut.ends_with("<ConnectionReset>"), "{cut}");
}

#[test]
fn answers_are_as_they_are_called() {
    assert!(
        answer(|| reply::status(429, &[("Retry-After", "7")], ""))
            .starts_with("HTTP/1.1 429 Scripted\r\nRetry-After: 7\r\n")
    );
    assert!(answer(|| reply::typed("text/html", "<html>")).contains("Content-Type: text/html\r\n"));
    assert!(!answer(|| reply::typed("", BODY)).contains("Content-Type"));
    assert!(answer(|| reply::truncated(BODY)).ends_with(BODY));
    assert!(
        answer(|| reply::redirect(308, "http://127.0.0.1/"))
            .contains("308 Scripted\r\nLocation: http://127.0.0.1/\r\n")
    );
    assert!(answer(|| reply::sse(&["1", "2"])).ends_with("event: message\ndata: 1\n\nevent: message\ndata: 2\n\n"));
    assert!(answer(|| reply::json_twice("{}")).ends_with("{}{}"));
    assert!(answer(|| reply::slow("ab", 1)).ends_with("ab"));
    assert!(answer(|| reply::lying_encoding("br", "no")).contains("Content-Encoding: br\r\n"));
}

#[test]
fn malformed_streams_carry_the_message_when_they_say_so() {
    for (name, is_readable, steps) in reply::malformed_streams(BODY) {
        let stream = answer(move || steps.clone());
        let text = stream.split_once("\r\n\r\n").unwrap().1.replace(['\r', '\n'], "\n");
        let data: String = text
            .lines()
            .filter_map(|line| line.trim_start_matches('\u{feff}').strip_prefix("data:"))
            .map(str::trim_start)
            .collect();
        assert_eq!(data.ends_with(BODY), is_readable || name == "no blank line at the end", "{name}");
    }
}

#[test]
fn endless_things_do_not_end() {
    for steps in [
        reply::endless_head(),
        reply::endless_body(),
        reply::sse_keep_alive(&[BODY], 1),
        reply::sse_huge_event(1 << 30),
    ] {
        let fake = Fake::start(move |_| steps.clone());
        let mut socket = open_post(&fake.url(), &[], BODY);
        let mut bytes = vec![0; 2000];
        socket.read_exact(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"));
    }
}

#[test]
fn silence_is_silence() {
    for fake in [Fake::silent(), Fake::start(|_| reply::nothing())] {
        let mut socket = open_post(&fake.url(), &[], BODY);
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(socket.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "gzip is the judge of gzip")]
fn a_gzip_bomb_grows_as_it_says() {
    let fake = Fake::start(|_| reply::gzip_bomb(10_000_000));
    let mut socket = open_post(&fake.url(), &[], BODY);
    let mut bytes = Vec::new();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.read_to_end(&mut bytes).ok();
    let start = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(bytes.len() - start < 100_000);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes[start..]).unwrap();
    let grown =
        std::process::Command::new("gzip").args(["-dc"]).stdin(std::fs::File::open(file.path()).unwrap()).output();
    match grown {
        Ok(grown) => assert!(
            grown.stdout.len() == 10_000_000 && grown.stdout.iter().all(|byte| *byte == 0),
            "{}",
            grown.stdout.len()
        ),
        Err(_) => eprintln!("skipped: no gzip here"),
    }
}

#[test]
fn no_connection_comes_about_where_none_should() {
    assert_eq!(TcpStream::connect(refused()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    let hole = BlackHole::new();
    let error = TcpStream::connect_timeout(&hole.address(), Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

fn handshake(certificate: Certificate) -> Result<String, String> {
    let authority = certificate.authority_pem().to_owned();
    let fake = Fake::start_tls(certificate, |_| reply::json(BODY));
    let mut roots = rustls::RootCertStore::empty();
    for der in rustls::pki_types::pem::PemObject::pem_slice_iter(authority.as_bytes()).flatten() {
        roots.add(der).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(session, TcpStream::connect(fake.address()).unwrap());
    stream.write_all(b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut bytes = [0; 500];
    let read = stream.read(&mut bytes).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

#[test]
fn certificates_are_wrong_in_the_way_they_say() {
    assert!(handshake(Certificate::good()).unwrap().starts_with("HTTP/1.1 200"));
    for (certificate, reason) in [
        (Certificate::expired(), "Expired"),
        (Certificate::wrong_name(), "not valid for name"),
        (Certificate::self_signed(), "UnknownIssuer"),
    ] {
        let error = handshake(certificate).unwrap_err();
        assert!(error.to_lowercase().contains(&reason.to_lowercase()), "{reason}: {error}");
    }
}
