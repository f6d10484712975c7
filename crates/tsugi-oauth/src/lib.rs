//! Sign in to remote servers: an OAuth client for MCP, without a store and without a browser of its own.
//!
//! An [`OauthCredential`](credential::OauthCredential) belongs to one server and one owner. The transport asks it for the
//! headers of every request and shows it every 401 and 403. It then
//!
//! 1. finds the authorization server ([`discovery`]),
//! 2. finds out as which client it speaks ([`registration`]),
//! 3. gets a token by the grant that is configured ([`credential::options::GrantChoice`]), and
//! 4. keeps it in a [`store::CredentialStore`] and refreshes it there once for all tasks and processes.
//!
//! An embedding program supplies two things: a [`browser::SignInBrowser`] that shows an address to a person, and a store.
//! Every address that a server names is fetched through the outbound guard. Every refusal is an [`OauthFailure`].

pub mod assertion;
pub mod authorization;
pub mod browser;
pub mod client_auth;
pub mod credential;
pub mod device;
pub mod discovery;
pub mod dpop;
mod failure;
pub mod grant;
pub mod loopback;
pub mod record;
pub mod registration;
pub mod revocation;
pub mod scope_choice;
pub mod store;
pub mod token_endpoint;

pub use failure::OauthFailure;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

/// 32 random bytes as text that may stand in a URL.
fn random_text() -> Result<String, OauthFailure> {
    random_bytes().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

fn random_bytes() -> Result<[u8; 32], OauthFailure> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| OauthFailure::NoRandom)?;
    Ok(bytes)
}

/// Milliseconds since 1970.
fn now_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Seconds since 1970.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
