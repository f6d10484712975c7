//! PostgreSQL from outside: a team moves there and back, and its wire can be protected.
#![allow(clippy::print_stdout, reason = "a test says why it was skipped")]

use std::path::Path;
use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_postgres::{Client, NoTls};

use super::{asked, place, pm, program};
use crate::world::until;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The address of the PostgreSQL for tests; or a line that says why not.
fn base() -> Option<String> {
    let base = std::env::var("TSUGI_TEST_POSTGRES").ok();
    if base.is_none() {
        println!("skipped: TSUGI_TEST_POSTGRES is not set (scripts/postgres starts one)");
    }
    base
}

async fn connect(base: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(base, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The address of a schema of its own there.
pub(super) async fn schema() -> Option<String> {
    let base = base()?;
    let schema = format!("t_{:016x}", rand::random::<u64>());
    connect(&base).await.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    Some(format!("{base}?options=-csearch_path%3D{schema}"))
}

/// Runs `tsugi pm` on this database, trusting the certificates in a file.
fn at(db: &str, words: &[&str], trusted: Option<&Path>) -> Output {
    let mut command = program(env!("CARGO_BIN_EXE_tsugi"));
    if let Some(trusted) = trusted {
        command.env("SSL_CERT_FILE", trusted);
    }
    command.arg("pm").args(words).args(["--db", db]).output().unwrap()
}

#[test]
fn a_team_moves_from_a_file_to_postgres_and_back() {
    let Some(db) = block_on(schema()) else { return };
    let folder = place();
    asked(folder.path(), &["claim", "WEB-1", "--agent", "agt_a"]);
    let export = |output: Output| -> Vec<u8> {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let before = export(pm(folder.path(), &["export"]));
    let file = folder.path().join("all.jsonl");
    std::fs::write(&file, &before).unwrap();
    export(at(&db, &["import", file.to_str().unwrap()], None));
    assert!(at(&db, &["verify"], None).status.success());
    assert_eq!(at(&db, &["claim", "WEB-1", "--agent", "agt_b"], None).status.code(), Some(4), "it is still held");
    std::fs::write(&file, export(at(&db, &["export"], None))).unwrap();
    let back = folder.path().join("back.db").display().to_string();
    export(at(&back, &["import", file.to_str().unwrap()], None));
    assert_eq!(export(at(&back, &["export"], None)), before);
}

/// Writes a file into the server's own folder, for its eyes only.
async fn write(client: &Client, name: &str, text: &str) {
    let copy = format!(
        "COPY (SELECT unnest(string_to_array('{}', E'\\n'))) TO PROGRAM 'umask 077; cat > {name}'",
        text.trim_end()
    );
    client.batch_execute(&copy).await.unwrap();
}

/// Has the server speak TLS too, with a certificate of an authority of ours; answers that authority's certificate.
async fn speak_tls(base: &str) -> String {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let client = connect(base).await;
    write(&client, "tls.key", &key.serialize_pem()).await;
    write(&client, "tls.crt", &certificate.pem()).await;
    for setting in ["ssl_key_file = 'tls.key'", "ssl_cert_file = 'tls.crt'", "ssl = on"] {
        client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    }
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    authority.pem()
}

#[test]
fn a_wire_that_must_be_protected_is_and_only_with_a_certificate_that_is_trusted() {
    let Some(base) = base() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("authority.pem");
    std::fs::write(&trusted, block_on(speak_tls(&base))).unwrap();
    let db = format!("{}&sslmode=verify-full", block_on(schema()).unwrap());
    // The server takes its new settings over in its own time.
    until(
        || at(&db, &["doctor"], Some(&trusted)).status.success(),
        || String::from_utf8_lossy(&at(&db, &["doctor"], Some(&trusted)).stderr).into_owned(),
    );
    let stranger = CertificateParams::new(Vec::new()).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
    let others = folder.path().join("others.pem");
    std::fs::write(&others, stranger.pem()).unwrap();
    let refused = at(&db, &["doctor"], Some(&others));
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
}
