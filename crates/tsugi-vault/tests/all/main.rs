//! A vault from outside: what opens, what does not, and who may change it at the same time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop, and say what it skips")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tsugi_oauth::record::{CredentialKey, CredentialOwner};
use tsugi_oauth::store::CredentialStore;
use tsugi_vault::file::FileVault;
use tsugi_vault::key_source::{VaultKeyRing, VaultKeySource};
use tsugi_vault::postgres::PostgresVault;
use tsugi_vault::seal::VaultKey;
use zeroize::Zeroizing;

fn key(owner: &str) -> CredentialKey {
    CredentialKey { server: "https://mcp.example".to_owned(), owner: CredentialOwner::Person(owner.to_owned()) }
}

fn open(path: &Path, secret: &str) -> FileVault {
    FileVault::new(path, VaultKeySource::Given(VaultKeyRing::parse(secret).unwrap()))
}

async fn put(vault: &FileVault, owner: &str, text: &str) {
    vault.write(&key(owner), Some(Zeroizing::new(text.as_bytes().to_vec()))).await.unwrap();
}

async fn get(vault: &FileVault, owner: &str) -> Result<Option<String>, String> {
    let read = vault.read(&key(owner)).await.map_err(|problem| problem.to_string())?;
    Ok(read.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

#[tokio::test]
async fn what_is_kept_is_sealed_private_and_read_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/vault.json");
    let secret = VaultKey::generate().unwrap();
    put(&open(&path, &secret), "ann", "s3cret-token").await;
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(!written.contains("s3cret") && written.contains("ann"), "{written}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = open(&path, &secret);
    assert_eq!(get(&again, "ann").await, Ok(Some("s3cret-token".to_owned())));
    assert_eq!(get(&again, "bob").await, Ok(None));
    again.write(&key("ann"), None).await.unwrap();
    assert_eq!(get(&again, "ann").await, Ok(None));
}

#[tokio::test]
async fn a_record_that_is_copied_to_another_owner_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.json");
    let vault = open(&path, &VaultKey::generate().unwrap());
    put(&vault, "ann", "of ann").await;
    put(&vault, "bob", "of bob").await;
    let mut file: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let (ann, bob) = (key("ann").to_string(), key("bob").to_string());
    file["records"][&bob] = file["records"][&ann].clone();
    std::fs::write(&path, file.to_string()).unwrap();
    assert!(get(&vault, "bob").await.unwrap_err().contains("does not open"));
    assert_eq!(get(&vault, "ann").await, Ok(Some("of ann".to_owned())));
}

#[tokio::test]
async fn a_wrong_key_a_changed_byte_and_a_cut_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.json");
    let secret = VaultKey::generate().unwrap();
    let vault = open(&path, &secret);
    put(&vault, "ann", "of ann").await;
    assert!(get(&open(&path, &VaultKey::generate().unwrap()), "ann").await.is_err());
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(get(&vault, "ann").await.is_err(), "cut at {length}");
        assert!(vault.write(&key("bob"), None).await.is_err(), "a damaged file is not written over");
    }
    let mut file: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    let sealed = file["records"][key("ann").to_string()].as_str().unwrap().to_owned();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        file["records"][key("ann").to_string()] = String::from_utf8(changed).unwrap().into();
        std::fs::write(&path, file.to_string()).unwrap();
        assert!(get(&vault, "ann").await.is_err(), "changed at {at}");
    }
    for bad in ["", "short", "AAAA", &"A".repeat(100)] {
        assert!(VaultKey::parse(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_new_key_opens_everything_and_the_old_one_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.json");
    let (old, new) = (VaultKey::generate().unwrap(), VaultKey::generate().unwrap());
    let vault = open(&path, &old);
    put(&vault, "ann", "of ann").await;
    put(&vault, "bob", "of bob").await;
    let both = open(&path, &format!("{}\n{}", *new, *old));
    assert_eq!(get(&both, "ann").await, Ok(Some("of ann".to_owned())), "the key before opens what it sealed");
    assert_eq!(both.rekey(), Ok(2));
    assert_eq!(get(&open(&path, &new), "bob").await, Ok(Some("of bob".to_owned())));
    assert!(get(&vault, "ann").await.is_err());
    let before = std::fs::read(&path).unwrap();
    assert!(vault.rekey().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing changed");
}

#[tokio::test]
async fn a_key_file_is_made_with_the_first_record_and_replaced_under_those_who_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, key_path) = (folder.path().join("new/vault.json"), folder.path().join("new/vault.key"));
    let of_file = || FileVault::new(&path, VaultKeySource::File(key_path.clone()));
    let (vault, other) = (of_file(), of_file());
    assert_eq!(get(&vault, "ann").await, Ok(None));
    assert!(!folder.path().join("new").exists(), "reading makes nothing");
    put(&vault, "ann", "of ann").await;
    let first = std::fs::read(&key_path).unwrap();
    assert_eq!(std::fs::metadata(&key_path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(vault.rekey(), Ok(1));
    assert_ne!(std::fs::read(&key_path).unwrap(), first);
    assert_eq!(get(&other, "ann").await, Ok(Some("of ann".to_owned())), "a process that runs takes the new key");
    assert_eq!(vault.owners().unwrap(), [key("ann")]);
    // As a process leaves it that was killed between the two writes.
    let now = std::fs::read_to_string(&key_path).unwrap();
    std::fs::write(&key_path, format!("{}\n{now}", *VaultKey::generate().unwrap())).unwrap();
    assert_eq!(get(&other, "ann").await, Ok(Some("of ann".to_owned())));
    std::fs::remove_file(&key_path).unwrap();
    assert!(get(&other, "ann").await.unwrap_err().contains("key file is gone"));
    assert!(other.write(&key("bob"), Some(Zeroizing::new(vec![1]))).await.is_err(), "no new key for old records");
    assert!(!key_path.exists());
}

/// The database for tests; without one, this says so and nothing is tried.
fn database(secret: &str) -> Option<PostgresVault> {
    let Ok(url) = std::env::var("TSUGI_TEST_POSTGRES") else {
        println!("not run: TSUGI_TEST_POSTGRES is not set");
        return None;
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    Some(PostgresVault::new(&url, VaultKeyRing::parse(secret).unwrap(), tls).unwrap())
}

/// A name that no other test uses.
fn fresh_owner() -> CredentialKey {
    key(&VaultKey::generate().unwrap())
}

#[tokio::test]
async fn a_database_keeps_sealed_records_and_gives_them_to_their_owner_alone() {
    let (secret, other) = (VaultKey::generate().unwrap(), VaultKey::generate().unwrap());
    let Some(vault) = database(&secret) else { return };
    let (ann, bob) = (fresh_owner(), fresh_owner());
    let record = || Some(Zeroizing::new(b"s3cret-token".to_vec()));
    assert_eq!(vault.read(&ann).await, Ok(None));
    vault.write(&ann, record()).await.unwrap();
    vault.write(&ann, record()).await.unwrap();
    assert_eq!(vault.read(&ann).await.unwrap(), record());
    assert!(vault.owners().await.unwrap().contains(&ann));
    assert!(database(&other).unwrap().read(&ann).await.is_err(), "another key");
    let (client, connection) =
        tokio_postgres::connect(&std::env::var("TSUGI_TEST_POSTGRES").unwrap(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let row = client.query_one("select sealed from tsugi_vault where owner = $1", &[&ann.to_string()]).await.unwrap();
    let sealed: String = row.get(0);
    assert!(!sealed.contains("s3cret"));
    let copy = "insert into tsugi_vault (owner, sealed) values ($1, $2)";
    client.execute(copy, &[&bob.to_string(), &sealed]).await.unwrap();
    assert!(vault.read(&bob).await.is_err(), "a record that was copied to another owner");
    for owner in [&ann, &bob] {
        vault.write(owner, None).await.unwrap();
        assert_eq!(vault.read(owner).await, Ok(None));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_users_of_a_database_change_one_record_one_after_the_other() {
    let secret = VaultKey::generate().unwrap();
    let Some(vault) = database(&secret) else { return };
    let owner = fresh_owner();
    vault.write(&owner, Some(Zeroizing::new(b"0".to_vec()))).await.unwrap();
    let users = (0..20).map(|_| {
        let (vault, owner) = (database(&secret).unwrap(), owner.clone());
        tokio::spawn(async move {
            let _lock = vault.lock(&owner).await.unwrap();
            let count: u32 =
                String::from_utf8(vault.read(&owner).await.unwrap().unwrap().to_vec()).unwrap().parse().unwrap();
            vault.write(&owner, Some(Zeroizing::new((count + 1).to_string().into_bytes()))).await.unwrap();
        })
    });
    for user in users.collect::<Vec<_>>() {
        user.await.unwrap();
    }
    assert_eq!(vault.read(&owner).await.unwrap().unwrap().to_vec(), b"20");
    vault.write(&owner, None).await.unwrap();
}

/// Twenty vaults with their own file handles stand for twenty processes: `flock` belongs to an open file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_users_change_one_record_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.json");
    let secret = VaultKey::generate().unwrap();
    put(&open(&path, &secret), "ann", "0").await;
    let users = (0..20).map(|_| {
        let vault = open(&path, &secret);
        tokio::spawn(async move {
            let key = key("ann");
            let _lock = vault.lock(&key).await.unwrap();
            let count: u32 = get(&vault, "ann").await.unwrap().unwrap().parse().unwrap();
            put(&vault, "ann", &(count + 1).to_string()).await;
        })
    });
    for user in users.collect::<Vec<_>>() {
        user.await.unwrap();
    }
    assert_eq!(get(&open(&path, &secret), "ann").await, Ok(Some("20".to_owned())));
}
