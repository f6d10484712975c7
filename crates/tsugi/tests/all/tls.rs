//! TLS as people configure it: one tsugi offers HTTPS, another one uses it as a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tsugi_testkit::test_authority::TestAuthority;
use tsugi_tls::certificate::CertificateFacts;

use crate::world::{Serving, World};

/// A gateway with a certificate for `localhost`.
struct SecureWorld {
    world: World,
    authority: TestAuthority,
    serving: Serving,
}

impl SecureWorld {
    fn new(more: &str) -> Self {
        let (world, authority) = (World::new(), TestAuthority::new("root"));
        world.write("ca.pem", &authority.pem);
        authority.leaf(&[], &["localhost"]).write(world.path(), "own");
        let text = format!(
            "servers: [{{name: demo, builtin: demo}}]\n\
             gateway: {{listen: '127.0.0.1:0', tls: {{cert: own.pem, key: own.key, {more}}}}}\n"
        );
        let config = world.write("secure.yaml", &text);
        let serving = world.serve_as_written(&["--config", config.to_str().unwrap()]);
        Self { world, authority, serving }
    }

    fn port(&self) -> &str {
        self.serving.url.rsplit(':').next().unwrap()
    }

    /// Calls a tool through another tsugi whose server is this gateway, secured like this.
    fn call(&self, tls: &str) -> Result<String, String> {
        let url = format!("https://localhost:{}/mcp", self.port());
        let config = self.world.write("client.yaml", &format!("servers: [{{name: up, url: '{url}', tls: {tls}}}]\n"));
        let args = ["call", "--config", config.to_str().unwrap(), "up/demo__echo", "message=hello"];
        let done = self.world.run(&args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }
}

#[test]
fn a_server_behind_tls_is_reached_by_its_authority_its_pin_and_its_name() {
    let secure = SecureWorld::new("");
    assert!(secure.serving.url.starts_with("https://"), "{}", secure.serving.url);
    let pem = std::fs::read(secure.world.path().join("own.pem")).unwrap();
    let der = rustls_pem(&pem);
    let pin = CertificateFacts::read(&der).unwrap().key;
    let wrong = CertificateFacts::read(&secure.authority.leaf(&[], &[]).certificate).unwrap().key;
    for good in ["{ca: ca.pem}".to_owned(), format!("{{ca: ca.pem, only: true, pin: '{pin}'}}")] {
        let answer = secure.call(&good);
        assert!(answer.as_ref().is_ok_and(|text| text.contains("hello")), "{good}: {answer:?}");
    }
    secure.world.write("other.pem", &TestAuthority::new("other").pem);
    for (bad, why) in [
        ("{}".to_owned(), "not signed by an authority"),
        ("{ca: other.pem, only: true}".to_owned(), "not signed by an authority"),
        (format!("{{ca: ca.pem, pin: '{wrong}'}}"), "tls.pin"),
        // A pin does not replace a trusted certificate.
        (format!("{{pin: '{pin}'}}"), "not signed by an authority"),
        ("{ca: ca.pem, serverName: other.example}".to_owned(), "for another host name"),
        ("{ca: missing.pem}".to_owned(), "cannot be read"),
    ] {
        let refused = secure.call(&bad);
        assert!(refused.as_ref().is_err_and(|text| text.contains(why)), "{bad}: {refused:?}");
    }
}

fn rustls_pem(pem: &[u8]) -> tsugi_tls::certificate::CertificateDer<'static> {
    tsugi_tls::certificate::first_in_pem(pem).unwrap()
}

#[test]
fn changed_certificates_are_used_and_bad_ones_are_not() {
    let secure = SecureWorld::new("");
    let next = secure.authority.leaf(&[], &["localhost"]);
    // A certificate without its key, as between the two steps of a renewal that fails.
    secure.world.write("own.pem", &next.cert);
    secure.serving.wait_for("does not fit the certificate");
    assert!(secure.call("{ca: ca.pem}").is_ok(), "the old pair stays");
    secure.world.write("own.key", &next.key);
    secure.serving.wait_for("the certificates were replaced");
    let pin = CertificateFacts::read(&next.certificate).unwrap().key;
    assert!(secure.call(&format!("{{ca: ca.pem, pin: '{pin}'}}")).is_ok());
    let over = secure.authority.leaf_until(&[], &["localhost"], SystemTime::now() - Duration::from_secs(60), 9);
    over.write(secure.world.path(), "own");
    secure.serving.signal(Signal::HUP);
    secure.serving.wait_for("is expired");
    assert!(secure.call("{ca: ca.pem}").is_ok());
}

#[test]
fn a_plain_request_to_the_tls_address_is_told_to_use_https() {
    let secure = SecureWorld::new("");
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", secure.port())).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named_at_the_start() {
    let world = World::new();
    let authority = TestAuthority::new("root");
    authority.leaf(&[], &["localhost"]).write(world.path(), "own");
    world.write("own.key", &authority.leaf(&[], &[]).key);
    let config = world.write("bad.yaml", "servers: [{name: demo, builtin: demo}]\ngateway: {listen: '127.0.0.1:0', tls: {cert: own.pem, key: own.key}}\n");
    let refused = world.run(&["serve", "--config", config.to_str().unwrap()]);
    let talk = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(talk.contains("own.key") && talk.contains("does not fit"), "{talk}");
}
