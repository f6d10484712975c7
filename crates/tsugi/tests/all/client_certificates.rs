//! Callers with certificates as people configure them: one tsugi asks for certificates, another one shows one.

use serde_json::Value;
use tsugi_testkit::test_authority::TestAuthority;

use crate::world::{Serving, World};

/// A gateway that asks for certificates and writes down who called.
struct CertificateWorld {
    world: World,
    authority: TestAuthority,
    serving: Serving,
}

fn config(tls: &str, auth: &str) -> String {
    format!(
        "servers: [{{name: demo, builtin: demo}}]\naudit: {{file: audit.jsonl}}\n\
         gateway: {{listen: '127.0.0.1:0', tls: {{cert: own.pem, key: own.key{tls}}}{auth}}}\n"
    )
}

fn prepare() -> (World, TestAuthority) {
    let (world, authority) = (World::new(), TestAuthority::new("root"));
    world.write("ca.pem", &authority.pem);
    world.write("crl.pem", &authority.revoked(&[]));
    authority.leaf(&[], &["localhost"]).write(world.path(), "own");
    (world, authority)
}

impl CertificateWorld {
    fn new(tls: &str, auth: &str) -> Self {
        let (world, authority) = prepare();
        let config = world.write("secure.yaml", &config(tls, auth));
        let serving = world.serve_as_written(&["--config", config.to_str().unwrap()]);
        Self { world, authority, serving }
    }

    /// Calls a tool through another tsugi that shows the certificate in `agent.pem`, if it shows one.
    fn call(&self, shows: bool) -> Result<String, String> {
        let port = self.serving.url.rsplit(':').next().unwrap();
        let own = if shows { ", cert: agent.pem, key: agent.key" } else { "" };
        let text = format!("servers: [{{name: up, url: 'https://localhost:{port}/mcp', tls: {{ca: ca.pem{own}}}}}]\n");
        let config = self.world.write("client.yaml", &text);
        let done = self.world.run(&["call", "--config", config.to_str().unwrap(), "up/demo__echo", "message=hello"]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// The first lines of all calls in the audit log.
    fn begun(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.world.path().join("audit.jsonl")).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["kind"] == "call.begun").collect()
    }
}

#[test]
fn a_gateway_knows_its_callers_by_the_certificates_that_the_configuration_names() {
    let secure = CertificateWorld::new(
        ", clientAuth: required, clientCa: ca.pem, clientCrl: crl.pem",
        ", auth: {certificates: [{match: 'spiffe://corp.example/agent/*', allow: [demo/echo]}]}",
    );
    let agent = |name: &str| secure.authority.leaf(&[name], &[]).write(secure.world.path(), "agent");
    agent("spiffe://corp.example/agent/one");
    let answer = secure.call(true);
    assert!(answer.as_ref().is_ok_and(|text| text.contains("hello")), "{answer:?}\n{}", secure.serving.talk());
    let begun = secure.begun();
    let of_first = |name: &str| begun[0][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(of_first("identity"), "certificate:spiffe://corp.example/agent/one");
    assert_eq!(of_first("era"), "modern");
    assert!(secure.call(false).is_err(), "no certificate");
    agent("spiffe://corp.example/other");
    assert!(secure.call(true).is_err(), "no entry matches");
    // Every certificate of this authority has the serial number 1.
    agent("spiffe://corp.example/agent/one");
    secure.world.write("crl.pem", &secure.authority.revoked(&[1]));
    secure.serving.wait_for("the certificates were replaced");
    assert!(secure.call(true).is_err(), "revoked");
    assert_eq!(secure.begun().len(), begun.len(), "no other call was sent");
}

#[test]
fn the_subject_names_the_caller_where_the_configuration_says_so() {
    let secure = CertificateWorld::new(", clientAuth: optional, clientCa: ca.pem, clientNames: [cn]", "");
    secure.authority.leaf_of_subject(&["ann"]).write(secure.world.path(), "agent");
    let answer = secure.call(true);
    assert!(answer.is_ok(), "{answer:?}\n{}", secure.serving.talk());
    assert_eq!(secure.begun()[0]["identity"], "certificate:cn:ann");
    // Nothing is anonymous here, although there are no keys.
    assert!(secure.call(false).is_err());
}

#[test]
fn settings_that_would_look_like_protection_are_refused() {
    let (world, _) = prepare();
    for (tls, auth, why) in [
        (", clientCa: ca.pem", "", "`clientCa` needs `clientAuth"),
        (", clientAuth: required", "", "`clientAuth` needs `clientCa`"),
        (", clientAuth: maybe, clientCa: ca.pem", "", "off, optional, required"),
        (", clientAuth: required, clientCa: ca.pem, clientNames: []", "", "`clientNames` is empty"),
        (", clientAuth: required, clientCa: ca.pem, trustDomain: 'spiffe://x'", "", "`trustDomain`"),
        ("", ", auth: {certificates: [{match: 'cn:ann'}]}", "`gateway.tls.clientAuth`"),
        (
            ", clientAuth: required, clientCa: ca.pem",
            ", auth: {certificates: [{match: ann}]}",
            "a name in a certificate",
        ),
        (", clientAuth: required, clientCa: ca.pem", ", auth: {certificates: [{role: admin}]}", "`match` is missing"),
    ] {
        let config = world.write("bad.yaml", &config(tls, auth));
        let refused = world.run(&["serve", "--config", config.to_str().unwrap()]);
        let talk = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && talk.contains(why), "{tls} {auth}: {talk}");
    }
}
