//! Seals a record for its owner, and opens it for no other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// The key of a vault.
pub struct VaultKey {
    key: LessSafeKey,
    random: SystemRandom,
}

/// Why a vault does not give what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultProblem {
    #[error("the vault's key is not 32 bytes in base64; make one with `head -c 32 /dev/urandom | base64`")]
    BadKey,
    #[error("the vault's key file is gone; restore it, or remove the vault and sign in again")]
    NoKey,
    #[error("the record does not open: the vault's key is another one, or the file was changed")]
    NotOurs,
    #[error("the vault's file is damaged; restore it, or remove it and sign in again")]
    Damaged,
    #[error("the vault's file could not be used: {0}")]
    File(std::io::ErrorKind),
    #[error("the address of the vault's database cannot be read")]
    BadAddress,
    #[error("the vault's database does not answer; the log has the cause")]
    Unreachable,
    #[error("the system has no random numbers")]
    NoRandom,
}

impl VaultKey {
    /// A key from its text: 32 bytes in base64. Spaces around it do not count.
    pub fn parse(text: &str) -> Result<Self, VaultProblem> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| VaultProblem::BadKey)?);
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| VaultProblem::BadKey)?;
        Ok(Self { key: LessSafeKey::new(key), random: SystemRandom::new() })
    }

    /// The text of a new key.
    pub fn generate() -> Result<Zeroizing<String>, VaultProblem> {
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| VaultProblem::NoRandom)?;
        Ok(Zeroizing::new(STANDARD.encode(*bytes)))
    }

    /// Seals bytes for `owner`. Nonces are random: a vault seals far fewer than 2³² records.
    pub fn seal(&self, owner: &str, record: &[u8]) -> Result<Vec<u8>, VaultProblem> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| VaultProblem::NoRandom)?;
        let mut sealed = nonce.to_vec();
        let mut body = Zeroizing::new(record.to_vec());
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(owner), &mut body)
            .map_err(|_| VaultProblem::NoRandom)?;
        sealed.extend_from_slice(&body);
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Opens what was sealed for `owner`.
    pub fn open(&self, owner: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultProblem> {
        let (nonce, body) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(VaultProblem::Damaged)?;
        let mut body = Zeroizing::new(body.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length =
            self.key.open_in_place(nonce, Aad::from(owner), &mut body).map_err(|_| VaultProblem::NotOurs)?.len();
        body.truncate(length);
        Ok(body)
    }
}
