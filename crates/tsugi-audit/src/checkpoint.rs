//! Signed checkpoints: who holds one can tell later whether the chain up to it was changed or cut.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use ring::{hmac, signature};
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalObject, from_hex, hex};
use crate::chain::{ChainHead, LineHash};
use crate::timestamp::AuditTime;

/// Stands before what is signed, so that the signature means nothing elsewhere.
const CONTEXT: &[u8] = b"tsugi audit checkpoint 1\n";
/// The digest key is derived from the same seed under another name.
const ARGUMENT_CONTEXT: &[u8] = b"tsugi audit arguments 1";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum AuditKeyError {
    #[error("audit key {path:?}: {error}")]
    File {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("audit key {0:?} is not 64 hexadecimal digits; remove the file to have a new key made")]
    Malformed(String),
    #[error("audit key {0:?} can be read by others; run `chmod 600` on it")]
    Exposed(String),
    #[error("no audit key could be made: the system gave no random numbers")]
    NoRandomness,
}

/// The key that signs checkpoints and keys the digests of arguments. It does not print.
pub struct AuditKey {
    pair: Ed25519KeyPair,
    arguments: hmac::Key,
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditKey({})", self.public())
    }
}

impl AuditKey {
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, AuditKeyError> {
        let pair =
            Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| AuditKeyError::Malformed("seed".to_owned()))?;
        // Two uses, two keys: a digest must not help with a signature.
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, seed), ARGUMENT_CONTEXT);
        Ok(Self { pair, arguments: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()) })
    }

    /// Reads the key from a file of 0600, or makes one there. The public half is written beside it with the ending
    /// `.pub`, for those who verify.
    pub fn load_or_create(path: &Path) -> Result<Self, AuditKeyError> {
        let failed = |error| AuditKeyError::File { path: path.display().to_string(), error };
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
                // A key that others could read may have signed another history already.
                if mode & 0o077 != 0 {
                    return Err(AuditKeyError::Exposed(path.display().to_string()));
                }
                let seed =
                    from_hex::<32>(text.trim()).ok_or_else(|| AuditKeyError::Malformed(path.display().to_string()))?;
                Self::from_seed(&seed)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::create(path),
            Err(error) => Err(failed(error)),
        }
    }

    fn create(path: &Path) -> Result<Self, AuditKeyError> {
        let failed = |error| AuditKeyError::File { path: path.display().to_string(), error };
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| AuditKeyError::NoRandomness)?;
        let key = Self::from_seed(&seed)?;
        // Never over a key that is there: what it signed could not be verified.
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        writeln!(file, "{}", hex(&seed)).and_then(|()| file.sync_all()).map_err(failed)?;
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        std::fs::write(public, format!("{}\n", key.public())).map_err(failed)?;
        Ok(key)
    }

    pub fn public(&self) -> AuditPublicKey {
        let mut public = [0; 32];
        public.copy_from_slice(self.pair.public_key().as_ref());
        AuditPublicKey(public)
    }

    pub(crate) fn argument_digest(&self, canonical: &[u8]) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.arguments, canonical).as_ref());
        digest
    }

    pub(crate) fn sign(&self, head: ChainHead, time: AuditTime, reason: CheckpointReason) -> Checkpoint {
        let mut checkpoint = Checkpoint {
            hash: head.hash.to_string(),
            key: self.public().to_string(),
            reason,
            seq: head.seq,
            signature: String::new(),
            time: time.to_string(),
        };
        // Everything else is in place now, and all of it is signed.
        checkpoint.signature = hex(self.pair.sign(&checkpoint.signed_bytes()).as_ref());
        checkpoint
    }
}

/// The half of the key that others may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuditPublicKey([u8; 32]);

impl AuditPublicKey {
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text.trim()).map(Self)
    }
}

impl fmt::Display for AuditPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for AuditPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why the chain was signed just then. Only `stop` and `rotate` may end a file that no writer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointReason {
    Start,
    Lines,
    Interval,
    Rotate,
    Stop,
}

impl CheckpointReason {
    const fn as_str(self) -> &'static str {
        match self {
            CheckpointReason::Start => "start",
            CheckpointReason::Lines => "lines",
            CheckpointReason::Interval => "interval",
            CheckpointReason::Rotate => "rotate",
            CheckpointReason::Stop => "stop",
        }
    }
}

/// "The line `seq` had this hash at this time", signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub hash: String,
    pub key: String,
    pub reason: CheckpointReason,
    pub seq: u64,
    pub signature: String,
    pub time: String,
}

impl Checkpoint {
    pub fn head(&self) -> Option<ChainHead> {
        Some(ChainHead { seq: self.seq, hash: LineHash::parse(&self.hash)? })
    }

    pub fn key(&self) -> Option<AuditPublicKey> {
        AuditPublicKey::parse(&self.key)
    }

    /// True when the key that the checkpoint names signed it. Whether that is the right key is another question.
    pub fn is_signed(&self) -> bool {
        let (Some(key), Some(signature)) = (self.key(), from_hex::<64>(&self.signature)) else { return false };
        verify_with(&ED25519, &key, &self.signed_bytes(), &signature)
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let mut text = CONTEXT.to_vec();
        text.extend_from_slice(&self.members(false));
        text
    }

    /// The checkpoint as canonical JSON.
    pub fn to_canonical(&self) -> Vec<u8> {
        self.members(true)
    }

    fn members(&self, with_signature: bool) -> Vec<u8> {
        let mut text = CanonicalObject::with_capacity(420);
        text.string("hash", &self.hash);
        text.string("key", &self.key);
        text.string("reason", self.reason.as_str());
        text.integer("seq", self.seq);
        // What is signed has no signature yet.
        if with_signature {
            text.string("signature", &self.signature);
        }
        text.string("time", &self.time);
        text.finish()
    }
}

fn verify_with(
    algorithm: &'static dyn signature::VerificationAlgorithm,
    key: &AuditPublicKey,
    message: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(algorithm, key.0).verify(message, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> Checkpoint {
        let head = ChainHead { seq: 9, hash: LineHash::of(b"line") };
        AuditKey::from_seed(&[3; 32]).unwrap().sign(head, AuditTime::from_micros(5), CheckpointReason::Lines)
    }

    #[test]
    fn a_checkpoint_holds_until_any_member_of_it_changes() {
        let good = signed();
        assert!(good.is_signed());
        let other = AuditKey::from_seed(&[4; 32]).unwrap().public().to_string();
        for bad in [
            Checkpoint { seq: 10, ..good.clone() },
            Checkpoint { hash: LineHash::of(b"other").to_string(), ..good.clone() },
            Checkpoint { time: AuditTime::from_micros(6).to_string(), ..good.clone() },
            Checkpoint { reason: CheckpointReason::Stop, ..good.clone() },
            Checkpoint { key: other, ..good.clone() },
            Checkpoint { signature: good.signature.replacen(|_| true, "z", 1), ..good.clone() },
        ] {
            assert!(!bad.is_signed(), "{bad:?}");
        }
    }

    #[test]
    fn a_checkpoint_is_read_back_from_its_canonical_form() {
        let good = signed();
        let text = good.to_canonical();
        assert_eq!(serde_json::from_slice::<Checkpoint>(&text).unwrap(), good);
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_vec(&value).unwrap(), text);
    }

    #[test]
    fn a_key_is_made_once_and_refused_when_others_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.key");
        let made = AuditKey::load_or_create(&path).unwrap().public();
        assert_eq!(AuditKey::load_or_create(&path).unwrap().public(), made);
        assert_eq!(
            AuditPublicKey::parse(&std::fs::read_to_string(folder.path().join("audit.key.pub")).unwrap()),
            Some(made)
        );
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(AuditKey::load_or_create(&path), Err(AuditKeyError::Exposed(_))));
        assert!(!format!("{:?}", AuditKey::from_seed(&[9; 32]).unwrap()).contains("0909"));
    }
}
