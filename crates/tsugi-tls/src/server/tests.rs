//! Handshakes in memory against files that are replaced, well and badly.

use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConnection};
use tsugi_testkit::test_authority::{TestAuthority, TestLeaf};

use super::*;
use crate::client_auth::{ClientAuthMode, NameSource};
use crate::pin::KeyPin;
use crate::upstream::{UpstreamTls, UpstreamTlsSettings};

const DAY: Duration = Duration::from_secs(86_400);

/// A listener whose files lie in a directory.
struct TlsFixture {
    directory: tempfile::TempDir,
    authority: TestAuthority,
    tls: ServerTls,
}

fn pair(directory: &Path, leaf: &TestLeaf, name: &str) -> KeyPairFiles {
    let (cert, key) = leaf.write(directory, name);
    KeyPairFiles { cert, key }
}

impl TlsFixture {
    fn new() -> Self {
        Self::with(|_, _| None)
    }

    fn with(client_auth: impl FnOnce(&Path, &TestAuthority) -> Option<ClientAuthFiles>) -> Self {
        let (directory, authority) = (tempfile::tempdir().unwrap(), TestAuthority::new("root"));
        std::fs::write(directory.path().join("ca.pem"), &authority.pem).unwrap();
        let pairs = vec![pair(directory.path(), &authority.leaf(&[], &["localhost"]), "own")];
        let files = ServerTlsFiles { pairs, client_auth: client_auth(directory.path(), &authority) };
        Self { tls: ServerTls::load(files, SystemTime::now()).unwrap(), directory, authority }
    }

    fn of_clients(mode: ClientAuthMode) -> Self {
        Self::with(|directory, _| {
            let ca = vec![directory.join("ca.pem")];
            Some(ClientAuthFiles { mode, ca, crl: Vec::new(), names: NameSource::DEFAULT.into(), trust_domain: None })
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn reload(&self) -> Result<ReloadEffect, TlsFileError> {
        self.tls.reload(SystemTime::now())
    }

    /// A client that trusts the authority and shows this certificate.
    fn client(&self, own: Option<&TestLeaf>) -> Arc<ClientConfig> {
        let client = own.map(|leaf| pair(self.directory.path(), leaf, "client"));
        let settings = UpstreamTlsSettings { ca: vec![self.path("ca.pem")], only: true, client, ..Default::default() };
        UpstreamTls::new(settings).config(SystemTime::now()).unwrap().config
    }

    /// Shakes hands, and sends a byte so that tickets arrive.
    fn shake(&self, client: &Arc<ClientConfig>) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(client.clone(), name)?;
        let mut server = ServerConnection::new(self.tls.begin().config)?;
        for _ in 0..10 {
            transfer(|bytes| client.write_tls(bytes), |bytes| server.read_tls(bytes));
            server.process_new_packets()?;
            transfer(|bytes| server.write_tls(bytes), |bytes| client.read_tls(bytes));
            client.process_new_packets()?;
        }
        Ok((client, server))
    }

    fn key_of(&self, client: &ClientConnection) -> KeyPin {
        CertificateFacts::read(&client.peer_certificates().unwrap()[0]).unwrap().key
    }
}

fn transfer(
    mut write: impl FnMut(&mut Vec<u8>) -> std::io::Result<usize>,
    mut read: impl FnMut(&mut &[u8]) -> std::io::Result<usize>,
) {
    let mut bytes = Vec::new();
    while write(&mut bytes).unwrap() > 0 {}
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        read(&mut rest).unwrap();
    }
}

#[test]
fn a_new_pair_is_used_for_new_connections_and_the_old_ones_go_on() {
    let world = TlsFixture::new();
    let (old, mut serving) = world.shake(&world.client(None)).unwrap();
    assert_eq!(world.reload().unwrap(), ReloadEffect::Unchanged);
    pair(world.directory.path(), &world.authority.leaf(&[], &["localhost"]), "own");
    assert_eq!(world.reload().unwrap(), ReloadEffect::Replaced);
    let (new, _) = world.shake(&world.client(None)).unwrap();
    assert_ne!(world.key_of(&old), world.key_of(&new));
    std::io::Write::write_all(&mut serving.writer(), b"still here").unwrap();
}

#[test]
fn a_pair_that_does_not_fit_is_half_written_or_has_expired_leaves_the_old_one_in_use() {
    let world = TlsFixture::new();
    let before = world.key_of(&world.shake(&world.client(None)).unwrap().0);
    let next = world.authority.leaf(&[], &["localhost"]);
    let over = world.authority.leaf_until(&[], &["localhost"], SystemTime::now() - DAY, 2);
    let early = world.authority.leaf_until(&[], &["localhost"], SystemTime::now() + 4 * DAY, 3);
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let original = std::fs::read_to_string(world.path("own.key")).unwrap();
    let cases: [(&str, String, String); 7] = [
        ("the key of another", next.cert.clone(), original.clone()),
        ("half a certificate", half(&next.cert), next.key.clone()),
        ("half a key", next.cert.clone(), half(&next.key)),
        ("nothing", String::new(), String::new()),
        ("expired", over.cert.clone(), over.key.clone()),
        ("not valid yet", early.cert.clone(), early.key.clone()),
        ("not a certificate", next.cert.replace('A', "B"), next.key.clone()),
    ];
    for (case, cert, key) in cases {
        std::fs::write(world.path("own.pem"), cert).unwrap();
        std::fs::write(world.path("own.key"), key).unwrap();
        assert!(world.reload().is_err(), "{case}");
        assert_eq!(world.key_of(&world.shake(&world.client(None)).unwrap().0), before, "{case}");
    }
    std::fs::remove_file(world.path("own.key")).unwrap();
    assert!(matches!(world.reload(), Err(TlsFileError::Unreadable { .. })));
    next.write(world.directory.path(), "own");
    assert_eq!(world.reload().unwrap(), ReloadEffect::Replaced);
}

#[test]
fn both_http_versions_are_offered_in_both_tls_versions() {
    let world = TlsFixture::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for offered in ["h2", "http/1.1"] {
            let mut roots = rustls::RootCertStore::empty();
            roots
                .add(pem_file::certificates(&world.path("ca.pem"), world.authority.pem.as_bytes()).unwrap().remove(0))
                .unwrap();
            let mut client = ClientConfig::builder_with_provider(provider())
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            client.alpn_protocols = vec![offered.into()];
            let (client, _) = world.shake(&Arc::new(client)).unwrap();
            assert_eq!(client.alpn_protocol(), Some(offered.as_bytes()));
        }
    }
}

#[test]
fn a_session_resumes_until_what_is_trusted_changes() {
    let world = TlsFixture::of_clients(ClientAuthMode::Required);
    let own = world.authority.leaf(&["spiffe://a/b"], &[]);
    let mut client = Arc::unwrap_or_clone(world.client(Some(&own)));
    client.resumption = Resumption::in_memory_sessions(4);
    let client = Arc::new(client);
    let kind = || world.shake(&client).unwrap().0.handshake_kind();
    assert_eq!(kind(), Some(HandshakeKind::Full));
    assert_eq!(kind(), Some(HandshakeKind::Resumed));
    // Another certificate of our own changes nothing about callers.
    world.authority.leaf(&[], &["localhost"]).write(world.directory.path(), "own");
    assert_eq!(world.reload().unwrap(), ReloadEffect::Replaced);
    assert_eq!(kind(), Some(HandshakeKind::Resumed));
    let connection = world.tls.begin();
    assert!(world.tls.is_current(&connection));
    let both = format!("{}{}", world.authority.pem, TestAuthority::new("second").pem);
    std::fs::write(world.path("ca.pem"), both).unwrap();
    assert_eq!(world.reload().unwrap(), ReloadEffect::Replaced);
    assert_eq!(kind(), Some(HandshakeKind::Full));
    assert!(!world.tls.is_current(&connection));
}

#[test]
fn a_caller_is_known_by_a_good_certificate_and_refused_with_any_other() {
    let world = TlsFixture::of_clients(ClientAuthMode::Required);
    let good = world.authority.leaf(&["spiffe://a/b"], &["host"]);
    let (_, server) = world.shake(&world.client(Some(&good))).unwrap();
    let identity = world.tls.begin().identify(server.peer_certificates().unwrap(), SystemTime::now()).unwrap();
    assert_eq!(identity.name.as_str(), "spiffe://a/b");
    assert!(world.shake(&world.client(None)).is_err(), "no certificate");
    let foreign = TestAuthority::new("root").leaf(&["spiffe://a/b"], &[]);
    assert!(world.shake(&world.client(Some(&foreign))).is_err(), "another authority of the same name");
    // A session may be resumed after the certificate's end.
    let later = SystemTime::now() + 3 * DAY;
    assert!(world.tls.begin().identify(server.peer_certificates().unwrap(), later).is_err(), "expired");
    let optional = TlsFixture::of_clients(ClientAuthMode::Optional);
    let (_, server) = optional.shake(&optional.client(None)).unwrap();
    assert!(server.peer_certificates().is_none());
    assert!(optional.shake(&optional.client(Some(&foreign))).is_err(), "a bad one is not the same as none");
}

#[test]
fn a_revoked_certificate_is_refused_as_soon_as_the_list_says_so() {
    let world = TlsFixture::with(|directory, authority| {
        std::fs::write(directory.join("crl.pem"), authority.revoked(&[])).unwrap();
        let (ca, crl) = (vec![directory.join("ca.pem")], vec![directory.join("crl.pem")]);
        Some(ClientAuthFiles {
            mode: ClientAuthMode::Required,
            ca,
            crl,
            names: NameSource::DEFAULT.into(),
            trust_domain: None,
        })
    });
    let end = SystemTime::now() + DAY;
    let good = world.client(Some(&world.authority.leaf_until(&["x:good"], &[], end, 7)));
    let stolen = world.client(Some(&world.authority.leaf_until(&["x:stolen"], &[], end, 8)));
    world.shake(&good).unwrap();
    let (_, server) = world.shake(&stolen).unwrap();
    std::fs::write(world.path("crl.pem"), world.authority.revoked(&[8])).unwrap();
    assert_eq!(world.reload().unwrap(), ReloadEffect::Replaced);
    world.shake(&good).unwrap();
    assert!(world.shake(&stolen).is_err());
    // A connection that is open already is judged again by what is trusted now.
    assert!(world.tls.identify(server.peer_certificates().unwrap(), SystemTime::now()).is_err());
}

#[test]
fn a_pinned_key_is_wanted_beside_a_trusted_certificate() {
    let world = TlsFixture::new();
    let right = world.tls.certificates()[0].key;
    let other = CertificateFacts::read(&world.authority.leaf(&[], &[]).certificate).unwrap().key;
    let client = |ca: Vec<PathBuf>, pins: Vec<KeyPin>| {
        let settings = UpstreamTlsSettings { ca, pins, ..Default::default() };
        UpstreamTls::new(settings).config(SystemTime::now()).unwrap().config
    };
    world.shake(&client(vec![world.path("ca.pem")], vec![other, right])).unwrap();
    assert!(world.shake(&client(vec![world.path("ca.pem")], vec![other])).is_err(), "a wrong pin");
    // A pin alone does not make a certificate trusted.
    assert!(world.shake(&client(Vec::new(), vec![right])).is_err(), "an unknown authority");
}

#[test]
fn a_client_reads_its_files_again_and_keeps_the_old_ones_while_they_are_broken() {
    let world = TlsFixture::new();
    let settings = UpstreamTlsSettings { ca: vec![world.path("ca.pem")], only: true, ..Default::default() };
    let upstream = UpstreamTls::new(settings);
    let take = || upstream.config(SystemTime::now()).unwrap();
    let first = take().config;
    assert!(Arc::ptr_eq(&first, &take().config));
    std::fs::write(world.path("ca.pem"), "half").unwrap();
    let half = take();
    assert!(Arc::ptr_eq(&first, &half.config) && half.reload_error.is_some());
    assert!(take().reload_error.is_none(), "one state of the files is reported once");
    std::fs::write(world.path("ca.pem"), "half of another").unwrap();
    assert!(take().reload_error.is_some());
    std::fs::write(world.path("ca.pem"), TestAuthority::new("second").pem).unwrap();
    let second = take();
    assert!(second.reload_error.is_none());
    assert!(world.shake(&second.config).is_err(), "the first authority is not trusted any more");
}

#[test]
fn an_authority_whose_file_is_gone_is_not_trusted_and_a_lost_key_is_only_reported() {
    let world = TlsFixture::new();
    let client = pair(world.directory.path(), &world.authority.leaf(&["client.example"], &[]), "client");
    let key = client.key.clone();
    let ca = vec![world.path("ca.pem")];
    let settings = UpstreamTlsSettings { ca, only: true, client: Some(client), ..Default::default() };
    let upstream = UpstreamTls::new(settings);
    world.shake(&upstream.config(SystemTime::now()).unwrap().config).unwrap();
    std::fs::remove_file(key).unwrap();
    let kept = upstream.config(SystemTime::now()).unwrap();
    assert!(kept.reload_error.is_some());
    world.shake(&kept.config).unwrap();
    let authority = std::fs::read(world.path("ca.pem")).unwrap();
    std::fs::remove_file(world.path("ca.pem")).unwrap();
    assert!(upstream.config(SystemTime::now()).is_err(), "the operator has withdrawn it");
    std::fs::write(world.path("ca.pem"), authority).unwrap();
    assert!(upstream.config(SystemTime::now()).is_ok());
}
